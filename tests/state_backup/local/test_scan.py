"""What a scan finds in a directory, and what it refuses."""

from __future__ import annotations

import json
import os
import socket
import threading
import zlib
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3 as new_blake3
from hypothesis import given

from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from state_backup.local import scan as module
from state_backup.local.scan import MOST_LEVELS, ChecksumCache, scan
from tests.state_backup.index.trees import TREES, Tree, local

if TYPE_CHECKING:
    from pathlib import Path

    from state_backup.index.dir_diff import LocalDir


def put(tree: Tree, folder: Path) -> None:
    """Write the tree into a new folder."""
    folder.mkdir()
    for name, each in tree.items():
        if isinstance(each, bytes):
            (folder / name).write_bytes(each)
        else:
            put(each, folder / name)


def found_in(directory: LocalDir) -> dict[str, tuple[str, int, int]]:
    return {file.path: (file.blake3, file.checksum, file.metadata.size) for file in directory.all_files()}


def dirs_in(directory: LocalDir, path: str = "") -> set[str]:
    below = {f"{path}{each.name}/" for each in directory.sub_dirs}
    return below.union(*(dirs_in(each, f"{path}{each.name}/") for each in directory.sub_dirs))


@given(tree=TREES)
def test_every_file_and_directory_is_found(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tree") / "root"
    put(tree, folder)
    assert found_in(local(tree)) == found_in(scan(folder))
    assert dirs_in(local(tree)) == dirs_in(scan(folder))


def test_metadata_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a file\udcff"
    path.write_bytes(b"x" * 3_000_000)
    path.chmod(0o4640)
    os.utime(path, ns=(0, 1_356_998_400_123_456_789))
    tmp_path.chmod(0o710)
    directory = scan(tmp_path)
    (file,) = directory.files

    assert ("a file\udcff", 3_000_000, 1_356_998_400_123) == (
        file.name,
        file.metadata.size,
        file.metadata.last_modified_time_millis,
    )
    assert ("rw-r-----", "rwx--x---") == (file.metadata.permissions, directory.permissions)
    assert (zlib.crc32(b"x" * 3_000_000), new_blake3(b"x" * 3_000_000).hexdigest()) == (file.checksum, file.blake3)


def test_what_is_neither_file_nor_directory_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link").symlink_to("/etc/passwd")
    with pytest.raises(ConfigurationError, match=r"back up directory .* failed: sub/link is a symbolic link"):
        scan(tmp_path)
    (tmp_path / "sub" / "link").unlink()
    (tmp_path / "dirlink").symlink_to(tmp_path / "sub")
    with pytest.raises(ConfigurationError, match="dirlink is a symbolic link"):
        scan(tmp_path)
    (tmp_path / "dirlink").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="pipe is neither a file nor a directory"):
        scan(tmp_path)
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        with pytest.raises(ConfigurationError, match="s is neither a file nor a directory"):
            scan(tmp_path)


def test_a_directory_that_is_missing_or_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        scan(tmp_path / "no")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="it cannot be read"):
        scan(tmp_path / "file")


