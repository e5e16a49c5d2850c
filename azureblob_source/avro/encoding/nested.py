"""Records, unions, lists and maps, built of other columns; and the choice of a codec for each pair of types."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_is

from azureblob_source.arrow_values import I64, U64, Flags, chosen, list_offsets, plain_array, validity
from azureblob_source.avro import varint
from azureblob_source.avro.compatibility import match_fields, member_branches, pick_branch, plain_type
from azureblob_source.avro.defaults import default_datum
from azureblob_source.avro.encoding.assembly import assemble
from azureblob_source.avro.encoding.column_encoder import Column, ColumnEncoder, Constant, UnfitValueError
from azureblob_source.avro.encoding.columns import leaf_encoder
from azureblob_source.avro.encoding.numbers import IntegerColumn, length_pieces
from azureblob_source.avro.encoding.pieces import DictionaryWords, EncodedRows, Piece, Spans, constant_word
from azureblob_source.avro.types import AvroType
from azureblob_source.avro.varint import WORD

_u = np.uint64


class AmbiguousUnionError(TypeError):
    """Only the values themselves can tell to which branch of a union they belong."""


def encoder_for(arrow: pa.DataType, avro: AvroType) -> ColumnEncoder:
    """The codec of a pair that `fit.check_compatible` has accepted. Raises AmbiguousUnionError."""
    arrow = plain_type(arrow)
    if avro.kind == "union":
        return _union_encoder(arrow, avro)
    if avro.kind == "record":
        return record_encoder(list(arrow), avro)
    if arrow_is.is_map(arrow):
        key = avro.element.fields[0].type if avro.kind == "array" else AvroType("string")
        value = avro.element.fields[1].type if avro.kind == "array" else avro.element
        entry = (0, "key", field_encoder(arrow.key_type, key)), (1, "value", field_encoder(arrow.item_type, value))
        return ListEncoder(RecordEncoder(entry))
    if avro.kind == "array":
        return ListEncoder(field_encoder(arrow.value_type, avro.element))
    return leaf_encoder(arrow, avro)


def field_encoder(arrow: pa.DataType, avro: AvroType) -> ColumnEncoder:
    """The codec for whole values: as `codec`, but where Avro has no null, a null is refused."""
    inner = encoder_for(arrow, avro)
    return inner if avro.kind in ("union", "null") else NotNullEncoder(inner)


def record_encoder(fields: list[pa.Field], avro: AvroType) -> RecordEncoder:
    """The codec of a record, of which `fields` are the columns."""
    members: list[tuple[int | None, str, ColumnEncoder]] = []
    for member, index in match_fields(fields, avro):
        if index is None:
            members.append((None, member.column, Constant(default_datum(member.type, member.default))))
        else:
            members.append((index, member.column, field_encoder(fields[index].type, member.type)))
    return RecordEncoder(tuple(members))


def _union_encoder(arrow: pa.DataType, avro: AvroType) -> ColumnEncoder:
    nulls = [index for index, branch in enumerate(avro.branches) if branch.kind == "null"]
    null = nulls[0] if nulls else None
    if arrow_is.is_null(arrow):
        return Constant(varint.encode(nulls[0]))
    members = member_branches(arrow, avro)
    if members is not None:
        encoders = tuple(encoder_for(f.type, avro.branches[i]) for f, i in zip(list(arrow), members, strict=True))
        return MembersEncoder(encoders, tuple(members), null)
    index = pick_branch(arrow, avro)
    if index is None:
        raise AmbiguousUnionError(f"Arrow type {arrow} fits several branches of {avro}")
    return UnionEncoder(encoder_for(arrow, avro.branches[index]), index, null)


@dataclass(frozen=True, slots=True)
class NotNullEncoder:
    """A value that Avro requires."""

    inner: ColumnEncoder

    def prepare(self, array: pa.Array) -> Column:
        """Refuse nulls."""
        array = plain_array(array)
        valid = validity(array)
        if valid is not None:
            raise UnfitValueError(int(np.argmin(valid)), "null does not fit an Avro type without a null branch")
        return self.inner.prepare(array)


@dataclass(frozen=True, slots=True)
class UnionEncoder:
    """Values of one branch, and null."""

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
    """The branch number, then the value."""

    inner: Column
    valid: Flags | None
    branch: int
    null: int

    def pieces(self) -> list[Piece]:
        """The branch as a word, then the value's own pieces."""
        value, null = varint.encode(self.branch), varint.encode(self.null)
        inner = self.inner.pieces()
        if self.valid is None:
            return [constant_word(value), *inner]
        first = inner[0] if inner else None
        if isinstance(first, DictionaryWords) and first.null and first.high + len(value) <= WORD:
            return [_with_branch(first, value, null), *inner[1:]]
        return [_with_branch(_present(self.valid), value, null), *inner]


def _present(valid: Flags) -> DictionaryWords:
    return DictionaryWords.of(
        lambda begin, end: (~valid[begin:end]).astype(np.int32), np.zeros(2, _u), np.zeros(2, _u), null=True
    )


def _with_branch(codes: DictionaryWords, value: bytes, null: bytes) -> DictionaryWords:
    """The branch number before the value that `codes` stand for: another table, and no work for the rows."""
    table = codes.table << _u(8 * len(value)) | _u(int.from_bytes(value, "little"))
    bits = codes.bits + _u(8 * len(value))
    table[-1], bits[-1] = int.from_bytes(null, "little"), 8 * len(null)
    return DictionaryWords.of(codes.read, table, bits)


