"""Coordinators in threads: tasks are shared, taken over, and given back."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from coordination.names import names_of
from coordination.processors.coordinator import JobCoordinator
from coordination.processors.processor_table import ProcessorTable
from coordination.timing import CoordinatorTiming, LeaseTiming
from foundation.errors import ConfigurationError, NotFoundError
from tools import reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LEASE = LeaseTiming(duration=15, renew_every=0.05, poll_every=0.05, request=0.1, margin=14.5)
TIMING = CoordinatorTiming(heartbeat=0.05, death=1.5, margin=0.5, request=0.1, barrier=5)
TASKS = [f"t{number}" for number in range(6)]


class Listener:
    """Notes which tasks it runs, and fails on request."""

    slow_stop = 0.0
    """Seconds that it takes to stop tasks."""

    def __init__(self) -> None:
        self.may_stop = threading.Event()
        """Until it is set, tasks do not stop."""
        self.may_stop.set()
        self.running: dict[str, int] = {}
        self.stopped = False
        self.failure: Exception | None = None
        self.refuses: Exception | None = None

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.running |= tasks

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        time.sleep(self.slow_stop)
        self.may_stop.wait()
        for task in tasks:
            self.running.pop(task, None)

    def on_coordinator_stop(self) -> None:
        self.stopped = True

    def on_coordinator_failure(self, error: Exception) -> None:
        self.failure = error


def start(
    started: list[JobCoordinator],
    account: MemoryAccount,
    listener: Listener,
    name: str,
    tasks: Sequence[str] | Callable[[], Sequence[str]] = TASKS,
) -> JobCoordinator:
    coordinator = JobCoordinator(
        Location.in_account(account, "box/flights"),
        tasks=tasks,
        listener=listener,
        processor=name,
        timing=TIMING,
        lease=LEASE,
    )
    started.append(coordinator)
    coordinator.start()
    return coordinator


wait_for = partial(reporting.wait_for, seconds=60, poll=0.01)


def shared(*listeners: Listener) -> bool:
    """Whether all tasks run, each once, and evenly."""
    running = sorted(task for listener in listeners for task in listener.running)
    counts = [len(listener.running) for listener in listeners]
    return running == TASKS and max(counts) - min(counts) <= 1


def test_tasks_are_shared_by_those_who_join_and_given_back_by_those_who_leave(
    account: MemoryAccount, started: list[JobCoordinator]
) -> None:
    one, two, three = Listener(), Listener(), Listener()
    first = start(started, account, one, "one")
    wait_for(lambda: shared(one))
    before = dict(one.running)
    start(started, account, two, "two")
    start(started, account, three, "three")
    wait_for(lambda: shared(one, two, three))
    assert one.running.items() <= before.items(), "what stays runs on in its epoch"
    assert all(epoch > before[task] for other in (two, three) for task, epoch in other.running.items())

    first.stop()
    assert (True, {}) == (one.stopped, one.running)
    wait_for(lambda: shared(two, three))


def test_more_processors_than_tasks_stand_by(account: MemoryAccount, started: list[JobCoordinator]) -> None:
    listeners = [Listener() for _ in range(len(TASKS) + 2)]
    for number, listener in enumerate(listeners):
        start(started, account, listener, f"p{number}")
    wait_for(lambda: shared(*listeners))
    assert [0, 0, *[1] * len(TASKS)] == sorted(len(listener.running) for listener in listeners)


def test_a_listener_that_fails_gives_its_tasks_to_the_others(
    account: MemoryAccount, started: list[JobCoordinator]
) -> None:
    one, bad = Listener(), Listener()
    start(started, account, one, "one")
    wait_for(lambda: shared(one))
    bad.refuses = ValueError("no such stream")
    start(started, account, bad, "bad")
    wait_for(lambda: bad.failure is not None)
    assert "no such stream" == str(bad.failure)
    wait_for(lambda: shared(one))


def test_a_permission_that_is_missing_stops_the_coordinator_with_the_cause(
    account: MemoryAccount, started: list[JobCoordinator]
) -> None:
    with pytest.raises(ConfigurationError, match="AuthorizationPermissionMismatch"):
        start(started, account.restarted(FaultInjector(on("create_table", Refuse()))), Listener(), "one")
    started.clear()
    listener = Listener()
    start(started, account.restarted(FaultInjector(on("acquire_lease", Refuse(), times=1000))), listener, "two")
    wait_for(lambda: listener.failure is not None)
    assert "AuthorizationPermissionMismatch" in str(listener.failure)


def test_stop_waits_for_the_end_of_a_coordinator_that_is_failing(
    account: MemoryAccount, started: list[JobCoordinator]
) -> None:
    listener = Listener()
    coordinator = start(started, account, listener, "p1")
    wait_for(lambda: len(listener.running) == 6)
    listener.slow_stop = 0.5
    account.service.tables._tables.clear()  # the next poll fails for good
    wait_for(coordinator._stopping.is_set)
    coordinator.stop()

    assert {} == listener.running
    assert isinstance(listener.failure, NotFoundError)


def test_stop_from_within_the_listener_does_nothing(account: MemoryAccount, started: list[JobCoordinator]) -> None:
    class Stops(Listener):
        def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
            started[0].stop()
            super().on_new_job_model(tasks)

    listener = Stops()
    start(started, account, listener, "p1")
    wait_for(lambda: len(listener.running) == 6)
    assert not listener.stopped


def test_a_function_of_tasks_that_hangs_is_named_and_keeps_nobody_from_taking_over_or_stopping(
    account: MemoryAccount, started: list[JobCoordinator], caplog: pytest.LogCaptureFixture
) -> None:
    one, two, hangs, may_go_on = Listener(), Listener(), threading.Event(), threading.Event()

    def listed() -> list[str]:
        if hangs.is_set():
            may_go_on.wait(300)
        return TASKS

    first = start(started, account, one, "one", tasks=listed)
    wait_for(lambda: shared(one))
    hangs.set()
    try:
        wait_for(lambda: "processor one-" in caplog.text and "waits for the function of tasks, since" in caplog.text)
        second = start(started, account, two, "two")
        wait_for(lambda: shared(one, two))
        assert first.leads()
        second.stop()
        wait_for(lambda: shared(one))
        first.stop()
        assert one.stopped
    finally:
        may_go_on.set()


def test_stop_returns_although_the_listener_hangs_and_says_so(
    account: MemoryAccount, started: list[JobCoordinator], caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    coordinator = start(started, account, listener, "one")
    wait_for(lambda: shared(listener))
    listener.may_stop.clear()
    try:
        coordinator.stop(within=0.3)
        assert isinstance(listener.failure, TimeoutError)
        assert "has not returned for" in caplog.text
        assert "has not returned for" in str(listener.failure)
        assert not listener.stopped
        rows = account.table(names_of("box", "flights").processors).query()
        assert 1 == len(list(rows)), "the others wait until it is dead"
    finally:
        listener.may_stop.set()


def test_a_listener_that_hangs_is_named_in_the_log_and_in_the_row_of_its_processor(
    account: MemoryAccount, started: list[JobCoordinator], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Listener(), Listener()
    start(started, account, one, "one")
    wait_for(lambda: shared(one))
    one.may_stop.clear()
    try:
        start(started, account, two, "two")
        wait_for(lambda: "waits for its listener to stop t" in caplog.text)
        table = ProcessorTable(account.table(names_of("box", "flights").processors))
        wait_for(lambda: any("its listener to stop t" in row.stated.waits for row in table.rows()))
    finally:
        one.may_stop.set()
    wait_for(lambda: "for its listener to stop t" in caplog.text and "it goes on" in caplog.text)
    wait_for(lambda: shared(one, two))


def test_a_leader_whose_listener_hangs_leaves_the_lead_and_its_tasks_to_others(
    account: MemoryAccount, started: list[JobCoordinator]
) -> None:
    hangs, other = Listener(), Listener()
    first = start(started, account, hangs, "hangs")
    wait_for(lambda: len(hangs.running) == 6)
    assert first.leads()
    hangs.may_stop.clear()
    try:
        second = start(started, account, other, "other")
        wait_for(lambda: len(other.running) == 6)
        assert second.leads()
    finally:
        hangs.may_stop.set()
