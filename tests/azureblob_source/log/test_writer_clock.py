from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.writer_clock import MOST_SECONDS, clock_warning, seconds_ahead
from azureblob_source.maintenance.drafts import new_draft
from foundation.clock import SYSTEM_CLOCK, ManualClock

if TYPE_CHECKING:
    from tools.azurite import Azurite


@pytest.mark.parametrize(
    ("asked", "answered", "service", "ahead"),
    [
        (100, 101, 100, 0),
        (100, 101, 40, 0),
        (100, 101, 39, 61),
        (100, 101, 161, 0),
        (100, 101, 162, -61),
        (100, 500, 100, 0),
        (100, 500, 500, 0),
        (100, 500, 561, -61),
    ],
)
def test_a_slow_answer_does_not_make_two_clocks_differ(
    asked: float, answered: float, service: float, ahead: float
) -> None:
    assert ahead == seconds_ahead(asked, answered, service)


def test_a_warning_has_both_times() -> None:
    text = clock_warning(-3600.4, 1_767_225_600.0)
    assert "3600 s behind the service's (2025-12-31T22:59:59+00:00 here, 2026-01-01T00:00:00+00:00 there)" in text
    assert "90 s ahead of the service's (2026-01-01T00:01:30+00:00 here" in clock_warning(90, 1_767_225_600.0)


def commit(account: MemoryAccount, log: CommitLog, clock: ManualClock, times: int) -> None:
    for _ in range(times):
        commit_and_publish(log, new_draft(clock, None), Publisher(log.container))


@pytest.mark.parametrize("ahead", [2 * MOST_SECONDS, -2 * MOST_SECONDS, MOST_SECONDS - 1, 1 - MOST_SECONDS])
def test_a_writer_whose_clock_differs_from_the_services_is_warned_once(
    ahead: float, caplog: pytest.LogCaptureFixture
) -> None:
    account, faults = MemoryAccount(clock=ManualClock()), FaultInjector()
    account.container("container").create()
    clock = ManualClock(account.clock.now() + ahead)
    log = CommitLog(account.restarted(faults).container("container"), "flights", clock=clock)
    commit(account, log, clock, 1)
    assert "" == caplog.text  # the answers have no time of the service yet
    commit(account, log, clock, 3)
    expected = [] if abs(ahead) < MOST_SECONDS else [f"flights: {clock_warning(ahead, account.clock.now())}"]
    assert expected == caplog.messages
    other = CommitLog(log.container, "delays", clock=clock)
    commit(account, other, clock, 2)
    assert 2 * len(expected) == len(caplog.messages)


def test_a_clock_that_begins_to_differ_is_noticed_by_the_next_commit(caplog: pytest.LogCaptureFixture) -> None:
    account = MemoryAccount(clock=ManualClock())
    account.container("container").create()
    clock = ManualClock(account.clock.now())
    log = CommitLog(account.container("container"), "flights", clock=clock)
    commit(account, log, clock, 2)
    assert [] == caplog.messages
    clock.advance(3600)
    commit(account, log, clock, 2)
    assert 1 == len(caplog.messages) and "3600 s ahead of" in caplog.messages[0]


def test_the_emulators_clock_is_in_its_answers(
    azurite: Azurite, container_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for ahead in (0.0, 7200.0):
        container = Location(f"{container_name}/s{ahead:.0f}", {"connectionString": azurite.connection_string}).open()
        container.create()
        clock = ManualClock(SYSTEM_CLOCK.now() + ahead)
        log = CommitLog(container, f"s{ahead:.0f}", clock=clock)
        for _ in range(2):
            commit_and_publish(log, new_draft(clock, None), Publisher(container))
    assert 1 == len(caplog.messages) and "s7200: the clock of this writer is 7" in caplog.messages[0]
