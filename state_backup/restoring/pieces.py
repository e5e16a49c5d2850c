"""Notes behind the bytes of a file that is being downloaded, by which a download that was killed is continued.

    │ bytes of the file, some of them not there yet │ BLAKE3 of piece 0 │ piece 1 │ … │ BLAKE3 of the whole file │

A note is written after its piece. Nothing is trusted: who continues reads each piece that has a note, and fetches it
again if it has another hash. When all pieces are there the notes are cut off, and the whole file is verified.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from blake3 import blake3 as new_blake3

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from state_backup.index.snapshot_index import FileIndex

_NOTE = 32
"""Bytes of a hash."""


class PieceJournal:
    """The notes of one open file, whose bytes come in several pieces. Pieces may be noted by several threads."""

    def __init__(self, descriptor: int, file: FileIndex, pieces: int) -> None:
        self._descriptor, self._file, self._pieces = descriptor, file, pieces

    @property
    def _end(self) -> int:
        return self._file.metadata.size + self._pieces * _NOTE

    def begin(self) -> None:
        """Make room for the file, with notes that say of no piece that it is there."""
        os.posix_fallocate(self._descriptor, 0, self._end + _NOTE)
        os.pwrite(self._descriptor, bytes.fromhex(self._file.blake3), self._end)

    @property
    def are_there(self) -> bool:
        """Whether the file was begun by a download of the same content in as many pieces."""
        size = os.fstat(self._descriptor).st_size
        whole = os.pread(self._descriptor, _NOTE, self._end)
        return size == self._end + _NOTE and whole == bytes.fromhex(self._file.blake3)

    def has(self, number: int, offset: int, length: int) -> bool:
        """Whether the bytes of a piece are those that were noted."""
        note = os.pread(self._descriptor, _NOTE, self._file.metadata.size + number * _NOTE)
        if not any(note):
            return False
        return new_blake3(os.pread(self._descriptor, length, offset)).digest() == note

    def add(self, number: int, data: bytes) -> None:
        """Note a piece that was written."""
        os.pwrite(self._descriptor, new_blake3(data).digest(), self._file.metadata.size + number * _NOTE)

    def end(self) -> None:
        """All pieces are there: cut the notes off."""
        os.ftruncate(self._descriptor, self._file.metadata.size)


def begun(directory: Path, wanted: Collection[str]) -> Iterator[tuple[str, Path]]:
    """The files below a directory that end in one of these BLAKE3 hashes, as files do that were being downloaded.

    Those of another user cannot be written.
    """
    for path in sorted(directory.rglob("*")):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and (last := _last_note(path)) in wanted:
            yield last, path


def _last_note(path: Path) -> str:
    """The last hash in a file; empty for one that cannot be read, which is downloaded again."""
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(max(0, path.stat().st_size - _NOTE))
            return file.read(_NOTE).hex()
    except OSError:
        return ""
