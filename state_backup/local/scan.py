"""Read a directory: each file with its metadata and checksums, each sub-directory, also empty ones.

What would make the backup another directory than this one is an error that names the path: a file that changes or
vanishes while it is read, one that cannot be read, and what is neither file nor directory (symbolic links, sockets).
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import zlib
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from blake3 import blake3 as new_blake3

from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from foundation.parallel import concurrent_map
from state_backup.index.dir_diff import LocalDir, LocalFile
from state_backup.index.snapshot_index import FileMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from foundation.clock import Clock

MOST_LEVELS = 100
READ_BYTES = 1 << 20
_SETTLED_SECONDS = 2.0
"""A file that was written so recently may change again without getting another time."""
_THREADS = min(8, os.cpu_count() or 1)
_CALLS = 16
"""Calls for each thread, which divide the files among them: one for each file costs more than a small file."""
SNAPSHOT_STEP = "Back up a snapshot of it (hard links, as a checkpoint of RocksDB), or stop what writes it."


@dataclass
class Checksums:
    """CRC-32 and BLAKE3 of bytes that come piece by piece."""

    crc32: int = 0

    def __post_init__(self) -> None:
        self._blake3 = new_blake3()

    def update(self, piece: bytes | memoryview) -> None:
        """Take the next piece."""
        self.crc32 = zlib.crc32(piece, self.crc32)
        self._blake3.update(piece)

    @property
    def blake3(self) -> str:
        """Hexadecimal."""
        return self._blake3.hexdigest()


class ChecksumCache:
    """Checksums of the files of the last scan: in the next, one of the same inode, size and time is not read.

    Only for files that no program changes in place, or gives another time, such as those of a RocksDB checkpoint.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._before: dict[tuple[int, ...], tuple[int, str]] = {}
        self._now: dict[tuple[int, ...], tuple[int, str]] = {}

    def find(self, file: os.stat_result) -> tuple[int, str] | None:
        """CRC-32 and BLAKE3, if the file was there at the last scan."""
        key = self._key(file)
        if key in self._before:
            self._now[key] = self._before[key]
        return self._before.get(key)

    def add(self, file: os.stat_result, crc32: int, blake3: str) -> None:
        """Remember a file that was read."""
        if file.st_mtime < self._clock.now() - _SETTLED_SECONDS:
            self._now[self._key(file)] = crc32, blake3

    def end(self) -> None:
        """A scan has ended: forget what it did not meet."""
        self._before, self._now = self._now, {}

    def to_json(self) -> list[list[object]]:
        """A value in JSON for another process of this host, which has to find the disk as it is now."""
        return [[*key, *found] for key, found in sorted(self._before.items())]

    @classmethod
    def from_json(cls, fields: Iterable[Sequence[Any]]) -> ChecksumCache:
        """What `to_json` has returned. `TypeError` or `ValueError` for anything else."""
        known = cls()
        for device, inode, size, modified, crc32, blake3 in fields:
            known._before[int(device), int(inode), int(size), int(modified)] = int(crc32), str(blake3)
        return known

    @staticmethod
    def _key(file: os.stat_result) -> tuple[int, ...]:
        return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns


def scan(directory: Path, threads: int = _THREADS, known: ChecksumCache | None = None) -> LocalDir:
    """The directory as it is. threads: how many files are read at once. known: files that are not read again.

    `NotFoundError` if there is none; `ConfigurationError` for what cannot be backed up; `ConflictError` for a file that
    changes meanwhile.
    """
    found = _list(directory, "", "")
    paths = list(found.all_files())
    threads = min(threads, _THREADS)
    parts = [paths[part::calls] for part in range(calls)] if (calls := min(len(paths), threads * _CALLS)) else []
    read = concurrent_map(partial(_read_all, directory, known=known), parts, threads, after_error="wait")
    if known is not None:
        known.end()
    return found.with_files({file.path: file for files in read for file in files})


