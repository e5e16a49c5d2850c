"""Take-overs and rebalancing of real processes on Azurite, without Spark.

For each setting there are two jobs, each in a container of its own: in one the leader is killed in every round, in the
other another processor is killed, and one leaves in order. After that, a processor joins. All jobs run at the same
time, since they mostly wait. Times are those that the processes print, on the machine's monotonic clock.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure.storage.blob import ContainerClient

from benchmarks.report import Report
from coordination import CoordinatorTiming, LeaseTiming
from coordination.timing import JOB_LEASE
from demo.processor import arguments, task_names
from tools.azurite import running_azurite
from tools.reporting import Reporting, begun_twice, failures, is_shared, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tools.azurite import Azurite

PROCESSORS = 4
TASKS = task_names(12)
SLACK = 60.0
"""Seconds on top of every bound after which a job is taken for stuck."""


@dataclass(frozen=True)
class Setting:
    """A lease and its coordinator."""

    lease: LeaseTiming = JOB_LEASE
    timing: CoordinatorTiming = field(default_factory=CoordinatorTiming)

    @property
    def name(self) -> str:
        """Lease, heartbeat and death in seconds, for tables."""
        return f"{self.lease.duration} / {self.timing.heartbeat:.0f} / {self.timing.death:.0f}"


SHORTEST = Setting(
    LeaseTiming(duration=15, renew_every=3, poll_every=2, request=2, margin=3),
    CoordinatorTiming(heartbeat=1, death=10, margin=2, request=2, barrier=10),
)
"""The shortest lease that Azure gives."""

ROUNDS = ((SHORTEST, 3), (Setting(), 1))
"""The settings, and how many of their rounds are measured in one of the longest."""

LEADS, LEADER_S_TASKS = "leader killed: another one leads", "leader killed: its tasks have begun"
TASKS_BEGIN, LEFT, JOINED = "another killed: its tasks have begun", "leaves in order", "joins"


class SharedJob:
    """A job on the emulator, and the seconds that each event of it took."""

    def __init__(self, azurite: Azurite, container: str, setting: Setting, stack: ExitStack) -> None:
        self.stopping = threading.Event()
        self._azurite, self._container, self._setting, self._stack = azurite, container, setting, stack
        self._rng = random.Random()
        self.everybody: list[Reporting] = []
        self.live: list[Reporting] = []
        self.waited: defaultdict[str, list[float]] = defaultdict(list)
        self._limit = setting.lease.takeover + 2 * setting.timing.takeover + SLACK
        with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
            client.create_container()

    def start(self) -> Reporting:
        """Start a processor."""
        name = f"p{len(self.everybody)}"
        job = self._container  # of its own: the processor table of a job is the account's, not the container's
        given = arguments(
            self._container, name, job=job, tasks=len(TASKS), timing=self._setting.timing, lease=self._setting.lease
        )
        processor = Reporting(self._azurite.connection_string, name, "demo.processor", *given)
        self._stack.callback(processor.kill)
        self.everybody.append(processor)
        self.live.append(processor)
        return processor

    def kill(self, *, leader: bool) -> None:
        """SIGKILL to the leader or to another processor."""
        begin, tasks = self._remove(self._one(leader=leader), in_order=False)
        if leader:
            self._wait(lambda: _times(self.live, "leads", begin))
            self.waited[LEADS].append(min(_times(self.live, "leads", begin)) - begin)
        self._note(LEADER_S_TASKS if leader else TASKS_BEGIN, begin, tasks)

    def leave(self) -> None:
        """SIGTERM to a processor that does not lead."""
        self._note(LEFT, *self._remove(self._one(leader=False), in_order=True))

    def join(self) -> None:
        """One more processor."""
        joining = self.start()
        self._wait(lambda: joining.named("started"))
        (begin,) = _times([joining], "started", 0)
        self.settle()
        self.waited[JOINED].append(max(_times(self.live, "begin", begin)) - begin)

    def settle(self) -> None:
        """Wait until all processors run their share. `TimeoutError` with what they do, if that takes too long."""
        self._wait(lambda: is_shared(TASKS, self.live) and sum(each.leads for each in self.live) == 1)

    def _wait(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds. `TimeoutError` with what the processors do, if that takes too long."""
        try:
            wait_for(lambda: self.stopping.is_set() or condition(), self._limit)
        except TimeoutError as error:
            states = [(each.name, each.process.poll(), each.leads, each.running) for each in self.live]
            raise TimeoutError(f"{self._container}: {states}") from error
        if self.stopping.is_set():
            raise TimeoutError(f"{self._container}: another job has failed")

    def _one(self, *, leader: bool) -> Reporting:
        """A processor to be removed, at a random time of its heartbeats."""
        self.settle()
        time.sleep(self._rng.uniform(0, 2 * self._setting.timing.heartbeat))
        return self._rng.choice([processor for processor in self.live if processor.leads is leader])

    def _remove(self, victim: Reporting, *, in_order: bool) -> tuple[float, set[str]]:
        """When it was removed, and the tasks that it had."""
        self.live.remove(victim)
        begin, tasks = time.monotonic(), set(victim.running)
        if in_order:
            victim.end()
        else:
            victim.kill()
        return begin, tasks

    def _note(self, event: str, begin: float, tasks: set[str]) -> None:
        """Wait until these tasks have begun since, and note how long the last of them took."""
        self._wait(lambda: tasks <= _begun(self.live, begin).keys())
        begun = _begun(self.live, begin)
        self.waited[event].append(max(begun[task] for task in tasks) - begin)


