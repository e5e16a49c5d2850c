"""The one place that decides what a failed try means: repeat it, make it an outcome, or raise it.

| request | throttled, unreached | answer lost | absent after a lost answer | refused after a lost answer |
|---|---|---|---|---|
| `repeat`: reading, staging | repeat | repeat | `NotFoundError` | `ConflictError` |
| `settle` without condition | repeat | repeat | `Missing`; `Done` for a delete | `Unknown` |
| `settle` with condition | repeat | `Unknown` | | |
| `once`: leases | `Unknown` | `Unknown` | | |

A conditional request is not repeated after a lost answer, since the second try would meet the effect of the first and
take it for another writer's.
"""

from __future__ import annotations

import random as random_module
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeVar

from azure_account.account import Conflict, Done, Missing, Unknown
from azure_account.clock import Clock, SystemClock
from azure_account.errors import ConflictError, NotFoundError, TransientError, describe
from azure_account.retrying.policy import RetryPolicy
from azure_account.service import Absent, Ambiguous, Failure, Refused, Throttled, Unreached

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.account import Outcome

T = TypeVar("T")
Absence = TypeVar("Absence")
_TRANSIENT = (Throttled, Unreached, Ambiguous)


@dataclass(frozen=True)
class Call:
    """What a try is about. `place` is the container or table; `name` the blob or `partition key/row key`, or empty."""

    operation: str
    place: str
    name: str = ""

    @property
    def target(self) -> str:
        """Container and blob, for messages."""
        return f"{self.place}/{self.name}" if self.name else self.place

    @property
    def verb(self) -> str:
        """The operation in words, to begin a sentence with."""
        return _VERBS.get(self.operation) or self.operation.replace("_", " ").capitalize()


class Intercept:
    """Stands between the decision to try and the try. This one does nothing; `faults.py` has one with a script."""

    def attempt(self, call: Call, request: Callable[[], T]) -> T:  # noqa: ARG002 - for those who override it
        """Make the try that `call` describes."""
        return request()


class FailedAttempts:
    """Counts tries that were throttled, not answered or not connected. Thread-safe."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """One more."""
        with self._lock:
            self.total += 1


@dataclass(frozen=True)
class RetryLoop:
    """Makes tries under one policy. Thread-safe; `random` gives numbers in [0, 1)."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    clock: Clock = field(default_factory=SystemClock)
    random: Callable[[], float] = random_module.random
    intercept: Intercept = field(default_factory=Intercept)
    failed: FailedAttempts = field(default_factory=FailedAttempts)

    def repeat(self, call: Call, attempt: Callable[[], T]) -> T:
        """Try until it is done or definitely refused.

        `Absent` becomes a `NotFoundError`, `Refused` a `ConflictError`, spent patience a `TransientError`.
        """
        started, count = self.clock.monotonic(), 1
        while True:
            try:
                return self.intercept.attempt(call, attempt)
            except _TRANSIENT as failure:  # noqa: PERF203 - a try is what the loop is for
                self._wait(call, failure, started, count)
                count += 1
            except Absent as failure:
                raise NotFoundError(self._message(call, failure, started, count)) from None
            except Refused as failure:
                raise ConflictError(self._message(call, failure, started, count)) from None

    def create(self, call: Call, attempt: Callable[[], None]) -> bool:
        """`repeat` a request that creates something. False if it exists."""

        def create() -> bool:
            try:
                attempt()
            except Refused:
                return False
            return True

        return self.repeat(call, create)

    def find(self, call: Call, attempt: Callable[[], T], absent: Absence) -> T | Absence:
        """`repeat` a request that reads something; `absent` if it does not exist."""

        def find() -> T | Absence:
            try:
                return attempt()
            except Absent:
                return absent

        return self.repeat(call, find)

    def write(
        self, call: Call, attempt: Callable[[], str | None], *, conditional: bool, absent_is: Outcome | None = None
    ) -> Outcome:
        """Make a write and say how it ended. `attempt` returns the new ETag, or None.

        `absent_is` is the outcome of a write that finds nothing after its first answer was lost; `Missing` if None.
        `TransientError` if patience is spent and a lost answer is not an outcome.
        """
        started, count, lost = self.clock.monotonic(), 1, ""
        while True:
            try:
                return Done(self.intercept.attempt(call, attempt) or "")
            except Ambiguous as failure:
                if conditional:
                    self.failed.add()
                    return Unknown(failure.cause)
                lost = failure.cause
                self._wait(call, failure, started, count)
            except (Throttled, Unreached) as failure:
                self._wait(call, failure, started, count)
            except Absent as failure:
                return absent_is if lost and absent_is else Missing(failure.cause)
            except Refused as failure:
                return Unknown(lost) if lost else Conflict(failure.cause)
            count += 1

    def once(self, call: Call, attempt: Callable[[], str | None]) -> Outcome:
        """Make one try and say how it ended. Whatever is not a definite answer is `Unknown`."""
        try:
            return Done(self.intercept.attempt(call, attempt) or "")
        except _TRANSIENT as failure:
            self.failed.add()
            return Unknown(failure.cause)
        except Absent as failure:
            return Missing(failure.cause)
        except Refused as failure:
            return Conflict(failure.cause)

    def _wait(self, call: Call, failure: Failure, started: float, count: int) -> None:
        self.failed.add()
        elapsed = self.clock.monotonic() - started
        delay = self.policy.delay(count, elapsed, failure.retry_after, self.random())
        if delay is None:
            self._give_up(call, failure, started, count)
        self.clock.sleep(delay)

    def _give_up(self, call: Call, failure: Failure, started: float, count: int) -> NoReturn:
        raise TransientError(self._message(call, failure, started, count)) from None

    def _message(self, call: Call, failure: Failure, started: float, count: int) -> str:
        next_step = failure.next_step or _NEXT_STEP[type(failure)]
        elapsed = self.clock.monotonic() - started if count > 1 else None
        return describe(call.verb, call.target, failure.cause, next_step, elapsed=elapsed, attempts=count)


_VERBS = {
    "container_exists": "Look for container",
    "properties": "Look at blob",
    "age": "Look at blob",
    "block_ids": "Read the block list of",
    "put": "Put blob",
    "get": "Get blob",
    "list": "List blobs of",
    "delete": "Delete blob",
    "tags": "Read tags of",
    "set_tags": "Set tags of",
}
_NEXT_STEP: dict[type[Failure], str] = {
    Throttled: "The account is throttling: lower the number of parallel writers, or raise retryDeadlineMs.",
    Unreached: "Check the network and the option endpoint.",
    Ambiguous: "Check the network and the state of the storage service, then repeat it.",
    Absent: "Check the name.",
    Refused: "Another writer was first: read it again, then decide.",
}
