"""Processors that share tasks, under pauses, crashes, lost and late answers and slow clocks.

A task is never run by two processors in one epoch, nor by two at one time unless one was suspended; and when the faults
stop, all tasks run. `python -m tests.coordination.processors.test_participant_histories` prints how often each event
happens.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from azure_account.memory.account import MemoryAccount
from azure_account.retrying.policy import RetryPolicy
from azure_account.values import Done
from coordination.leadership.election import Election
from coordination.leadership.lease import Lease
from coordination.processors.listener_calls import ListenerError
from coordination.processors.participant import Participant
from coordination.processors.processor_table import ProcessorTable
from coordination.timing import JOB_LEASE, CoordinatorTiming
from foundation.errors import AzureBlobError, ConfigurationError
from tests.coordination.leadership.contenders import BLOB, OwnClock, SlowFaults
from tests.coordination.processors.mistakes import IDLE_MISTAKES, MISTAKES
from tests.histories.history import check_events
from tests.histories.machine import SeededMachine, run_histories

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure_account.memory.faults import Fault, NumberedAttempt
    from azure_account.retrying.retry_loop import Request

T = TypeVar("T")
TASKS = [f"t{number}" for number in range(5)]
SLOTS = 4
REFUSALS = ("401 InvalidAuthenticationInfo", "403 AuthorizationFailure", "404 TableNotFound")


class StopRefusedError(Exception):
    """A listener did not stop its tasks; it has to be asked again."""


class RefusingFaults(SlowFaults):
    """Storage also refuses single requests, as it does when credentials or a network rule change."""

    calm = 1
    """Faults are so many times rarer."""

    def _fault(self, attempt: NumberedAttempt) -> Fault | None:
        return super()._fault(attempt) if self._draw(self.calm) == 0 else None

    def _pass_time(self) -> None:
        if self._draw(self.calm) == 0:
            super()._pass_time()

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if self.failing and self._draw(25 * self.calm) == 0:
            reason = REFUSALS[self._draw(len(REFUSALS))]
            self._seen[reason] += 1
            raise ConfigurationError(reason)
        return super().attempt(request, send)


@dataclass
class Process:
    """One process and the tasks that it runs. `death` is its number of lives before."""

    name: str
    faults: RefusingFaults
    clock: OwnClock
    world: World
    running: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        policy = RetryPolicy(max_attempts=2, first_delay=0.5, deadline=3)
        account = MemoryAccount(self.world.account.service, intercept=self.faults, policy=policy)
        ids = self.world.ids
        lease = Lease(account.container("box"), BLOB, self.name, JOB_LEASE, clock=self.clock, new_id=ids.lease)
        self.election = Election(lease, keeps_refused=True)
        table = ProcessorTable(account.table("processors"))
        new_id = ids.processor
        self.participant = Participant(
            self.election, table, self, self.listed, self.world.timing, new_id=lambda: new_id(self.name)
        )

    def listed(self) -> list[str]:
        if self.faults.failing and self.world.draw(10) == 0:
            self.world.seen["listing failed"] += 1
            raise LookupError("the catalogue does not answer")
        return TASKS

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        for task, epoch in tasks.items():
            owner = self.world.owners.setdefault((task, epoch), self.participant.state.processor)
            self.world.sound = self.world.sound and owner == self.participant.state.processor
            assert self.world.sound, f"{task} is run in epoch {epoch} by two processors"
        self.running |= tasks
        self.world.seen["begun"] += len(tasks)
        self.world.check()
        if self.faults.failing and self.world.draw(6) == 0:
            self.world.begin_slowly(self)

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        if self.faults.failing and self.world.draw(8) == 0:
            self.world.seen["stop refused"] += 1
            raise StopRefusedError
        for task in tasks:
            del self.running[task]
        self.world.seen["stopped"] += len(tasks)

    def may_act(self) -> bool:
        """Whether it would still act if it ran now."""
        return not self.participant.overdue


class Ids:
    def __init__(self) -> None:
        self.count = 0

    def lease(self) -> str:
        self.count += 1
        return f"30000000-0000-0000-0000-{self.count:012}"

    def processor(self, name: str) -> str:
        self.count += 1
        return f"{name}-{self.count}"


@dataclass
class World:
    draw: Callable[[int], int]
    seen: Counter[str]
    timing: CoordinatorTiming
    owners: dict[tuple[str, int], str] = field(default_factory=dict)
    sound: bool = True
    suspended: int | None = None
    calm: int = 1
    known: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.account, self.ids = MemoryAccount(), Ids()
        self.clock = self.account.clock
        self.account.container("box").create()
        self.account.table("processors").create()
        self.processes: list[Process | None] = [None] * SLOTS
        self.start(0)

    def start(self, slot: int) -> None:
        faults = RefusingFaults(lambda seconds: self.take_time(slot, seconds), self.draw, self.seen)
        rate = (0.95, 1.0, 1.05)[self.draw(3)]
        clock = OwnClock(self.clock, rate, self.draw(1000))
        faults.calm = self.calm
        self.processes[slot] = Process(f"p{slot}", faults, clock, self)

    def take_time(self, slot: int, seconds: float) -> None:
        """A request takes time. Now and then its process is suspended meanwhile, and the others go on."""
        self.advance(seconds)
        if self.suspended is None and self.draw(40) == 0:
            self.seen["suspended in a poll"] += 1
            self.suspended = slot
            self.others_go_on(slot, 1 + self.draw(12))
            self.suspended = None

    def begin_slowly(self, process: Process) -> None:
        """The listener takes a while to begin tasks. The others go on, and so do the heartbeats of this process."""
        if self.suspended is not None or process not in self.processes:
            return
        self.seen["begun slowly"] += 1
        self.suspended = self.processes.index(process)
        for _ in range(1 + self.draw(4)):
            self.others_go_on(self.suspended, 1)
            if not process.participant.overdue:  # `expire` waits until the listener has returned
                self.attempt(process.participant.elect)
                self.attempt(process.participant.beat)
        self.suspended = None

    def others_go_on(self, slot: int | None, rounds: int) -> None:
        for _ in range(rounds):
            for other, process in enumerate(self.processes):
                if process is not None and other != slot:
                    self.round(process)
            for _ in range(4):
                self.advance(1.0)

    def advance(self, seconds: float) -> None:
        self.account.service.clock.advance(seconds)  # type: ignore[attr-defined]
        self.check()

    def check(self) -> None:
        """No task is run at one time by two processors that may act."""
        acting = Counter(task for process in self.live() if process.may_act() for task in process.running)
        twice = [task for task, count in acting.items() if count > 1]
        if twice:
            self.sound = False
            raise AssertionError(f"{twice} are run by two processors at one time")

    def live(self) -> list[Process]:
        return [process for process in self.processes if process is not None]

    def round(self, process: Process) -> None:
        """What the threads of a process do in a poll interval."""
        self.seen["woke running"] += process.participant.overdue and bool(process.running)
        one = process.participant
        for act in (one.expire, one.elect, one.list_tasks, one.poll, one.beat):
            self.attempt(act)
        self.seen["leads"] += process.election.leads()
        self.seen["rejoined"] += process.participant.state.processor not in self.seen_ids(process)

    def attempt(self, act: Callable[[], object]) -> None:
        """Do what a thread does; its errors are those of storage, or of a listener that refuses to stop."""
        try:
            act()
        except AzureBlobError as error:
            self.seen[type(error).__name__] += 1
        except ListenerError as error:
            if not isinstance(error.__cause__, StopRefusedError):  # an assertion of `begin`
                raise error.__cause__ or error from error

    def seen_ids(self, process: Process) -> set[str]:
        known = self.known
        if not any(name.startswith(f"{process.name}-") for name in known):
            known.add(process.participant.state.processor)
        before = set(known)
        known.add(process.participant.state.processor)
        return before

    def leave(self, process: Process) -> None:
        """A process ends in order, as far as storage answers."""
        for act in (lambda: process.participant.leave(0.0), process.election.resign):
            with suppress(AzureBlobError, ListenerError):
                act()
        self.seen["left"] += not process.running
        self.processes[self.processes.index(process)] = None

    def delete_blob(self) -> None:
        """Somebody breaks the lease and deletes the blob, with the job model."""
        container = self.account.container("box")
        container.break_lease(BLOB)
        self.seen["deleted"] += isinstance(container.delete(BLOB), Done)

    def settle(self) -> None:
        """All tasks run, each once, within a bounded time after the faults have stopped."""
        if not self.live():
            return
        for process in self.live():
            process.faults.failing = False
            process.faults.apply_late_effects()
        end = self.clock.monotonic() + 1.1 * (JOB_LEASE.takeover + 3 * self.timing.death + 60)
        while self.clock.monotonic() < end:
            for process in self.live():
                self.round(process)
            for _ in range(5):
                self.advance(1.0)
            running = Counter(task for process in self.live() for task in process.running)
            if running == Counter(TASKS):
                self.seen["settled"] += 1
                return
        raise AssertionError(f"tasks do not run: {running}")

    def crash_in_a_loop_while_all_is_calm(self) -> None:
        """After `settle`: a process that dies within seconds of each start costs the others nothing."""
        free = [slot for slot, process in enumerate(self.processes) if process is None]
        if not free or not self.live():
            return
        for _ in range(2):
            self.start(free[0])
            for process in self.live():
                process.faults.failing = False
            self.rounds_of_heartbeats(2)
            self.processes[free[0]] = None
            self.seen["crashed in calm"] += 1
            self.rounds_of_heartbeats(1)

    def rounds_of_heartbeats(self, rounds: int) -> None:
        """All processes go on; it is counted how long tasks are idle."""
        for _ in range(rounds):
            for process in self.live():
                self.round(process)
            for _ in range(3):
                self.advance(1.0)
                running = {task for process in self.live() for task in process.running}
                self.seen["task seconds"] += len(TASKS)
                self.seen["idle task seconds"] += len(TASKS) - len(running)


def machine(seen: Counter[str], timing: CoordinatorTiming) -> type[SeededMachine]:  # noqa: C901 - a class with rules
    slots = st.integers(0, SLOTS - 1)
    seeds = st.integers(0, 2**32)

    class Machine(SeededMachine):
        def __init__(self) -> None:
            super().__init__()
            self.world = World(self.draw, seen, timing)

        @initialize(calm=st.sampled_from([1, 4, 20]), seed=seeds)
        def storage_is(self, calm: int, seed: int) -> None:
            self.seed += seed
            self.world.calm = calm
            for process in self.world.live():
                process.faults.calm = calm

        @rule(rounds=st.integers(3, 10), seed=seeds)
        def all_go_on(self, rounds: int, seed: int) -> None:
            self.seed += seed
            self.world.others_go_on(None, rounds)

        @rule(slots=st.lists(slots, min_size=1, max_size=8), seconds=st.sampled_from([0, 1, 3, 5]), seed=seeds)
        def processes_poll(self, slots: list[int], seconds: int, seed: int) -> None:
            self.seed += seed
            for slot in slots:
                process = self.world.processes[slot]
                if process is not None:
                    self.world.round(process)
                for _ in range(seconds):
                    self.world.advance(1.0)

        @rule(suspended=slots, rounds=st.integers(3, 12), seed=seeds)
        def all_but_one_go_on(self, suspended: int, rounds: int, seed: int) -> None:
            self.seed += seed
            seen["suspended"] += 1
            self.world.others_go_on(suspended, rounds)

        @rule(slot=slots)
        def a_process_starts(self, slot: int) -> None:
            if self.world.processes[slot] is None:
                self.world.start(slot)
                seen["started"] += 1

        @rule(slot=slots, chance=st.booleans())
        def a_process_leaves(self, slot: int, chance: bool) -> None:
            process = self.world.processes[slot]
            if process is not None and chance:
                self.world.leave(process)

        @rule(slot=slots, times=st.integers(2, 4), polls=st.integers(1, 3), seed=seeds)
        def a_process_crashes_in_a_loop(self, slot: int, times: int, polls: int, seed: int) -> None:
            self.seed += seed
            for _ in range(times):
                if self.world.processes[slot] is None:
                    self.world.start(slot)
                for _ in range(polls):
                    for process in self.world.live():
                        self.world.round(process)
                    for _ in range(3):
                        self.world.advance(1.0)
                self.world.processes[slot] = None
                seen["crashed in a loop"] += 1

        @rule(chance=st.integers(0, 3))
        def somebody_deletes_the_blob(self, chance: int) -> None:
            if chance == 0:
                self.world.delete_blob()

        @rule(seed=seeds, chance=st.integers(0, 3))
        def a_process_dies(self, seed: int, chance: int) -> None:
            self.seed += seed
            working = [process for process in self.world.live() if process.running]
            leading = [process for process in self.world.live() if process.election.leads()]
            if not working or chance == 0:
                return
            process = leading[0] if chance < 3 and leading else working[self.draw(len(working))]
            seen["died leading"] += process.election.leads()
            seen["died running"] += bool(process.running)
            self.world.processes[self.world.processes.index(process)] = None

        def teardown(self) -> None:
            if self.world.sound:
                self.world.settle()
                self.world.crash_in_a_loop_while_all_is_calm()

    return Machine


def explore(timing: CoordinatorTiming, examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> Counter[str]:
    seen: Counter[str] = Counter()
    run_histories(machine(seen, timing), examples, 25, phases)
    assert seen["idle task seconds"] <= 0.05 * seen["task seconds"], f"tasks are idle: {dict(seen)}"
    return seen


EVENTS = (
    "begun",
    "stopped",
    "suspended",
    "suspended in a poll",
    "woke running",
    "started",
    "left",
    "died leading",
    "died running",
    "rejoined",
    "deleted",
    "stop refused",
    "crashed in a loop",
    "crashed in calm",
    "begun slowly",
    "listing failed",
    *REFUSALS,
    "LostAnswer",
    "TimeOut",
    "Unreachable",
    "LateEffect",
    "settled",
)


@pytest.mark.parametrize("barrier", [20.0, 1e9])
def test_tasks_are_run_by_one_and_all_run_in_the_end(barrier: float) -> None:
    assert explore(CoordinatorTiming(barrier=barrier), 40)["settled"] >= 20


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("barrier", [20.0, 1e9])
def test_tasks_are_run_by_one_in_many_histories(barrier: float) -> None:
    check_events(explore(CoordinatorTiming(barrier=barrier), 2000), EVENTS, 50)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_design_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = MISTAKES[name]
    mistake.make(monkeypatch)
    with pytest.raises(AssertionError, match=mistake.found):
        explore(CoordinatorTiming(barrier=mistake.barrier), 1000, (Phase.generate,))


def test_newcomers_that_get_tasks_at_once_leave_them_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    IDLE_MISTAKES["gives_newcomers_tasks_at_once"](monkeypatch)
    with pytest.raises(AssertionError, match="tasks are idle"):
        explore(CoordinatorTiming(barrier=20.0), 30, (Phase.generate,))


if __name__ == "__main__":
    found = explore(CoordinatorTiming(barrier=20), 150)
    print("\n".join(f"{found[event]:7,}  {event}" for event in EVENTS))  # noqa: T201
