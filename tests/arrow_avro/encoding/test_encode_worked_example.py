"""The example in the docstrings of the encoder: every byte in them is what the code makes of the rows."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro import schema as avro_schema
from arrow_avro.encoding import assembly, encode, pieces
from arrow_avro.encoding.assembly import assemble, grouped, laid_out
from arrow_avro.encoding.choice import record_encoder
from arrow_avro.encoding.encode import RowEncoder
from arrow_avro.encoding.pieces import DictionaryWords, Piece, Spans, Words, merge

if TYPE_CHECKING:
    from types import ModuleType

EXAMPLES = [line.strip() for line in (encode.__doc__ or "").splitlines() if line.strip().startswith("{")]
ROWS = [ast.literal_eval(line[: line.index("}") + 1]) for line in EXAMPLES]
ARROW = pa.schema([("id", pa.int32()), ("name", pa.string()), ("note", pa.string())])
BATCH = pa.RecordBatch.from_pylist(ROWS, ARROW)
AVRO = avro_schema.infer(ARROW, name="row", namespace=None)
FIELDS = record_encoder(list(ARROW), AVRO.type).prepare_fields(BATCH.columns, len(ROWS)).fields
MERGED = merge(piece for column in FIELDS for piece in column.pieces())


def words_of(module: ModuleType) -> str:
    return " ".join((module.__doc__ or "").split())


def word_hex(word: int, bits: int) -> str:
    return int(word).to_bytes(8, "little")[: bits // 8].hex(" ")


def shown(piece: Piece) -> str:
    """A piece as the docstring of `pieces` writes it."""
    match piece:
        case Words():
            word, bits = piece.read(0, len(ROWS))
            return f"Words {word_hex(int(word), int(bits))}"
        case DictionaryWords():
            entries = [word_hex(int(word), int(bits)) for word, bits in zip(piece.table, piece.bits, strict=True)]
            entries = entries if len(entries) < 10 else [entries[0], "…", entries[-1]]
            return f"DictionaryWords {', '.join(entries)} indices {', '.join(map(str, piece.read(0, len(ROWS))))}"
        case Spans():
            spans = zip(piece.start.tolist(), piece.length.tolist(), strict=True)
            texts = [bytes(piece.data[start : start + length]).decode() for start, length in spans]
            return f"Spans {', '.join(texts) if any(texts) else 'nothing in either row'}"


def test_the_datums_are_those_of_the_encoder() -> None:
    rows = RowEncoder(ARROW, AVRO).encode(BATCH)
    datums = [bytes(rows.data[low:high]).hex(" ") for low, high in pairwise(rows.offsets.tolist())]
    assert 2 == len(datums)
    assert [" ".join(line[line.index("}") + 1 :].replace("|", " ").split()) for line in EXAMPLES] == datums


def test_the_pieces_are_those_of_the_columns() -> None:
    for column, name in zip(FIELDS, ARROW.names, strict=True):
        first, *others = map(shown, column.pieces())
        assert f"{name} {first}" in words_of(pieces)
        for piece in others:
            assert piece in words_of(pieces)


def test_the_merged_pieces_are_those_of_the_encoder() -> None:
    first, *others = map(shown, MERGED)
    (dictionary,) = [piece for piece in MERGED[:1] if isinstance(piece, DictionaryWords)]
    assert f"of {len(dictionary.table)} entries:: {first}" in words_of(pieces)
    found = [word_hex(int(dictionary.table[index]), int(dictionary.bits[index])) for index in dictionary.read(0, 2)]
    assert f"{first}: {' and '.join(found)} {' '.join(others)}" in words_of(pieces)


def test_the_parts_views_and_ends_are_those_of_the_encoder() -> None:
    views, sources, _ = laid_out(grouped(MERGED), len(ROWS))
    buffers = [None, pa.py_buffer(views), *map(pa.py_buffer, sources)]
    parts = pa.Array.from_buffers(pa.binary_view(), views.size // 2, buffers).cast(pa.binary()).to_pylist()
    for row, (long, short) in enumerate(views.view(np.uint8).reshape(len(ROWS), 2, 16)):
        assert f"row {row} {parts[2 * row].hex(' ')} {parts[2 * row + 1].hex(' ')} " in words_of(assembly)
        assert f"row {row} {bytes(long).hex(' ')} {bytes(short)[:5].hex(' ')} … " in words_of(assembly)
        assert not any(short[5:])
    assert f"ends a row: {', '.join(map(str, assemble(MERGED, len(ROWS)).offsets[1:]))}." in words_of(assembly)
