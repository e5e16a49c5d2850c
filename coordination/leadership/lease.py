"""The lease of one blob: at most one holder at a time, and an epoch in the blob that rises with every term.

    acquire ─► Term(epoch 8) ─► renew ─► Term      the same one, which holds longer
                                   ├───► Lost      another process has the lease, or it was broken or deleted
                                   └───► Unknown   no answer: the term holds until its own deadline

Three rules make it safe. The lease id is new in every term, so a delayed request of an earlier term has no effect. The
deadline is counted from before the request, on the holder's own clock, and lies a margin before the expiry. And what
the holder writes elsewhere presents the epoch, since a lease protects only the blob itself.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from azure_account.readback import request_and_read_back
from azure_account.values import IF_ABSENT, Condition, Conflict, Done, Missing, Unknown
from coordination.leadership.lease_document import LeaseDocument, from_json
from foundation.errors import AzureBlobError, NotFoundError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from azure_account.container import BlobContainer
    from azure_account.readback import Doubtful
    from azure_account.values import BlobProperties, Outcome
    from coordination.timing import LeaseTiming
    from foundation.clock import Clock

logger = logging.getLogger("coordination")

_ATTEMPTS = 3
"""Requests of one acquisition: the blob may be missing, and an answer may be lost."""
_ONE_SECOND = 1.25
"""Seconds of the holder's clock. A clock that is fast by a fifth still waits for a second of the service's."""


@dataclass(frozen=True)
class Term:
    """The time from acquiring a lease to losing it. The holder acts only before `deadline`."""

    epoch: int
    lease_id: str
    deadline: float
    """Seconds of the holder's monotonic clock."""
    expired: int | None = None
    """The epoch of the term before, if that one's lease has expired. None if it was released or broken, or for lack of
    knowledge: `read` must have seen it before."""


@dataclass(frozen=True)
class NotAcquired:
    """Another process has the lease, or storage gave no answer; `reason` says which."""

    reason: str


@dataclass(frozen=True)
class Lost:
    """The term is over: nothing may be done in it any more."""

    reason: str


Renewal: TypeAlias = Term | Lost | Unknown


