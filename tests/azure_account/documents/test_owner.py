"""Owners of documents on the in-memory account, and what faults of storage do to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from azure_account.account import StorageAccount
from azure_account.container import BlobContainer
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, LateEffect, LostAnswer, NumberedAttempt, Reset, on
from azure_account.memory.service import MemoryService
from foundation.errors import ConflictError, FencedError, TransientError
from tests.azure_account.documents.ledger import BLOB, added, own_ledger
from tests.azure_account.documents.owner_contract import TestOwner, store_in, stored_entries

__all__ = ["TestOwner"]


@pytest.fixture
def memory() -> MemoryAccount:
    return MemoryAccount(MemoryService(soft_delete=60.0))


@pytest.fixture
def account(memory: MemoryAccount) -> StorageAccount:
    return memory


def faulty(memory: MemoryAccount, container: BlobContainer, *scripts: object) -> tuple[BlobContainer, FaultInjector]:
    faults = FaultInjector(*scripts)  # type: ignore[arg-type]
    return memory.restarted(faults).container(container.name), faults


def test_a_deleted_document_is_undeleted_for_the_next_owner(container: BlobContainer) -> None:
    store = store_in(container)
    own_ledger(store).change(added("a"))
    container.delete(BLOB)
    owner = own_ledger(store)
    assert (2, ("a",)) == (owner.document.epoch, owner.document.entries)


def test_an_owner_whose_document_was_deleted_and_undeleted_goes_on(container: BlobContainer) -> None:
    store = store_in(container)
    owner = own_ledger(store)
    container.delete(BLOB)
    with pytest.raises(ConflictError):
        owner.change(added("a"))
    assert store.undelete() == store.read()
    owner.change(added("a"))
    assert ("a",) == stored_entries(store)


@pytest.mark.parametrize("skip", [0, 1])
def test_an_answer_that_is_lost_is_read_back(memory: MemoryAccount, container: BlobContainer, skip: int) -> None:
    place, faults = faulty(memory, container, on("put", LostAnswer(), skip=skip))
    owner = own_ledger(store_in(place))
    owner.change(added("a"))
    assert (1, ("a",)) == (owner.document.epoch, owner.document.entries)
    assert owner.stored == store_in(container).read()
    assert 2 == sum(each.operation == "put" for each in faults.attempts)


def test_what_may_be_stored_is_known_until_another_write_has_succeeded(
    memory: MemoryAccount, container: BlobContainer
) -> None:
    place, faults = faulty(
        memory, container, on("put", LateEffect(attempts=10_000), skip=1), on("put", Reset(), skip=1, times=4)
    )
    owner = own_ledger(store_in(place))
    with pytest.raises(TransientError, match="it stays unknown whether it was written"):
        owner.change(added("late"))
    assert [(), ("late",)] == [each.entries for each in owner.possible]
    owner.refresh()
    assert 2 == len(owner.possible), "the late write may still take effect"
    faults.apply_late_effects()
    owner.change(added("a"))
    assert ("late", "a") == stored_entries(store_in(container))
    assert [("late", "a")] == [each.entries for each in owner.possible]


def test_a_late_write_of_a_fenced_owner_has_no_effect(memory: MemoryAccount, container: BlobContainer) -> None:
    place, faults = faulty(
        memory, container, on("put", LateEffect(attempts=10_000), skip=1), on("put", Reset(), skip=1, times=4)
    )
    old = own_ledger(store_in(place))
    with pytest.raises(TransientError):
        old.change(added("late"))
    new = own_ledger(store_in(container), 7)
    faults.apply_late_effects()
    assert new.stored == store_in(container).read()
    with pytest.raises(FencedError):
        old.change(added("late"))


def test_a_repeated_change_that_has_taken_effect_late_is_not_made_twice(
    memory: MemoryAccount, container: BlobContainer
) -> None:
    place, faults = faulty(memory, container, on("put", LateEffect(attempts=2), skip=1))
    owner = own_ledger(store_in(place))
    owner.change(added("a"))
    faults.apply_late_effects()
    owner.change(lambda ledger: replace(ledger, entries=(*ledger.entries, "b")))
    assert ("a", "b") == stored_entries(store_in(container))


def test_a_late_write_to_a_document_that_was_deleted_and_undeleted_is_known_as_possible(
    memory: MemoryAccount, container: BlobContainer
) -> None:
    def delete(attempt: NumberedAttempt) -> None:
        if attempt.number == gone[0]:
            container.delete(BLOB)

    gone = [0]
    place, faults = faulty(memory, container, delete, on("put", LateEffect(attempts=10_000), skip=1))
    owner = own_ledger(store_in(place))
    gone[0] = faults.count + 3  # the put without an answer, the get that reads it back, the put that is repeated
    with pytest.raises(ConflictError):
        owner.change(added("late"))
    assert store_in(container).undelete() is not None
    faults.apply_late_effects()
    assert ("late",) == stored_entries(store_in(container))
    assert ("late",) in [each.entries for each in owner.possible]
