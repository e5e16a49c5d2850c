"""Columns of records, unions, lists and maps, built from the columns that they contain.

A list, a record with nulls and a member of a union are encoded as rows of their own, which then are spans of the rows
around them. So nesting needs no other kind of piece.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro import varint
from arrow_avro.arrow_values import I64, U64, Flags, chosen, list_offsets, plain_array, validity
from arrow_avro.encoding.assembly import assemble
from arrow_avro.encoding.column_encoder import Column, ColumnEncoder, UnwritableValueError
from arrow_avro.encoding.numbers import IntegerColumn, length_pieces
from arrow_avro.encoding.pieces import DictionaryWords, EncodedRows, Piece, Spans, constant_word, either
from arrow_avro.varint import WORD

_u = np.uint64


@dataclass(frozen=True, slots=True)
class NotNullEncoder:
    """Values of an Avro type that has no null."""

    inner: ColumnEncoder

    def prepare(self, array: pa.Array) -> Column:
        """Refuse nulls."""
        array = plain_array(array)
        valid = validity(array)
        if valid is not None:
            raise UnwritableValueError(int(np.argmin(valid)), "null does not fit an Avro type without a null branch")
        return self.inner.prepare(array)


@dataclass(frozen=True, slots=True)
class UnionEncoder:
    """Values of one branch of a union, and null if `null`, the branch of null, is given."""

    inner: ColumnEncoder
    branch: int
    null: int | None

    def prepare(self, array: pa.Array) -> Column:
        """Refuse nulls if the union has no null branch."""
        if self.null is None:
            return UnionColumn(NotNullEncoder(self.inner).prepare(array), None, self.branch, 0)
        array = plain_array(array)
        return UnionColumn(self.inner.prepare(array), validity(array), self.branch, self.null)


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """The index of the branch, then the value."""

    inner: Column
    valid: Flags | None
    branch: int
    null: int

    def pieces(self) -> list[Piece]:
        """The branch as a word, then the value's own pieces.

        If those begin with a dictionary that has an entry for null, the branch goes into its table, at no cost per row.
        """
        branch, null = varint.encode(self.branch), varint.encode(self.null)
        inner = self.inner.pieces()
        if self.valid is None:
            return [constant_word(branch), *inner]
        first = inner[0] if inner else None
        if isinstance(first, DictionaryWords) and first.null and first.high + len(branch) <= WORD:
            return [_with_branch(first, branch, null), *inner[1:]]
        return [either(self.valid, branch, null), *inner]


def _with_branch(dictionary: DictionaryWords, branch: bytes, null: bytes) -> DictionaryWords:
    """`branch` before every entry of the table; the entry for null becomes `null`, the branch of null."""
    table = dictionary.table << _u(8 * len(branch)) | _u(int.from_bytes(branch, "little"))
    bits = dictionary.bits + _u(8 * len(branch))
    table[-1], bits[-1] = int.from_bytes(null, "little"), 8 * len(null)
    return DictionaryWords.of(dictionary.read, table, bits)


@dataclass(frozen=True, slots=True)
class RecordEncoder:
    """Fields in the order of the Avro record: (position in the struct or None for a default, name, encoder)."""

    members: tuple[tuple[int | None, str, ColumnEncoder], ...]

    def prepare(self, array: pa.Array) -> Column:
        """Prepare the fields. Rows that are null are left out, whatever their fields hold."""
        valid = validity(array)
        if valid is None:
            return self.prepare_fields([array.field(index) for index in range(array.type.num_fields)], len(array))
        rows = np.flatnonzero(valid)
        dense = chosen(array, rows)
        try:
            return SparseColumn.of(encode_rows(self.prepare(dense), len(dense)), valid)
        except UnwritableValueError as cause:
            raise UnwritableValueError(int(rows[cause.row]), cause.reason, cause.path) from cause

    def prepare_fields(self, arrays: list[pa.Array], count: int) -> RecordColumn:
        """The fields of `count` records, none of which is null."""
        prepared: list[Column] = []
        for index, name, inner in self.members:
            if index is None:
                prepared.append(inner.prepare(pa.nulls(count)))
                continue
            try:
                prepared.append(inner.prepare(arrays[index]))
            except UnwritableValueError as cause:
                raise cause.within(cause.row, name) from cause
        return RecordColumn(prepared)


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """The fields of records, one after the other."""

    fields: list[Column]

    def pieces(self) -> list[Piece]:
        """The pieces of all fields, from left to right."""
        return [piece for column in self.fields for piece in column.pieces()]


@dataclass(frozen=True, slots=True)
class SparseColumn:
    """Encoded values of the rows that are `valid`; the other rows have no bytes."""

    rows: EncodedRows
    valid: Flags
    index: I64

    @classmethod
    def of(cls, rows: EncodedRows, valid: Flags) -> SparseColumn:
        """`rows` has as many rows as are `valid`."""
        return cls(rows, valid, np.concatenate([np.zeros(1, np.int64), np.cumsum(valid)]))

    def pieces(self) -> list[Piece]:
        """One span for each row."""
        return row_spans(self.rows, self.index)


def row_spans(rows: EncodedRows, index: I64) -> list[Piece]:
    """Spans of consecutive encoded rows: row i gets `rows` from index[i] up to index[i + 1]."""
    offsets = rows.offsets[index]
    length = np.diff(offsets)
    if len(length) == 0:
        return []
    return [Spans(rows.data, offsets[:-1], length.view(_u), int(length.min()), int(length.max()))]


@dataclass(frozen=True, slots=True)
class ListEncoder:
    """Arrays and maps: one block with its count, the items, and the zero that ends it."""

    item: ColumnEncoder

    def prepare(self, array: pa.Array) -> Column:
        """Encode the items of all rows as rows of their own."""
        valid = validity(array)
        index, items = list_items(array, valid)
        try:
            rows = encode_rows(self.item.prepare(items), len(items))
        except UnwritableValueError as cause:
            row = int(np.searchsorted(index, cause.row, "right")) - 1
            path = cause.path if arrow_is.is_map(array.type) else ("element", *cause.path)
            raise UnwritableValueError(row, cause.reason, path) from cause
        return ListColumn(rows, index, valid)


def list_items(array: pa.Array, valid: Flags | None) -> tuple[I64, pa.Array]:
    """The items of all lists, and the n + 1 offsets that divide them among the rows; null lists have none."""
    offsets = list_offsets(array)
    if valid is not None and bool(np.any(np.diff(offsets)[~valid])):
        counts = np.where(valid, np.diff(offsets), 0)
        _, items = list_items(chosen(array, np.flatnonzero(valid)), None)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), items
    first, last = int(offsets[0]), int(offsets[-1])
    if arrow_is.is_map(array.type):
        keys, values = array.keys, array.items
        entries = pa.StructArray.from_arrays([keys[first:last], values[first:last]], ["key", "value"])
        return offsets - first, entries
    return offsets - first, array.values[first:last]


@dataclass(frozen=True, slots=True)
class ListColumn:
    """Encoded items and the offsets that divide them among the rows."""

    items: EncodedRows
    index: I64
    valid: Flags | None

    def pieces(self) -> list[Piece]:
        """The count of items, the items, and the zero that ends the list; an empty list has only the zero."""
        count: U64 = np.diff(self.index).view(_u)
        if len(count) == 0:
            return []
        least, most = int(count.min()), int(count.max())
        end = constant_word(b"\0") if self.valid is None else either(self.valid, b"\0", b"")
        # Rows without a count are empty or null, so `UnionColumn` must not make their entry the branch of null.
        before = length_pieces(count, least, most, None if least > 0 else count > 0)
        counts = [replace(piece, null=False) if isinstance(piece, DictionaryWords) else piece for piece in before]
        return [*counts, *row_spans(self.items, self.index), end]


@dataclass(frozen=True, slots=True)
class StructUnionEncoder:
    """Spark's form of a general union: a struct with a member for each branch, of which one is set."""

    members: tuple[ColumnEncoder, ...]
    branches: tuple[int, ...]
    null: int | None

    def prepare(self, array: pa.Array) -> Column:
        """Check that each row sets exactly one member, or none if the union has null."""
        array = plain_array(array)
        columns: list[tuple[int, SparseColumn]] = []
        present = np.zeros(len(array), np.int64)
        for index, inner, values in zip(self.branches, self.members, array.flatten(), strict=True):
            valid = ~values.is_null().to_numpy(zero_copy_only=False)
            present += valid
            rows = np.flatnonzero(valid)
            dense = plain_array(chosen(values, rows))
            columns.append((index, SparseColumn.of(encode_rows(inner.prepare(dense), len(rows)), valid)))
        wrong = np.flatnonzero((present > 1) | ((present == 0) if self.null is None else False))
        if len(wrong):
            raise UnwritableValueError(int(wrong[0]), f"{present[wrong[0]]} members of a union are set, not one")
        return StructUnionColumn(columns, self.null or 0)


@dataclass(frozen=True, slots=True)
class StructUnionColumn:
    """The index of the branch, then the member that is set."""

    members: list[tuple[int, SparseColumn]]
    null: int

    def pieces(self) -> list[Piece]:
        """The branch as a word, then a span for each member."""
        branch = np.full(len(self.members[0][1].valid), self.null, np.int64)
        for index, member in self.members:
            branch[member.valid] = index
        numbers = IntegerColumn(branch, None, 0, max(self.null, *(index for index, _ in self.members)))
        return [*numbers.pieces(), *(piece for _, member in self.members for piece in member.pieces())]


def encode_rows(column: Column, count: int) -> EncodedRows:
    """The rows of a column as Avro datums."""
    return assemble(column.pieces(), count)
