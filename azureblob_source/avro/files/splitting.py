"""Which blocks of an Avro file belong to which part of it, whatever its bytes look like. Pure.

A file is cut at any places. A block belongs to the part in which the sync marker before it begins (for the first block
the header's). A reader of a part in the middle has to find such a marker, and rows may hold anything: the marker too,
and what looks like a block behind it. So:

    rule    A part's first marker is the first place in it where the marker stands and is followed by the end of the
            file or by a well-formed block: two lengths, and the marker again where they say.
    check   The chain of blocks from the header on is exact. Whoever reads a part to its end knows where the chain goes
            on, applies the rule to the bytes behind the end, and compares.

If every check holds, every part has begun on the chain (by induction over the parts), so each row is read once. If one
fails, either the next block is damaged, or bytes in a block imitate marker and block, and such a file can only be read
in one part. A marker with few distinct bytes (some writers take 1, 2, 3, 4 four times) is not trusted at all: the first
part has all blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.errors import ConfigurationError, describe
from azureblob_source.avro.files.container_file import SYNC_SIZE, after_sync, blocks, is_block
from azureblob_source.avro.limits import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureblob_source.avro.files.container_file import AvroBlock, FileHeader, Source

_LEAST_DISTINCT = 8
_SEARCH_STEP = 1 << 16


def is_splittable(header: FileHeader) -> bool:
    """Whether the file's marker is random enough to be searched for."""
    return len(set(header.sync)) >= _LEAST_DISTINCT


def split_blocks(
    source: Source, header: FileHeader, start: int, end: int | None, *, blob: str, most: int = BLOCK_BYTES
) -> Iterator[AvroBlock]:
    """The blocks of the part `[start, end)`; `end` None is the end of the file.

    Raises CorruptError where the framing breaks, be it in the first block behind the part, and ConfigurationError if
    the file cannot be read in parts or one of its blocks has more than `most` bytes.
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
    """The first marker in `[start, end)` by the rule."""
    at = start
    while end is None or at < end:
        step = at + _SEARCH_STEP if end is None else min(at + _SEARCH_STEP, end)
        source.forget(at)
        there = source.clip(step + SYNC_SIZE - 1)
        if there < at + SYNC_SIZE:
            return None
        for marker in _markers(bytes(source.read(at, there)), sync):
            behind = at + marker + SYNC_SIZE
            if source.clip(behind + 1) == behind or is_block(source, sync, behind):
                return at + marker
        at = step
    return None


def _markers(data: bytes, sync: bytes) -> Iterator[int]:
    place = after_sync(data, sync, 0)
    while place is not None:
        yield place - SYNC_SIZE
        place = after_sync(data, sync, place - SYNC_SIZE + 1)


def _check(source: Source, header: FileHeader, end: int, at: int, blob: str, most: int) -> None:
    """The next part, which begins at `end`, goes on where this one has left the chain: with the block at `at`."""
    marker = _first_marker(source, header.sync, end, at - SYNC_SIZE + 1)
    if marker is None:
        for _ in blocks(source, header, at, blob=blob, most=most):
            break
    elif marker != at - SYNC_SIZE:
        message = describe(
            "read",
            f"blob {blob} in parts",
            f"from byte {marker}, inside a block, bytes imitate its sync marker and a block, so its blocks cannot be "
            "told from its contents",
            "Set option maxPartitionBytes above the blob's size, so that it is read in one part.",
        )
        raise ConfigurationError(message)
