"""The promises of an owner: `test_owner` runs them on the in-memory account, `test_owner_on_azurite` on Azurite."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pytest

from foundation.errors import ConfigurationError, ConflictError, FencedError, TransientError
from tests.azure_account.documents.ledger import BLOB, Ledger, added, ledgers, own_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.documents.document import Stored
    from azure_account.documents.owner import OwnedDocumentBlob

_ids = itertools.count(1)
Act: TypeAlias = "Callable[[], object]"


def store_in(container: BlobContainer) -> OwnedDocumentBlob[Ledger]:
    return ledgers(container, lambda: f"id{next(_ids)}")


def stored_entries(store: OwnedDocumentBlob[Ledger]) -> tuple[str, ...]:
    found = store.read()
    assert found is not None
    return found.document.entries


class TestOwner:
    def test_an_owner_changes_the_document_that_it_has_opened(self, container: BlobContainer) -> None:
        store = store_in(container)
        assert store.read() is None
        owner = own_ledger(store, find=store.read)
        assert 1 == owner.document.epoch
        owner.change(added("a"))
        owner.change(added("b"))
        assert owner.stored == store.read()
        assert ("a", "b") == owner.document.entries
        assert (owner.document,) == owner.possible

    def test_a_document_that_somebody_has_leased_is_not_taken_for_one_that_others_change(
        self, container: BlobContainer
    ) -> None:
        store = store_in(container)
        owner = own_ledger(store, find=store.read)
        container.acquire_lease(BLOB, "00000000-0000-0000-0000-000000000001", 60)
        for _ in range(2):
            with pytest.raises(ConflictError, match=r"LeaseIdMissing.*Break the lease of the blob"):
                owner.change(added("a"))
        assert (owner.document,) == owner.possible
        with pytest.raises(ConflictError, match="LeaseIdMissing"):
            own_ledger(store)
        container.break_lease(BLOB)
        owner.change(added("b"))
        assert ("b",) == stored_entries(store)

    def test_the_next_owner_goes_on_and_the_one_before_is_fenced(self, container: BlobContainer) -> None:
        store = store_in(container)
        old = own_ledger(store, find=store.read)
        old.change(added("a"))
        new = own_ledger(store)
        assert (2, ("a",)) == (new.document.epoch, new.document.entries)
        message = "write account 7 failed: epoch 2 has taken it over from epoch 1. Stop this clerk"
        acts: tuple[Act, ...] = (
            lambda: old.change(added("b")),
            lambda: old.change(lambda ledger: ledger),
            old.refresh,
        )
        for act in acts:
            with pytest.raises(FencedError, match=message):
                act()
        assert not old.replace(replace(old.document, entries=("b",)))
        assert ("a",) == stored_entries(store)

    def test_of_two_owners_with_one_epoch_the_last_one_owns_it(self, container: BlobContainer) -> None:
        store = store_in(container)
        first, second = own_ledger(store, 5, store.read), own_ledger(store, 5)
        with pytest.raises(FencedError, match="another clerk of epoch 5 has taken it over from epoch 5"):
            first.change(added("a"))
        second.change(added("b"))
        assert ("b",) == stored_entries(store)

    def test_a_lower_epoch_is_refused_and_writes_nothing(self, container: BlobContainer) -> None:
        store = store_in(container)
        owner = own_ledger(store, 5, store.read)
        with pytest.raises(FencedError, match="epoch 5 has taken it over from epoch 4"):
            own_ledger(store, 4)
        assert owner.stored == store.read()

    def test_an_owner_goes_on_from_an_amendment(self, container: BlobContainer) -> None:
        store = store_in(container)
        owner = own_ledger(store, find=store.read)
        store.amend(lambda ledger: replace(ledger or Ledger(0, ""), entries=("amended",)))
        assert not owner.replace(owner.document)
        owner.change(added("a"))
        assert ("amended", "a") == stored_entries(store)

    def test_a_transition_that_changes_nothing_writes_nothing(self, container: BlobContainer) -> None:
        store = store_in(container)
        owner = own_ledger(store, find=store.read)
        before = store.read()
        owner.change(lambda ledger: ledger)
        assert before == store.read()

    def test_a_transition_that_changes_nothing_is_made_of_what_is_there(self, container: BlobContainer) -> None:
        store = store_in(container)
        owner = own_ledger(store, find=store.read)
        owner.change(added("a"))
        store.amend(lambda ledger: replace(ledger or Ledger(0, ""), entries=()))
        owner.change(added("a"))
        assert ("a",) == stored_entries(store)

    def test_a_document_that_was_deleted_is_missed(self, container: BlobContainer) -> None:
        store = store_in(container)
        owner = own_ledger(store, find=store.read)
        container.delete(BLOB)
        message = f"its ledger was deleted. Restore blob {re.escape(BLOB)}, then start this clerk again."
        acts: tuple[Act, ...] = (lambda: owner.change(added("a")), owner.refresh)
        for act in acts:
            with pytest.raises(ConflictError, match=message):
                act()
        assert store.read() is None

    def test_an_owner_that_others_do_not_let_write_gives_up(self, container: BlobContainer) -> None:
        store = store_in(container)
        rival = store_in(container)
        owner = own_ledger(store, find=store.read)
        calls: list[Ledger] = []

        def overtaken(ledger: Ledger | None) -> Ledger:
            calls.append(ledger or Ledger(0, ""))
            rival.amend(lambda now: replace(now or Ledger(0, ""), entries=(f"{len(calls)}",)))
            return replace(ledger or Ledger(0, ""), entries=("mine",))

        def own(before: Stored[Ledger] | None) -> Ledger:
            return replace(overtaken(None if before is None else before.document), epoch=9, writer="me")

        acts = (
            lambda: owner.change(overtaken),
            lambda: store.amend(overtaken),
            lambda: store.open(own, store.read),
        )
        for act in acts:
            calls.clear()
            with pytest.raises(TransientError, match="its ledger was changed by others 10 times in a row"):
                act()
            assert 10 == len(calls)
        assert ("10",) == stored_entries(store)

    def test_an_opening_that_looks_again_writes_nothing_meanwhile(self, container: BlobContainer) -> None:
        store = store_in(container)
        looks: list[Stored[Ledger] | None] = []

        def own(before: Stored[Ledger] | None) -> Ledger | None:
            looks.append(before)
            return Ledger(1, "me") if len(looks) == 3 else None

        assert store.open(own, store.read).stored == store.read()
        assert [None, None, None] == looks
        with pytest.raises(TransientError):
            store.open(lambda _: None, store.read)

    def test_a_document_that_could_not_be_read_again_is_not_written(self, container: BlobContainer) -> None:
        store = store_in(container)
        owner = own_ledger(store, find=store.read)
        with pytest.raises(ConfigurationError, match="it could not be read again"):
            owner.change(added("damaged"))
        owner.change(added("a"))
        assert ("a",) == stored_entries(store)