class Lease:
    """The lease of one blob, for one process. Not thread-safe."""

    def __init__(
        self,
        container: BlobContainer,
        blob: str,
        holder: str,
        timing: LeaseTiming,
        *,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._container, self._blob, self._holder = container, blob, holder
        self.timing: LeaseTiming = timing
        self.clock: Clock = clock
        self._new_id = new_id
        self._last: tuple[LeaseDocument, BlobProperties] | None = None
        self.free: bool = False
        """Whether nobody had the lease, or there was no blob, at the last `read`."""
        self._expired = ""
        """The ETag of the document whose lease had expired at the last `read`."""

    @property
    def target(self) -> str:
        """Container and blob, for messages."""
        return f"{self._container.name}/{self._blob}"

    def acquire(self) -> Term | NotAcquired:
        """Begin a term, if nobody has the lease. Creates the blob if it is absent.

        `TransientError` if it does not become known whether the epoch was raised.
        """
        lease_id = self._new_id()
        reason = ""
        for _ in range(_ATTEMPTS):
            begin = self.clock.monotonic()
            match self._container.acquire_lease(self._blob, lease_id, self.timing.duration):
                case Done():
                    return self._begin(Term(0, lease_id, self._deadline(begin)))
                case Conflict(reason):
                    return NotAcquired(f"another process has it ({reason})")
                case Missing(cause):
                    reason = f"the blob is absent ({cause})"
                    self._create()
                case Unknown(cause):  # with the same id, acquiring twice is acquiring once
                    reason = f"storage gave no answer ({cause})"
        return NotAcquired(reason)

    def renew(self, term: Term) -> Renewal:
        """Extend a term."""
        begin = self.clock.monotonic()
        match self._container.renew_lease(self._blob, term.lease_id):
            case Done():
                return replace(term, deadline=self._deadline(begin))
            case Unknown() as unknown:
                return unknown
            case Conflict(reason) | Missing(reason):
                return Lost(reason)

    def release(self, term: Term) -> None:
        """End a term, so that the next holder need not wait. A failure is logged: the lease expires by itself."""
        try:
            self._container.release_lease(self._blob, term.lease_id)
        except AzureBlobError as error:
            logger.warning("the lease of %s is not released, and expires by itself: %s", self.target, error)

    def holds(self, term: Term) -> bool:
        """Whether the term's deadline has not passed."""
        return self.clock.monotonic() < term.deadline

    def read(self) -> tuple[LeaseDocument, str] | None:
        """The document and its ETag, whoever holds the lease; None if there is no blob.

        The same document, not an equal one, while the ETag is the same.
        """
        found = self._read()
        self.free = found is None or not found[1].leased
        self._expired = found[1].etag if found is not None and found[1].lease_expired else ""
        return None if found is None else (found[0], found[1].etag)

    def write(self, term: Term, content: Mapping[str, Any], etag: str) -> Outcome:
        """Replace the content beside the epoch.

        `Conflict` if the term is over, or the document is not the one of `etag`.
        """
        document = LeaseDocument(term.epoch, self._holder, term.lease_id, content)
        return self._put(document, term, etag)

    def _begin(self, term: Term) -> Term | NotAcquired:
        """Raise the epoch, by which the term becomes one."""
        try:
            found = self._read()
        except AzureBlobError:  # it is no lease blob, or of a newer release: let go of it
            self.release(term)
            raise
        if found is None:
            return NotAcquired("the blob was deleted meanwhile")
        before, properties = found
        expired = before.epoch if properties.etag == self._expired else None
        # No epoch is later than the time at which its term began, by a clock that all hosts share: the service's. So an
        # epoch above the time at which a blob was created is above all epochs of a blob that was deleted before.
        written = int(properties.last_modified.timestamp())
        epoch = max(before.epoch, 0 if before.lease_id else written) + 1
        if epoch > written:
            self._wait_for_the_next_second()
        document = replace(before, epoch=epoch, holder=self._holder, lease_id=term.lease_id)

        def read_back(answer: Doubtful) -> NotAcquired | Done | None:
            now = self.read()
            if now is not None and now[0].lease_id == term.lease_id:
                return Done(now[1])
            return None if isinstance(answer, Unknown) else NotAcquired(str(answer))

        def unresolved(answer: Doubtful) -> AzureBlobError:
            cause = f"no answer is received ({answer})"
            return TransientError("raise the epoch of", self.target, cause, "Try again later.")

        answer = request_and_read_back(lambda: self._put(document, term, properties.etag), read_back, unresolved)
        begun = replace(term, epoch=document.epoch, expired=expired)
        if isinstance(answer, Done) and self.holds(begun):
            return begun
        self.release(term)
        return answer if isinstance(answer, NotAcquired) else NotAcquired("storage took as long as the lease lasts")

    def _read(self) -> tuple[LeaseDocument, BlobProperties] | None:
        """The document, which is parsed once for each ETag, and the properties of the blob."""
        try:
            found = self._container.get(self._blob)
        except NotFoundError:
            return None
        last = self._last
        same = last is not None and last[1].etag == found.properties.etag
        document = last[0] if last is not None and same else from_json(found.data, self.target)
        self._last = document, found.properties
        return self._last

    def _put(self, document: LeaseDocument, term: Term, etag: str) -> Outcome:
        condition = Condition(if_match=etag)
        return self._container.put(self._blob, document.to_json(), condition=condition, lease_id=term.lease_id)

    def _create(self) -> None:
        """Create the blob, unless another process is faster."""
        self._container.put(self._blob, LeaseDocument(0).to_json(), condition=IF_ABSENT)

    def _wait_for_the_next_second(self) -> None:
        """Epochs rise by one, so they are never ahead of the time by more."""
        self.clock.sleep(_ONE_SECOND)

    def _deadline(self, begin: float) -> float:
        return begin + self.timing.duration - self.timing.margin
