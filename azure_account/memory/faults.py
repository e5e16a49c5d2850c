"""Scripted faults: what can go wrong between a writer and its storage, at calls that a test chooses.

A script is a function from a numbered call to a fault or None. A call is one attempt: if a throttled one is retried,
the script sees another call. Faults can be used with any account that has a `RetryLoop`.

    faults = Faults(at(3, LostAnswer()))
    account = MemoryAccount(intercept=faults)
    ...
    faults.calls     # all calls, in order
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from azure_account.errors import AzureBlobError, ConfigurationError
from azure_account.retrying.retry_loop import Call, Intercept
from azure_account.service import Ambiguous, Failure, Throttled, Unreached

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
    """The answer is lost, and the effect comes later: just before the `calls`-th call after this one."""

    calls: int = 1


@dataclass(frozen=True)
class Refuse:
    """The service refuses the request for good: a permission, a policy or the account forbids it."""

    reason: str = "403 AuthorizationPermissionMismatch. Access is not granted"


@dataclass(frozen=True)
class Crash:
    """The process dies at this call, before or after its effect. All later calls raise `ProcessDied` too."""

    after_effect: bool = False


Fault: TypeAlias = Throttle | Unreachable | TimeOut | Reset | LostAnswer | LateEffect | Refuse | Crash


@dataclass(frozen=True)
class NumberedCall(Call):
    """A call with its number, counted from 1."""

    number: int = 0


Script: TypeAlias = "Callable[[NumberedCall], Fault | None]"


def at(number: int, fault: Fault) -> Script:
    """The fault at the call with this number."""
    return lambda call: fault if call.number == number else None


def on(
    operation: str,
    fault: Fault,
    *,
    name: Callable[[str], bool] = lambda _: True,
    times: int = 1,
    skip: int = 0,
) -> Script:
    """The fault at `times` calls of an operation on blobs for which `name` is true, after the first `skip` of these."""
    seen = 0

    def script(call: NumberedCall) -> Fault | None:
        nonlocal seen
        if call.operation != operation or not name(call.name):
            return None
        seen += 1
        return fault if skip < seen <= skip + times else None

    return script


def always(fault: Fault) -> Script:
    """The fault at every call."""
    return lambda _: fault


class Faults(Intercept):
    """Counts and records all calls, and applies the fault of the first script that has one for a call. Thread-safe."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self._calls: list[NumberedCall] = []
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._dead = False
        self._lock = threading.RLock()

    @property
    def calls(self) -> Sequence[NumberedCall]:
        """All calls so far, in order."""
        return tuple(self._calls)

    @property
    def count(self) -> int:
        """Number of calls so far."""
        return len(self._calls)

    @property
    def died(self) -> bool:
        """Whether a `Crash` has happened."""
        return self._dead

    def attempt(self, call: Call, request: Callable[[], T]) -> T:
        """Make the call, or apply its fault."""
        with self._lock:
            if self._dead:
                raise ProcessDied
            numbered = NumberedCall(call.operation, call.place, call.name, len(self._calls) + 1)
            self._calls.append(numbered)
            fault = next((found for script in self._scripts if (found := script(numbered)) is not None), None)
            due = [late for number, late in self._late if number <= numbered.number]
            self._late = [(number, late) for number, late in self._late if number > numbered.number]
            if isinstance(fault, LateEffect):
                self._late.append((numbered.number + fault.calls, request))
            if isinstance(fault, Crash):
                self._dead = True
        for late in due:
            _effect(late)
        return request() if fault is None else _fail(fault, request)

    def apply_late_effects(self) -> None:
        """Apply the late effects that are still due."""
        with self._lock:
            late, self._late = self._late, []
        for _, request in late:
            _effect(request)


def _fail(fault: Fault, request: Callable[[], T]) -> T:
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
            _effect(request)
            raise Ambiguous("the connection was reset before the answer")
        case Crash(after_effect):
            if after_effect:
                _effect(request)
            raise ProcessDied


def _effect(request: Callable[[], object]) -> None:
    """Send a request whose answer is lost, even if it is a refusal."""
    try:
        request()
    except (Failure, AzureBlobError):
        return