@dataclass(frozen=True, slots=True)
class RecordEncoder:
    """Fields one after the other: (position in the struct or None for a default, name, codec)."""

    members: tuple[tuple[int | None, str, ColumnEncoder], ...]

    def prepare(self, array: pa.Array) -> Column:
        """Prepare the fields; rows that are null take no part."""
        valid = validity(array)
        if valid is None:
            return self.columns([array.field(index) for index in range(array.type.num_fields)], len(array))
        rows = np.flatnonzero(valid)
        dense = chosen(array, rows)
        try:
            return Placed.of(encode_rows(self.prepare(dense), len(dense)), valid)
        except UnfitValueError as cause:
            raise UnfitValueError(int(rows[cause.row]), cause.reason, cause.path) from cause

    def columns(self, arrays: list[pa.Array], count: int) -> Joined:
        """The fields of `count` records without nulls."""
        prepared: list[Column] = []
        for index, name, inner in self.members:
            if index is None:
                prepared.append(inner.prepare(pa.nulls(count)))
                continue
            try:
                prepared.append(inner.prepare(arrays[index]))
            except UnfitValueError as cause:
                raise cause.within(cause.row, name) from cause
        return Joined(prepared)


@dataclass(frozen=True, slots=True)
class Joined:
    """Columns side by side."""

    columns: list[Column]

    def pieces(self) -> list[Piece]:
        """The pieces of each column in turn."""
        return [piece for column in self.columns for piece in column.pieces()]


@dataclass(frozen=True, slots=True)
class Placed:
    """Encoded values for the rows that are `valid`, nothing for the others."""

    rows: EncodedRows
    valid: Flags
    index: I64

    @classmethod
    def of(cls, rows: EncodedRows, valid: Flags) -> Placed:
        """Find the place of each row."""
        return cls(rows, valid, np.concatenate([np.zeros(1, np.int64), np.cumsum(valid)]))

    def pieces(self) -> list[Piece]:
        """One span for each row."""
        return spans_of(self.rows, self.index)


def spans_of(rows: EncodedRows, index: I64) -> list[Piece]:
    """Spans of consecutive encoded rows: span i holds the rows from index[i] up to index[i + 1]."""
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
        """Encode all items as rows of their own."""
        valid = validity(array)
        index, items = list_items(array, valid)
        try:
            rows = encode_rows(self.item.prepare(items), len(items))
        except UnfitValueError as cause:
            row = int(np.searchsorted(index, cause.row, "right")) - 1
            path = cause.path if arrow_is.is_map(array.type) else ("element", *cause.path)
            raise UnfitValueError(row, cause.reason, path) from cause
        return ListColumn(rows, index, valid)


def list_items(array: pa.Array, valid: Flags | None) -> tuple[I64, pa.Array]:
    """The items of all lists, and the n + 1 positions that divide them among the rows; null lists have none."""
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
    """Encoded items and the positions that divide them among the rows."""

    items: EncodedRows
    index: I64
    valid: Flags | None

    def pieces(self) -> list[Piece]:
        """Count, items, end."""
        count: U64 = np.diff(self.index).view(_u)
        if len(count) == 0:
            return []
        least, most = int(count.min()), int(count.max())
        end = constant_word(b"\0") if self.valid is None else _with_branch(_present(self.valid), b"\0", b"")
        # The empty lists that lack a count are not the null lists, so the union around must not take them for these.
        before = length_pieces(count, least, most, None if least > 0 else count > 0)
        counts = [replace(piece, null=False) if isinstance(piece, DictionaryWords) else piece for piece in before]
        return [*counts, *spans_of(self.items, self.index), end]


@dataclass(frozen=True, slots=True)
class MembersEncoder:
    """A struct of which one member is set, as the union of the members' types."""

    members: tuple[ColumnEncoder, ...]
    branches: tuple[int, ...]
    null: int | None

    def prepare(self, array: pa.Array) -> Column:
        """Each row must have exactly one member, or none where the union has null."""
        array = plain_array(array)
        columns: list[tuple[int, Placed]] = []
        present = np.zeros(len(array), np.int64)
        for index, inner, values in zip(self.branches, self.members, array.flatten(), strict=True):
            valid = ~values.is_null().to_numpy(zero_copy_only=False)
            present += valid
            rows = np.flatnonzero(valid)
            dense = plain_array(chosen(values, rows))
            columns.append((index, Placed.of(encode_rows(inner.prepare(dense), len(rows)), valid)))
        wrong = np.flatnonzero((present > 1) | ((present == 0) if self.null is None else False))
        if len(wrong):
            raise UnfitValueError(int(wrong[0]), f"{present[wrong[0]]} members of a union are set, not one")
        return MembersColumn(columns, self.null or 0)


@dataclass(frozen=True, slots=True)
class MembersColumn:
    """The branch number, then whichever member is set."""

    members: list[tuple[int, Placed]]
    null: int

    def pieces(self) -> list[Piece]:
        """The branch, then a span for each member."""
        branch = np.full(len(self.members[0][1].valid), self.null, np.int64)
        for index, placed in self.members:
            branch[placed.valid] = index
        numbers = IntegerColumn(branch, None, 0, max(self.null, *(index for index, _ in self.members)))
        return [*numbers.pieces(), *(piece for _, placed in self.members for piece in placed.pieces())]


def encode_rows(column: Column, count: int) -> EncodedRows:
    """All rows of a column as datums of their own."""
    return assemble(column.pieces(), count)