def test_directories_that_are_too_deep_are_refused(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath(*["d"] * MOST_LEVELS)
    deepest.mkdir(parents=True)
    scan(tmp_path)
    (deepest / "d").mkdir()
    with pytest.raises(ConfigurationError, match=f"is below {MOST_LEVELS} levels"):
        scan(tmp_path)


@pytest.mark.parametrize("change", ["grow", "rewrite", "vanish", "cut"])
def test_a_file_that_changes_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = tmp_path / "wal.log"
    path.write_bytes(b"x" * 3_000_000)
    os.utime(path, ns=(0, 0))
    begun, changed = threading.Event(), threading.Event()

    class Slow(module.Checksums):
        def update(self, piece: bytes | memoryview) -> None:
            begun.set()
            changed.wait(10)
            super().update(piece)

    def meanwhile() -> None:
        begun.wait(10)
        match change:
            case "grow":
                with path.open("ab") as file:
                    file.write(b"y")
            case "rewrite":
                with path.open("r+b") as file:
                    file.write(b"y")
            case "cut":
                os.truncate(path, 1_500_000)
            case _:
                (tmp_path / "other").unlink()
        changed.set()

    if change == "vanish":
        (tmp_path / "other").touch()
        monkeypatch.setattr(module, "_THREADS", 1)
        path.rename(tmp_path / "a")  # it is read first
    monkeypatch.setattr(module, "Checksums", Slow)
    thread = threading.Thread(target=meanwhile)
    thread.start()
    what = "other vanished" if change == "vanish" else "wal.log changed"
    with pytest.raises(ConflictError, match=f"{what} while it was read. Back up a snapshot of it"):
        scan(tmp_path)
    thread.join()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(0o000)
    with pytest.raises(ConfigurationError, match="secret cannot be read"):
        scan(tmp_path)


def test_a_file_that_is_known_by_inode_size_and_time_is_not_read_again(tmp_path: Path) -> None:
    def checksum(known: ChecksumCache | None) -> int:
        return scan(tmp_path / "db", known=known).files[0].checksum

    file = tmp_path / "db" / "1.sst"
    put({"1.sst": b"one"}, tmp_path / "db")
    os.utime(file, (1_600_000_000, 1_600_000_000))
    known = ChecksumCache()
    assert zlib.crc32(b"one") == checksum(known)
    file.write_bytes(b"eno")
    os.utime(file, (1_600_000_000, 1_600_000_000))
    assert zlib.crc32(b"one") == checksum(known), "what nobody should do shows that it was not read"
    assert zlib.crc32(b"eno") == checksum(None)
    os.utime(file, (1_600_000_001, 1_600_000_001))
    assert zlib.crc32(b"eno") == checksum(known)


def test_a_file_is_read_again_if_it_is_young_or_another_or_was_not_met_in_between(tmp_path: Path) -> None:
    known = ChecksumCache()
    put({"young": b"one", "old": b"two"}, tmp_path / "db")
    os.utime(tmp_path / "db" / "old", (1_600_000_000, 1_600_000_000))
    scan(tmp_path / "db", known=known)
    (tmp_path / "db" / "young").write_bytes(b"eno")
    put({"copy": b"two"}, tmp_path / "other")
    os.utime(tmp_path / "other" / "copy", (1_600_000_000, 1_600_000_000))
    second = scan(tmp_path / "db", known=known)
    assert [zlib.crc32(b"two"), zlib.crc32(b"eno")] == [file.checksum for file in second.files]
    scan(tmp_path / "other", known=known)
    (tmp_path / "db" / "old").write_bytes(b"owt")
    os.utime(tmp_path / "db" / "old", (1_600_000_000, 1_600_000_000))
    third = scan(tmp_path / "db", known=known)
    assert zlib.crc32(b"owt") == third.files[0].checksum


def test_what_was_read_is_known_to_another_process_too(tmp_path: Path) -> None:
    put({"old": b"two"}, tmp_path / "db")
    os.utime(tmp_path / "db" / "old", (1_600_000_000, 1_600_000_000))
    known = ChecksumCache()
    before = scan(tmp_path / "db", known=known)
    (tmp_path / "db" / "old").write_bytes(b"owt")
    os.utime(tmp_path / "db" / "old", (1_600_000_000, 1_600_000_000))
    other = ChecksumCache.from_json(json.loads(json.dumps(known.to_json())))
    assert before.files[0].blake3 == scan(tmp_path / "db", known=other).files[0].blake3, "it was not read"
    for wrong in ([[1, 2]], [1], [["a", 1, 1, 1, 1, ""]]):
        with pytest.raises((TypeError, ValueError)):
            ChecksumCache.from_json(wrong)  # type: ignore[arg-type]
