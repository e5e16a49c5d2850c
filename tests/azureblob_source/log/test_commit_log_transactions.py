"""Which transactions a log remembers, in how many bytes, and with how many requests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at
from azureblob_source.log import entry as log_entry
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import LIST_EVERY, RECENT_TRANSACTIONS, VOIDED, Draft, LastCommitted, Transaction
from azureblob_source.log.naming import log_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from foundation.errors import NotFoundError
from tests.azureblob_source.log.committing import published
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

NOW = "2026-01-01T00:00:00+00:00"
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def log_of(account: MemoryAccount, faults: FaultInjector | None = None) -> CommitLog:
    """The log as a new process knows it."""
    container = account.restarted(faults or FaultInjector()).container("container")
    return CommitLog(container, "flights", readers=1, clock=account.clock)


def commit(log: CommitLog, id_: str, version: int = 0) -> None:
    """A batch without blobs."""
    transaction = Transaction(id_, version)
    published(log, Draft(f"{id_}-{version}", NOW, transaction=transaction), Publisher(log.container, threads=1))


def sizes(account: MemoryAccount, versions: range) -> list[int]:
    """Bytes of entries."""
    container = account.container("container")
    return [len(container.get(log_name("flights", version)).data) for version in versions]


def test_the_transaction_that_was_idle_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_entry, "RECENT_TRANSACTIONS", 10)
    monkeypatch.setattr(log_entry, "LIST_EVERY", 4)
    log = log_of(new_account())
    for number in range(10):
        commit(log, f"t{number}")
    commit(log, "t0", 1)
    for number in range(10, 14):
        commit(log, f"t{number}")
    log = log_of_same(log)
    remembered = {number for number in range(14) if log.remembered(Transaction(f"t{number}", 0))}
    assert {0, *range(5, 14)} <= remembered, "the ten that were used last"
    assert not remembered & {1, 2}
    assert LastCommitted(1, 10, 0, None) == log.remembered(Transaction("t0", 1))


def log_of_same(log: CommitLog) -> CommitLog:
    """The log as another process knows it."""
    return CommitLog(log.container, log.stream, readers=1)


@pytest.mark.parametrize("versions", [2 * LIST_EVERY - 2, 2 * LIST_EVERY - 1, 2 * LIST_EVERY, 2 * LIST_EVERY + 1])
def test_a_voided_transaction_is_remembered_wherever_it_is_named(versions: int) -> None:
    log = log_of(new_account())
    for number in range(versions):
        commit(log, f"t{number}")
    head = log.head()
    assert head is not None
    for voided in (0, LIST_EVERY, versions - 1):
        draft = Draft("void", NOW, operation="void", replaces=voided)
        entry = log.next_entry(head, draft, voided - 1, voided=log.read(voided))
        assert VOIDED == entry.transactions[f"t{voided}"].entry


def test_an_entry_does_not_carry_the_list_of_a_thousand_transactions() -> None:
    account = new_account()
    log, last = log_of(account), 16 * LIST_EVERY
    for number in range(RECENT_TRANSACTIONS):
        commit(log, f"0f8fad5b-d9cb-469f-a165-{number:012}")
    for batch in range(1, last + LIST_EVERY - RECENT_TRANSACTIONS):
        commit(log, "0f8fad5b-d9cb-469f-a165-000000000999", batch)
    first, *others = sizes(account, range(last, last + LIST_EVERY - 1))
    assert 50_000 < first < 75_000
    assert max(others) < 800


def requests(log: CommitLog, faults: FaultInjector, id_: str, batch: int) -> int:
    """Requests of a batch."""
    before = faults.count
    commit(log, id_, batch)
    return faults.count - before


def test_a_running_query_makes_the_same_requests_in_every_batch() -> None:
    account, faults = new_account(), FaultInjector()
    for number in range(LIST_EVERY + 10):
        commit(log_of(account), f"t{number}")
    log = log_of(account, faults)
    commit(log, "q")
    counts = {requests(log, faults, "q", batch) for batch in range(1, 3 * LIST_EVERY)}
    assert {3} == counts, "the entry, a look at the boundary, and one at the entry before"


def test_a_fresh_process_makes_one_request_more_for_an_id_that_was_not_used_lately() -> None:
    account = new_account()
    log = log_of(account)
    for number in range(LIST_EVERY + 10):
        commit(log, f"t{number}")
    counts = []
    for id_ in (f"t{LIST_EVERY + 5}", "t3"):
        faults = FaultInjector()
        counts.append(requests(log_of(account, faults), faults, id_, 1))
        commit(log_of(account), "another")
    assert counts[0] + 1 == counts[1]


def test_a_vacuum_keeps_the_list_of_what_it_keeps_and_no_other_entry() -> None:
    account = new_account()
    log = log_of(account)
    for number in range(2 * LIST_EVERY + 10):
        commit(log, f"t{number}")
    container = account.container("container")
    for kept in (LIST_EVERY + 5, 2 * LIST_EVERY + 5, 2 * LIST_EVERY + 9):
        plan = plan_vacuum(log_of(account), LATER)
        plan = replace(plan, outdated=tuple(entry for entry in plan.outdated if entry.version < kept), first=kept)
        vacuum(container, plan, lambda: "vacuum", threads=1)
        below = [version for version in range(kept) if container.properties(log_name("flights", version)) is not None]
        assert [kept // LIST_EVERY * LIST_EVERY] == below
        assert LastCommitted(0, 3, -1, None) == log_of(account).remembered(Transaction("t3", 0))
        assert plan_vacuum(log_of(account), LATER).strays == ()


@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_list_that_was_deleted_by_hand_is_asked_for_and_nothing_is_committed(vacuumed: bool) -> None:
    account = new_account()
    log = log_of(account)
    for number in range(LIST_EVERY + 3):
        commit(log, f"t{number}")
    if vacuumed:
        vacuum(account.container("container"), plan_vacuum(log_of(account), LATER), lambda: "vacuum", threads=1)
    account.container("container").delete(log_name("flights", LIST_EVERY))
    with pytest.raises(NotFoundError, match=r"flights/_log/0+64\.json, which lists the trans.*is missing. Restore it"):
        commit(log_of(account), "t3")
    commit(log_of(account), f"t{LIST_EVERY + 2}", 1)


def test_in_a_log_that_was_shortened_by_hand_what_only_removed_entries_have_is_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    account = new_account()
    for number in range(3):
        commit(log_of(account), f"t{number}")
    account.container("container").delete(log_name("flights", 0))
    commit(log_of(account), "t0")
    assert "was shortened by hand: transactions that only flights/_log/" in caplog.text
    assert [1, 2, 3] == [entry.version for entry in log_of(account).history()]


def test_a_vacuum_that_dies_at_any_request_keeps_the_list_and_no_other_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_entry, "LIST_EVERY", 4)
    died = 0
    while True:
        account = new_account()
        log = log_of(account)
        for number in range(6):
            commit(log, f"t{number}")
        vacuum(log.container, plan_vacuum(log_of(account), LATER), lambda: "one", threads=1)
        for number in range(6, 10):
            commit(log, f"t{number}")
        faults = FaultInjector(at(died + 1, Crash(after_effect=bool(died % 2))))
        plan = plan_vacuum(log_of(account), LATER)
        try:
            vacuum(account.restarted(faults).container("container"), plan, lambda: "two", threads=1)
        except ProcessDied:
            died += 1
        else:
            break
        vacuum(log.container, plan_vacuum(log_of(account), LATER), lambda: "three", threads=1)
        left = [version for version in range(10) if log.container.properties(log_name("flights", version)) is not None]
        assert [8, 9] == left
        remembered = [log_of(account).remembered(Transaction(f"t{number}", 0)) for number in range(10)]
        assert list(range(10)) == [last and last.entry for last in remembered]
    assert died > 10
