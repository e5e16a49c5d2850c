"""Columns of booleans, floats, strings, binaries and enums. Numbers are in `numbers`, nested types in `nested`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arrow_avro.arrow_values import I64, Bytes, Flags, first_not_utf8, spans, stored_values, unpacked, validity
from arrow_avro.encoding.column_encoder import Column, FixedWidthColumn, UnwritableValueError
from arrow_avro.encoding.numbers import IntegerColumn, IntegerEncoder, length_pieces, stored
from arrow_avro.encoding.pieces import Piece, Spans

if TYPE_CHECKING:
    from arrow_avro.arrow_values import U64

_u = np.uint64
_SHOWN_BYTES = 40


@dataclass(frozen=True, slots=True)
class BooleanEncoder:
    """One byte, 0 or 1."""

    def prepare(self, array: pa.Array) -> Column:
        """Unpack the bits; there is nothing to check."""
        valid = validity(array)
        bits = unpacked(array.buffers()[1], array.offset, len(array)) if len(array) else np.empty(0, np.bool_)
        return IntegerColumn(bits.view(np.int8), valid, 0, 1, boolean=True)


@dataclass(frozen=True, slots=True)
class FloatEncoder:
    """IEEE 754, little endian; NaN keeps its bits."""

    double: bool

    def prepare(self, array: pa.Array) -> Column:
        """Widen to the Avro type; there is nothing to check."""
        arrow = pa.float64() if self.double else pa.float32()
        bits = stored_values(array if array.type == arrow else array.cast(arrow), _u if self.double else np.uint32)
        return FixedWidthColumn([bits], [bits.itemsize], validity(array))


@dataclass(frozen=True, slots=True)
class BytesEncoder:
    """Strings and binaries: the length, then the bytes. text: they must be UTF-8; Spark has any bytes in a string."""

    text: bool

    def prepare(self, array: pa.Array) -> Column:
        """Check that text is UTF-8: nothing could read it otherwise."""
        row = first_not_utf8(array) if self.text else None
        if row is not None:
            found = array[row].cast(pa.binary()).as_py()[:_SHOWN_BYTES]
            step = "make_valid_utf8 replaces such bytes; a binary column holds any"
            raise UnwritableValueError(row, f"a string that begins with {found!r} is not UTF-8: {step}")
        return SpanColumn.of(array, prefixed=True)


@dataclass(frozen=True, slots=True)
class FixedEncoder:
    """Exactly `size` bytes."""

    size: int

    def prepare(self, array: pa.Array) -> Column:
        """Check the length of every value."""
        column = SpanColumn.of(array, prefixed=False)
        wrong = column.length != _u(self.size)
        bad = np.flatnonzero(wrong if column.valid is None else wrong & column.valid)
        if len(bad):
            row = int(bad[0])
            raise UnwritableValueError(
                row, f"a value of {column.length[row]} bytes does not fit Avro fixed({self.size})"
            )
        return column


@dataclass(frozen=True, slots=True)
class SpanColumn:
    """Bytes that stay in Arrow's buffer, each value after its length if `prefixed`."""

    data: Bytes
    start: I64
    length: U64
    valid: Flags | None
    least: int
    most: int
    prefixed: bool

    @classmethod
    def of(cls, array: pa.Array, *, prefixed: bool) -> SpanColumn:
        """The values of a string or binary array."""
        data, start, length, valid = spans(array)
        least, most = (int(length.min()), int(length.max())) if len(length) else (0, 0)
        return cls(data, start, length, valid, least, most, prefixed)

    def pieces(self) -> list[Piece]:
        """The varint of the length, if `prefixed`, and the bytes as a span."""
        span = Spans(self.data, self.start, self.length, self.least, self.most)
        return [*length_pieces(self.length, self.least, self.most, self.valid), span] if self.prefixed else [span]


@dataclass(frozen=True, slots=True)
class EnumEncoder:
    """Strings as the indices of their symbols."""

    symbols: tuple[str, ...]

    def prepare(self, array: pa.Array) -> Column:
        """Look up each string. Raises UnwritableValueError for one that is not a symbol."""
        found = pc.index_in(array.cast(pa.large_string()), value_set=pa.array(self.symbols, pa.large_string()))
        if found.null_count > array.null_count:
            row = int(np.flatnonzero(pc.and_(found.is_null(), array.is_valid()).to_numpy(zero_copy_only=False))[0])
            raise UnwritableValueError(
                row, f"{array[row].as_py()!r} is not a symbol of the Avro enum {list(self.symbols)}"
            )
        return IntegerEncoder(stored, "int").prepare(found)
