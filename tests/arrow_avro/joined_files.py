"""Files of numbered rows, and what they are joined to."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.files.block_codecs import CODECS, codec
from arrow_avro.files.container_file import SYNC_SIZE, block, blocks, header, read_header
from arrow_avro.files.placing import Placement
from arrow_avro.joining import JoinedFormat, join_files
from arrow_avro.varint import encode
from tests.arrow_avro.sync_marker import SYNC

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = '{"type":"record","name":"row","fields":[{"name":"n","type":"long"},{"name":"data","type":"bytes"}]}'
FORM = JoinedFormat(SCHEMA, "null", SYNC, block_bytes=200)

Row = tuple[int, bytes]


def datum(row: Row) -> bytes:
    return encode(row[0]) + encode(len(row[1])) + row[1]


def file_of(bodies: Sequence[tuple[int, bytes]], codec_name: str = "null", **options: Any) -> bytes:
    """A file with one block for each (rows, body)."""
    sync = options.pop("sync", b"own marker of it")
    framed = [part for rows, body in bodies for part in block(rows, codec(codec_name).compress(body), sync)]
    return b"".join((header(options.pop("schema", SCHEMA), codec_name, sync, **options), *framed))


def rows_file(groups: Sequence[Sequence[Row]], codec_name: str = "null", **options: Any) -> bytes:
    """A file with one block for each group of rows."""
    return file_of([(len(rows), b"".join(map(datum, rows))) for rows in groups], codec_name, **options)


def numbered(first: int, count: int, size: int = 3) -> list[Row]:
    return [(number, bytes([number % 251]) * size) for number in range(first, first + count)]


@dataclass(frozen=True)
class Joined:
    data: bytes
    placements: list[Placement]

    @property
    def blocks(self) -> list[Any]:
        return list(blocks(self.data, read_header(self.data)))

    def rows_at(self, placement: Placement) -> list[Row]:
        """The rows of a placement, by the blocks that begin in its bytes and no others."""
        head = self.data[: read_header(self.data).size]
        return decoded(head + self.data[placement.start : placement.end])[placement.skip :][: placement.rows]


def joined(files: Sequence[bytes], form: JoinedFormat = FORM) -> Joined:
    parts = list(join_files([(f"s/{number}.avro", data) for number, data in enumerate(files)], form))
    data = b"".join(part for part in parts if not isinstance(part, Placement))
    return Joined(data, [part for part in parts if isinstance(part, Placement)])


def decoded(data: bytes) -> list[Row]:
    return [(row["n"], row["data"]) for batch in decode_blob(data, blob="joined") for row in batch.to_pylist()]


@st.composite
def sources(draw: st.DrawFn) -> tuple[JoinedFormat, list[bytes]]:
    """Sources of any block sizes and codecs, some without blocks, bytes or rows, some gzipped, to be joined."""
    name = draw(st.sampled_from(CODECS))
    row = st.tuples(st.integers(0, 300), st.sampled_from([0, 1, 5, 40, 900]).map(lambda size: b"d" * size))
    groups = st.lists(st.lists(row, max_size=6), max_size=4)
    files = draw(st.lists(st.one_of(groups, st.lists(st.lists(row, min_size=1, max_size=1))), max_size=9))
    own = st.sampled_from([name, name, *CODECS])
    made = [rows_file(each, draw(own), sync=draw(st.binary(min_size=SYNC_SIZE, max_size=SYNC_SIZE))) for each in files]
    made = [draw(st.sampled_from([data, data, data, gzip.compress(data)])) for data in made]
    made.insert(draw(st.integers(0, len(made))), draw(st.sampled_from([b"", file_of([], name)])))
    metadata = draw(st.sampled_from([{}, {"who": b"we"}]))
    size = draw(st.sampled_from([1, 50, 400, 3000, 1 << 20]))
    return JoinedFormat(SCHEMA, name, SYNC, metadata, size), made
