"""Restores of states of which something was deleted by hand, in accounts with and without soft delete."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.memory.service import MemoryService
from foundation.errors import NotFoundError
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.record.ttl import TAG
from state_backup.restoring.restore import checkpoints, restore
from state_backup.restoring.verifying import verify
from state_backup.sweeping.sweep import plan_sweep
from tests.state_backup.states import STATE, TREES, equal, state_in, write

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer

DAY = 24 * 3600.0
RECORD = f"{STATE}/checkpoint.json"


def backed_up(tmp_path: Path, service: MemoryService, keep: int = 2) -> MemoryAccount:
    """An account with a backup of each tree."""
    account = MemoryAccount(service)
    account.container("box").create()
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"), WriterSettings(keep=keep))
    for number, tree in enumerate(TREES):
        writer.back_up({"store": write(tmp_path / "live", tree)}, {"input": str(number)})
    return account


def needed(container: BlobContainer, checkpoint: int) -> set[str]:
    """The blobs that a checkpoint needs; 0 is the newest."""
    id_ = str(checkpoints(state_in(container))[checkpoint].id)
    return {blob for blob, ids in plan_sweep(state_in(container), min_age=0).in_use.items() if id_ in ids}


@pytest.mark.usefixtures("no_packs")
def test_whatever_is_deleted_is_undeleted_and_reported(tmp_path: Path) -> None:
    account = backed_up(tmp_path, MemoryService(soft_delete=DAY))
    container = account.container("box")
    every = needed(container, 0)
    assert len(every) > 2
    for number, lost in enumerate([*({blob} for blob in sorted(every)), {RECORD}, every, every | {RECORD}]):
        for blob in lost:
            container.delete(blob)
        restored = restore(state_in(container), {"store": tmp_path / f"restored-{number}"})
        assert lost == set(restored.undeleted)
        assert {} == restored.passed_over
        assert {"input": "3"} == restored.checkpoint.offsets
        assert equal(tmp_path / f"restored-{number}", TREES[3])
        verified = {each.checkpoint.id: each.whole for each in verify(state_in(container), deep=True)}
        assert dict.fromkeys((each.id for each in checkpoints(state_in(container))), True) == verified


def test_what_soft_delete_does_not_keep_makes_the_next_older_checkpoint_the_choice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for service in (MemoryService(soft_delete=DAY), MemoryService()):
        account = backed_up(tmp_path, service)
        container = account.container("box")
        only = sorted(needed(container, 0) - needed(container, 1))
        newest = str(checkpoints(state_in(container))[0].id)
        container.delete(only[0])
        account.clock.sleep(DAY)
        with caplog.at_level(logging.WARNING):
            restored = restore(state_in(container), {"store": tmp_path / "restored"})
        assert ([newest], ()) == (list(restored.passed_over), restored.undeleted)
        assert only[0] in restored.passed_over[newest]
        assert f"checkpoint {newest} of {STATE} is not whole, an older one is tried" in caplog.text
        assert equal(tmp_path / "restored", TREES[2])
        with pytest.raises(NotFoundError, match=only[0]):
            restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=newest)


def test_if_no_checkpoint_is_whole_the_error_says_why_of_each(tmp_path: Path) -> None:
    account = backed_up(tmp_path, MemoryService(), keep=4)
    container = account.container("box")
    indexes = [checkpoint.indexes["store"] for checkpoint in checkpoints(state_in(container))]
    for index in indexes:
        container.delete(index)
    live = write(tmp_path / "restored", TREES[1])
    with pytest.raises(NotFoundError, match="there is no whole checkpoint with store") as caught:
        restore(state_in(container), {"store": live})
    assert all(index in str(caught.value) for index in indexes)
    assert "`verify` lists what is lost" in str(caught.value)
    assert equal(live, TREES[1]), "the directory stays as it was"


def test_more_lost_checkpoints_than_there_are_attempts_are_passed_over(tmp_path: Path) -> None:
    account = MemoryAccount()
    container = account.container("box")
    container.create()
    writer = open_state(state_in(container), TaskIdentity("flights"), WriterSettings(keep=12))
    for number in range(12):
        writer.back_up({"store": write(tmp_path / "live", {"a": b"%d" % number})})
    found = checkpoints(state_in(container))
    for checkpoint in found[:-1]:
        container.delete(checkpoint.indexes["store"])
    restored = restore(state_in(container), {"store": tmp_path / "restored"})
    assert [str(each.id) for each in found[:-1]] == list(restored.passed_over)
    assert found[-1] == restored.checkpoint


def test_an_undeleted_blob_has_no_ttl(tmp_path: Path) -> None:
    container = backed_up(tmp_path, MemoryService(soft_delete=DAY)).container("box")
    blob = min(needed(container, 0) - needed(container, 1))
    container.set_tags(blob, {TAG: "30d"})  # as if the clean-up had failed for 30 days, so that a rule deleted it
    container.delete(blob)
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert {} == container.tags(blob)


def test_an_account_that_refuses_to_undelete_is_like_one_without_soft_delete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account = backed_up(tmp_path, MemoryService(soft_delete=DAY))
    container = account.container("box")
    container.delete(min(needed(container, 0) - needed(container, 1)))
    refusing = account.restarted(FaultInjector(on("undelete", Refuse(), times=99))).container("box")
    restored = restore(state_in(refusing), {"store": tmp_path / "restored"})
    assert (1, ()) == (len(restored.passed_over), restored.undeleted)
    assert equal(tmp_path / "restored", TREES[2])
    assert "deleted blobs cannot be brought back in memory://memory/box: 403" in caplog.text


def test_an_account_with_versioning_that_undeletes_only_versions_does_not_deceive(tmp_path: Path) -> None:
    class Versioned(MemoryService):
        def undelete(self, container: str, blob: str) -> None: ...

    container = backed_up(tmp_path, Versioned(soft_delete=DAY)).container("box")
    container.delete(min(needed(container, 0) - needed(container, 1)))
    restored = restore(state_in(container), {"store": tmp_path / "restored"})
    assert (1, ()) == (len(restored.passed_over), restored.undeleted)
    assert equal(tmp_path / "restored", TREES[2])


def test_a_damaged_blob_is_not_undeleted_but_passed_over(tmp_path: Path) -> None:
    container = backed_up(tmp_path, MemoryService(soft_delete=DAY)).container("box")
    blob = min(name for name in needed(container, 0) - needed(container, 1) if "/files/" in name)
    size = len(container.get(blob).data)
    container.put(blob, b"x" * size)
    restored = restore(state_in(container), {"store": tmp_path / "restored"})
    assert "have another checksum" in next(iter(restored.passed_over.values()))
    assert equal(tmp_path / "restored", TREES[2])


def test_a_state_that_never_was_is_not_found(tmp_path: Path) -> None:
    container = backed_up(tmp_path, MemoryService(soft_delete=DAY)).container("box")
    with pytest.raises(NotFoundError, match=r"there is no checkpoint with store; there are: none\. Check the name"):
        restore(Location.in_container(container, "flights/task-9"), {"store": tmp_path / "restored"})
