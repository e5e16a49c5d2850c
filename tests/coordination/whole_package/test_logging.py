"""What a leader and the processors of a job log at INFO."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.coordination.leadership.electing import Recorder, elector, wait_for
from tests.coordination.processors.test_coordinator import TASKS, Listener, shared, start

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount
    from coordination.leadership.leader import LeaderElector
    from coordination.processors.coordinator import JobCoordinator


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "coordination")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged; a time is `T`."""
    return [f"{each.levelname} {re.sub(r'[0-9.]+ s', 'T s', each.getMessage())}" for each in caplog.records]


def test_a_term_that_begins_and_one_that_is_resigned_are_one_line_each(
    account: MemoryAccount, caplog: pytest.LogCaptureFixture
) -> None:
    electors: list[LeaderElector] = []
    listener = Recorder()
    leader = elector(electors, account, listener)
    wait_for(leader.leads)
    wait_for(lambda: listener.calls)
    leader.stop()
    begins, ends = lines(caplog)
    assert re.fullmatch(r"INFO epoch \d+ of box/jobs/flights begins: this process leads", begins)
    assert begins.split()[2] == ends.split()[2]
    assert ends.endswith("ends: it resigned")
    assert ends.startswith("INFO")


def test_a_job_logs_its_leader_its_tasks_and_its_barriers(
    account: MemoryAccount, started: list[JobCoordinator], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Listener(), Listener()
    first = start(started, account, one, "one")
    wait_for(lambda: shared(one))
    start(started, account, two, "two")
    wait_for(lambda: shared(one, two))
    first.stop()
    wait_for(lambda: len(two.running) == len(TASKS))
    found = lines(caplog)
    for expected in (
        r"box/\S+: one-\w+ leads, in epoch \d+",
        r"box/\S+: version \d+ gives 6 tasks to 1 processors; its barrier waits for one-\w+",
        r"box/\S+: the barrier of version \d+ ends after T s",
        r"6 tasks begun in T s: t0, t1, t2, t3, t4, t5",
        r"box/\S+: version \d+ gives 6 tasks to 2 processors; its barrier waits for one-\w+",
        r"3 tasks stopped in T s: t\d, t\d, t\d",
        r"box/\S+: one-\w+ does not lead any more, epoch \d+ ends: it resigned",
        r"box/\S+: two-\w+ leads, in epoch \d+",
    ):
        assert 1 <= sum(bool(re.fullmatch(f"INFO {expected}", line)) for line in found), (expected, found)
