"""A job whose processors run in memory and in virtual time: hundreds of take-overs in seconds.

Each loop that is a thread of a `JobCoordinator` (election, polls, heartbeats, watch) is a greenlet. It waits by
switching to the scheduler, which goes on with the loop that is due next. A request takes a random time, half of it
before its effect; so the requests of all processors interleave as they do on a network.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeVar

from greenlet import getcurrent, greenlet

from azure_account.memory.account import MemoryAccount
from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.service import Failure
from coordination.leadership.election import Election
from coordination.leadership.lease import Lease
from coordination.names import names_of
from coordination.processors.listener_calls import ListenerError
from coordination.processors.participant import Participant
from coordination.processors.processor_table import ProcessorTable
from coordination.timing import JOB_LEASE, STOP_SECONDS, CoordinatorTiming, LeaseTiming
from foundation.clock import Clock
from foundation.errors import AzureBlobError, ConfigurationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
QUICK = 0.04
"""The longest that a request takes (s), as a rule."""
JITTER = 0.3
NAMES = names_of("box", "test")
CONTAINER = "test"
SETTLED_SECONDS = 3_600.0
"""Virtual seconds after which a condition that does not hold is an error."""


class Schedule(Clock):
    """Virtual time, and the loops that wait in it. It is the clock of all processors."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now, self._numbers = start, itertools.count()
        self._due: list[tuple[float, int, Processor, greenlet]] = []
        self._main = getcurrent()
        self._current: Processor | None = None

    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return int(self._now * 1e9)

    def monotonic(self) -> float:
        """The same seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Wait; the other loops go on. No time passes for what is not a loop of a processor."""
        if seconds > 0 and self._current is not None:
            self._add(seconds, self._current, getcurrent())
            self._main.switch()

    def start(self, processor: Processor, loop: Callable[[], None], delay: float) -> None:
        """Begin a loop of a processor in `delay` seconds."""
        self._add(delay, processor, greenlet(loop, self._main))

    def call(self, processor: Processor, act: Callable[[], None]) -> None:
        """Begin a call in a loop of its own. One that takes no time is over when this returns."""
        self.start(processor, act, 0.0)
        if self._current is not None:
            self._add(0.0, self._current, getcurrent())
            self._main.switch()

    def run(self, reached: Callable[[], object], seconds: float = SETTLED_SECONDS) -> float:
        """Go on until a condition holds. Returns how long it took (s); `TimeoutError` after `seconds`."""
        begin = self._now
        while not reached():
            if self._now - begin > seconds:
                raise TimeoutError(f"The condition did not hold within {seconds:.0f} virtual seconds.")
            self._step()
        return self._now - begin

    def run_for(self, seconds: float) -> None:
        """Go on for so long."""
        end = self._now + seconds
        while self._due[0][0] <= end:
            self._step()
        self._now = end

    def _add(self, seconds: float, processor: Processor, loop: greenlet) -> None:
        heapq.heappush(self._due, (self._now + seconds, next(self._numbers), processor, loop))

    def _step(self) -> None:
        self._now, _, processor, loop = heapq.heappop(self._due)
        if processor.alive:
            self._current = processor
            loop.switch()
            self._current = None


class Requests(Intercept):
    """Counts the requests of a processor, each of which takes a random time of up to `slowest` seconds."""

    def __init__(self, schedule: Schedule, rng: Random, slowest: float, seen: Counter[str]) -> None:
        self._schedule, self._rng, self._slowest, self._seen = schedule, rng, slowest, seen
        self.count: Counter[str] = Counter()
        self.slow = 0.0
        """The share of requests that take up to 5 seconds."""
        self.refused_until, self.refusal = 0.0, "403 AuthorizationFailure"
        """Until then storage refuses every request, with this reason."""

        self.hanging: tuple[str, ...] = ()
        """Requests whose operation has one of these in its name get no answer within the 5 s that they may take."""

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        """Wait, send the request, wait again."""
        self.count[request.operation] += 1
        if any(part in request.operation for part in self.hanging):
            self._schedule.sleep(5.0)
            raise TransientError("no answer")
        slow = self.slow > 0 and self._rng.random() < self.slow
        self._seen["slow request"] += slow
        slowest = 5.0 if slow else self._slowest
        self._wait(slowest)
        if self._schedule.now() < self.refused_until:
            self._seen[f"refused: {self.refusal}"] += 1
            raise ConfigurationError(self.refusal)
        try:
            answer = send()
        except Failure:
            self._wait(slowest)
            raise
        self._wait(slowest)
        return answer

    def _wait(self, slowest: float) -> None:
        self._schedule.sleep(self._rng.random() * slowest / 2)


