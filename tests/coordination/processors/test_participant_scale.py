"""A hundred processors share a thousand tasks: in how many polls, and with how many requests."""

from __future__ import annotations

import time
from collections import Counter

from tests.coordination.processors.rounds import TIMING, Job, Member

TASKS = [f"task {number:04}" for number in range(1000)]
DEATH_POLLS = int(TIMING.death / TIMING.heartbeat)
IN_A_POLL = {
    "acquire_lease": 1,
    "renew_lease": 1,
    "get": 1,
    "query_entities": 1,
    "replace_entity": 2,  # a confirmation and the heartbeat
    "delete_entity": 1,  # the row of the version before
}
"""The most requests of each kind that a processor makes from one poll to the next, with its step in the election."""
OF_THE_LEADER = {"acquire_lease": 2, "get": 2, "put": 3}
"""More of it: it creates the blob, raises the epoch, and publishes a model."""


def counted_round(job: Job, forgotten: Counter[str]) -> None:
    """A round, in which nobody makes more requests than the bound. `forgotten` counts what the leader deletes."""
    before = {id(member): member.faults.count for member in job.members}
    job.round()
    for member in job.members:
        counts = Counter(attempt.operation for attempt in member.faults.attempts[before[id(member)] :])
        if member.election.leads():
            forgotten["rows"] += counts["delete_entity"]
            counts["delete_entity"] = min(1, counts["delete_entity"])
        bound = {**IN_A_POLL, **(OF_THE_LEADER if member.election.leads() else {})}
        assert counts <= Counter(bound), f"{member.id}: {dict(counts)}"


def polls_until_all_tasks_run(job: Job, most: int, forgotten: Counter[str]) -> int:
    for number in range(1, most + 1):
        counted_round(job, forgotten)
        if job.shared():
            return number
    raise AssertionError(f"not all tasks run after {most} polls")


def joined(job: Job, names: range) -> list[Member]:
    return [job.join(f"p{number}") for number in names]


def test_a_hundred_processors_share_a_thousand_tasks_also_when_thirty_die_and_fifty_join() -> None:
    job, forgotten = Job(TASKS), Counter[str]()
    joined(job, range(100))
    assert polls_until_all_tasks_run(job, 8, forgotten) <= 8
    assert {10} == {len(member.running) for member in job.members}

    before = {task: epoch for member in job.members for task, epoch in member.running.items()}
    leader = job.leader
    job.members = [leader, *[member for member in job.members if member is not leader][:69]]
    kept = {task: epoch for member in job.members for task, epoch in member.running.items()}
    assert polls_until_all_tasks_run(job, DEATH_POLLS + 5, forgotten) <= DEATH_POLLS + 5
    running = {task: epoch for member in job.members for task, epoch in member.running.items()}
    assert kept.items() <= running.items(), "nothing that has a living processor has moved"
    assert 300 == sum(running[task] > epoch for task, epoch in before.items())
    counted_round(job, forgotten)
    assert 30 <= forgotten["rows"], "the rows of the dead are deleted, once"
    counted_round(job, forgotten)
    assert len(job.members) == len(job.table.rows())

    joined(job, range(100, 150))
    assert polls_until_all_tasks_run(job, 6, forgotten) <= 6
    assert {8, 9} == {len(member.running) for member in job.members}


def test_a_poll_among_a_hundred_processors_makes_three_requests_and_little_work() -> None:
    job = Job(TASKS)
    joined(job, range(100))
    while not job.shared():
        job.round()
    job.round()
    before = [member.faults.count for member in job.members]
    begin = time.process_time()
    job.round()
    seconds = (time.process_time() - begin) / len(job.members)
    made = [member.faults.count - count for member, count in zip(job.members, before, strict=True)]
    assert 4 >= max(made), "blob, rows, heartbeat, and one of the election"
    print(f"a poll with 100 rows and 1,000 tasks: {1000 * seconds:.1f} ms of processor time")  # noqa: T201
    assert seconds < TIMING.heartbeat / 20
