"""Processors in memory and in virtual time: hundreds of take-overs in seconds, and each request counted.

Each loop that is a thread of a `JobCoordinator` (election, polls, watch) is a greenlet here. It waits by switching to
the scheduler, which goes on with the loop that is due next. A request takes a random time, half of it before its
effect; so the requests of all processors interleave as they do on a network.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeVar

from greenlet import getcurrent, greenlet

from azure_account.memory.account import MemoryAccount
from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.service import Failure
from coordination.leadership.election import Elected, Election
from coordination.leadership.lease import Lease
from coordination.names import names_of
from coordination.processors.participant import Participant
from coordination.processors.processor_table import ProcessorTable
from coordination.timing import CoordinatorTiming, LeaseTiming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
NAMES = names_of("box", "benchmark")
CONTAINER = "benchmark"
SETTLED_SECONDS = 3_600.0
"""Virtual seconds after which a condition that does not hold is an error."""


class Schedule:
    """Virtual time, and the loops that wait in it. It is the clock of all processors."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now, self._numbers = start, itertools.count()
        self._due: list[tuple[float, int, Processor, greenlet]] = []
        self._main = getcurrent()
        self._current: Processor | None = None

    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

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

    def __init__(self, schedule: Schedule, rng: Random, slowest: float) -> None:
        self._schedule, self._rng, self._slowest = schedule, rng, slowest
        self.count: Counter[str] = Counter()

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        """Wait, send the request, wait again."""
        self.count[request.operation] += 1
        self._wait()
        try:
            answer = send()
        except Failure:
            self._wait()
            raise
        self._wait()
        return answer

    def _wait(self) -> None:
        self._schedule.sleep(self._rng.random() * self._slowest / 2)


class Processor:
    """A processor of the job: the loops of a `JobCoordinator`, and the tasks that it runs."""

    def __init__(self, job: Job, name: str, delay: float) -> None:
        self.name, self.alive, self._job = name, True, job
        self.running: dict[str, int] = {}
        self.polls: list[float] = []
        """How long each poll took (s of real time), if requests take no virtual time."""
        self.requests = Requests(job.schedule, job.rng, job.slowest)
        account = MemoryAccount(job.account.service, intercept=self.requests)
        container, new_id = account.container(CONTAINER), job.new_id
        lease = Lease(container, NAMES.blob, name, job.lease, clock=job.schedule, new_id=new_id)
        self.election, table = Election(lease), ProcessorTable(account.table(NAMES.processors))
        self.participant = Participant(
            self.election, table, self, lambda: job.tasks, job.timing, new_id=lambda: f"{name}-{new_id()}"
        )
        for loop in (self._elect, self._poll, self._watch):
            job.schedule.start(self, loop, delay)

    def begin(self, tasks: Mapping[str, int]) -> None:
        """Tasks begin."""
        self.running |= tasks
        self._job.note_begun(self.participant.state.processor, tasks)

    def stop(self, tasks: Mapping[str, int]) -> None:
        """Tasks stop."""
        for task in tasks:
            del self.running[task]

    def _elect(self) -> None:
        while True:
            if isinstance(self.election.step(), Elected):
                self._job.leader, self._job.elected = self, self._job.elected + 1
            self._job.schedule.sleep(self.election.wait)

    def _poll(self) -> None:
        while True:
            begin = time.perf_counter()
            self.participant.poll()
            self.polls.append(time.perf_counter() - begin)
            self._job.schedule.sleep(self._job.timing.heartbeat)

    def _watch(self) -> None:
        while True:
            self.participant.expire()
            self._job.schedule.sleep(self._job.timing.margin / 4)


@dataclass
class Job:
    """A job in memory, its processors, and its virtual time. slowest: of a request, in seconds."""

    tasks: tuple[str, ...]
    timing: CoordinatorTiming = field(default_factory=CoordinatorTiming)
    lease: LeaseTiming = field(default_factory=LeaseTiming)
    slowest: float = 0.0
    seed: int = 2013
    schedule: Schedule = field(default_factory=Schedule)
    processors: list[Processor] = field(default_factory=list)
    leader: Processor | None = None
    elected: int = 0
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

    def join(self, count: int = 1) -> None:
        """So many processors start, at random times of the next poll interval."""
        for _ in range(count):
            processor = Processor(self, f"p{len(self.processors)}", self.rng.random() * self.timing.heartbeat)
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
        for task, epoch in tasks.items():
            owner = self._owners.setdefault((task, epoch), processor)
            if owner != processor:
                raise AssertionError(f"{owner} and {processor} run {task} in epoch {epoch}.")
        self.lost -= set(tasks)

    def is_shared(self) -> bool:
        """Whether the live processors run all tasks, in shares that differ by one at most."""
        counts = [len(processor.running) for processor in self.live]
        return sum(counts) == len(self.tasks) and max(counts) - min(counts) <= 1
