from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from azure_account.errors import CorruptError, NotFoundError, TransientError
from azure_account.faults import Fault, Faults, LateEffect, LostAnswer, Reset, Throttle, TimeOut, always, on
from azureblob_source.commit_log import CommitLog
from azureblob_source.log_entry import LogEntry, to_json
from azureblob_source.naming import log_name
from tests.azureblob_source.sink_rows import new_account

if TYPE_CHECKING:
    from azure_account.memory import MemoryAccount


def entry(version: int, write_id: str = "w") -> LogEntry:
    return LogEntry(version, write_id, "2013-01-31T12:00:05+00:00")


def log_over(account: MemoryAccount, faults: Faults | None = None, readers: int = 4) -> CommitLog:
    return CommitLog(account.restarted(faults).container("container"), "flights", readers=readers)


def account_with(versions: range) -> MemoryAccount:
    account = new_account()
    container = account.container("container")
    for version in versions:
        container.put(log_name("flights", version), to_json(entry(version)) if version >= versions[-1] - 20 else b"")
    return account


def test_an_empty_log_has_no_head() -> None:
    log = log_over(new_account())
    assert (None, None, []) == (log.head(), log.refresh(), log.history())


@pytest.mark.parametrize("versions", [range(100_000), range(90_000, 100_000), range(1), range(5, 6)])
def test_the_head_is_found_in_a_logarithmic_number_of_requests(versions: range) -> None:
    faults = Faults()
    log = log_over(account_with(versions), faults)
    head = log.refresh()
    assert head == entry(versions[-1])
    assert faults.count <= 5 + 2 * math.log2(len(versions))


def test_a_log_of_every_length_has_its_head_found() -> None:
    account = new_account()
    for version in range(70):
        account.container("container").put(log_name("flights", version), to_json(entry(version)))
        assert entry(version) == log_over(account).head()


def test_a_head_that_is_known_costs_one_request_to_confirm_and_none_to_use() -> None:
    account, faults = account_with(range(50)), Faults()
    log = log_over(account, faults)
    log.head()
    before = faults.count
    assert entry(49) == log.head()
    assert before == faults.count
    assert entry(49) == log.refresh()
    assert before + 1 == faults.count
    log.put(entry(50))
    assert before + 2 == faults.count
    assert entry(50) == log.head()


def test_the_entry_that_was_first_stands() -> None:
    account = new_account()
    ours, theirs = log_over(account), log_over(account)
    assert entry(0, "ours") == ours.put(entry(0, "ours"))
    assert entry(0, "ours") == theirs.put(entry(0, "theirs"))
    assert entry(0, "ours") == theirs.head()


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), Reset(), Throttle(1.0), LateEffect(1), LateEffect(2)])
@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_put_whose_answers_are_lost_is_cleared_up_by_reading_back(fault: Fault, times: int) -> None:
    account = new_account()
    faults = Faults(on("put", fault, times=times))
    log = log_over(account, faults)
    assert entry(0) == log.put(entry(0))
    faults.settle_late()
    assert [entry(0)] == log_over(account).history()


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), LateEffect(1)])
def test_a_lost_answer_does_not_hide_that_another_was_first(fault: Fault) -> None:
    account = new_account()
    log_over(account).put(entry(0, "theirs"))
    assert entry(0, "theirs") == log_over(account, Faults(on("put", fault))).put(entry(0, "ours"))


def test_a_put_that_never_has_an_answer_is_given_up_and_can_be_repeated() -> None:
    account = new_account()
    with pytest.raises(
        TransientError, match=r"commit log entry flights/_log/0{20}\.json.*5 attempts.*Run the batch again"
    ):
        log_over(account, Faults(on("put", TimeOut(), times=100))).put(entry(0))
    assert entry(0) == log_over(account).put(entry(0))


def test_an_outage_is_no_missing_entry() -> None:
    with pytest.raises(TransientError):
        log_over(account_with(range(3)), Faults(always(Throttle()))).refresh()


def test_a_version_that_is_not_kept_is_named_with_the_oldest_that_is() -> None:
    log = log_over(account_with(range(5, 8)))
    with pytest.raises(NotFoundError, match=r"version 4 of flights failed: the oldest entry kept is 5\. Ask"):
        log.read(4)
    with pytest.raises(NotFoundError, match="the oldest entry kept is 5"):
        log.history(4)
    with pytest.raises(NotFoundError, match="version 8 of flights failed: the oldest entry kept is 5"):
        log.history(8)
    with pytest.raises(NotFoundError, match="the log is empty"):
        log_over(new_account()).read(0)


@pytest.mark.parametrize("readers", [1, 4])
def test_the_history_is_in_order_and_ends_where_it_is_told(readers: int) -> None:
    log = log_over(account_with(range(3, 20)), readers=readers)
    assert [entry(version) for version in range(3, 20)] == log.history()
    assert [entry(version) for version in range(3, 11)] == log.history(10)
    assert [entry(version) for version in (7, 8, 9)] == list(log.entries(7, 9))
    assert [] == list(log.entries(9, 8))


def test_other_blobs_beside_the_entries_are_no_entries() -> None:
    account = account_with(range(7, 9))
    account.container("container").put("flights/_log/0000-note.txt", b"x")
    assert entry(8) == log_over(account).head()


def test_a_damaged_head_is_an_error_and_not_skipped() -> None:
    account = account_with(range(3))
    account.container("container").put(log_name("flights", 2), b"{")
    with pytest.raises(CorruptError, match=r"flights/_log/0{19}2\.json is damaged"):
        log_over(account).head()
