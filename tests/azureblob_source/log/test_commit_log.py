from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import (
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    Reset,
    Throttle,
    TimeOut,
    always,
    on,
)
from azureblob_source.log.boundary import Boundary, move_boundary, read_boundary
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, LogEntry, to_json
from azureblob_source.log.hint import put_hint
from azureblob_source.log.naming import log_name, schema_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.roll_forward import publish_earlier
from azureblob_source.log.stream_notes import LogFacts
from foundation.errors import ConflictError, CorruptError, NotFoundError, TransientError
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.account import MemoryAccount
    from azure_account.memory.faults import NumberedAttempt, Script


def entry(version: int, write_id: str = "w") -> LogEntry:
    return LogEntry(write_id, "2013-01-31T12:00:05+00:00", version=version)


def log_over(account: MemoryAccount, faults: FaultInjector | None = None, readers: int = 4) -> CommitLog:
    container = account.restarted(faults).container("container")
    return CommitLog(container, "flights", readers=readers, clock=account.clock)


def account_with(versions: range, first: int | None = None) -> MemoryAccount:
    """A log of these versions, and a boundary if `first` is given."""
    account = new_account()
    container = account.container("container")
    parts = to_json(entry(0)).split(b'"version":0')
    for version in versions:
        container.put(log_name("flights", version), (b'"version":%d' % version).join(parts))
    if first is not None:
        move(account, first)
    return account


def move(account: MemoryAccount, first: int, removing: dict[int, str] | None = None) -> None:
    """What a vacuum does before it deletes."""
    container = account.container("container")
    old = read_boundary(container, "flights")
    move_boundary(container, "flights", old, Boundary(first, removing or {}, f"to-{first}"))


def take_away(account: MemoryAccount, versions: range) -> None:
    """A whole vacuum of entries without blobs."""
    move(account, versions[-1] + 1)
    for version in versions:
        account.container("container").delete(log_name("flights", version))


def test_an_empty_log_has_no_head() -> None:
    log = log_over(new_account())
    assert (None, None, []) == (log.head(), log.refresh(), log.history())


@pytest.mark.parametrize("versions", [range(100_000), range(1)])
def test_the_head_is_found_in_a_logarithmic_number_of_requests(versions: range) -> None:
    faults = FaultInjector()
    log = log_over(account_with(versions), faults)
    assert entry(versions[-1]) == log.refresh()
    assert faults.count <= 5 + 2 * math.log2(len(versions))


@pytest.mark.parametrize("versions", [range(90_000, 100_000), range(5, 6)])
def test_the_head_of_a_vacuumed_log_is_found_in_as_few(versions: range) -> None:
    faults = FaultInjector()
    log = log_over(account_with(versions, versions[0]), faults)
    assert entry(versions[-1]) == log.refresh()
    assert versions[0] == log.kept_from
    assert faults.count <= 7 + 2 * math.log2(len(versions))


@pytest.mark.parametrize("versions", [range(90_000, 100_000), range(5, 6)])
def test_the_head_of_a_log_that_was_shortened_by_hand_is_found_with_one_listing(versions: range) -> None:
    faults = FaultInjector()
    log = log_over(account_with(versions), faults)
    assert entry(versions[-1]) == log.refresh()
    assert 1 == sum(attempt.operation == "list" for attempt in faults.attempts)
    assert faults.count <= 8 + 2 * math.log2(len(versions))


@pytest.mark.parametrize("known", [2_999, 2_990, 2_000])
@pytest.mark.parametrize("first", [None, 1_500, 2_995])
def test_a_version_that_is_known_to_have_existed_shortens_the_search(known: int, first: int | None) -> None:
    faults = FaultInjector()
    log = log_over(account_with(range(first or 0, 3_000), first), faults)
    assert entry(2_999) == log.refresh(known)
    assert faults.count <= 8 + 2 * math.log2(3_000 - known)
    before = faults.count
    assert entry(2_999) == log.refresh(known)
    assert before + 1 == faults.count


@pytest.mark.parametrize("length", [1, 2, 99, 100, 101, 164, 165, 200, 263, 264, 1_000])
@pytest.mark.parametrize("checkpoint", [None, 63, 127, 191])
def test_reading_ahead_finds_the_head_that_a_search_finds(length: int, checkpoint: int | None) -> None:
    account = account_with(range(length))
    if checkpoint is not None:
        put_hint(account.container("container"), "flights", checkpoint)
    log = log_over(account)
    log.read_ahead()
    assert entry(length - 1) == log.refresh()
    assert [entry(version) for version in range(length)] == log.entries(0, length - 1)


