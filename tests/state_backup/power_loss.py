"""What a disk has after a loss of power: what was synced, and of the rest anything or nothing.

The model knows each file and directory by its inode. `os.fsync` of a file makes its bytes durable, that of a directory
its entries. A file that was not synced is empty afterwards, whatever name it has. Entries of a directory that was not
synced since are those before, or those now: the disk may write them on its own. That is chosen for the top directory
and for all below it, so there are four outcomes.

An inode is kept open as long as the model lives, so that no other file gets its number.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tests.state_backup.dying import watching

if TYPE_CHECKING:
    import pytest

    from tests.state_backup.index.trees import Tree

Entries: TypeAlias = dict[str, int]


class Disk:
    """What a disk has on it below a directory. All that is there at the beginning is durable."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._open: dict[int, int] = {}
        self._bytes: dict[int, bytes] = {}
        self._synced: dict[int, Entries] = {}
        self._now: dict[int, Entries] = {}
        self._dirs: set[int] = set()
        self._look()
        for inode, entries in self._now.items():
            self._synced[inode] = dict(entries)
        for path in top.rglob("*"):
            if path.is_file():
                self._bytes[path.stat().st_ino] = path.read_bytes()

    def close(self) -> None:
        """Let the inodes go."""
        for descriptor in self._open.values():
            os.close(descriptor)

    def synced(self, descriptor: int) -> None:
        """A file or directory was synced."""
        self._look()
        inode = os.fstat(descriptor).st_ino
        if inode in self._dirs:
            self._synced[inode] = dict(self._now.get(inode, {}))
        else:
            self._bytes[inode] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def losses(self) -> list[Tree]:
        """What the top directory has after a loss of power now, in each of the outcomes."""
        self._look()
        return [self._tree(self._inode(self.top), now, below) for now in (False, True) for below in (False, True)]

    def _tree(self, inode: int, now: bool, below: bool) -> Tree:
        entries = (self._now if now else self._synced).get(inode, {})
        return {
            name: self._tree(each, below, below) if each in self._dirs else self._bytes.get(each, b"")
            for name, each in entries.items()
        }

    def _look(self) -> None:
        """Find what is there now."""
        self._now = {}
        self._look_at(self.top)

    def _look_at(self, folder: Path) -> None:
        entries: Entries = {}
        for path in folder.iterdir():
            entries[path.name] = self._inode(path)
            if entries[path.name] in self._dirs:
                self._look_at(path)
        self._now[self._inode(folder)] = entries

    def _inode(self, path: Path) -> int:
        found = path.lstat()
        if found.st_ino not in self._open:
            self._open[found.st_ino] = os.open(path, os.O_PATH | os.O_NOFOLLOW)
            if stat.S_ISDIR(found.st_mode):
                self._dirs.add(found.st_ino)
        return found.st_ino


@contextmanager
def watched(top: Path, look: Callable[[Disk], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Look at the disk before each change of it, and after each sync."""
    disk = Disk(top)
    real = os.fsync
    looks: list[bool] = []

    def look_once(*_: object) -> None:
        if not looks:
            looks.append(True)
            try:
                look(disk)
            finally:
                looks.clear()

    def fsync(descriptor: int) -> None:
        real(descriptor)
        disk.synced(descriptor)
        look_once()

    try:
        with monkeypatch.context() as patched, watching(top, look_once):
            patched.setattr(os, "fsync", fsync)
            yield disk
        look(disk)
    finally:
        disk.close()
