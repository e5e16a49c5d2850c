"""Power is lost at any moment: a directory is the old one or the new one, and the new one when the restore is done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foundation.errors import ConfigurationError
from state_backup.restoring.restore import RestoreSettings, restore
from state_backup.spark.writers import note_openings, openings_of
from tests.histories.mutants import Mutant, edited
from tests.state_backup.local.test_scan import put
from tests.state_backup.power_loss import Disk, watched
from tests.state_backup.states import TREES, equal, state_in, write
from tests.state_backup.whole_package.test_crashes import backed_up

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from tests.state_backup.index.trees import Tree

MUTANTS: dict[str, Mutant] = {
    "downloads are not synced": edited(
        "state_backup.restoring.download:Downloader._file", "os.fsync(descriptor)", "os.fstat(descriptor)"
    ),
    "packed files are not synced": edited(
        "state_backup.restoring.download:_write", "os.fsync(descriptor)", "os.fstat(descriptor)"
    ),
    "copies are not synced": edited("state_backup.restoring.assembly:_copy", "durable.sync(new)", "new.stat()"),
    "directories are not synced": edited("state_backup.local.place:apply_permissions", "sync(root)", "root.stat()"),
    "the switch is not synced": edited(
        "state_backup.restoring.assembly:_switch_all", "durable.sync(directory.parent)", "directory.parent.stat()"
    ),
    "the mark of a claim is not synced": edited(
        "state_backup.local.claim:_mark", "os.fsync(descriptor)", "os.fstat(descriptor)"
    ),
    "the old directory is deleted before the switch is synced": edited(
        "state_backup.restoring.assembly:_switch_all",
        "durable.sync(directory.parent)\n",
        "place.discard(directory)\n            durable.sync(directory.parent)\n",
    ),
}


def restored_under(
    top: Path, container: BlobContainer, monkeypatch: pytest.MonkeyPatch, *, exchanged: bool = True
) -> int:
    """Restore over an old directory, and look at every moment. Returns how many moments there were."""
    target = write(top / "restored", TREES[0])
    moments = 0

    def look(disk: Disk) -> None:
        nonlocal moments
        moments += 1
        for after in disk.losses():
            name = "restored" if exchanged or "restored" in after else "restored.replaced"
            assert after.get(name) in (TREES[0], TREES[1])

    with watched(top, look, monkeypatch) as disk:
        restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
        assert [TREES[1]] * 4 == [after.get("restored") for after in disk.losses()]
    return moments


@pytest.fixture
def container(tmp_path: Path) -> BlobContainer:
    """A state whose newest checkpoint has a file of other permissions than the one before: it is copied."""
    return backed_up(tmp_path).container("box")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_restore_leaves_the_old_directory_or_the_new_one(
    top: Path, container: BlobContainer, monkeypatch: pytest.MonkeyPatch, exchanged: bool
) -> None:
    if not exchanged:
        monkeypatch.setattr("state_backup.local.linux._renameat2", None)
    assert restored_under(top, container, monkeypatch, exchanged=exchanged) > 30


def test_the_next_restore_goes_on_from_what_a_loss_of_power_has_left(
    top: Path, container: BlobContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    restores_after_each_loss(top, container, monkeypatch)


def restores_after_each_loss(top: Path, container: BlobContainer, monkeypatch: pytest.MonkeyPatch) -> None:
    target = write(top / "restored", TREES[0])
    found: list[Tree] = []

    def look(disk: Disk) -> None:
        found.extend(after for after in disk.losses() if after not in found)

    with watched(top, look, monkeypatch):
        restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
    assert len(found) > 10
    for after in found:
        shutil.rmtree(top)
        put(after, top)
        restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
        assert equal(target, TREES[1])
        assert {"restored"} == {path.name for path in top.iterdir()}


def test_folders_that_are_made_for_a_restore_stay(
    top: Path, container: BlobContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(top, lambda _: None, monkeypatch) as disk:
        restore(
            state_in(container),
            {"store": top / "a" / "b" / "restored"},
            settings=RestoreSettings(threads=1),
        )
        for after in disk.losses():
            found: Any = after
            assert TREES[1] == found["a"]["b"]["restored"]


def test_what_is_noted_of_a_machine_is_the_old_or_the_new(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a directory with newer batches than the backup would be discarded, or refused."""
    note_openings(top / "ck", ["first"])

    def openings(disk: Disk) -> set[str]:
        notes: list[Any] = [after["ck.backup.json"] for after in disk.losses()]
        return {opening for note in notes for opening in json.loads(note)["openings"]}

    with watched(top, openings, monkeypatch) as disk:
        note_openings(top / "ck", ["second"])
        assert {"second"} == openings(disk)
    assert ["second"] == openings_of(top / "ck")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_sync_that_is_left_out_is_noticed(
    name: str, top: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "downloads are not synced":  # of files that are alone in their blob
        request.getfixturevalue("no_packs")
    container = request.getfixturevalue("container")
    MUTANTS[name](monkeypatch)
    check = restores_after_each_loss if "claim" in name else restored_under
    with pytest.raises((AssertionError, ConfigurationError)):
        check(top, container, monkeypatch)


@pytest.mark.parametrize("what", ["sync(new)", "sync(path.parent)"])
def test_a_note_that_is_not_synced_is_noticed(what: str, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited("state_backup.local.durable:replace_bytes", what, what.replace("sync(", "str("))(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        test_what_is_noted_of_a_machine_is_the_old_or_the_new(top, monkeypatch)


def test_a_folder_that_is_not_synced_is_noticed(
    top: Path, container: BlobContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited("state_backup.local.durable:make_folders", "sync(folder.parent)", "str(folder.parent)")(monkeypatch)
    with pytest.raises(KeyError):
        test_folders_that_are_made_for_a_restore_stay(top, container, monkeypatch)
