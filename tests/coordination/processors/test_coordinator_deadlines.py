"""What holds at a deadline: who acts no more, who is left out, and in which order a processor ends."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from coordination.checkpoints import CheckpointStore
from coordination.leadership.lease import Lease, Term
from coordination.leadership.lease_document import LeaseDocument
from coordination.names import names_of
from coordination.processors.coordinator import JobCoordinator
from coordination.processors.coordinator_state import (
    BeginTasks,
    Observation,
    ProcessorDeclaration,
    ProcessorRow,
    ProcessorState,
    Publish,
    WatchedBarrier,
    step,
)
from coordination.processors.job_model import Assignment, BarrierState, JobModel, PublishedModel
from coordination.processors.liveness import CounterObservation, FailureDetector
from coordination.timing import LeaseTiming
from foundation.errors import FencedError
from tests.coordination.leadership.electing import leased
from tests.coordination.processors.rounds import TIMING, Job
from tests.coordination.processors.test_coordinator import LEASE, Listener, start, wait_for
from tests.coordination.processors.test_coordinator import TIMING as QUICK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.memory.faults import NumberedAttempt
    from foundation.clock import ManualClock

SEVEN = JobModel(7, ("a", "b"), {"t1": Assignment("a", 7), "t2": Assignment("b", 7)})
EIGHT = JobModel(8, ("a", "b", "c"), {"t1": Assignment("a", 7), "t2": Assignment("c", 8)})
MOVING = PublishedModel(EIGHT, BarrierState.START, SEVEN)
OURS = ProcessorDeclaration(death=TIMING.death)


def seen(published: PublishedModel, *rows: ProcessorRow, begun: float) -> Observation:
    return Observation(1, published, rows, begun, False, True, ("t1", "t2"))


def test_a_processor_is_judged_by_the_time_before_its_row_was_read() -> None:
    """The leader was suspended after it had read the rows: the others may have counted up since."""
    watched = {"a": CounterObservation(1, 0), "b": CounterObservation(1, 0)}
    state = ProcessorState("a", FailureDetector(watched), SEVEN.of("a"), 7)
    rows = (ProcessorRow("a", 7, 1, OURS), ProcessorRow("b", 7, 1, OURS))
    after, _ = step(state, seen(PublishedModel(SEVEN, BarrierState.END), *rows, begun=13.9), 40, TIMING)
    assert {"a", "b"} == after.alive
    after, _ = step(state, seen(PublishedModel(SEVEN, BarrierState.END), *rows, begun=14.0), 40, TIMING)
    assert {"a"} == after.alive


def test_who_is_too_late_at_a_barrier_is_left_out_of_the_next_model() -> None:
    watched = {name: CounterObservation(1, 59, 2) for name in "abc"}
    state = ProcessorState(
        "a", FailureDetector(watched), {"t1": 7}, 8, watched=WatchedBarrier(8, BarrierState.START, 0)
    )
    rows = (ProcessorRow("a", 8, 1, OURS), ProcessorRow("b", 7, 1, OURS), ProcessorRow("c", 8, 1, OURS))
    _, actions = step(state, seen(MOVING, *rows, begun=TIMING.barrier), TIMING.barrier, TIMING)
    (publish,) = actions
    assert isinstance(publish, Publish)
    assert (("a", "c"), 8) == (publish.published.current.processors, publish.published.timed_out)
    assert "b" in publish.published.losing, "its tasks begin elsewhere when it is dead, or after another barrier"


def test_a_barrier_waits_only_for_processors_that_lose_tasks() -> None:
    watched = {name: CounterObservation(1, 0, 2) for name in "abc"}
    state = ProcessorState(
        "a", FailureDetector(watched), {"t1": 7}, 8, watched=WatchedBarrier(8, BarrierState.START, 0)
    )
    rows = {
        "a": ProcessorRow("a", 8, 1, OURS),
        "b": ProcessorRow("b", 8, 1, OURS),
        "c": ProcessorRow("c", None, 1, OURS),
    }
    _, actions = step(state, seen(MOVING, *rows.values(), begun=1), 1, TIMING)
    assert (Publish(PublishedModel(EIGHT, BarrierState.END, SEVEN)),) == actions
    rows["b"] = ProcessorRow("b", 7, 1, OURS)
    assert () == step(state, seen(MOVING, *rows.values(), begun=1), 1, TIMING)[1]


def test_a_newcomer_gets_tasks_when_its_counter_has_risen_twice() -> None:
    state, counts = ProcessorState("a", running=SEVEN.of("a"), confirmed=7), list[int]()
    model = PublishedModel(JobModel(7, ("a",), {"t1": Assignment("a", 7), "t2": Assignment("a", 7)}), BarrierState.END)
    state = ProcessorState("a", running=model.current.of("a"), confirmed=7)
    for number in range(4):
        rows = (ProcessorRow("a", 7, 1, OURS), ProcessorRow("c", None, number, OURS))
        state, actions = step(state, seen(model, *rows, begun=3 * number), 3 * number, TIMING)
        counts.append(len(actions))
    assert [0, 0, 1, 1] == counts


@pytest.mark.parametrize(("stated", "dead_after"), [(1, 14), (20, 20), (math.inf, 60)])
def test_a_processor_is_dead_after_the_time_that_it_states_but_not_later_than_a_barrier(
    stated: float, dead_after: float
) -> None:
    watched = FailureDetector({"a": CounterObservation(1, 0), "b": CounterObservation(1, 0)})
    state = ProcessorState("a", watched, SEVEN.of("a"), 7)
    rows = (ProcessorRow("a", 7, 1, OURS), ProcessorRow("b", 7, 1, ProcessorDeclaration(stated)))
    for now, alive in ((dead_after - 0.1, {"a", "b"}), (dead_after, {"a"})):
        after, _ = step(state, seen(PublishedModel(SEVEN, BarrierState.END), *rows, begun=now), now, TIMING)
        assert alive == after.alive


def test_a_processor_stops_its_tasks_a_margin_before_the_others_begin_them() -> None:
    job = Job(["t1", "t2"])
    job.join("one")
    two = job.join("two")
    job.settle(12)
    job.clock.advance(TIMING.death - TIMING.margin - TIMING.heartbeat - 0.1)
    two.participant.expire()
    assert two.running
    job.clock.advance(0.2)
    two.participant.expire()
    assert not two.running


def test_a_processor_that_is_overdue_begins_no_task() -> None:
    job = Job(["t1", "t2"])
    job.join("one")
    two = job.join("two")
    job.settle(12)
    job.clock.advance(TIMING.death)
    two.participant._act([BeginTasks({"t9": 9})], "")
    assert "t9" not in two.running


def test_the_deadline_of_a_lease_is_counted_from_before_each_request() -> None:
    account = MemoryAccount()
    clock: ManualClock = account.clock  # type: ignore[assignment]
    account.container("box").create()

    def slow(attempt: NumberedAttempt) -> None:
        clock.advance(4 if attempt.operation.endswith("lease") else 0)

    container = account.restarted(FaultInjector(slow)).container("box")
    container.put("blob", LeaseDocument(0).to_json())
    timing, lease_id = LeaseTiming(), "50000000-0000-0000-0000-000000000001"
    lease = Lease(container, "blob", "one", timing, clock=clock, new_id=lambda: lease_id)
    begin = clock.monotonic()
    term = lease.acquire()
    assert isinstance(term, Term)
    assert begin + timing.duration - timing.margin == term.deadline
    begin = clock.monotonic()
    renewed = lease.renew(term)
    assert isinstance(renewed, Term)
    assert begin + timing.duration - timing.margin == renewed.deadline


def test_the_lease_is_released_after_the_tasks_have_stopped(
    account: MemoryAccount, started: list[JobCoordinator]
) -> None:
    held: list[bool] = []

    class Watching(Listener):
        def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
            held.append(leased(account, names_of("box", "flights").blob))
            super().on_job_model_expired(tasks)

    listener = Watching()
    coordinator = start(started, account, listener, "one")
    wait_for(lambda: len(listener.running) == 6)
    coordinator.stop()
    assert ([True], False) == (held, leased(account, names_of("box", "flights").blob))


def test_the_tasks_stop_in_time_although_every_request_hangs(
    account: MemoryAccount, started: list[JobCoordinator]
) -> None:
    hangs, answers = threading.Event(), threading.Event()

    def hang(_: NumberedAttempt) -> None:
        if hangs.is_set():
            answers.wait(30)

    listener = Listener()
    start(started, account.restarted(FaultInjector(hang)), listener, "one")
    wait_for(lambda: len(listener.running) == 6)
    try:
        hangs.set()
        wait_for(lambda: not listener.running)
        assert not answers.is_set()
    finally:
        answers.set()
    assert QUICK.overdue_after < 30


def test_a_processor_with_another_list_of_tasks_is_named_once(
    account: MemoryAccount, started: list[JobCoordinator], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Listener(), Listener()
    first = start(started, account, one, "one")
    wait_for(lambda: len(one.running) == 6)
    second = JobCoordinator(
        Location.in_account(account, "box/flights"),
        tasks=["t0"],
        listener=two,
        processor="two",
        timing=QUICK,
        lease=LEASE,
    )
    started.append(second)
    second.start()
    wait_for(lambda: len(two.running) == 3)
    said = [each.getMessage() for each in caplog.records if "list of tasks" in each.getMessage()]
    assert 1 == len(said)
    assert f"the list of tasks of {second.processor} is not that of {first.processor}, which leads" in said[0]
    assert "Give all processors of the job the same list." in said[0]


def test_an_election_whose_lease_is_lost_while_heartbeats_are_overdue_pauses_between_its_steps() -> None:
    job = Job(["t1", "t2"])
    one = job.join("one")
    job.settle(9)
    job.clock.advance(60)
    for _ in range(5):
        one.participant.elect()
        assert one.participant.seconds_to("elect") >= TIMING.quick / 2
    assert one.election.term is None


def test_a_checkpoint_is_not_written_over_that_of_a_process_that_took_over_meanwhile() -> None:
    account, armed = MemoryAccount(), False
    account.table("offsets").create()
    other = CheckpointStore(account.table("offsets"))

    def take_over(attempt: NumberedAttempt) -> None:
        nonlocal armed
        if armed and attempt.operation == "replace_entity":
            armed = False
            other.begin("daily", 8)

    store = CheckpointStore(account.restarted(FaultInjector(take_over)).table("offsets"))
    store.begin("daily", 7)
    store.write("daily", 7, {"flights": "1"})
    armed = True
    with pytest.raises(FencedError, match="epoch 8 has taken it over from epoch 7"):
        store.write("daily", 7, {"flights": "2"})
    assert {"flights": "1"} == other.read("daily").offsets
