"""One process in the election: it acquires the lease, renews it, and loses it. One request for each step.

follower ── acquire: Term ──────────────► leader ── renew: Term, or Unknown before the deadline ─► leader
   ▲   └─── NotAcquired, no answer ─► follower │
   └────── Lost, or the deadline has passed ◄──┘
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from azure_account.values import Unknown
from coordination.leadership.lease import Lost, NotAcquired, Term
from foundation.errors import AzureBlobError, TransientError

if TYPE_CHECKING:
    from coordination.leadership.lease import Lease


@dataclass(frozen=True)
class Elected:
    """The process leads from now on."""

    term: Term


class TermEnd(Enum):
    """Why a term is over.

    LATE: it was not renewed in time. TAKEN: another process has the lease, or it was broken or deleted. REFUSED:
    storage refuses the request for good. RESIGNED: the process has ended it itself.
    """

    LATE = "late"
    TAKEN = "taken"
    REFUSED = "refused"
    RESIGNED = "resigned"

    @property
    def log_level(self) -> int:
        """The level at which the end of such a term is logged."""
        return logging.INFO if self is TermEnd.RESIGNED else logging.WARNING


@dataclass(frozen=True)
class Deposed:
    """The process does not lead any more."""

    term: Term
    reason: str
    ending: TermEnd


@dataclass(frozen=True)
class Waiting:
    """Nothing has changed; `reason` says why the process does not lead, or that a renewal got no answer."""

    reason: str = ""


Change: TypeAlias = Elected | Deposed | Waiting


class Election:
    """Takes part in the election for one process. Call `step`, wait `wait` seconds, and so on. Not thread-safe.

    keeps_refused: a renewal that storage refuses, such as for a permission, does not end the term, since it may be a
    blip: it is raised, and the next one may succeed before the deadline.
    """

    def __init__(self, lease: Lease, *, keeps_refused: bool = False) -> None:
        self.lease: Lease = lease
        self._keeps_refused = keeps_refused
        self.term: Term | None = None
        """The term in which the process leads. Check `leads` before each use."""
        self.wait: float = 0.0
        """Seconds until the next step is due."""

    def leads(self) -> bool:
        """Whether the process leads at this moment. Any thread may ask."""
        term = self.term
        return term is not None and self.lease.holds(term)

    def step(self) -> Change:
        """Make the next request. Storage that gives no answer is no error; all else is raised, and the term is over."""
        timing, begin = self.lease.timing, self.lease.clock.monotonic()
        if self.term is None:
            self.wait = timing.poll_every
            return self._acquire()
        due = min(begin + timing.renew_every, self.term.deadline)
        self.wait = max(0.0, due - begin)
        ended = self.expire()
        if ended is not None:
            return ended
        change = self._renew(self.term)
        if self.term is not None:  # the next renewal begins in time, however long this one has taken
            self.wait = max(0.0, due - self.lease.clock.monotonic())
        return change

    def resign(self) -> Deposed | None:
        """End the term, if there is one, and release the lease, so that another process can lead at once.

        Call it when what the term protects has stopped.
        """
        if self.term is None:
            return None
        term, self.term = self.term, None
        self.lease.release(term)
        return Deposed(term, "it resigned", TermEnd.RESIGNED)

    def expire(self) -> Deposed | None:
        """End the term if its deadline has passed. Makes no request."""
        if self.term is None or self.leads():
            return None
        return self._end(self.term, "the lease was not renewed in time", TermEnd.LATE)

    def _acquire(self) -> Change:
        timing = self.lease.timing
        try:
            answer = self.lease.acquire()
        except TransientError as error:
            return Waiting(str(error))
        if isinstance(answer, NotAcquired):
            return Waiting(answer.reason)
        self.term, due = answer, answer.deadline + timing.margin - timing.duration + timing.renew_every
        self.wait = max(0.0, due - self.lease.clock.monotonic())
        return Elected(answer)

    def _renew(self, term: Term) -> Change:
        try:
            answer = self.lease.renew(term)
        except BaseException as error:
            if not (self._keeps_refused and isinstance(error, AzureBlobError)):
                self.term = None
            raise
        match answer:
            case Term() as renewed:
                self.term = renewed
                return Waiting()
            case Unknown(reason):
                return Waiting(reason)
            case Lost(reason):
                return self._end(term, reason, TermEnd.TAKEN)

    def _end(self, term: Term, reason: str, ending: TermEnd) -> Deposed:
        self.term, self.wait = None, 0.0
        return Deposed(term, reason, ending)