class Processor:
    """A processor of the job: the loops of a `JobCoordinator`, and the tasks that it runs."""

    def __init__(self, job: Job, name: str, delay: float) -> None:
        self.name, self.alive, self._job = name, True, job
        self.leaving, self.paused_until = False, 0.0
        self.running: dict[str, int] = {}
        self.requests = Requests(job.schedule, job.rng, job.slowest, job.seen)
        account = MemoryAccount(job.account.service, intercept=self.requests)
        container, new_id = account.container(CONTAINER), job.new_id
        lease = Lease(container, NAMES.blob, name, job.lease, clock=job.schedule, new_id=new_id)
        self.election, table = Election(lease, keeps_refused=True), ProcessorTable(account.table(NAMES.processors))
        self.refuses_stops, self.begin_seconds, self.stop_seconds = 0, 0.0, 0.0
        """So many calls to stop tasks fail; so long does it take to begin some, and to stop some."""
        self.participant = Participant(
            self.election,
            table,
            self,
            job.listed,
            job.timing,
            new_id=lambda: f"{name}-{new_id()}",
            name=name,
            spawn=lambda act: job.schedule.call(self, act),
        )
        tick = min(job.timing.quick / 2, job.timing.margin / 4)
        for act, left in (
            (self.participant.elect, lambda: self.participant.seconds_to("elect")),
            (self.participant.poll, lambda: self.participant.seconds_to("poll")),
            (self.participant.beat, lambda: self.participant.seconds_to("beat")),
            (self.participant.expire, lambda: 0.0),
            (self.participant.list_tasks, lambda: self.participant.seconds_to("list_tasks")),
        ):
            job.schedule.start(self, partial(self._repeat, act, left, tick), delay)

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        """Tasks begin."""
        self._job.schedule.sleep(self.begin_seconds)
        self.running |= tasks
        self._job.note_begun(self.participant.state.processor, tasks)

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        """Tasks stop."""
        if self.refuses_stops:
            self.refuses_stops -= 1
            raise TimeoutError("the query has not stopped")
        self._job.schedule.sleep(self.stop_seconds)
        for task in tasks:
            self.running.pop(task, None)

    def pause(self, seconds: float) -> None:
        """Suspend the process."""
        self.paused_until = self._job.schedule.now() + seconds

    def leave(self) -> None:
        """End in order, as `JobCoordinator.stop` does. Takes virtual time."""
        self._job.lost |= set(self.running)
        self._job.schedule.start(self, self._leave, 0.0)

    def _leave(self) -> None:
        self.leaving = True
        with suppress(ListenerError):
            self.participant.leave(STOP_SECONDS)
        self.election.resign()
        self.alive = False

    def _repeat(self, act: Callable[[], object], left: Callable[[], float], tick: float) -> None:
        while self._goes_on():
            self._job.schedule.sleep(max(0.0, self.paused_until - self._job.schedule.now()))
            try:
                act()
            except AzureBlobError as error:
                self._job.seen[type(error).__name__] += 1
            except ListenerError:
                self._job.seen["listener failed"] += 1
            self._job.schedule.sleep(tick)
            while self._goes_on() and (seconds := left()) > 0:
                self._job.schedule.sleep(min(tick, seconds))

    def _goes_on(self) -> bool:
        return self.alive and not self.leaving


