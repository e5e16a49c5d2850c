"""Tasks that nobody runs although the barrier has ended: the leader sees them and assigns them again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import LateEffect, LostAnswer, TimeOut, on
from azure_account.values import Condition, Done
from coordination import metrics
from coordination.leadership.lease_document import from_json
from coordination.processors.coordinator_state import (
    BeginTasks,
    Confirm,
    Observation,
    ProcessorDeclaration,
    ProcessorRow,
    ProcessorState,
    Publish,
    StopTasks,
    after,
    step,
)
from coordination.processors.job_model import Assignment, BarrierState, JobModel, PublishedModel, to_content
from tests.coordination.processors.rounds import BLOB, TIMING, Job, Runs, turn_in_spite_of_errors
from tests.exported import exporting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.memory.faults import Fault, NumberedAttempt

TASKS = [f"t{number}" for number in range(6)]
MODEL = JobModel(7, ("a", "b"), {"t1": Assignment("a", 7), "t2": Assignment("b", 7)})
END = PublishedModel(MODEL, BarrierState.END)
OURS = ProcessorDeclaration(TIMING.death)


def observation(published: PublishedModel, *rows: ProcessorRow, begun: float, leads: bool = True) -> Observation:
    return Observation(1, published, rows, begun, False, leads, ("t1", "t2"))


def test_who_has_confirmed_and_lost_the_answer_confirms_again_and_begins() -> None:
    state = ProcessorState("b", running={"t9": 3}, confirmed=6)
    seen = observation(END, ProcessorRow("a", 7, 1, OURS), ProcessorRow("b", 7, 1, OURS), begun=0, leads=False)
    _, actions = step(state, seen, 1, TIMING)
    assert (StopTasks({"t9": 3}), Confirm(7), BeginTasks({"t2": 7})) == actions


@pytest.mark.parametrize("fault", [LostAnswer(), LateEffect(2)])
def test_a_confirmation_whose_answer_is_lost_leaves_no_task_without_its_processor(fault: Fault) -> None:
    """The retries are exhausted, so the processor does not know; but the leader sees the row, and ends the barrier."""
    for skip in range(12):
        job = Job(TASKS)
        one = job.join("one")
        job.settle(9)
        two = job.join("two", on("replace_entity", fault, skip=skip, times=2))
        for _ in range(12):
            for member in (one, one, one, two):  # the leader is the faster one
                turn_in_spite_of_errors(member)
            job.clock.advance(TIMING.heartbeat)
        assert job.shared(), skip
        assert two.running


def test_a_processor_that_rejoins_while_the_model_is_in_effect_gets_tasks_again() -> None:
    job = Job(TASKS)
    one, two = job.join("one"), job.join("two")
    job.settle(9)
    before = two.id
    for _ in range(5):
        job.round([one])
    two.participant.expire()
    assert not two.running, "its heartbeat is overdue"
    job.settle(10)
    assert before != two.id
    assert 3 == len(two.running)


def test_tasks_that_come_and_go_are_assigned_and_stopped() -> None:
    job = Job(TASKS)
    one, two = job.join("one"), job.join("two")
    job.settle(9)
    epochs = {**one.running, **two.running}
    job.tasks = [*TASKS, "t6", "t7"]
    job.settle(9)
    running = {**one.running, **two.running}
    assert epochs.items() <= running.items(), "the others run on"
    job.tasks = ["t0", "t7"]
    job.settle(9)
    assert running["t0"] == {**one.running, **two.running}["t0"]
    job.tasks = []
    job.settle(9)
    assert ({}, {}) == (one.running, two.running)


def test_a_task_of_a_processor_that_the_model_does_not_have_is_assigned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(TASKS)
    one, two = job.join("one"), job.join("two")
    job.settle(9)
    published = job.model()
    tasks = {**published.current.tasks, "t0": Assignment("nobody", published.current.version)}
    overwrite(job, replace(published, current=replace(published.current, tasks=tasks)))
    job.leader.election.resign()  # a leader does not read what it has written: the next one does
    with exporting(monkeypatch, metrics.METERS) as exported:
        job.settle(12)
        assert 1 <= exported.of("tasksReassigned", processor="one") + exported.of("tasksReassigned", processor="two")
    assert 6 == len({**one.running, **two.running})


def test_rows_deleted_by_hand_come_back_and_their_tasks_too() -> None:
    job = Job(TASKS)
    job.join("one")
    job.join("two")
    job.settle(9)
    for row in job.table.rows():
        job.table.delete(row)
    assert () == job.table.rows()
    for _ in range(10):
        job.round()
    assert {each.id for each in job.members} == {row.processor for row in job.table.rows()}
    assert job.shared()


def test_a_member_without_a_row_of_the_version_in_effect_loses_its_tasks_after_the_time_of_a_barrier() -> None:
    """It counts up, so it is alive, but under an older version."""
    state, now = ProcessorState("a", running={"t1": 7}, confirmed=7), 0.0
    published: list[Publish] = []
    while not published:
        seen = observation(END, ProcessorRow("a", 7, int(now), OURS), ProcessorRow("b", 6, int(now), OURS), begun=now)
        state, actions = step(state, seen, now, TIMING)
        published = [action for action in actions if isinstance(action, Publish)]
        if not published:
            assert () == actions, "the row of a living processor stays"
            now += TIMING.heartbeat
    assert TIMING.barrier == now
    (publish,) = published
    assert (1, 8, BarrierState.START) == (publish.orphans, publish.published.current.version, publish.published.barrier)


def test_two_barriers_that_time_out_in_a_row_end() -> None:
    """A member counts up, but does not confirm that it has stopped its tasks."""
    job = Job(TASKS)
    job.join("one")
    job.join("two")
    three = job.join("three")
    job.settle(12)
    before = dict(three.running)
    row = next(row for row in job.table.rows() if row.processor == three.id)
    job.members.remove(three)
    job.join("four")
    job.join("five")
    opened = job.clock.monotonic()
    while not before.keys() <= {task for member in job.members for task in member.running}:
        row = replace(row, counter=row.counter + 1)
        job.table.put(row, leads=False)
        job.round()
        assert job.clock.monotonic() - opened <= 3 * TIMING.barrier
    assert job.clock.monotonic() - opened >= 2 * TIMING.barrier
    assert max(before.values()) + 1 == job.model().timed_out, "the second barrier ends without it"
    job.settle(3)
    assert all(job.model().current.tasks[task].epoch > epoch for task, epoch in before.items()), "it is fenced"


def test_a_member_that_stands_by_without_a_row_is_no_reason_for_a_new_model() -> None:
    model = replace(MODEL, tasks={"t1": Assignment("a", 7), "t2": Assignment("a", 7)})
    state, now = ProcessorState("a", running=model.of("a"), confirmed=7), 0.0
    for _ in range(20):
        rows = (ProcessorRow("a", 7, int(now), OURS), ProcessorRow("b", 6, int(now), OURS))
        state, actions = step(state, observation(replace(END, current=model), *rows, begun=now), now, TIMING)
        assert not actions
        now += TIMING.heartbeat


def test_a_leader_whose_queries_get_no_answer_leaves_the_lead_and_runs_its_tasks_on() -> None:
    job = Job(TASKS)
    one = job.join("one", on("query_entities", TimeOut(), skip=6, times=20))
    two = job.join("two")
    for _ in range(30):
        for member in job.members:
            turn_in_spite_of_errors(member)
        job.clock.advance(TIMING.heartbeat)
    assert two.election.leads()
    assert "one-1" == one.id
    assert job.shared()


def test_a_listener_that_is_too_slow_loses_its_tasks_to_those_that_are_not() -> None:
    job = Job(TASKS)

    class Slow(Runs):
        def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
            for _ in range(12):
                job.round([one])
            super().on_new_job_model(tasks)

    one = job.join("one")
    job.settle(9)
    two = job.join("two", listener=Slow())
    job.round()
    job.round()
    job.round()
    job.round()
    assert not two.running, "its heartbeat was overdue when the listener returned"
    assert set(TASKS) == one.running.keys()


def test_after_is_the_state_in_which_the_same_step_does_nothing() -> None:
    state = ProcessorState("b", running={"t9": 3}, confirmed=6)
    seen = observation(END, ProcessorRow("a", 7, 1, OURS), ProcessorRow("b", 7, 1, OURS), begun=0, leads=False)
    state, actions = step(state, seen, 1, TIMING)
    for action in actions:
        state = after(state, action)
    assert () == step(state, seen, 1, TIMING)[1]


def overwrite(job: Job, published: PublishedModel) -> None:
    """Change the model by hand, under the lease of the leader."""
    container = job.account.container("box")
    found = container.get(BLOB)
    document = replace(from_json(found.data, BLOB), content=to_content(published))
    condition = Condition(if_match=found.properties.etag)
    term = job.leader.election.term
    assert term is not None
    assert isinstance(container.put(BLOB, document.to_json(), condition=condition, lease_id=term.lease_id), Done)


def test_a_processor_suspended_in_a_poll_until_it_is_dead_does_not_come_back_to_life_with_its_tasks() -> None:
    """It confirms, is suspended in that request, and wakes: its heartbeat must not make it run on what it has lost."""
    job = Job(TASKS)
    one = job.join("one")
    job.settle(9)

    def suspend(attempt: NumberedAttempt) -> Fault | None:
        confirms = attempt.operation == "replace_entity" and not attempt.name.startswith(f"{version}/")
        if version is not None and confirms and not suspended:
            suspended.append(attempt.name)
            for _ in range(12):
                job.round([one])
            assert set(TASKS) == one.running.keys()
        return None

    suspended: list[str] = []
    version: int | None = None
    two = job.join("two", suspend)
    job.join("three")
    job.settle(9)
    version = job.model().current.version
    job.members.pop()  # `three` dies; `two` gets more tasks, for which it confirms the next version
    for _ in range(12):
        if not suspended:
            job.round()
    assert [f"{version + 1}/{two.id}"] == suspended
    assert two.participant.overdue or not two.running
