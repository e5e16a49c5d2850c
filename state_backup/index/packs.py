"""Which small files share a blob, a pack, and which packs are not worth keeping. Pure.

A request takes longer than the bytes of a small file, so small files are uploaded, and downloaded, many at once:

    files/2a9e…  │ CURRENT │ MANIFEST-000004 │ offsets/0 │ offsets/1 │ …      at most 4 MiB

A file in a pack is still its content: the next snapshots refer to its bytes in the same pack, wherever the file lies
then. What is deleted is a whole pack, when no checkpoint needs any file of it. So that packs do not stay for the sake
of a few files, a backup uploads once more the files of a pack that is `worn`: fewer than half of its bytes are needed,
or it is one of too many small ones. The next checkpoint does not refer to that pack any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from state_backup.index.dir_diff import Blobs, Content, LocalFile
    from state_backup.index.snapshot_index import FileIndex

K = TypeVar("K")

SMALL_FILE = 256 << 10
"""Files below this size (bytes) are packed."""
PACK_BYTES = 4 << 20
"""The most that a pack has. It is uploaded in one request."""
MOST_SMALL_BLOBS = 16
"""How many packs below half of `PACK_BYTES`, and blobs of one small file, a snapshot has before they are merged."""
_WIDEST_GAP = 512 << 10
"""Bytes between two files of a pack that are downloaded rather than making one more request."""


def grouped(files: Iterable[LocalFile]) -> Iterator[tuple[LocalFile, ...]]:
    """The files whose bytes share a blob, in order: several small ones, or one file."""
    pack: list[LocalFile] = []
    size = 0
    for file in files:
        if file.metadata.size >= SMALL_FILE:
            yield (file,)
            continue
        if pack and size + file.metadata.size > PACK_BYTES:
            yield tuple(pack)
            pack, size = [], 0
        pack.append(file)
        size += file.metadata.size
    if pack:
        yield tuple(pack)


def without_worn(needed: Iterable[Content], stored: Mapping[Content, Blobs]) -> dict[Content, Blobs]:
    """The stored content without what lies in worn blobs: it is uploaded again, into new packs.

    needed: the content of the next snapshot. Worn is a pack of which it needs fewer than half of the bytes; and if more
    than `MOST_SMALL_BLOBS` are small, all these are.
    """
    live: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for content in set(needed) & set(stored):
        for blob in stored[content]:
            if blob.pack_size or content[1] < SMALL_FILE:
                live[blob.blob_id] += content[1]
                sizes[blob.blob_id] = blob.pack_size or content[1]
    worn = {blob for blob, size in sizes.items() if 2 * live[blob] < size}
    small = {blob for blob, size in sizes.items() if 2 * size < PACK_BYTES} - worn
    if len(small) > MOST_SMALL_BLOBS:
        worn |= small
    return {content: blobs for content, blobs in stored.items() if not any(blob.blob_id in worn for blob in blobs)}


@dataclass(frozen=True)
class PackRange(Generic[K]):
    """A part of a pack that is downloaded by one request: `length` bytes from `start` on, and the files in it."""

    pack: str
    start: int
    length: int
    files: tuple[tuple[K, FileIndex], ...]

    def pieces(self, data: bytes) -> Iterator[tuple[K, FileIndex, memoryview]]:
        """The files, each with its bytes: fewer if the data is too short."""
        view = memoryview(data)
        for key, file in self.files:
            begin = file.blobs[0].pack_offset - self.start
            yield key, file, view[begin : begin + file.metadata.size]


def runs(files: Mapping[K, FileIndex]) -> tuple[dict[K, FileIndex], list[PackRange[K]]]:
    """The files that are downloaded each by itself, and the runs of the others."""
    alone: dict[K, FileIndex] = {}
    packs: dict[str, list[tuple[K, FileIndex]]] = {}
    for key, file in files.items():
        if len(file.blobs) == 1 and file.blobs[0].pack_size and file.metadata.size <= PACK_BYTES:
            packs.setdefault(file.blobs[0].blob_id, []).append((key, file))
        else:
            alone[key] = file
    return alone, [run for pack, there in packs.items() for run in _runs(pack, there)]


def _runs(pack: str, there: list[tuple[K, FileIndex]]) -> Iterator[PackRange[K]]:
    there.sort(key=lambda each: each[1].blobs[0].pack_offset)
    files: list[tuple[K, FileIndex]] = []
    start = end = 0
    for key, file in there:
        begin = file.blobs[0].pack_offset
        stop = begin + file.metadata.size
        if files and (begin - end > _WIDEST_GAP or stop - start > PACK_BYTES):
            yield PackRange(pack, start, end - start, tuple(files))
            files = []
        if not files:
            start = end = begin
        files.append((key, file))
        end = max(end, stop)
    yield PackRange(pack, start, end - start, tuple(files))