@pytest.mark.parametrize("facts", [LogFacts(150, "0"), LogFacts(150, "of another log"), LogFacts(900, "0")])
def test_reading_ahead_does_not_trust_what_another_process_has_found(facts: LogFacts) -> None:
    account = account_with(range(200))
    log = CommitLog(account.container("container"), "flights", facts=facts)
    log.read_ahead()
    assert entry(199) == log.refresh()


def test_a_search_begins_with_what_another_process_has_found() -> None:
    account = account_with(range(3_000))
    knowing = log_over(account)
    assert LogFacts() == knowing.facts()
    knowing.refresh()
    faults = FaultInjector()
    log = CommitLog(account.restarted(faults).container("container"), "flights", facts=knowing.facts())
    assert entry(2_999) == log.head()
    assert 4 == faults.count
    account.container("container").put(log_name("flights", 3_000), to_json(entry(3_000)))
    assert entry(3_000) == log.refresh()


@pytest.mark.parametrize("vacuumed", [1, 2_990, 2_999])
def test_what_another_process_has_found_may_be_below_the_boundary(vacuumed: int) -> None:
    account = account_with(range(3_000))
    take_away(account, range(vacuumed))
    log = CommitLog(account.container("container"), "flights", facts=LogFacts(0, "w"))
    assert entry(2_999) == log.head()
    assert vacuumed == log.first()
    assert entry(vacuumed) == log.read(vacuumed)


def test_a_schema_is_read_once_and_passed_on() -> None:
    account = account_with(range(2))
    account.container("container").put(schema_name("flights", "f"), b'"int"')
    log = log_over(account)
    assert '"int"' == log.schema_text("f")
    account.container("container").delete(schema_name("flights", "f"))
    again = CommitLog(account.container("container"), "flights", facts=log.facts())
    assert ['"int"'] * 2 == [log.schema_text("f"), again.schema_text("f")]


@pytest.mark.parametrize("first", [None, 10])
def test_a_search_from_a_version_that_never_existed_finds_the_head(first: int | None) -> None:
    assert entry(19) == log_over(account_with(range(first or 0, 20), first)).refresh(1000)
    assert log_over(new_account()).refresh(1000) is None


def test_a_log_of_every_length_has_its_head_found() -> None:
    account = new_account()
    for version in range(70):
        account.container("container").put(log_name("flights", version), to_json(entry(version)))
        assert entry(version) == log_over(account).head()


def test_a_head_that_is_known_costs_one_request_to_confirm_and_none_to_use() -> None:
    account, faults = account_with(range(50)), FaultInjector()
    log = log_over(account, faults)
    log.head()
    before = faults.count
    assert entry(49) == log.head()
    assert before == faults.count
    assert entry(49) == log.refresh()
    assert before + 1 == faults.count
    log.put(entry(50))
    assert before + 4 == faults.count, "the entry, a look at the boundary, and one at the entry before"
    assert (entry(50), entry(50)) == (log.head(), log.refresh())
    assert before + 5 == faults.count


def test_the_entry_that_was_put_first_is_returned_to_both_writers() -> None:
    account = new_account()
    ours, theirs = log_over(account), log_over(account)
    assert entry(0, "ours") == ours.put(entry(0, "ours"))
    assert entry(0, "ours") == theirs.put(entry(0, "theirs"))
    assert entry(0, "ours") == theirs.head()


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), Reset(), Throttle(1.0), LateEffect(1), LateEffect(2)])
@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_put_whose_answers_are_lost_is_read_back(fault: Fault, times: int) -> None:
    account = new_account()
    faults = FaultInjector(on("put", fault, times=times))
    log = log_over(account, faults)
    assert entry(0) == log.put(entry(0))
    faults.apply_late_effects()
    assert [entry(0)] == log_over(account).history()


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), LateEffect(1)])
def test_a_lost_answer_does_not_hide_that_another_was_first(fault: Fault) -> None:
    account = new_account()
    log_over(account).put(entry(0, "theirs"))
    assert entry(0, "theirs") == log_over(account, FaultInjector(on("put", fault))).put(entry(0, "ours"))