def _times(processors: Iterable[Reporting], event: str, since: float) -> list[float]:
    """When an event happened."""
    return [each["at"] for processor in processors for each in processor.named(event) if each["at"] > since]


def _begun(processors: Iterable[Reporting], since: float) -> dict[str, float]:
    """When each task has first begun since."""
    times: dict[str, float] = {}
    for processor in processors:
        for event in processor.named("begin"):
            for task in event["tasks"]:
                if event["at"] > since:
                    times[task] = min(event["at"], times.get(task, event["at"]))
    return times


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - no flights
    """One table: the events of each setting."""
    with ExitStack() as stack:
        azurite = stack.enter_context(running_azurite())
        jobs = {
            (setting, of_leader): SharedJob(azurite, f"coordination-{uuid.uuid4().hex}", setting, stack)
            for setting, _ in ROUNDS
            for of_leader in (True, False)
        }
        pool = stack.enter_context(ThreadPoolExecutor(len(jobs)))
        rounds_of = dict(ROUNDS)
        ran = [
            pool.submit(_measure, job, rounds * rounds_of[setting], of_leader)
            for (setting, of_leader), job in jobs.items()
        ]
        try:
            for each in as_completed(ran):
                each.result()
        finally:
            for job in jobs.values():
                job.stopping.set()
    lines = [line for setting in rounds_of for line in _lines(setting, jobs[setting, True], jobs[setting, False])]
    note = (
        f"{PROCESSORS} processors and {len(TASKS)} tasks in each of {len(jobs)} jobs at the same time. "
        "Leaving: until its tasks have begun elsewhere; joining: until all have their share.\n"
        "Bounds: LeaseTiming.takeover, the sum, CoordinatorTiming.takeover."
    )
    return [Report("Seconds from an event, real processes on Azurite", lines, note)]


def _measure(job: SharedJob, rounds: int, of_leader: bool) -> None:
    for _ in range(PROCESSORS):
        job.start()
    for _ in range(rounds):
        job.kill(leader=of_leader)
        job.join()
        if not of_leader:
            job.leave()
            job.join()
    if begun_twice(job.everybody) or failures(job.everybody):
        raise AssertionError(f"begun twice: {begun_twice(job.everybody)}; failures: {failures(job.everybody)}")


def _lines(setting: Setting, of_leader: SharedJob, of_other: SharedJob) -> list[dict[str, str | float]]:
    lease, timing = setting.lease.takeover, setting.timing.takeover
    waited = {**of_leader.waited, **of_other.waited, JOINED: of_leader.waited[JOINED] + of_other.waited[JOINED]}
    bounds = {LEADS: lease, LEADER_S_TASKS: lease + timing, TASKS_BEGIN: timing}
    return [
        {
            "lease / heartbeat / death, s": setting.name,
            "event": event,
            "times": len(waited[event]),
            "median": statistics.median(waited[event]),
            "longest": max(waited[event]),
            "bound": bounds.get(event, ""),
        }
        for event in (LEADS, LEADER_S_TASKS, TASKS_BEGIN, LEFT, JOINED)
    ]
