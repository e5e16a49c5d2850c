"""Decides what a failed attempt means: the request is repeated, or the failure becomes an outcome or an error.

| request | throttled, unreached | answer lost | absent after a lost answer | condition failed after a lost answer |
|---|---|---|---|---|
| `repeat`: reading, staging | repeat | repeat | `NotFoundError` | `ConflictError` |
| `write` without condition | repeat | repeat | `Missing`; `Done` for a delete | `Unknown` |
| `write` with condition | repeat | `Unknown` | | |
| `once`: leases | `Unknown` | `Unknown` | | |

A conditional write is not repeated after a lost answer: the second attempt would find the effect of the first one, and
report it as another writer's.
"""

from __future__ import annotations

import logging
import random as random_module
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from azure_account.retrying.policy import RetryPolicy
from azure_account.service import Absent, Ambiguous, ConditionFailed, Failure, Throttled, Unreached
from azure_account.values import Conflict, Done, Missing, Unknown
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import AzureBlobError, ConflictError, NotFoundError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.values import Outcome

logger = logging.getLogger("azure_account")

T = TypeVar("T")
Absence = TypeVar("Absence")
_TRANSIENT = (Throttled, Unreached, Ambiguous)


@dataclass(frozen=True)
class Request:
    """A request. `place` is the container or table; `name` is the blob, or `partition key/row key`, or empty."""

    operation: str
    place: str
    name: str = ""

    @property
    def target(self) -> str:
        """Container and blob, for messages."""
        return f"{self.place}/{self.name}" if self.name else self.place

    @property
    def verb(self) -> str:
        """The operation as the beginning of a sentence."""
        return _VERBS.get(self.operation) or self.operation.replace("_", " ").capitalize()


class Intercept:
    """Is called for every attempt of a request, and makes it. `FaultInjector` overrides it to inject faults."""

    def attempt(self, request: Request, send: Callable[[], T]) -> T:  # noqa: ARG002 - for subclasses
        """Make one attempt of `request` by calling `send`, and return its answer."""
        return send()


class FailedAttempts:
    """Counts attempts that were throttled, not answered or not connected. Thread-safe."""

    def __init__(self) -> None:
        self.total: int = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """Count one more."""
        with self._lock:
            self.total += 1


class Outage:
    """Whether the service is out of reach. Its beginning is logged, since the error may follow minutes later."""

    def __init__(self) -> None:
        self._began = False
        self._lock = threading.Lock()

    def begin(self, request: Request, failure: Unreached, deadline: float) -> None:
        """A request has not reached the service, and will be repeated until `deadline` seconds have passed."""
        with self._lock:
            is_new, self._began = not self._began, True
        if is_new:
            step = failure.next_step or _NEXT_STEP[Unreached]
            logger.warning(
                "%s %s: %s; it is tried again for %g s. %s", request.verb, request.target, failure.cause, deadline, step
            )

    def end(self) -> None:
        """The service has answered."""
        self._began = False


