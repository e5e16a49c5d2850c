from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TypeVar

import pytest

from azure_account.account import StorageAccount
from azure_account.memory.account import MemoryAccount
from azure_account.memory.service import MemoryService, ServiceAssumptions
from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.values import IF_ABSENT, BlobAttributes, Conflict, Done, Entity, Missing, Outcome
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, ConflictError
from tests.azure_account.contract import (
    TestBlobs,
    TestBlocks,
    TestContainer,
    TestCopies,
    TestLeases,
    TestListing,
    TestTables,
    TestUndelete,
    observed_behaviour,
)

__all__ = [
    "TestBlobs",
    "TestBlocks",
    "TestContainer",
    "TestCopies",
    "TestLeases",
    "TestListing",
    "TestTables",
    "TestUndelete",
]

T = TypeVar("T")
WEEK = 7 * 24 * 3600


@pytest.fixture
def account() -> StorageAccount:
    return MemoryAccount(MemoryService(soft_delete=WEEK))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> MemoryAccount:
    account = MemoryAccount(clock=clock)
    account.container("data").create()
    return account


def test_a_deleted_blob_can_be_undeleted_until_its_time_is_over(clock: ManualClock) -> None:
    account = MemoryAccount(MemoryService(clock=clock, soft_delete=WEEK))
    container = account.container("data")
    container.create()
    for name in ("in time", "late"):
        container.put(name, name.encode())
        container.stage_block(name, "01", b"staged")
        container.delete(name)
    clock.advance(WEEK - 1)
    assert isinstance(container.undelete("in time"), Done)
    clock.advance(1)
    assert isinstance(container.undelete("late"), Missing)
    assert {"in time": b"in time"} == account.service.contents("data")
    assert {} == account.service.staged("data")


@pytest.mark.parametrize(("deleted", "ends"), [(False, "success"), (True, "failed")])
def test_a_copy_may_go_on_and_fails_if_its_source_is_deleted(deleted: bool, ends: str) -> None:
    container = MemoryAccount(MemoryService(behaviour=ServiceAssumptions(copy_looks=2))).container("data")
    container.create()
    source = container.put("source", b"data")
    assert isinstance(source, Done)
    assert Done() == container.copy("copy", "source", source_etag=source.etag, condition=IF_ABSENT)
    assert isinstance(container.copy("copy", "source", source_etag=source.etag), Conflict)
    if deleted:
        container.delete("source")
    seen = [found.copy_status for _ in range(3) if (found := container.properties("copy")) is not None]
    assert (["failed"] * 3 if deleted else ["pending", "pending", "success"]) == seen
    assert (b"" if deleted else b"data") == container.get("copy").data
    assert ends == seen[-1]


def test_without_soft_delete_a_deleted_blob_is_missing(memory: MemoryAccount) -> None:
    container = memory.container("data")
    container.put("blob", b"data")
    container.delete("blob")
    assert isinstance(container.undelete("blob"), Missing)


def test_staged_blocks_expire_a_week_after_the_last_one(memory: MemoryAccount, clock: ManualClock) -> None:
    container = memory.container("data")
    container.stage_block("blob", "01", b"a")
    clock.advance(WEEK - 1)
    container.stage_block("blob", "02", b"b")
    clock.advance(WEEK - 1)
    assert isinstance(container.commit_block_list("blob", ["01", "02"]), Done)
    container.stage_block("late", "01", b"a")
    clock.advance(WEEK)
    assert isinstance(container.commit_block_list("late", ["01"]), Missing)
    assert ["blob"] == [blob.name for blob in container.list(uncommitted=True)]


def test_a_put_drops_the_staged_blocks(memory: MemoryAccount) -> None:
    container = memory.container("data")
    container.stage_block("blob", "01", b"staged")
    container.put("blob", b"put")
    assert isinstance(container.commit_block_list("blob", ["01"]), Missing)
    assert b"put" == container.get("blob").data


def test_committed_blocks_are_not_dropped(memory: MemoryAccount, clock: ManualClock) -> None:
    container = memory.container("data")
    container.stage_block("blob", "01", b"a")
    container.commit_block_list("blob", ["01"])
    clock.advance(10 * WEEK)
    assert isinstance(container.commit_block_list("blob", ["01"]), Done)


def test_no_more_than_a_hundred_thousand_blocks_can_be_staged(memory: MemoryAccount) -> None:
    container = memory.container("data")
    for n in range(100_000):
        container.stage_block("blob", f"{n:05d}", b"x")
    container.stage_block("blob", "00000", b"again")
    with pytest.raises(ConfigurationError, match="100,000"):
        container.stage_block("blob", "one_m", b"x")
    assert isinstance(container.commit_block_list("blob", [f"{n:05d}" for n in range(50_000)]), Done)


