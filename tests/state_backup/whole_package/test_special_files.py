"""Times of files, sizes that an index claims, and files that become something else while they are read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.documents.form import sealed
from foundation.clock import ManualClock
from foundation.errors import AzureBlobError, ConflictError, CorruptError
from state_backup import MayBeEmpty, TaskIdentity, checkpoints, open_state, restore
from state_backup.backup.settings import WriterSettings
from state_backup.backup.upload import FileUploader
from state_backup.index.dir_diff import to_upload
from state_backup.local import scan as scan_module
from state_backup.local.scan import ChecksumCache, scan
from tests.state_backup.states import TREES, equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer

MILLIS = 1_356_998_400_123
OLD = MILLIS * 1_000_000 + 456_789


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A directory whose files are of the year 2013."""
    live = write(tmp_path / "live", TREES[1])
    for path in live.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(OLD, OLD))
    return live


@pytest.fixture(params=["packs", "no_packs"])
def container(live: Path, request: pytest.FixtureRequest) -> BlobContainer:
    if request.param == "no_packs":
        request.getfixturevalue("no_packs")
    container = new_account().container("box")
    open_state(state_in(container), TaskIdentity("flights")).back_up({"store": live})
    return container


def changed_index(container: BlobContainer, change: Callable[[dict[str, Any]], object]) -> None:
    blob = checkpoints(state_in(container))[0].indexes["store"]
    fields = json.loads(container.get(blob).data)
    fields.pop("digest")
    change(fields["dir-index"]["files-present"][0])
    container.put(blob, sealed(fields))


def times(folder: Path) -> set[int]:
    return {path.stat().st_mtime_ns // 1_000_000 for path in folder.rglob("*") if path.is_file()}


def test_modification_times_are_restored_to_the_millisecond(container: BlobContainer, tmp_path: Path) -> None:
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert {MILLIS} == times(tmp_path / "restored")
    assert equal(tmp_path / "restored", TREES[1])


def test_a_restored_directory_is_backed_up_without_a_new_index(container: BlobContainer, tmp_path: Path) -> None:
    (first,) = checkpoints(state_in(container))
    restore(state_in(container), {"store": tmp_path / "restored"})
    again = open_state(state_in(container), TaskIdentity("flights")).back_up({"store": tmp_path / "restored"})
    assert first.indexes == again.indexes


def test_two_restores_of_a_file_have_not_the_same_time_to_the_nanosecond(
    container: BlobContainer, tmp_path: Path
) -> None:
    """With the inode of a deleted file, a file of the same size and time would be taken for that one."""
    found = set()
    for number in range(3):
        restore(state_in(container), {"store": tmp_path / f"{number}"})
        found |= {path.stat().st_mtime_ns for path in (tmp_path / f"{number}").rglob("*") if path.is_file()}
    assert len(found) > 10, "of 15"


@pytest.mark.parametrize("millis", [0, 2**63 // 10**6, 2**63 - 1])
def test_a_time_that_no_disk_has_keeps_nobody_from_a_restore(
    container: BlobContainer, tmp_path: Path, millis: int
) -> None:
    changed_index(container, lambda file: file["file-metadata"].update({"last-modified-time-millis": millis}))
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[1])


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize("size", [60 * 10**9, 2**62])
def test_a_size_that_an_index_claims_is_compared_with_the_blob_before_the_disk_makes_room(
    container: BlobContainer, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = os.posix_fallocate

    def noted(descriptor: int, start: int, length: int) -> None:
        asked.append(length)
        real(descriptor, start, length)

    monkeypatch.setattr(os, "posix_fallocate", noted)
    changed_index(container, lambda file: file["file-metadata"].update({"size": size}))
    (newest,) = checkpoints(state_in(container))
    with pytest.raises(CorruptError, match=rf"is shorter than the file: 3 bytes, not {size:,}"):
        restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=str(newest.id))
    assert max(asked, default=0) < 100


def test_a_sound_large_file_is_restored(tmp_path: Path) -> None:
    container = new_account().container("box")
    live = write(tmp_path / "live", {"large": os.urandom(9 << 20)})
    open_state(state_in(container), TaskIdentity("flights")).back_up({"store": live})
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert (live / "large").read_bytes() == (tmp_path / "restored" / "large").read_bytes()


def becomes_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.timeout(60)
def test_a_file_that_becomes_a_pipe_before_it_is_read_does_not_stop_the_backup(
    live: Path, container: BlobContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = scan_module.open_file

    def open_file(path: str) -> int:
        becomes_a_pipe(Path(path))
        return real(path)

    monkeypatch.setattr(scan_module, "open_file", open_file)
    with pytest.raises(ConflictError, match="1.sst is no file any more. Back up a snapshot of it"):
        open_state(state_in(container), TaskIdentity("flights"), WriterSettings(threads=1)).back_up(
            {"store": MayBeEmpty(live)}
        )


@pytest.mark.timeout(60)
def test_a_file_that_becomes_a_pipe_before_it_is_uploaded_does_not_stop_the_backup(
    live: Path, container: BlobContainer
) -> None:
    files = to_upload(scan(live), {})
    becomes_a_pipe(live / "CURRENT")
    with FileUploader(container, lambda: "files/1", threads=1) as uploader, pytest.raises(AzureBlobError) as caught:
        uploader.files(live, [file for file in files if file.path == "CURRENT"])
    assert "CURRENT has changed since its checksum was computed" in str(caught.value)


@pytest.mark.parametrize(("age", "read_again"), [(1.9, True), (2.1, False), (-5.0, True)])
def test_a_file_counts_as_known_when_its_time_is_more_than_two_seconds_ago(
    tmp_path: Path, age: float, read_again: bool
) -> None:
    """A file may change twice within the resolution of a disk's times, and have the same size and time after both."""
    known = ChecksumCache(ManualClock(OLD / 1e9 + age))
    live = write(tmp_path / "live", {"a": b"one"})
    checksums = []
    for content in (b"one", b"two"):
        (live / "a").write_bytes(content)
        os.utime(live / "a", ns=(OLD, OLD))
        checksums.append(scan(live, known=known).files[0].blake3)
    assert read_again == (checksums[0] != checksums[1])
