"""Checkpoints of fills on a disk that is lost: the fill goes on from what was backed up with each batch."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from adjunct_store.spark.filling.fill import VersionWriter
from adjunct_store.spark.filling.fill_backup import FillBackup
from adjunct_store.versions.manifest import Version
from adjunct_store.versions.manifest_store import read_manifest
from azure_account.location import Location
from foundation.errors import ConfigurationError, FencedError
from tests.state_backup.spark.checkpoint_files import batch_files, write_files
from tests.state_backup.states import new_account

if TYPE_CHECKING:
    from pathlib import Path

    from tests.adjunct_store.spark.planes import Planes


@pytest.fixture
def backup(store: Location) -> Location:
    """Where the checkpoints are backed up."""
    return replace(store, where=f"{store.container}/checkpoints/planes")


def lose_disk(planes: Planes) -> None:
    shutil.rmtree(planes.folder / "fill")


def batches(planes: Planes) -> tuple[int, int]:
    """The generation that readers get, and its last batch."""
    manifest = read_manifest(planes.store.open(), planes.store.path)
    assert manifest is not None and manifest.newest is not None
    return manifest.newest.generation, manifest.newest.batch


def test_a_fill_whose_disk_is_lost_goes_on_after_its_last_batch(planes: Planes, backup: Location) -> None:
    for number in range(3):
        planes.feed((f"{'abc'[number]}", number))
        planes.run(checkpoint_backup=backup)
        assert (1, number) == batches(planes)
        lose_disk(planes)
    planes.feed(("a", 7, 1), ("b", None, 1, "D"))
    planes.run(checkpoint_backup=backup)
    assert (1, 3) == batches(planes)
    assert {"a": 7, "c": 2} == planes.content()


@pytest.mark.parametrize("published", [False, True])
def test_a_driver_that_dies_with_its_disk_while_it_publishes_repeats_the_same_batch(
    planes: Planes, backup: Location, monkeypatch: pytest.MonkeyPatch, *, published: bool
) -> None:
    planes.feed(("a", 1))
    planes.run(checkpoint_backup=backup)
    planes.feed(("b", 2))
    publish = VersionWriter._publish

    def dies(writer: VersionWriter, new: Any) -> Any:
        if published:
            publish(writer, new)
        raise ConnectionResetError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(VersionWriter, "_publish", dies)
        with pytest.raises(Exception, match="the driver is gone"):
            planes.run(checkpoint_backup=backup)
    assert (1, int(published)) == batches(planes)
    lose_disk(planes)
    planes.feed(("b", 3, 1), ("c", 4))
    planes.run(checkpoint_backup=backup)
    assert (1, 2) == batches(planes)
    assert {"a": 1, "b": 3, "c": 4} == planes.content()


def test_a_fill_that_has_published_no_batch_begins_again(planes: Planes, backup: Location) -> None:
    planes.run(bootstrap=True, checkpoint_backup=backup)
    lose_disk(planes)
    planes.feed(("a", 1))
    planes.run(bootstrap=True, checkpoint_backup=backup)
    assert {"a": 1} == planes.content()


def test_each_generation_has_a_backup_of_its_own(planes: Planes, backup: Location) -> None:
    planes.feed(("a", 1))
    planes.run(checkpoint_backup=backup)
    lose_disk(planes)
    planes.run(rebuild=True, checkpoint_backup=backup)
    assert (2, 0) == batches(planes)
    lose_disk(planes)
    planes.feed(("b", 2))
    planes.run(checkpoint_backup=backup)
    assert (2, 1) == batches(planes)
    assert {"a": 1, "b": 2} == planes.content()


def test_a_driver_that_comes_back_goes_on_after_the_batches_of_another_one(planes: Planes, backup: Location) -> None:
    given: dict[str, Any] = {"checkpoint_backup": backup, "source": "input"}
    planes.feed(("a", 1))
    planes.run(**given, epoch=1)
    planes.feed(("b", 2))
    planes.run(**given, epoch=2, checkpoint=str(planes.folder / "other"))
    planes.feed(("c", 3))
    with pytest.raises(FencedError):
        planes.run(**given, epoch=1)
    planes.run(**given, epoch=3)
    assert (1, 2) == batches(planes)
    assert {"a": 1, "b": 2, "c": 3} == planes.content()


def test_a_fill_that_has_repeated_its_last_batch_on_another_disk_can_start_again(tmp_path: Path) -> None:
    """Without Spark: the batch was published, so nothing is written, and the machine has a batch that no backup has."""
    account = new_account()
    version = Version(1, 1, (), (), batch=0, entries=0, bytes=0)
    fill: Any = SimpleNamespace(base=version, generation=SimpleNamespace(number=1))

    def backup_on(disk: str) -> FillBackup:
        folder: Any = SimpleNamespace(path=f"{tmp_path}/{disk}", location=lambda number: f"{tmp_path}/{disk}/g{number}")
        return FillBackup(Location.in_account(account, "box/checkpoints"), folder, None)

    files = batch_files(0)
    write_files(tmp_path / "one/g1", {name: text for name, text in files.items() if not name.startswith("commits")})
    backup_on("one").back_up(1, 0)
    other = backup_on("other")
    other.restore(1)
    missing: Any = None
    writer = VersionWriter(Location.in_account(account, "box/planes"), fill, missing, missing)
    writer.before_publish = partial(other.back_up, 1)
    assert version == writer.run(missing, 0).version
    write_files(tmp_path / "other/g1", {"commits/0": files["commits/0"]})
    other.restore(1)
    assert (tmp_path / "other/g1/commits/0").exists()


def test_only_a_checkpoint_on_a_local_disk_is_backed_up(backup: Location) -> None:
    folder: Any = SimpleNamespace(path="abfss://box@account.dfs.core.windows.net/fill")
    with pytest.raises(ConfigurationError, match="not on a local disk"):
        FillBackup(backup, folder, 1)