def test_an_expired_lease_protects_nothing_and_can_be_acquired(memory: MemoryAccount, clock: ManualClock) -> None:
    mine, theirs = str(uuid.uuid4()), str(uuid.uuid4())
    container = memory.container("data")
    container.put("blob", b"1")
    container.acquire_lease("blob", mine, 15)
    clock.advance(15)
    assert isinstance(container.put("blob", b"x", lease_id=mine), Conflict)
    assert isinstance(container.acquire_lease("blob", theirs, 15), Done)
    assert isinstance(container.renew_lease("blob", mine), Conflict)


def test_an_expired_lease_can_be_renewed_unless_the_blob_was_written(memory: MemoryAccount, clock: ManualClock) -> None:
    mine = str(uuid.uuid4())
    container = memory.container("data")
    container.put("blob", b"1")
    container.acquire_lease("blob", mine, 15)
    clock.advance(20)
    assert isinstance(container.renew_lease("blob", mine), Done)
    clock.advance(20)
    container.put("blob", b"2")
    assert isinstance(container.renew_lease("blob", mine), Conflict)


def test_a_restarted_account_sees_the_same_storage(memory: MemoryAccount) -> None:
    memory.container("data").put("blob", b"1")
    assert b"1" == memory.restarted().container("data").get("blob").data
    assert {"blob": b"1"} == memory.service.contents("data")


def test_a_test_can_read_the_staged_blocks(memory: MemoryAccount) -> None:
    memory.container("data").stage_block("blob", "01", b"1")
    assert {"blob": ("01",)} == memory.service.staged("data")


def test_only_one_of_many_threads_creates_a_blob(memory: MemoryAccount) -> None:
    container = memory.container("data")
    outcomes: list[Outcome] = []
    start = threading.Barrier(8)

    def create() -> None:
        start.wait()
        outcomes.append(container.put("blob", b"1", condition=IF_ABSENT))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["Conflict"] * 7 + ["Done"] == sorted(type(outcome).__name__ for outcome in outcomes)


def test_the_error_for_reading_an_archived_blob_says_to_rehydrate_it(memory: MemoryAccount) -> None:
    memory.container("data").put("blob", b"1", BlobAttributes(tier="Archive"))
    with pytest.raises(ConfigurationError, match="Rehydrate"):
        memory.container("data").get("blob")


# --- behaviour that is not verified on Azure --------------------------------------------------------------------------


def account_with(behaviour: ServiceAssumptions, clock: ManualClock) -> MemoryAccount:
    account = MemoryAccount(MemoryService(clock=clock, behaviour=behaviour))
    account.container("data").create()
    return account


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_an_account_has_the_behaviour_that_it_was_created_with(first: bool, keeps: bool, clock: ManualClock) -> None:
    behaviour = ServiceAssumptions(list_before_condition=first, delete_keeps_blocks=keeps)
    assert behaviour == observed_behaviour(account_with(behaviour, clock).container("data"))


@pytest.mark.parametrize("by_first", [False, True])
def test_staged_blocks_are_dated_by_the_first_or_the_last_and_expire_by_the_last(
    by_first: bool, clock: ManualClock
) -> None:
    container = account_with(ServiceAssumptions(dated_by_first_block=by_first), clock).container("data")
    start = clock.now()
    for block_id in ("01", "02"):
        container.stage_block("blob", block_id, b"-")
        clock.advance(WEEK - 1)
    [listed] = container.list(uncommitted=True)
    assert start + (0 if by_first else WEEK - 1) == listed.last_modified.timestamp()
    assert isinstance(container.commit_block_list("blob", ["01", "02"]), Done)


def test_a_sas_that_only_allows_to_create_overwrites_nothing(clock: ManualClock) -> None:
    container = account_with(ServiceAssumptions(create_only=True), clock).container("data")
    assert isinstance(container.put("blob", b"1"), Done)
    assert isinstance(container.put("blob", b"2"), Conflict)
    container.stage_block("blob", "01", b"3")
    assert isinstance(container.commit_block_list("blob", ["01"]), Conflict)
    assert b"1" == container.get("blob").data


def test_a_blob_that_is_rewritten_between_two_chunks_of_a_read_is_a_conflict(
    memory: MemoryAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("azure_account.container.READ_CHUNK_BYTES", 4)
    memory.container("data").put("blob", b"old bytes")

    class Rewrite(Intercept):
        def attempt(self, request: Request, send: Callable[[], T]) -> T:
            answer = send()
            memory.container("data").put("blob", b"new bytes")
            return answer

    with pytest.raises(ConflictError):
        memory.restarted(Rewrite()).container("data").get("blob")


def test_an_entity_gets_older_until_it_is_written_again() -> None:
    account = MemoryAccount()
    table = account.table("rows")
    table.create()
    ages = []
    for _ in range(2):
        table.replace(Entity("p", "r", {"n": 1}))
        for seconds in (0, 5, 7):
            account.clock.sleep(seconds)
            ages.append(next(table.query()).age)
    assert [0, 5, 12, 0, 5, 12] == ages
