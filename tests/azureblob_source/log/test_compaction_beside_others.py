"""Compactions that die, and others that take rows away meanwhile: what random histories of compaction have found."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, on
from azureblob_source.log.entry import Transaction
from azureblob_source.log.naming import log_version
from azureblob_source.log.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from foundation.clock import SYSTEM_CLOCK
from tests.azureblob_source.log.compacting import ROWS, compacted, rows_read, write
from tests.azureblob_source.write.sink_rows import (
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
    visible_rows,
)

DAY = 86_400.0


@pytest.fixture
def account() -> MemoryAccount:
    """A stream of ten versions, each with two rows: those of version 3 are 6 and 7."""
    account = new_account()
    for batch in range(10):
        write(account, batch, [2 * batch, 2 * batch + 1])
        account.clock.sleep(60.0)
    return account


def reverted(account: MemoryAccount, batch: int) -> None:
    """The batches after this one are taken back."""
    container = account.container("container")
    plan = plan_revert(container, "flights", Transaction("q", batch))
    carry_out(container, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container, threads=1))


def listed(account: MemoryAccount) -> Counter[int]:
    """The rows that a reader of the listing sees."""
    return Counter(row["n"] for rows in visible_rows(account).values() for row in rows)


def test_moved_rows_are_reverted_though_the_revert_dies_and_stays_away_for_a_week(account: MemoryAccount) -> None:
    compacted(account)
    fault = on("put", Crash(after_effect=True), name=lambda name: log_version(name) is not None)
    with pytest.raises(ProcessDied):
        reverted(MemoryAccount(account.service, intercept=FaultInjector(fault)), 6)
    account.clock.sleep(8 * DAY)
    reverted(account, 6)
    assert Counter(range(14)) == listed(account) == Counter(n for _, n in rows_read(account).elements())
    write(account, 7, [100, 101])
    assert Counter([*range(14), 100, 101]) == listed(account)


@pytest.mark.parametrize("rounds", [1, 2])
def test_rows_that_were_moved_several_times_are_reverted_one_batch_after_the_other(
    account: MemoryAccount, rounds: int
) -> None:
    for batch in range(10, 10 + rounds):
        compacted(account)
        write(account, batch, [*range(10 * batch, 10 * batch + 30)])
    compacted(account)
    metadata = {blob.name: blob.metadata for blob in account.container("container").list("flights/")}
    for last in (8, 6, 2):
        reverted(account, last)
        assert Counter(range(2 * last + 2)) == listed(account) == Counter(n for _, n in rows_read(account).elements())
    assert metadata.keys().isdisjoint(visible_blobs(account))


def test_batches_whose_moved_rows_were_overwritten_are_reverted(account: MemoryAccount) -> None:
    compacted(account)
    container, plan = account.container("container"), plan_of(ROWS, partitionColumn="gate")
    staged = stage_rows(container, plan, [pa.record_batch([["a"], [1000]], schema=ROWS)], seed=7)
    committer(container, plan, 7).commit([staged], None, overwrite=True)
    reverted(account, 6)
    assert Counter([1000]) == listed(account) == Counter(n for _, n in rows_read(account).elements())