def test_a_put_that_never_has_an_answer_is_given_up_and_can_be_repeated() -> None:
    account = new_account()
    with pytest.raises(
        TransientError,
        match=r"commit log entry flights/_log/0{20}\.json.*5 attempts.*its write id is .*write its rows twice",
    ):
        log_over(account, FaultInjector(on("put", TimeOut(), times=100))).put(entry(0))
    assert entry(0) == log_over(account).put(entry(0))


def test_an_outage_is_not_taken_for_a_missing_entry() -> None:
    with pytest.raises(TransientError):
        log_over(account_with(range(3)), FaultInjector(always(Throttle()))).refresh()


def test_a_version_that_is_not_kept_is_named_with_the_oldest_that_is() -> None:
    log = log_over(account_with(range(5, 8)))
    with pytest.raises(
        NotFoundError, match=r"version 4 of flights failed: the oldest entry kept is 5, the newest 7\. Ask"
    ):
        log.read(4)
    with pytest.raises(NotFoundError, match="the oldest entry kept is 5"):
        log.history(4)
    with pytest.raises(NotFoundError, match="version 8 of flights failed: the oldest entry kept is 5"):
        log.history(8)
    with pytest.raises(NotFoundError, match="the log is empty"):
        log_over(new_account()).read(0)


@pytest.mark.parametrize("readers", [1, 4])
def test_the_history_is_in_order_and_ends_at_the_version_asked_for(readers: int) -> None:
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


# --- vacuumed logs ----------------------------------------------------------------------------------------------------


def test_entries_below_the_boundary_are_not_in_the_log() -> None:
    account = account_with(range(10), 6)
    log = log_over(account)
    assert [entry(version) for version in range(6, 10)] == log.history()
    assert 6 == log.first()
    for version in (0, 5):
        with pytest.raises(
            NotFoundError, match=rf"version {version} of flights failed: the oldest entry kept is 6, the newest 9\."
        ):
            log.read(version)
    with pytest.raises(NotFoundError, match="the oldest entry kept is 6"):
        log.entries(5, 8)


def test_entries_that_are_vacuumed_while_they_are_read_are_not_given() -> None:
    account = account_with(range(10))
    log = log_over(account, FaultInjector(moved_at("get", 2, lambda: move(account, 3))))
    assert entry(9) == log.head()
    with pytest.raises(NotFoundError, match="version 2 of flights failed: the oldest entry kept is 3"):
        log.entries(2, 5)


def test_an_entry_that_a_stale_writer_put_below_the_boundary_is_not_read_by_a_log_that_knew_the_version() -> None:
    account = account_with(range(10))
    log = log_over(account)
    assert entry(9) == log.head()
    take_away(account, range(4))
    account.container("container").put(log_name("flights", 2), to_json(entry(2, "stale")))
    with pytest.raises(NotFoundError, match="version 2 of flights failed: the oldest entry kept is 4"):
        log.read(2)


def test_a_history_that_is_vacuumed_while_it_is_read_begins_later() -> None:
    account = account_with(range(10))
    log = log_over(account, FaultInjector(moved_at("get", 4, lambda: take_away(account, range(4)))))
    assert [entry(version) for version in range(4, 10)] == log.history()


def test_a_writer_that_a_vacuum_overtakes_sees_that_the_log_has_moved_on() -> None:
    account = account_with(range(10))
    log = log_over(account)
    head, publisher, draft = log.head(), Publisher(log.container), Draft("d", "2013-01-31T12:00:06+00:00")
    take_away(account, range(4))
    assert not publish_earlier(log, head, publisher, draft)
    assert [True, False, True] == [log.has_moved_on(head, 0), log.has_moved_on(head, 4), log.has_moved_on(None, 4)]
    assert publish_earlier(log, head, publisher, draft)


def moved_at(operation: str, nth: int, act: Callable[[], None]) -> Script:
    """Lets another process act just before the `nth` attempt of an operation."""
    seen = 0

    def script(attempt: NumberedAttempt) -> None:
        nonlocal seen
        seen += attempt.operation == operation
        if attempt.operation == operation and seen == nth:
            act()

    return script


@pytest.mark.parametrize("stray", [True, False])
def test_the_head_is_found_after_a_vacuum_even_with_stray_entries_below_the_boundary(stray: bool) -> None:
    account = account_with(range(4))
    log = log_over(account)
    assert entry(3) == log.head()
    for version in range(4, 20):
        account.container("container").put(log_name("flights", version), to_json(entry(version)))
    take_away(account, range(12))
    if stray:
        account.container("container").put(log_name("flights", 4), to_json(entry(4, "stray")))
        assert entry(19) == log.refresh()
    else:
        assert entry(3) == log.refresh(), "for ten minutes"
        account.clock.sleep(601)
        assert entry(19) == log.refresh()
    assert (12, 12) == (log.first(), log.kept_from)


