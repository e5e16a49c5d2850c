"""What kept a job from going on for ever: a leader that cannot act must not keep the lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import Unreachable
from tests.coordination.processors import virtual_job
from tests.coordination.processors.rounds import LEASE, TIMING, Job, turn_in_spite_of_errors

if TYPE_CHECKING:
    from azure_account.memory.faults import NumberedAttempt

TASKS = [f"t{number}" for number in range(6)]


def test_a_leader_that_cannot_reach_the_table_leaves_the_lead_to_another_process() -> None:
    job, cut_off = Job(TASKS), False

    def table(attempt: NumberedAttempt) -> Unreachable | None:
        return Unreachable() if cut_off and attempt.operation.endswith(("entity", "entities")) else None

    first, second = job.join("first", table), job.join("second")
    job.settle(9)
    assert first.election.leads()

    cut_off = True
    rounds = int((TIMING.takeover + LEASE.takeover) / TIMING.heartbeat)
    for _ in range(rounds):
        turn_in_spite_of_errors(first)
        job.round([second])
    assert {} == first.running
    assert set(TASKS) == set(second.running)
    assert second.election.leads()

    cut_off = False
    job.settle(12)
    assert 3 == len(first.running)


def test_a_processor_that_joins_again_says_so(caplog: pytest.LogCaptureFixture) -> None:
    job = Job(TASKS)
    one, two = job.join("one"), job.join("two")
    job.settle(9)
    for _ in range(int(TIMING.death / TIMING.heartbeat) + 1):
        job.round([one])
    job.settle(12)
    assert "processor two-" in caplog.text
    assert "has not confirmed its heartbeat for" in caplog.text
    assert 3 == len(two.running)


def test_processors_that_start_together_get_their_shares_at_once() -> None:
    job = Job(TASKS)
    members = [job.join(f"m{number}") for number in range(3)]
    job.settle(9)
    assert {2} == {len(member.running) for member in members}
    assert job.model().previous is None


def test_a_processor_that_gets_no_place_since_somebody_has_leased_the_blob_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job, stranger = virtual_job.Job(("a", "b")), "00000000-0000-0000-0000-00000000000f"
    container, blob = job.account.container(virtual_job.CONTAINER), virtual_job.NAMES.blob
    job.join(2)
    job.schedule.run(job.is_shared)
    job.schedule.run_for(600)
    dead = job.live
    job.join()
    job.kill(dead)
    container.break_lease(blob)
    container.acquire_lease(blob, stranger, 60)
    for seconds in range(10, 250, 10):
        job.schedule.run_for(10)
        container.renew_lease(blob, stranger)
        assert ("has had no place in" in caplog.text) is (seconds > 180)
    container.break_lease(blob)
    job.schedule.run(job.is_shared, 60)
