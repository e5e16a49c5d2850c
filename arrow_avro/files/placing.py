"""Where the rows of a source are in a joined file (`joining`), and the blocks that hold them. Pure.

Unlike a split (`splitting`), a placement says where blocks begin, so no marker is searched for. It is kept apart from
the file. So the blocks are compared with it: a read must not have fewer rows, or those of others, without an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arrow_avro.files.container_file import SYNC_SIZE, blocks, raise_corrupt
from arrow_avro.limits import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arrow_avro.files.container_file import AvroBlock, FileHeader, Source


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a source's rows are in a joined file.

    start, end: the blocks that begin in these bytes hold them. Both are where a block begins, or the end of the file.
    skip: rows of other sources before them, in the first of these blocks.
    rows: how many there are; rows of other sources may follow in the last block. Without rows `end` is `start`.
    """

    start: int
    end: int
    skip: int
    rows: int


def placed_blocks(
    source: Source, header: FileHeader, placement: Placement, *, blob: str, most: int = BLOCK_BYTES
) -> Iterator[AvroBlock]:
    """The blocks that hold the rows of a placement, which has some.

    source, header, blob, most: as for `split_blocks`.

    Errors as of `blocks`, and `CorruptError` if no block begins at `start`, none ends at `end`, or there are fewer rows
    than `skip` and `rows` say.
    """
    start, end = placement.start, placement.end
    if start < header.size or bytes(source.read(start - SYNC_SIZE, source.clip(start))) != header.sync:
        raise_corrupt(blob, start, f"{placement.rows} rows are placed there, where no block begins")
    at, rows = start, 0
    for block in blocks(source, header, start, end=end - SYNC_SIZE, blob=blob, most=most):
        if at == start and block.rows <= placement.skip:
            raise_corrupt(blob, at, f"the block has {block.rows} rows; others are placed after {placement.skip} of it")
        at, rows = block.end, rows + block.rows
        yield block
    if at != end or rows < placement.skip + placement.rows:
        cause = (
            f"the blocks from byte {start} on end there, with {rows} rows; by their placement they end at byte {end}"
        )
        raise_corrupt(blob, at, f"{cause}, with {placement.skip + placement.rows} at least")
