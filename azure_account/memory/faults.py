"""Scripted faults: what can go wrong between a writer and its storage, at attempts that a test chooses.

A script is a function from a numbered attempt to a fault or None. If a throttled attempt is retried, the script sees
another one. Faults can be used with any account that has a `RetryLoop`.

    faults = FaultInjector(at(3, LostAnswer()))
    account = MemoryAccount(intercept=faults)
    ...
    faults.attempts     # all attempts, in order
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.service import Ambiguous, Failure, Throttled, Unreached
from foundation.errors import AzureBlobError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


class ProcessDied(BaseException):
    """The process ends here, as by SIGKILL: `except Exception` does not catch it."""


@dataclass(frozen=True)
class Throttle:
    """503 `ServerBusy`: no effect."""

    retry_after: float | None = None


@dataclass(frozen=True)
class Unreachable:
    """No connection: no effect."""


@dataclass(frozen=True)
class TimeOut:
    """The request never arrives: no effect, which the caller cannot know."""


@dataclass(frozen=True)
class Reset:
    """The connection breaks before the request has an effect, which the caller cannot know."""


@dataclass(frozen=True)
class LostAnswer:
    """The request has its effect, and its answer is lost."""


@dataclass(frozen=True)
class LateEffect:
    """The answer is lost, and the effect comes later: just before the `attempts`-th attempt after this one."""

    attempts: int = 1


@dataclass(frozen=True)
class Refuse:
    """The service refuses the request for good: a permission, a policy or the account forbids it."""

    reason: str = "403 AuthorizationPermissionMismatch. Access is not granted"


@dataclass(frozen=True)
class Crash:
    """The process dies at this attempt, before or after its effect. All later ones raise `ProcessDied` too."""

    after_effect: bool = False


Fault: TypeAlias = Throttle | Unreachable | TimeOut | Reset | LostAnswer | LateEffect | Refuse | Crash


@dataclass(frozen=True)
class NumberedAttempt(Request):
    """One attempt of a request, with its number, counted from 1."""

    number: int = 0


Script: TypeAlias = "Callable[[NumberedAttempt], Fault | None]"


def at(number: int, fault: Fault) -> Script:
    """The fault at the attempt with this number."""
    return lambda attempt: fault if attempt.number == number else None


def on(
    operation: str,
    fault: Fault,
    *,
    name: Callable[[str], bool] = lambda _: True,
    times: int = 1,
    skip: int = 0,
) -> Script:
    """The fault at `times` attempts of an operation on blobs whose `name` is true, after the first `skip` of these."""
    seen = 0

    def script(attempt: NumberedAttempt) -> Fault | None:
        nonlocal seen
        if attempt.operation != operation or not name(attempt.name):
            return None
        seen += 1
        return fault if skip < seen <= skip + times else None

    return script


def always(fault: Fault) -> Script:
    """The fault at every attempt."""
    return lambda _: fault


class FaultInjector(Intercept):
    """Counts and records all attempts, and applies the fault of the first script that has one. Thread-safe."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self._attempts: list[NumberedAttempt] = []
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._dead = False
        self._lock = threading.RLock()

    @property
    def attempts(self) -> Sequence[NumberedAttempt]:
        """All attempts so far, in order."""
        return tuple(self._attempts)

    @property
    def count(self) -> int:
        """Number of attempts so far."""
        return len(self._attempts)

    @property
    def died(self) -> bool:
        """Whether a `Crash` has happened."""
        return self._dead

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        """Make the attempt, or apply its fault."""
        with self._lock:
            if self._dead:
                raise ProcessDied
            numbered = NumberedAttempt(request.operation, request.place, request.name, len(self._attempts) + 1)
            self._attempts.append(numbered)
            fault = next((found for script in self._scripts if (found := script(numbered)) is not None), None)
            due = [late for number, late in self._late if number <= numbered.number]
            self._late = [(number, late) for number, late in self._late if number > numbered.number]
            if isinstance(fault, LateEffect):
                self._late.append((numbered.number + fault.attempts, send))
            if isinstance(fault, Crash):
                self._dead = True
        for late in due:
            effect(late)
        return send() if fault is None else fail(fault, send)

    def apply_late_effects(self) -> None:
        """Apply the late effects that are still due."""
        with self._lock:
            late, self._late = self._late, []
        for _, send in late:
            effect(send)


def fail(fault: Fault, send: Callable[[], T]) -> T:
    """What a process sees of its request with this fault. `LateEffect`: whoever calls sends the request later."""
    match fault:
        case Throttle(retry_after):
            raise Throttled("503 ServerBusy: the account is over its limits", retry_after=retry_after)
        case Unreachable():
            raise Unreached("no connection to the storage endpoint")
        case TimeOut() | LateEffect():
            raise Ambiguous("no answer within the time limit")
        case Reset():
            raise Ambiguous("the connection was reset")
        case Refuse(reason):
            raise ConfigurationError(reason)
        case LostAnswer():
            effect(send)
            raise Ambiguous("the connection was reset before the answer")
        case Crash(after_effect):
            if after_effect:
                effect(send)
            raise ProcessDied


def effect(send: Callable[[], object]) -> None:
    """Send a request whose answer is lost, even if it is a refusal."""
    try:
        send()
    except (Failure, AzureBlobError):
        return