@pytest.mark.parametrize("at_zero", [True, False])
def test_a_search_ignores_entries_below_the_boundary(at_zero: bool) -> None:
    account = account_with(range(30))
    take_away(account, range(20))
    for version in (0, 1, 2, 5) if at_zero else (7, 8):
        account.container("container").put(log_name("flights", version), to_json(entry(version, "stray")))
    assert entry(29) == log_over(account).head()
    for known in (0, 1, 5, 7, 19, 20):
        assert entry(29) == log_over(account).refresh(known)


@pytest.mark.parametrize("nth", range(1, 16))
def test_a_search_during_a_vacuum_finds_the_head(nth: int) -> None:
    account = account_with(range(30))
    script = moved_at("properties", nth, lambda: take_away(account, range(25)))
    assert entry(29) == log_over(account, FaultInjector(script)).head()


def test_an_entry_that_is_put_below_the_boundary_commits_nothing_and_is_withdrawn() -> None:
    account = account_with(range(4))
    log = log_over(account)
    log.head()
    for version in range(4, 9):
        account.container("container").put(log_name("flights", version), to_json(entry(version)))
    take_away(account, range(6))
    with pytest.raises(ConflictError, match=r"version 4 of flights in .*a vacuum has made 6 the first.*run the batch"):
        log.put(entry(4, "slow"))
    assert account.container("container").properties(log_name("flights", 4)) is None
    assert entry(8) == log.head()
    assert entry(9, "slow") == log.put(entry(9, "slow"))


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), LateEffect(1), LateEffect(3)])
def test_an_entry_that_is_put_below_the_boundary_with_a_lost_answer_commits_nothing_either(fault: Fault) -> None:
    account = account_with(range(4))
    faults = FaultInjector(on("put", fault))
    log = log_over(account, faults)
    log.head()
    for version in range(4, 9):
        account.container("container").put(log_name("flights", version), to_json(entry(version)))
    take_away(account, range(6))
    with pytest.raises(ConflictError, match="a vacuum has made 6 the first"):
        log.put(entry(4, "slow"))
    faults.apply_late_effects()
    assert [entry(version) for version in (6, 7, 8)] == log.history() == log_over(account).history()


def test_an_entry_of_another_writer_below_the_boundary_is_not_returned_by_a_put() -> None:
    account = account_with(range(4))
    log = log_over(account)
    log.head()
    take_away(account, range(3))
    for version in range(4, 9):
        account.container("container").put(log_name("flights", version), to_json(entry(version)))
    take_away(account, range(3, 6))
    account.container("container").put(log_name("flights", 4), to_json(entry(4, "stray")))
    with pytest.raises(ConflictError, match="a vacuum has made 6 the first"):
        log.put(entry(4, "slow"))
    assert account.container("container").properties(log_name("flights", 4)) is not None
    assert entry(8) == log.head()


def test_a_withdrawal_that_fails_does_not_hide_the_error(caplog: pytest.LogCaptureFixture) -> None:
    account = account_with(range(4))
    log = log_over(account, FaultInjector(on("delete", Throttle(), times=1000)))
    log.head()
    for version in range(4, 9):
        account.container("container").put(log_name("flights", version), to_json(entry(version)))
    take_away(account, range(6))
    with pytest.raises(ConflictError, match="a vacuum has made 6 the first"):
        log.put(entry(4, "slow"))
    assert "commits nothing and could not be deleted" in caplog.text
    assert entry(8) == log_over(account).head()


def test_a_writer_that_was_paused_leaves_its_entry_to_the_vacuum_that_is_removing_it() -> None:
    account = account_with(range(4))
    container = account.container("container")

    def vacuum_takes_it() -> None:
        there = container.properties(log_name("flights", 4))
        assert there is not None
        for version in (5, 6):
            container.put(log_name("flights", version), to_json(entry(version)))
        move(account, 6, {4: there.etag})

    log = log_over(account, FaultInjector(moved_at("get", 5, vacuum_takes_it)))
    log.head()
    with pytest.raises(ConflictError, match="This version commits nothing: run the batch again"):
        log.put(entry(4, "slow"))
    assert container.properties(log_name("flights", 4)) is not None
