"""Scripted faults: what can go wrong between a writer and its storage, at a call of the test's choice.

A script is a function from a numbered call to a fault or None. Faults stand below the retries, so a throttled call is
seen again as a new call. They work over any account that is built on `RetryLoop`.

    faults = Faults(at(3, LostAnswer()))
    account = MemoryAccount(intercept=faults)
    ...
    faults.calls     # what was called, in order
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
    """The process ends here. No `except Exception` may catch it, as none would see a SIGKILL."""


@dataclass(frozen=True)
class Throttle:
    """503 `ServerBusy`: no effect, try later."""

    retry_after: float | None = None


@dataclass(frozen=True)
class Unreachable:
    """No connection: no effect."""


@dataclass(frozen=True)
class TimeOut:
    """The request never arrived, and the caller cannot know: no effect."""


@dataclass(frozen=True)
class Reset:
    """The connection broke before the request took effect; the caller cannot know."""


@dataclass(frozen=True)
class LostAnswer:
    """The request took effect and its answer was lost."""


@dataclass(frozen=True)
class LateEffect:
    """The answer is lost and the effect comes later: just before the call `calls` further on."""

    calls: int = 1


@dataclass(frozen=True)
class Refuse:
    """The service refuses the request for good, as it does what a permission, a policy or the account forbids."""

    reason: str = "403 AuthorizationPermissionMismatch. Access is not granted"


@dataclass(frozen=True)
class Crash:
    """The process dies at this call, before or after its effect. All later calls die too."""

    after_effect: bool = False


Fault: TypeAlias = Throttle | Unreachable | TimeOut | Reset | LostAnswer | LateEffect | Refuse | Crash


@dataclass(frozen=True)
class NumberedCall(Call):
    """A try, numbered from 1 over the account's life."""

    number: int = 0


Script: TypeAlias = "Callable[[NumberedCall], Fault | None]"


def at(number: int, fault: Fault) -> Script:
    """The fault at the call of this number."""
    return lambda call: fault if call.number == number else None


def on(
    operation: str,
    fault: Fault,
    *,
    name: Callable[[str], bool] = lambda _: True,
    times: int = 1,
    skip: int = 0,
) -> Script:
    """The fault at `times` calls of an operation whose blob `name` accepts, after the first `skip` of them."""
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
    """Counts and logs every try, and lets it fail as the first script says that has a fault for it. Thread-safe."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self._calls: list[NumberedCall] = []
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._dead = False
        self._lock = threading.RLock()

    @property
    def calls(self) -> Sequence[NumberedCall]:
        """All tries so far, in order."""
        return tuple(self._calls)

    @property
    def count(self) -> int:
        """Number of tries so far."""
        return len(self._calls)

    @property
    def died(self) -> bool:
        """Whether a `Crash` has happened."""
        return self._dead

    def attempt(self, call: Call, request: Callable[[], T]) -> T:
        """Make the try, or fail it."""
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
        """Let the effects that are still under way happen now."""
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
    """Send a request whose answer nobody sees; a refusal is lost like any other answer."""
    try:
        request()
    except (Failure, AzureBlobError):
        return
