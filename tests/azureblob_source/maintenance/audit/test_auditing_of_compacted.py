"""Audits of streams that are compacted and vacuumed: nothing is found beside them, or after they were killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from azure_account.memory.faults import Crash, FaultInjector, NumberedAttempt, ProcessDied
from azure_account.values import BlobAttributes
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.checkpoints import last_published, make
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from azureblob_source.maintenance.audit.findings import Audit

ROWS = pa.schema([("gate", pa.string()), ("n", pa.int64())])
DAY = 24 * 3600.0
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def write(account: MemoryAccount, batch: int) -> None:
    container, plan = account.container("container"), plan_of(ROWS, partitionColumn="gate")
    rows = pa.record_batch([["a", "b"], [batch, -batch]], schema=ROWS)
    committer(container, plan, batch).commit([stage_rows(container, plan, [rows], seed=batch)], Transaction("q", batch))


@pytest.fixture
def account() -> MemoryAccount:
    """Twelve versions of two blobs."""
    account = new_account()
    for batch in range(12):
        write(account, batch)
        account.clock.sleep(60.0)
    return account


def joined_blobs(account: MemoryAccount) -> list[str]:
    """The blobs that compactions have made."""
    entries = CommitLog(account.container("container"), "flights").history()
    return [blob.name for entry in entries if entry.operation == "compact" for blob in entry.blobs]


def compacted(account: MemoryAccount, container: BlobContainer | None = None) -> None:
    log = CommitLog(container or account.container("container"), "flights", readers=1, clock=account.clock)
    plan = plan_compaction(log, CompactionRules(LATER), last_published(log).version)
    compact(log, plan, lambda: new_draft(account.clock, None), Publisher(log.container, threads=1))


def vacuumed(account: MemoryAccount, container: BlobContainer | None = None) -> None:
    log = CommitLog(container or account.container("container"), "flights", readers=1, clock=account.clock)
    plan = plan_vacuum(log, datetime.fromtimestamp(account.clock.now(), UTC) - timedelta(hours=1))
    vacuum(log.container, plan, lambda: "vacuum", threads=1)


def audited(account: MemoryAccount, *, history: bool = False) -> Audit:
    log = CommitLog(account.container("container"), "flights", clock=account.clock)
    return audit(log, timedelta(hours=1), history=history)


def check_sound(account: MemoryAccount, blobs: int | None = None) -> None:
    for history in (False, True):
        found = audited(account, history=history)
        assert () == found.findings
        assert blobs in (None, found.blobs)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_compacted_stream_is_sound_and_a_replaced_blob_that_is_back_is_found(
    account: MemoryAccount, *, checkpointed: bool
) -> None:
    container = account.container("container")
    log = CommitLog(container, "flights")
    log.refresh()
    [first, *_] = blobs_live_at(log, 11)
    content = container.get(first.name)
    compacted(account)
    write(account, 12)
    if checkpointed:
        make(CommitLog(container, "flights"))
    check_sound(account, 4)
    container.put(first.name, content.data, BlobAttributes(content.properties.metadata))
    assert [("revoked", first.name, 0)] == [
        (str(each.kind), each.name, each.version) for each in audited(account).findings
    ]
    container.delete(first.name)
    joined = joined_blobs(account)[0]
    container.delete(joined)
    [finding] = audited(account).findings
    assert ("missing", joined) == (str(finding.kind), finding.name)


@pytest.mark.parametrize("act", [compacted, vacuumed])
def test_one_that_is_killed_at_any_request_leaves_nothing_that_an_audit_finds(
    act: Callable[[MemoryAccount, BlobContainer], None],
) -> None:
    number, ended = 0, False
    while not ended:
        number += 1
        account = new_account()
        for batch in range(6):
            write(account, batch)
        if act is vacuumed:
            account.clock.sleep(2 * 3600.0)
            compacted(account)  # its entries stay, and lose their blobs
            write(account, 6)

        def dies(attempt: NumberedAttempt, last: int = number) -> Crash | None:
            return Crash(after_effect=True) if attempt.number == last else None

        try:
            act(account, account.restarted(FaultInjector(dies)).container("container"))
            ended = True
        except ProcessDied:
            pass
        check_sound(account)
        act(account, account.container("container"))
        check_sound(account)
    assert number > 10


def test_a_blob_whose_moved_rows_a_vacuum_has_removed_is_pending_and_found_once_that_is_long_ago(
    account: MemoryAccount,
) -> None:
    container = account.container("container")
    account.clock.sleep(2 * 3600.0)
    compacted(account)
    write(account, 12)
    joined = joined_blobs(account)[0]
    content = container.get(joined)
    vacuumed(account)
    assert joined not in account.service.contents("container")
    check_sound(account, 2)
    container.put(joined, content.data, BlobAttributes(content.properties.metadata))
    pending = audited(account)
    assert ((), ["a vacuum is deleting 0 versions and 1 blobs of later ones, or was interrupted"]) == (
        pending.findings, [each.what for each in pending.pending]
    )  # fmt: skip
    account.clock.sleep(2 * 3600.0)
    for history in (False, True):
        [finding] = audited(account, history=history).findings
        assert ("revoked", joined, "The next vacuum deletes it.") == (
            str(finding.kind), finding.name, finding.advice
        )  # fmt: skip
    vacuumed(account)
    check_sound(account, 2)
