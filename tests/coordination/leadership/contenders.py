"""An election in miniature: processes with clocks of their own speed, requests that take time, a lease that expires.

A *design* is how a process keeps its lease: `Lease` is the code under test, the others are mistakes that the tests must
catch. A leader *acts* by a write that it has begun while it led, and that may arrive at any later time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, LateEffect, LostAnswer, TimeOut, Unreachable
from azure_account.retrying.policy import RetryPolicy
from azure_account.values import IF_ABSENT, Done, Unknown
from coordination.leadership.election import Deposed, Elected, Election, Waiting
from coordination.leadership.lease import Lease, Term
from coordination.leadership.lease_document import LeaseDocument
from coordination.timing import LeaseTiming
from foundation.clock import Clock
from foundation.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.faults import Fault, NumberedAttempt
    from azure_account.retrying.retry_loop import Request
    from azure_account.values import BlobProperties, Outcome
    from coordination.leadership.election import Change
    from coordination.leadership.lease import Renewal

T = TypeVar("T")
BLOB = "jobs/flights"
TIMING = LeaseTiming(duration=30, renew_every=6, poll_every=5, request=5, margin=5)
FAULTS = (LostAnswer(), TimeOut(), Unreachable(), LateEffect(), LateEffect(3))


class OwnClock(Clock):
    """The clock of a process: `monotonic` runs at its own speed, and `now` is fast by some seconds."""

    def __init__(self, clock: Clock, rate: float, start: float, fast: float = 0.0) -> None:
        self._clock, self._rate, self._start, self._fast = clock, rate, start, fast

    def now(self) -> float:
        return self._clock.now() + self._fast

    def now_ns(self) -> int:
        return int(self.now() * 1e9)

    def monotonic(self) -> float:
        return self._start + self._rate * self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds / self._rate)


class SlowFaults(FaultInjector):
    """Requests that take time before and after their effect, and fail, as `draw` says. `seen` counts the faults."""

    def __init__(self, advance: Callable[[float], None], draw: Callable[[int], int], seen: Counter[str]) -> None:
        super().__init__(self._fault)
        self._advance, self._draw, self._seen, self.failing = advance, draw, seen, True

    def _fault(self, _: NumberedAttempt) -> Fault | None:
        if not self.failing or self._draw(4) != 0:
            return None
        fault = FAULTS[self._draw(len(FAULTS))]
        self._seen[type(fault).__name__] += 1
        return fault

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        self._pass_time()
        try:
            return super().attempt(request, send)
        finally:
            self._pass_time()

    def _pass_time(self) -> None:
        if self.failing and self._draw(3) == 0:
            self._advance(self._draw(3))


@dataclass
class Flight:
    """A write of a leader that is on its way."""

    process: Process
    term: Term
    etag: str


@dataclass
class Process:
    """One process. A restart makes a new one."""

    number: int
    faults: SlowFaults
    election: Election


Design = type[Lease]


@dataclass
class Contenders:
    """Some processes, and what has come of them."""

    design: Design
    draw: Callable[[int], int]
    seen: Counter[str]
    processes: list[Process] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)
    applied: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    forced: set[str] = field(default_factory=set)
    """The lease ids of terms that were ended by force: their holders learn it at the next renewal."""
    ids: int = 0
    expired: int = 0
    """Terms that were not renewed in time."""
    sound: bool = True

    def __post_init__(self) -> None:
        self.account = MemoryAccount()
        self.clock = self.account.clock
        self.account.container("box").create()
        self.processes = [self._start(number) for number in range(3)]

    def _start(self, number: int) -> Process:
        faults = SlowFaults(self._advance, self.draw, self.seen)
        policy = RetryPolicy(max_attempts=2, first_delay=0.5, deadline=3)
        account = MemoryAccount(self.account.service, intercept=faults, policy=policy)
        rate = (0.9, 1.0, 1.1)[self.draw(3)]
        clock = OwnClock(self.clock, rate, self.draw(1000), (-7200.0, 0.0, 7200.0)[self.draw(3)])
        lease = self.design(
            account.container("box"),
            BLOB,
            f"process-{number}",
            TIMING,
            clock=clock,
            new_id=lambda: self._new_id(number),
        )
        return Process(number, faults, Election(lease))

    def _new_id(self, number: int) -> str:
        if issubclass(self.design, ReusesItsId):
            return f"00000000-0000-0000-0000-{number:012}"
        self.ids += 1
        return f"10000000-0000-0000-0000-{self.ids:012}"

    def _advance(self, seconds: float) -> None:
        self.account.service.clock.advance(seconds)  # type: ignore[attr-defined]
        self.check()

    def check(self) -> None:
        """At most one process leads, but for one whose lease was broken."""
        leaders = [p for p in self.processes if p.election.leads()]
        unforced = [p for p in leaders if p.election.term is not None and p.election.term.lease_id not in self.forced]
        if len(unforced) > 1:
            self.sound = False
            raise AssertionError(f"{len(unforced)} processes lead at once")

    # What happens

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds)):  # in small steps, so that the check sees every deadline
            self._advance(1.0)

    def step(self, process: Process) -> None:
        """One step of a process in the election."""
        self._count_awakening(process)
        change = process.election.step()
        self._count(change)
        if isinstance(change, Elected):
            if self.epochs and change.term.epoch <= self.epochs[-1]:
                self.sound = False
                raise AssertionError(f"epoch {change.term.epoch} came after {self.epochs[-1]}")
            self.epochs.append(change.term.epoch)
        self.check()

    def _count(self, change: Change) -> None:
        match change:
            case Elected():
                self.seen["elected"] += 1
            case Deposed(reason=reason):
                late = "in time" in reason
                self.seen["not renewed in time" if late else "lost"] += 1
                self.expired += late
                self.seen["second expiry"] += late and self.expired == 2
            case Waiting(reason):
                self.seen["no answer" if "answer" in reason or "time limit" in reason else "waiting"] += 1

    def _count_awakening(self, process: Process) -> None:
        """A leader that was suspended past its deadline wakes; another one may lead by then."""
        term = process.election.term
        if term is not None and not process.election.leads():
            self.seen["woke"] += 1
            self.seen["woke after its successor"] += bool(self.epochs) and self.epochs[-1] > term.epoch

    def restart(self, process: Process) -> None:
        """The process dies, and another one begins. Its writes are still on their way."""
        self.seen["restarted"] += 1
        self.seen["died leading"] += process.election.leads()
        self.processes[process.number] = self._start(process.number)

    def begin_write(self, process: Process) -> None:
        """A leader begins a write."""
        if not process.election.leads() or process.election.term is None:
            return
        try:
            found = process.election.lease.read()
        except TransientError:
            return
        if found is not None and process.election.leads() and process.election.term is not None:
            self.flights.append(Flight(process, process.election.term, found[1]))

    def arrive(self, flight: Flight) -> None:
        """A write arrives at the storage, whatever has become of its sender."""
        faults = flight.process.faults
        faults.failing = False
        answer = flight.process.election.lease.write(flight.term, {"by": flight.term.epoch}, flight.etag)
        faults.failing = True
        if not isinstance(answer, Done):
            self.seen["write refused"] += 1
            return
        self.seen["write applied"] += 1
        if self.applied and flight.term.epoch < self.applied[-1]:
            self.sound = False
            raise AssertionError(f"a write of epoch {flight.term.epoch} came after one of epoch {self.applied[-1]}")
        self.applied.append(flight.term.epoch)

    def force(self, *, delete: bool) -> None:
        """Somebody breaks the lease, and perhaps deletes the blob."""
        self.forced |= {p.election.term.lease_id for p in self.processes if p.election.term is not None}
        container = self.account.container("box")
        container.break_lease(BLOB)
        if delete:
            self.seen["deleted"] += isinstance(container.delete(BLOB), Done)
        else:
            self.seen["broken"] += 1

    def settle(self) -> None:
        """Without further faults, a process leads within the time that `LeaseTiming` states."""
        for process in self.processes:
            process.faults.failing = False
            process.faults.apply_late_effects()
        end = self.clock.monotonic() + 1.2 * TIMING.takeover
        while self.clock.monotonic() < end:
            for process in self.processes:
                self.step(process)
            if any(process.election.leads() for process in self.processes):
                self.seen["settled"] += 1
                return
            self.pass_time(1)
        raise AssertionError("nobody leads")


class ReusesItsId(Lease):
    """A mistake: one lease id for the life of a process, and no condition but the lease."""

    def _put(self, document: LeaseDocument, term: Term, etag: str) -> Outcome:
        return self._container.put(self._blob, document.to_json(), lease_id=term.lease_id)


class CountsFromTheAnswer(Lease):
    """A mistake: the deadline is counted from the answer, without a margin."""

    def _deadline(self, begin: float) -> float:
        return self.clock.monotonic() + self.timing.duration


class HasNoMargin(Lease):
    """A mistake: the deadline is the expiry, by a clock that may be slow."""

    def _deadline(self, begin: float) -> float:
        return begin + self.timing.duration


class TakesNoAnswerForYes(Lease):
    """A mistake: a renewal without an answer extends the term."""

    def renew(self, term: Term) -> Renewal:
        begin = self.clock.monotonic()
        answer = super().renew(term)
        return replace(term, deadline=self._deadline(begin)) if isinstance(answer, Unknown) else answer


class IsAFlag(Lease):
    """A mistake: leadership is a flag, set when a term begins or is lost; nobody looks at the deadline."""

    def holds(self, term: Term) -> bool:
        return True


class WritesElsewhere(Lease):
    """A mistake: the lease of one blob elects, and another blob is written, which the lease does not protect."""

    def write(self, term: Term, content: object, etag: str) -> Outcome:
        return self._container.put(f"{self._blob}.data", LeaseDocument(term.epoch).to_json())


class WritesWithoutLease(Lease):
    """A mistake: the leased blob itself is written, without lease id and ETag."""

    def write(self, term: Term, content: object, etag: str) -> Outcome:
        return self._container.put(self._blob, LeaseDocument(term.epoch, "", term.lease_id).to_json())


class CountsInMemory(Lease):
    """A mistake: each process counts the epochs by itself."""

    counted = 0

    def _read(self) -> tuple[LeaseDocument, BlobProperties] | None:
        found = super()._read()
        return None if found is None else (replace(found[0], epoch=self.counted), found[1])

    def _put(self, document: LeaseDocument, term: Term, etag: str) -> Outcome:
        self.counted = document.epoch
        return super()._put(document, term, etag)


class BeginsAtOne(Lease):
    """A mistake: the first epoch of a new blob is 1."""

    def _create(self) -> None:
        self._container.put(self._blob, LeaseDocument(0, "", "none").to_json(), condition=IF_ABSENT)


class BeginsByItsOwnClock(Lease):
    """A mistake: the first epoch of a new blob is the time by the clock of the host that creates it."""

    def _create(self) -> None:
        first = LeaseDocument(int(self.clock.now()), "", "none")
        self._container.put(self._blob, first.to_json(), condition=IF_ABSENT)


class IsAheadOfTheTime(Lease):
    """A mistake: a term begins before its epoch's second, so a blob that is created in the same second repeats it."""

    def _wait_for_the_next_second(self) -> None:
        pass