@dataclass(frozen=True)
class _Listing:
    name: str
    files: tuple[str, ...]
    sub_dirs: tuple[_Listing, ...]
    permissions: str

    def all_files(self) -> Iterator[str]:
        yield from self.files
        for each in self.sub_dirs:
            yield from each.all_files()

    def with_files(self, files: Mapping[str, LocalFile]) -> LocalDir:
        return LocalDir(
            self.name,
            tuple(files[path] for path in self.files),
            tuple(each.with_files(files) for each in self.sub_dirs),
            self.permissions,
        )


def _list(root: Path, path: str, name: str) -> _Listing:
    """List a directory. `path` ends in a slash, unless it is that of the root."""
    if path.count("/") > MOST_LEVELS:
        raise ConfigurationError(
            "back up directory", str(root), f"{path[:80]} is below {MOST_LEVELS} levels", "Make it flatter."
        )
    files: list[str] = []
    dirs: list[_Listing] = []
    for entry in sorted(_entries(root, path), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            dirs.append(_list(root, f"{path}{entry.name}/", entry.name))
        elif entry.is_file(follow_symlinks=False):
            files.append(path + entry.name)
        else:
            kind = "a symbolic link" if entry.is_symlink() else "neither a file nor a directory"
            cause = f"{path}{entry.name} is {kind}"
            raise ConfigurationError("back up directory", str(root), cause, "Remove it, or keep it elsewhere.")
    return _Listing(name, tuple(files), tuple(dirs), _permissions_of_dir(root, path))


def _permissions_of_dir(root: Path, path: str) -> str:
    try:
        return permissions_of((root / path).stat(follow_symlinks=not path))
    except OSError as error:
        raise ConflictError(
            "back up directory", str(root), f"{path} vanished while it was read", SNAPSHOT_STEP
        ) from error


def _entries(root: Path, at: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root / at) as found:
            return list(found)
    except FileNotFoundError as error:
        if not at:
            raise NotFoundError("back up directory", str(root), "it does not exist", "Check the path.") from error
        raise ConflictError(
            "back up directory", str(root), f"{at} vanished while it was read", SNAPSHOT_STEP
        ) from error
    except OSError as error:
        raise ConfigurationError(
            "back up directory", str(root), f"{at or 'it'} cannot be read ({error})", "Change that."
        ) from error


def _read_all(root: Path, paths: Sequence[str], known: ChecksumCache | None) -> list[LocalFile]:
    return [_read(root, path, known) for path in paths]


def _read(root: Path, path: str, known: ChecksumCache | None) -> LocalFile:
    try:
        descriptor = open_file(f"{root}/{path}")
    except FileNotFoundError as error:
        raise ConflictError(
            "back up directory", str(root), f"{path} vanished while it was read", SNAPSHOT_STEP
        ) from error
    except OSError as error:
        raise ConfigurationError(
            "back up directory", str(root), f"{path} cannot be read ({error})", "Change that."
        ) from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise ConflictError("back up directory", str(root), f"{path} is no file any more", SNAPSHOT_STEP)
        if known is not None and (found := known.find(before)) is not None:
            return LocalFile(path, _metadata(before), *found)
        checksums = Checksums()
        size = 0
        while piece := file.read(READ_BYTES):
            checksums.update(piece)
            size += len(piece)
        after = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or size != after.st_size:
        raise ConflictError("back up directory", str(root), f"{path} changed while it was read", SNAPSHOT_STEP)
    if known is not None:
        known.add(after, checksums.crc32, checksums.blake3)
    return LocalFile(path, _metadata(after), checksums.crc32, checksums.blake3)


def open_file(path: str) -> int:
    """A descriptor to read from. Does not wait for who writes to a pipe: the path may have become one."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)


def _metadata(found: os.stat_result) -> FileMetadata:
    return FileMetadata(
        max(0, found.st_ctime_ns // 1_000_000),
        max(0, found.st_mtime_ns // 1_000_000),
        found.st_size,
        _user(found.st_uid),
        _group(found.st_gid),
        permissions_of(found),
    )


def permissions_of(found: os.stat_result) -> str:
    """The permissions as `rwxr-x---`. The bits setuid, setgid and sticky are not kept."""
    return stat.filemode(stat.S_IMODE(found.st_mode) & 0o777)[1:]


@lru_cache
def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@lru_cache
def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
