"""A document that several processes change, and writes of it whose answer is lost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pytest

from azure_account.documents.document import DocumentBlob, Stored
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Fault, FaultInjector, LateEffect, LostAnswer, Reset, on
from foundation.errors import TransientError

if TYPE_CHECKING:
    from azure_account.container import BlobContainer


@dataclass(frozen=True)
class Note:
    write_id: str
    text: str = ""


def store_of(container: BlobContainer) -> DocumentBlob[Note]:
    def read(data: bytes, _: str) -> Note:
        return Note(**json.loads(data))

    return DocumentBlob(container, "note.json", "note", lambda note: json.dumps(asdict(note)).encode(), read)


def new_account() -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    return account


def test_a_document_is_created_once_and_replaced_by_who_has_read_it_last() -> None:
    account = new_account()
    store, other = store_of(account.container("box")), store_of(account.restarted().container("box"))
    assert store.read() is None
    first = store.write(Note("1"), None)
    assert first is not None
    assert other.write(Note("2"), None) is None
    second = other.write(Note("3", "other"), first.etag)
    assert second == store.read()
    assert store.write(Note("4"), first.etag) is None
    assert "other" == getattr(store.read(), "document", first.document).text


@pytest.mark.parametrize("fault", [LostAnswer(), Reset()])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_answer_is_found_out(fault: Fault, times: int) -> None:
    account = new_account()
    faults = FaultInjector(on("put", fault, times=times))
    store = store_of(account.restarted(faults).container("box"))
    created = store.write(Note("1"), None)
    assert created == store_of(account.container("box")).read()
    assert created is not None
    replaced = store.write(Note("2"), created.etag)
    assert Note("2") == getattr(replaced, "document", None)
    assert replaced == store.read()


def test_a_lost_answer_of_a_write_that_another_process_preceded_is_a_conflict() -> None:
    account = new_account()
    store, other = store_of(account.container("box")), store_of(account.restarted().container("box"))
    first = store.write(Note("1"), None)
    assert isinstance(first, Stored)
    faults = FaultInjector(on("put", LostAnswer()), on("get", Reset()))
    late = store_of(account.restarted(faults).container("box"))
    found = other.read()
    assert found is not None
    assert other.write(Note("2", "other"), found.etag) is not None
    assert late.write(Note("3"), first.etag) is None
    assert Note("2", "other") == getattr(store.read(), "document", None)


def test_an_outcome_that_stays_unknown_is_an_error_and_may_take_effect_later() -> None:
    account = new_account()
    faults = FaultInjector(on("put", LateEffect(attempts=1000)), on("put", Reset(), times=1000))
    store = store_of(account.restarted(faults).container("box"))
    with pytest.raises(TransientError, match=r"write note note.json failed: it stays unknown whether it was written"):
        store.write(Note("1"), None)
    assert store.read() is None
    faults.apply_late_effects()
    assert Note("1") == getattr(store.read(), "document", None)
