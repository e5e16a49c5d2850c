"""Whoever may write to a state's folder cannot have blobs outside of it changed, nor write outside a directory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.documents.form import sealed
from azure_account.memory.account import MemoryAccount
from azure_account.memory.service import MemoryService
from azure_account.values import BlobAttributes
from foundation.errors import CorruptError, NotFoundError
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.record.names import StateNames
from state_backup.record.record import from_json, to_json
from state_backup.record.store import record_store
from state_backup.restoring.restore import checkpoints, restore
from state_backup.sweeping.sweep import plan_sweep
from tests.state_backup.states import STATE, TREES, new_account, state_in, write

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer

RECORD = f"{STATE}/checkpoint.json"
FOREIGN = ["other/blob", f"{STATE}/checkpoint.json", f"{STATE}x/files/a", f"{STATE}", "flights/task-30/files/a"]


@pytest.fixture
def container(tmp_path: Path) -> BlobContainer:
    container = new_account().container("box")
    open_state(state_in(container), TaskIdentity("flights")).back_up({"store": write(tmp_path / "live", TREES[0])})
    container.put("other/blob", b"precious", BlobAttributes(tags={"of": "others"}))
    return container


def changed_index(container: BlobContainer, change: Any) -> None:
    """Replace the newest index by one that a stranger has changed and sealed again."""
    blob = checkpoints(state_in(container))[0].indexes["store"]
    fields = json.loads(container.get(blob).data)
    fields.pop("digest")
    change(fields["dir-index"]["files-present"][0])
    container.put(blob, sealed(fields))


@pytest.mark.parametrize("name", FOREIGN)
def test_a_record_that_names_what_is_none_of_its_state_is_corrupt(container: BlobContainer, name: str) -> None:
    record = from_json(container.get(RECORD).data, RECORD)
    index = replace(record.checkpoints[0], indexes={"store": name})
    for forged in (replace(record, condemned=(name,)), replace(record, checkpoints=(index,))):
        container.put(RECORD, to_json(forged))
        with pytest.raises(CorruptError, match="which is no blob of its state"):
            open_state(state_in(container), TaskIdentity("flights"))
        with pytest.raises(CorruptError, match="which is no blob of its state"):
            plan_sweep(state_in(container), min_age=0)
    assert b"precious" == container.get("other/blob").data


def test_a_blob_outside_that_an_index_names_is_never_deleted(container: BlobContainer, tmp_path: Path) -> None:
    changed_index(container, lambda file: file["blobs"][0].update({"blob-id": "other/blob"}))
    writer = open_state(state_in(container), TaskIdentity("flights"))
    for tree in TREES[1:]:
        writer.back_up({"store": write(tmp_path / "live", {"only": str(tree).encode()})})
    assert b"precious" == container.get("other/blob").data
    assert {"of": "others"} == container.tags("other/blob")
    stored = record_store(container, StateNames(STATE), lambda: "id").read()
    assert stored is not None
    assert "other/blob" not in stored.document.condemned


def test_a_blob_outside_that_an_index_names_is_not_undeleted(tmp_path: Path) -> None:
    account = MemoryAccount(MemoryService(soft_delete=100))
    container = account.container("box")
    container.create()
    open_state(state_in(container), TaskIdentity("flights")).back_up({"store": write(tmp_path / "live", TREES[0])})
    container.put("other/blob", b"deleted on purpose")
    container.delete("other/blob")
    changed_index(container, lambda file: file["blobs"][0].update({"blob-id": "other/blob"}))
    with pytest.raises(NotFoundError, match="other/blob"):
        restore(state_in(container), {"store": tmp_path / "restored"})
    assert container.properties("other/blob") is None


@pytest.mark.parametrize("name", ["..", "../evil", "/evil", "a/b", "."])
def test_a_file_name_cannot_leave_the_directory(container: BlobContainer, tmp_path: Path, name: str) -> None:
    changed_index(container, lambda file: file.update({"file-name": name}))
    target = tmp_path / "deep" / "restored"
    with pytest.raises(CorruptError):
        restore(
            state_in(container),
            {"store": target},
            checkpoint_id=str(checkpoints(state_in(container))[0].id),
        )
    assert [tmp_path / "live"] == [each for each in tmp_path.iterdir() if each.name != "deep"]
    assert not target.exists()