@dataclass
class Job:
    """A job in memory, its processors, and its virtual time. slowest: of a request, in seconds."""

    tasks: tuple[str, ...]
    timing: CoordinatorTiming = field(default_factory=CoordinatorTiming)
    lease: LeaseTiming = JOB_LEASE
    slowest: float = 0.0
    seed: int = 2013
    schedule: Schedule = field(default_factory=Schedule)
    processors: list[Processor] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """What has happened, and how often."""
    begun: int = 0
    """Tasks that have begun."""
    twice: set[str] = field(default_factory=set)
    listing_fails: bool = False
    listing_seconds: float = 0.0
    """For how long the function of tasks blocks."""
    lost: set[str] = field(default_factory=set)
    """Tasks of processors that were killed, which have not begun elsewhere."""

    def __post_init__(self) -> None:
        self.rng, self._ids = Random(self.seed), itertools.count()
        self.account = MemoryAccount(clock=self.schedule)
        self.account.container(CONTAINER).create()
        self.account.table(NAMES.processors).create()
        self._owners: dict[tuple[str, int], str] = {}

    def new_id(self) -> str:
        """The id of a lease or processor."""
        return f"00000000-0000-0000-0000-{next(self._ids):012}"

    def listed(self) -> tuple[str, ...]:
        """All tasks."""
        self.schedule.sleep(self.listing_seconds)
        if self.listing_fails:
            self.seen["listing failed"] += 1
            raise LookupError("the catalogue does not answer")
        return self.tasks

    def join(self, count: int = 1, name: str = "") -> None:
        """So many processors start, at random times of the next poll interval."""
        for _ in range(count):
            named = name or f"p{len(self.processors)}"
            processor = Processor(self, named, self.rng.random() * self.timing.heartbeat)
            self.processors.append(processor)

    def kill(self, victims: Iterable[Processor]) -> None:
        """Processors die."""
        for victim in victims:
            victim.alive = False
            self.lost |= set(victim.running)

    @property
    def live(self) -> list[Processor]:
        """The processors that are alive."""
        return [processor for processor in self.processors if processor.alive]

    def note_begun(self, processor: str, tasks: Mapping[str, int]) -> None:
        """Note that tasks have begun. `AssertionError` if two processors begin one in the same epoch."""
        self.begun += len(tasks)
        for task, epoch in tasks.items():
            owner = self._owners.setdefault((task, epoch), processor)
            if owner != processor:
                raise AssertionError(f"{owner} and {processor} run {task} in epoch {epoch}.")
        self.lost -= set(tasks)

    def leaders(self) -> list[Processor]:
        """Who leads: none or one, as a rule."""
        return [each for each in self.live if each.election.leads()]

    def is_shared(self) -> bool:
        """Whether the live processors run all tasks, in shares that differ by one at most."""
        counts = [len(processor.running) for processor in self.live]
        return sum(counts) == len(self.tasks) and max(counts) - min(counts) <= 1


@dataclass(frozen=True)
class CrashLoop:
    """A process that dies `alive` seconds after its start, and starts again `away` seconds later, more or less.

    leaves: it does not die, but leaves the job, as a program does that ends with an error.
    """

    alive: float
    away: float
    leaves: bool = False


def crash(job: Job, loop: CrashLoop) -> Callable[[], None]:
    """Act out a loop: the function is called every second."""
    due, living = job.schedule.now(), job.processors[:0]

    def act() -> None:
        nonlocal due
        if job.schedule.now() < due:
            return
        if living:
            job.seen["crashed"] += 1
            end = living.pop()
            end.leave() if loop.leaves else job.kill([end])
        else:
            job.join()
            living.append(job.processors[-1])
        seconds = loop.alive if living else loop.away
        due = job.schedule.now() + seconds * job.rng.uniform(1 - JITTER, 1 + JITTER)

    return act


@dataclass(frozen=True)
class IdleTime:
    """share: of the time of all tasks. longest: seconds of a task without a break."""

    share: float
    longest: int


def idle_time(job: Job, seconds: int, *acts: Callable[[], None]) -> IdleTime:
    """How long nobody runs a task while the job goes on. The functions are called every second."""
    idle, longest, since = 0, 0, Counter[str]()
    for _ in range(seconds):
        for act in acts:
            act()
        job.schedule.run_for(1)
        runs = Counter(task for each in job.live for task in each.running)
        job.twice |= {task for task, count in runs.items() if count > 1}
        for task in job.tasks:
            since[task] = 0 if runs[task] else since[task] + 1
            idle += not runs[task]
        longest = max(longest, *since.values())
    return IdleTime(idle / (seconds * len(job.tasks)), longest)
