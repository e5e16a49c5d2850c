"""Which blocks of an Avro file belong to which split of it, whatever bytes its rows hold. Pure.

Splits are cut at any byte. A block belongs to the split in which the sync marker before it begins (before the first
block that is the header's). A reader of a later split has to search for such a marker. But rows may hold any bytes,
even the marker followed by what looks like a block. So:

    rule    A split starts at the first place in it where the marker is, followed by the end of the file or by
            a well-formed block: row count, size, and the marker again where the body ends.
    check   The chain of blocks from the header on is exact. The reader of a split knows where the chain continues after
            it, applies the rule to the bytes after the split, and compares.

If every check passes, every split started on the chain (by induction over the splits), so each row is read once. If one
fails, either the next block is damaged, or bytes in a block imitate a marker and a block, and the file can only be read
in one split. A marker with few distinct bytes (some writers repeat 1, 2, 3, 4) is not searched for at all: the first
split has all blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrow_avro.files.container_file import SYNC_SIZE, after_sync, blocks, is_block
from arrow_avro.limits import BLOCK_BYTES
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arrow_avro.files.container_file import AvroBlock, FileHeader, Source

_LEAST_DISTINCT = 8
_SEARCH_STEP = 1 << 16


def is_splittable(header: FileHeader) -> bool:
    """Whether the file's sync marker is random enough to be searched for."""
    return len(set(header.sync)) >= _LEAST_DISTINCT


def split_blocks(
    source: Source, header: FileHeader, start: int, end: int | None, *, blob: str, most: int = BLOCK_BYTES
) -> Iterator[AvroBlock]:
    """The blocks of a split of a file.

    source: the bytes of the file.
    header: the file's header.
    start, end: the split, `[start, end)` in bytes; without `end` up to the end of the file.
    blob: its name, for errors.
    most: bytes that a block may have.

    `CorruptError` where the framing is damaged, also in the first block after the split. `ConfigurationError` if the
    file can only be read in one split, or a block is larger than `most`.
    """
    if not is_splittable(header):
        if start == 0:
            yield from blocks(source, header, blob=blob, most=most)
        return
    marker = header.size - SYNC_SIZE
    if start > marker:
        found = _first_marker(source, header.sync, start, end)
        if found is None:
            return
        marker = found
    at = marker + SYNC_SIZE
    for block in blocks(source, header, at, end=end, blob=blob, most=most):
        at = block.end
        yield block
    if end is not None and marker < end <= at - SYNC_SIZE:
        _check(source, header, end, at, blob, most)


def _first_marker(source: Source, sync: bytes, start: int, end: int | None) -> int | None:
    """Where the rule finds the first marker in `[start, end)`; None if it finds none."""
    at = start
    while end is None or at < end:
        step = at + _SEARCH_STEP if end is None else min(at + _SEARCH_STEP, end)
        source.forget(at)
        there = source.clip(step + SYNC_SIZE - 1)
        if there < at + SYNC_SIZE:
            return None
        for marker in _markers(bytes(source.read(at, there)), sync):
            after = at + marker + SYNC_SIZE
            if source.clip(after + 1) == after or is_block(source, sync, after):
                return at + marker
        at = step
    return None


def _markers(data: bytes, sync: bytes) -> Iterator[int]:
    end = after_sync(data, sync, 0)
    while end is not None:
        yield end - SYNC_SIZE
        end = after_sync(data, sync, end - SYNC_SIZE + 1)


def _check(source: Source, header: FileHeader, end: int, at: int, blob: str, most: int) -> None:
    """Check that the next split, from `end`, will start with the block at `at`, where the chain continues."""
    marker = _first_marker(source, header.sync, end, at - SYNC_SIZE + 1)
    if marker is None:
        for _ in blocks(source, header, at, blob=blob, most=most):
            break  # it is not damaged, which would have raised
    elif marker != at - SYNC_SIZE:
        raise ConfigurationError(
            "read",
            f"blob {blob} in several splits",
            f"from byte {marker}, bytes inside a block imitate the sync marker and another block, so blocks cannot be "
            "found by their markers",
            "Set option maxPartitionBytes above the blob's size, so that it is read in one split.",
        )
