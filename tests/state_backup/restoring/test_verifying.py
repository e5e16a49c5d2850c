"""Verify on states of which blobs are gone, cut, changed, archived or condemned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.location import Location
from azure_account.memory.faults import FaultInjector, TimeOut, always, on
from azure_account.retrying.retry_loop import Request
from azure_account.values import BlobAttributes
from foundation.errors import CorruptError, NotFoundError, TransientError
from foundation.report import ProgressCallbacks
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.record.names import StateNames
from state_backup.record.store import record_store
from state_backup.restoring import verifying as module
from state_backup.restoring.verifying import verify
from tests.state_backup.states import STATE, TREES, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from state_backup.restoring.verifying import VerificationResult

T = TypeVar("T")


@pytest.fixture
def account(tmp_path: Path) -> MemoryAccount:
    """Two checkpoints, of the last two trees, of which `2.sst` differs; each has a store that is the same in both."""
    account = new_account()
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"))
    same = write(tmp_path / "same", {"same": b"same", "empty": b""})
    for tree in TREES[2:]:
        writer.back_up({"store": write(tmp_path / "live", tree), "same": same})
    return account


def seen(verified: tuple[VerificationResult, ...]) -> list[dict[tuple[str, str], str]]:
    """Faults by store and path, for each checkpoint."""
    return [{(fault.store, fault.path): fault.cause for fault in each.faults} for each in verified]


def blob_of(container: BlobContainer, data: bytes) -> str:
    [found] = [blob.name for blob in container.list(f"{STATE}/files/") if container.get(blob.name).data == data]
    return found


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_state_is_whole(account: MemoryAccount, deep: bool) -> None:
    found = verify(state_in(account.container("box")), deep=deep)
    assert [True, True] == [each.whole for each in found]
    assert [(4, 8), (5, 11)] == [(each.files, each.bytes) for each in found]
    assert sorted((each.checkpoint.id for each in found), reverse=True) == [each.checkpoint.id for each in found]


@pytest.mark.usefixtures("no_packs")
def test_all_faults_are_found_and_only_those_of_checkpoints_that_have_them(account: MemoryAccount) -> None:
    container = account.container("box")
    container.delete(blob_of(container, b"owt"))
    container.put(blob_of(container, b"4"), b"44")
    container.put(blob_of(container, b"same"), b"same", BlobAttributes(tier="Archive"))
    newest, older = seen(verify(state_in(container)))
    archived = {("same", "same"): "it is in the tier Archive: rehydrate it before a restore"}
    assert {("store", "2.sst"): "it is gone", ("store", "CURRENT"): "it has 2 bytes, not 1", **archived} == newest
    assert archived == older


@pytest.mark.usefixtures("no_packs")
def test_changed_bytes_of_the_right_size_are_found_by_a_deep_look_alone(account: MemoryAccount) -> None:
    container = account.container("box")
    container.put(blob_of(container, b"owt"), b"two")
    container.delete(blob_of(container, b"4"))
    container.put(blob_of(container, b"same"), b"sane")
    changed = (
        "its bytes have another checksum than the file had: overwrite the blob with an empty one, and the first backup "
        "of the next writer that opens the state uploads the file again, if its directory has it"
    )
    assert [{("store", "CURRENT"): "it is gone"}, {}] == seen(verify(state_in(container)))
    assert [
        {("store", "2.sst"): changed, ("store", "CURRENT"): "it is gone", ("same", "same"): changed},
        {("same", "same"): changed},
    ] == seen(verify(state_in(container), deep=True))


def test_an_index_that_is_gone_or_damaged_is_a_fault_of_its_store(account: MemoryAccount) -> None:
    container = account.container("box")
    newest, older = verify(state_in(container))
    container.delete(newest.checkpoint.indexes["store"])
    index = older.checkpoint.indexes["store"]
    container.put(index, container.get(index).data.replace(b'"size":3', b'"size":4'))
    container.delete(blob_of(container, b"same"))
    lost, damaged = seen(verify(state_in(container), deep=True))
    assert {("store", ""): "it is gone", ("same", "same"): "it is gone"} == lost
    assert {("store", ""), ("same", "same")} == set(damaged)
    assert "its digest is not that of its content" in damaged["store", ""]


@pytest.mark.usefixtures("no_packs")
def test_a_condemned_blob_that_is_needed_is_a_fault(account: MemoryAccount) -> None:
    container = account.container("box")
    records = record_store(container, StateNames(STATE), lambda: "id")
    stored = records.read()
    assert stored is not None
    index = stored.document.checkpoints[0].indexes["store"]
    records.write(replace(stored.document, condemned=(index, blob_of(container, b"owt"))), stored)
    cause = "it is condemned: the next clean-up deletes it"
    assert [{("store", ""): cause, ("store", "2.sst"): cause}, {}] == seen(verify(state_in(container)))


def test_one_checkpoint_can_be_chosen(account: MemoryAccount) -> None:
    container = account.container("box")
    older = str(verify(state_in(container))[1].checkpoint.id)
    [found] = verify(state_in(container), checkpoint_id=older)
    assert older == str(found.checkpoint.id)
    with pytest.raises(NotFoundError, match=f"it has no checkpoint 1-2; there are: .*{older}"):
        verify(state_in(container), checkpoint_id="1-2")


def test_a_checkpoint_that_is_dropped_meanwhile_is_not_called_damaged(account: MemoryAccount, tmp_path: Path) -> None:
    live = write(tmp_path / "live", TREES[0])

    class Overtaken(FaultInjector):
        def attempt(self, request: Request, send: Callable[[], T]) -> T:
            if request.operation == "list" and not self.attempts[1:]:
                super().attempt(request, lambda: None)
                writer = open_state(state_in(account.container("box")), TaskIdentity("flights"))
                for _ in range(2):
                    (live / "CURRENT").write_bytes(str(writer.newest).encode())
                    writer.back_up({"store": live}, leave_out=["same"])
            return super().attempt(request, send)

    found = verify(state_in(account.restarted(Overtaken()).container("box")))
    assert [(False, True), (False, True)] == [(each.whole, each.dropped) for each in found]
    assert [True, True] == [each.whole for each in verify(state_in(account.container("box")))]


@pytest.mark.usefixtures("no_packs")
def test_a_deep_look_downloads_each_content_once_in_pieces(
    account: MemoryAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE_BYTES", 2)
    faults = FaultInjector()
    planned: list[tuple[int, int]] = []
    pieces: list[int] = []
    report = ProgressCallbacks(planned=lambda files, bytes_: planned.append((files, bytes_)), progress=pieces.append)
    verify(state_in(account.restarted(faults).container("box")), deep=True, report=report)
    blobs = [each.name for each in faults.attempts if each.operation == "get" and "/files/" in each.name]
    assert [(6, 15)] == planned
    assert 15 == sum(pieces)
    assert 2 == max(pieces)
    assert len(pieces) == len(blobs)
    assert {"put", "delete", "set_tags"}.isdisjoint(each.operation for each in faults.attempts)


def test_without_answers_nothing_is_said_of_a_checkpoint(account: MemoryAccount) -> None:
    for faults in (FaultInjector(always(TimeOut())), FaultInjector(on("get", TimeOut(), skip=2, times=99))):
        with pytest.raises(TransientError):
            verify(state_in(account.restarted(faults).container("box")), deep=True)


def test_a_state_without_record_and_one_with_a_damaged_record_are_errors(account: MemoryAccount) -> None:
    container = account.container("box")
    with pytest.raises(NotFoundError, match="it has no checkpoint record"):
        verify(Location.in_container(container, "flights/task-9"))
    container.put(f"{STATE}/checkpoint.json", b"{}")
    with pytest.raises(CorruptError, match="Record flights/task-3/checkpoint.json is damaged"):
        verify(state_in(container))
