"""When a query is stopped because it is not backed up."""

from __future__ import annotations

import threading

from foundation.clock import ManualClock
from state_backup.spark.stop_due import BackupDeadline


def test_it_is_due_when_no_backup_has_succeeded_for_the_time_since_the_first_began() -> None:
    clock = ManualClock()
    due = BackupDeadline(600, clock)
    due.begin()
    clock.advance(599)
    due.begin()  # the first one has failed
    assert not due.is_due
    clock.advance(1)
    assert due.is_due
    due.succeed()
    assert not due.is_due


def test_the_time_between_two_backups_does_not_count() -> None:
    clock = ManualClock()
    due = BackupDeadline(5, clock)
    due.begin()
    due.succeed()
    clock.advance(3600)
    assert not due.is_due
    due.begin()
    assert not due.is_due
    clock.advance(5)
    assert due.is_due


def test_without_a_time_it_is_never_due() -> None:
    clock = ManualClock()
    due = BackupDeadline(None, clock)
    due.begin()
    clock.advance(1e9)
    assert not due.is_due


def test_it_is_reported_again_after_a_pause_until_a_backup_succeeds_or_there_are_no_more() -> None:
    clock = ManualClock()
    due = BackupDeadline(5, clock)
    due.begin()
    clock.advance(5)
    assert [True, True] == [due.wait(0.001), due.wait(0.001)]
    due.succeed()
    waited: list[bool] = []
    waiting = threading.Thread(target=lambda: waited.append(due.wait(0.001)))
    waiting.start()
    due.end()
    waiting.join()
    assert [False] == waited