@dataclass(frozen=True)
class RetryLoop:
    """Makes requests under one retry policy. Thread-safe; `random` returns numbers in [0, 1)."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    clock: Clock = SYSTEM_CLOCK
    random: Callable[[], float] = random_module.random
    intercept: Intercept = field(default_factory=Intercept)
    failed: FailedAttempts = field(default_factory=FailedAttempts)
    outage: Outage = field(default_factory=Outage)

    def repeat(self, request: Request, send: Callable[[], T]) -> T:
        """Make a request until it is answered.

        `Absent` becomes a `NotFoundError`, `ConditionFailed` a `ConflictError`, exhausted retries a `TransientError`.
        """
        started, count = self.clock.monotonic(), 1
        while True:
            try:
                return self._attempt(request, send)
            except _TRANSIENT as failure:
                self._wait(request, failure, started, count)
                count += 1
            except Absent as failure:
                raise self._error(NotFoundError, request, failure, started, count) from None
            except ConditionFailed as failure:
                raise self._error(ConflictError, request, failure, started, count) from None

    def create(self, request: Request, send: Callable[[], None]) -> bool:
        """`repeat` a request that creates a container or table. False if it exists."""

        def create() -> bool:
            try:
                send()
            except ConditionFailed:
                return False
            return True

        return self.repeat(request, create)

    def find(self, request: Request, send: Callable[[], T], absent: Absence) -> T | Absence:
        """`repeat` a request that reads a blob or entity; `absent` if it does not exist."""

        def find() -> T | Absence:
            try:
                return send()
            except Absent:
                return absent

        return self.repeat(request, find)

    def write(
        self,
        request: Request,
        send: Callable[[], str | None],
        *,
        conditional: bool,
        absent_is: Outcome | None = None,
    ) -> Outcome:
        """Make a write and return its outcome. `send` returns the new ETag, or None if there is none.

        absent_is: the outcome if a repeated request finds nothing after a lost answer; None means `Missing`.
        `TransientError` if retries are exhausted.
        """
        started, count, lost = self.clock.monotonic(), 1, ""
        while True:
            try:
                return Done(self._attempt(request, send) or "")
            except Ambiguous as failure:
                if conditional:
                    return self._unknown(request, failure)
                lost = failure.cause
                self._wait(request, failure, started, count)
            except (Throttled, Unreached) as failure:
                self._wait(request, failure, started, count)
            except Absent as failure:
                return absent_is if lost and absent_is else Missing(failure.cause)
            except ConditionFailed as failure:
                return Unknown(lost) if lost else Conflict(failure.cause)
            count += 1

    def once(self, request: Request, send: Callable[[], str | None]) -> Outcome:
        """Make one attempt and return its outcome: `Unknown` unless the answer is definite."""
        try:
            return Done(self._attempt(request, send) or "")
        except _TRANSIENT as failure:
            return self._unknown(request, failure)
        except Absent as failure:
            return Missing(failure.cause)
        except ConditionFailed as failure:
            return Conflict(failure.cause)

    def _attempt(self, request: Request, send: Callable[[], T]) -> T:
        answer = self.intercept.attempt(request, send)
        self.outage.end()
        return answer

    def _unknown(self, request: Request, failure: Failure) -> Unknown:
        self.failed.add()
        logger.debug("%s %s: %s; what it did is found by reading", request.verb, request.target, failure.cause)
        return Unknown(failure.cause)

    def _wait(self, request: Request, failure: Failure, started: float, count: int) -> None:
        self.failed.add()
        elapsed = self.clock.monotonic() - started
        delay = self.policy.delay(count, elapsed, failure.retry_after, self.random())
        if delay is None:
            raise self._error(TransientError, request, failure, started, count) from None
        if isinstance(failure, Unreached):
            self.outage.begin(request, failure, self.policy.deadline)
        text = "%s %s: %s; attempt %d, the next one in %.1f s"
        logger.debug(text, request.verb, request.target, failure.cause, count, delay)
        self.clock.sleep(delay)

    def _error(
        self, kind: type[AzureBlobError], request: Request, failure: Failure, started: float, count: int
    ) -> AzureBlobError:
        next_step = failure.next_step or _NEXT_STEP[type(failure)]
        elapsed = self.clock.monotonic() - started if count > 1 else None
        return kind(request.verb, request.target, failure.cause, next_step, elapsed=elapsed, attempts=count)


_VERBS = {
    "container_exists": "Check container",
    "properties": "Get properties of",
    "age": "Get properties of",
    "block_ids": "Get block list of",
    "put": "Put blob",
    "get": "Get blob",
    "list": "List blobs of",
    "delete": "Delete blob",
    "copy": "Copy to blob",
    "undelete": "Undelete blob",
    "tags": "Get tags of",
    "set_tags": "Set tags of",
    "list_tags": "List with tags the blobs of",
}
_NEXT_STEP: dict[type[Failure], str] = {
    Throttled: "The account is throttling: lower the number of concurrent writers, or raise retryDeadlineMs.",
    Unreached: "Check the network and the option endpoint.",
    Ambiguous: "Check the network and the state of the storage service, then run the operation again.",
    Absent: "Check the name.",
    ConditionFailed: "Another writer has changed or leased the object: read it again before you write it.",
}
