"""Leaf columns: Arrow arrays of plain values as pieces of Avro bytes.

A codec is made once for an (Arrow type, Avro type) pair. `prepare` takes one array, checks its values and returns a
column, whose `pieces` are the bytes of its rows. A null contributes no bytes: the branch byte that stands for it belongs
to the union around (`avro_nested`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_is

from azureblob_source import varint
from azureblob_source.avro_pieces import I64, Bytes, Codes, Piece, Spans, Words, constant
from azureblob_source.avro_types import AvroType
from azureblob_source.varint import U64, WORD

Flags = npt.NDArray[np.bool_]
_u = np.uint64
_LIMITS = {"int": 2**31, "long": 2**63}
_WIDEST = 16384  # entries of a table: beyond, looking up misses the caches and arithmetic is faster
_BOOLEANS = np.array([0, 1], _u), np.array([8, 8], _u)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class UnfitValueError(ValueError):
    """A value cannot be written. `row` is its index in the array at hand; `path` leads inwards from there."""

    def __init__(self, row: int, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason
        self.path = path

    def within(self, row: int, name: str) -> UnfitValueError:
        """The same seen from the array around, where it stands in `row` below `name`."""
        return UnfitValueError(row, self.reason, (name, *self.path))


class Column(Protocol):
    """One array, checked and ready."""

    def pieces(self) -> list[Piece]:
        """The bytes of all rows."""
        ...


class Codec(Protocol):
    """How arrays of one Arrow type become one Avro type."""

    def prepare(self, array: pa.Array) -> Column:
        """Check all values. Raises UnfitValueError for one that does not fit."""
        ...


def validity(array: pa.Array) -> Flags | None:
    """Which rows hold a value; None if all do."""
    if array.null_count == 0:
        return None
    if arrow_is.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    bitmap = array.buffers()[0]
    return _bits(bitmap, array.offset, len(array))


def plain_array(array: pa.Array) -> pa.Array:
    """The array with dictionary, run-end and extension types undone, and views made contiguous."""
    while True:
        if arrow_is.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif arrow_is.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif arrow_is.is_string_view(array.type) or arrow_is.is_binary_view(array.type):
            array = array.cast(pa.large_binary())
        else:
            return array


def chosen(array: pa.Array, rows: I64) -> pa.Array:
    """The given rows of an array, in ascending order."""
    try:
        return array.take(pa.array(rows))
    except pa.ArrowNotImplementedError:  # Arrow cannot take views, nor what contains them
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        slices = [array.slice(int(run[0]), len(run)) for run in runs if len(run)]
        return pa.concat_arrays(slices or [array.slice(0, 0)])


@dataclass(frozen=True, slots=True)
class Constant:
    """A column of the same bytes in every row: null, or the default of a field that the rows lack."""

    content: bytes
    count: int = 0

    def prepare(self, array: pa.Array) -> Column:
        """Nothing to check."""
        return Constant(self.content, len(array))

    def pieces(self) -> list[Piece]:
        """The constant."""
        return constant(self.content, self.count)


@dataclass(frozen=True, slots=True)
class BooleanCodec:
    """One byte, 0 or 1."""

    def prepare(self, array: pa.Array) -> Column:
        """Unpack the bits."""
        valid = validity(array)
        bits = _bits(array.buffers()[1], array.offset, len(array)) if len(array) else np.empty(0, np.bool_)
        return IntegerColumn(bits.view(np.int8), valid, 0, 1, boolean=True)


@dataclass(frozen=True, slots=True)
class FloatCodec:
    """IEEE 754, little endian; NaN keeps its bits."""

    double: bool

    def prepare(self, array: pa.Array) -> Column:
        """Widen to the Avro type."""
        arrow = pa.float64() if self.double else pa.float32()
        values = _values(array if array.type == arrow else array.cast(arrow), np.float64 if self.double else np.float32)
        return FixedWords([values.view(_u if self.double else np.uint32)], [arrow.bit_width // 8], validity(array))


@dataclass(frozen=True, slots=True)
class FixedWords:
    """Columns whose values all have the same few bytes, as one or more words of given sizes."""

    words: list[npt.NDArray[Any]]
    sizes: list[int]
    valid: Flags | None

    def pieces(self) -> list[Piece]:
        """One piece for each word."""
        return [
            _fixed_word(word, size, self.valid) for word, size in zip(self.words, self.sizes, strict=True)
        ]


def _fixed_word(word: npt.NDArray[Any], size: int, valid: Flags | None) -> Words:
    if valid is None:
        return Words(lambda begin, end: (word[begin:end].astype(_u), 8 * size), size, size)

    def read(begin: int, end: int) -> tuple[U64, U64]:
        present = valid[begin:end].astype(_u)
        return word[begin:end] * present, present * _u(8 * size)

    return Words(read, 0, size)


@dataclass(frozen=True, slots=True)
class IntegerCodec:
    """Zig-zag varints of any Arrow type that `integers` turns into numbers."""

    integers: Callable[[pa.Array], npt.NDArray[Any]]
    kind: str

    def prepare(self, array: pa.Array) -> Column:
        """Convert, then check the range."""
        valid = validity(array)
        values = self.integers(array)
        smallest, largest = _range(values)
        limit = _LIMITS[self.kind]
        if valid is not None and not -varint.TABLED <= smallest <= largest < varint.TABLED:
            smallest, largest = _range(values[valid])  # what lies under a null may be anything
        if not -limit <= smallest <= largest < limit:
            wrong = (values < -limit) | (values > limit - 1)
            row = int(np.flatnonzero(wrong if valid is None else wrong & valid)[0])
            raise UnfitValueError(row, f"{values[row]} is outside the range of Avro {self.kind}")
        return IntegerColumn(values, valid, smallest, largest)


def _range(values: npt.NDArray[Any]) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


@dataclass(frozen=True, slots=True)
class IntegerColumn:
    """Numbers from `smallest` to `largest`; those that are not `valid` are arbitrary."""

    values: npt.NDArray[Any]
    valid: Flags | None
    smallest: int
    largest: int
    boolean: bool = False

    def pieces(self) -> list[Piece]:
        """Codes if the numbers lie close together, else one or two words."""
        if -varint.TABLED <= self.smallest and self.largest < varint.TABLED and self.largest - self.smallest < _WIDEST:
            return [self._codes()]
        least = varint.size(max(0, 2 * self.smallest, -2 * self.largest - 1)) if self.valid is None else 0
        most = varint.size(max(2 * self.largest, -2 * self.smallest - 1))
        if most <= WORD:
            return [Words(lambda begin, end: self._heads(begin, end, least, most), least, most)]
        return [
            Words(lambda begin, end: self._heads(begin, end, least, most), min(least, WORD), WORD),
            Words(lambda begin, end: self._tails(begin, end, least, most), max(least - WORD, 0), most - WORD),
        ]

    def _codes(self) -> Codes:
        table, bits = _BOOLEANS if self.boolean else varint.tables(self.smallest, self.largest)
        # Small types would have no room for products of codes.
        dtype: Any = np.int32 if self.values.itemsize <= 4 else np.int64
        values, valid, smallest = self.values, self.valid, dtype(self.smallest)
        if valid is None:
            if values.dtype == dtype:
                return Codes.of(lambda begin, end: values[begin:end] - smallest, table, bits)
            return Codes.of(lambda begin, end: values[begin:end].astype(dtype) - smallest, table, bits)
        null = dtype(len(table))

        def read(begin: int, end: int) -> npt.NDArray[Any]:
            return np.where(valid[begin:end], values[begin:end].astype(dtype, copy=False) - smallest, null)

        return Codes.of(read, np.append(table, _u(0)), np.append(bits, _u(0)), null=True)

    def _numbers(self, begin: int, end: int, least: int, most: int) -> tuple[U64, U64 | int]:
        values = self.values[begin:end]
        if self.valid is None:
            number = varint.zigzag(values)
            return number, most if least == most else varint.lengths(number, least, most)
        valid = self.valid[begin:end]
        number = varint.zigzag(np.where(valid, values, 0))
        length = varint.lengths(number, 1, most)
        length *= valid
        return number, length

    def _heads(self, begin: int, end: int, least: int, most: int) -> tuple[U64, U64 | int]:
        number, length = self._numbers(begin, end, least, most)
        word = varint.words(number, length)
        if most <= WORD:
            return word, 8 * length if isinstance(length, int) else length << _u(3)
        return word, 8 * WORD if isinstance(length, int) else np.minimum(length, _u(WORD)) << _u(3)

    def _tails(self, begin: int, end: int, least: int, most: int) -> tuple[U64, U64 | int]:
        number, length = self._numbers(begin, end, least, most)
        tail = varint.tails(number)
        if isinstance(length, int):
            return tail, 8 * (length - WORD)
        return tail, (length - np.minimum(length, _u(WORD))) << _u(3)


@dataclass(frozen=True, slots=True)
class BytesCodec:
    """Strings and binaries: the length, then the bytes."""

    def prepare(self, array: pa.Array) -> Column:
        """Nothing to check: Arrow's strings are UTF-8."""
        return SpanColumn.of(array, prefixed=True)


@dataclass(frozen=True, slots=True)
class FixedCodec:
    """Exactly `size` bytes."""

    size: int

    def prepare(self, array: pa.Array) -> Column:
        """Check the length of every value."""
        column = SpanColumn.of(array, prefixed=False)
        wrong = column.length != _u(self.size)
        bad = np.flatnonzero(wrong if column.valid is None else wrong & column.valid)
        if len(bad):
            row = int(bad[0])
            raise UnfitValueError(row, f"a value of {column.length[row]} bytes does not fit Avro fixed({self.size})")
        return column


@dataclass(frozen=True, slots=True)
class SpanColumn:
    """Bytes where they stand, each after its length if `prefixed`."""

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
        """The length as a word and the bytes as a span."""
        span = Spans(self.data, self.start, self.length, self.least, self.most)
        return [*length_pieces(self.length, self.least, self.most, self.valid), span] if self.prefixed else [span]


def length_pieces(length: U64, least: int, most: int, valid: Flags | None) -> list[Piece]:
    """The varints of lengths or counts; no bytes for rows that are not `valid`."""
    return IntegerColumn(length.view(np.int64), valid, least, most).pieces()


@dataclass(frozen=True, slots=True)
class EnumCodec:
    """Strings as the positions of their symbols."""

    symbols: tuple[str, ...]

    def prepare(self, array: pa.Array) -> Column:
        """Look each string up."""
        found = pc.index_in(array.cast(pa.large_string()), value_set=pa.array(self.symbols, pa.large_string()))
        if found.null_count > array.null_count:
            row = int(np.flatnonzero(pc.and_(found.is_null(), array.is_valid()).to_numpy(zero_copy_only=False))[0])
            raise UnfitValueError(row, f"{array[row].as_py()!r} is not a symbol of the Avro enum {list(self.symbols)}")
        return IntegerCodec(_stored, "int").prepare(found)


@dataclass(frozen=True, slots=True)
class DecimalCodec:
    """Unscaled two's complement numbers, big endian: `size` bytes, or as few as needed after a length if size is 0."""

    precision: int
    scale: int
    size: int

    def prepare(self, array: pa.Array) -> Column:
        """Rescale and check the precision."""
        array, valid = self._rescaled(array), validity(array)
        halves = _values(array, np.dtype((_u, 2))).reshape(-1, 2)
        if valid is not None:
            halves = halves * valid.astype(_u)[:, None]
        low, high = np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])
        return _fixed_decimal(low, high, self.size, valid) if self.size else VariableDecimal(low, high, valid)

    def _rescaled(self, array: pa.Array) -> pa.Array:
        if array.type.scale == self.scale and array.type.precision <= self.precision:
            return array
        try:
            return array.cast(pa.decimal128(min(self.precision, 38), self.scale))
        except pa.ArrowInvalid as cause:
            for row, value in enumerate(array):
                whole = self.precision - self.scale
                if value.is_valid and abs(value.as_py()) >= 10**whole:
                    reason = f"{value.as_py()} has more digits than Avro decimal({self.precision},{self.scale})"
                    raise UnfitValueError(row, reason) from cause
            raise


@dataclass(frozen=True, slots=True)
class VariableDecimal:
    """128-bit numbers in two halves, written as Avro bytes."""

    low_half: U64
    high_half: U64
    valid: Flags | None

    def pieces(self) -> list[Piece]:
        """The length and up to two words."""
        least = 0 if self.valid is not None else 1
        return [Words(self._prefix, least, 1), Words(self._first, 0, WORD), Words(self._second, least, WORD)]

    def _prefix(self, begin: int, end: int) -> tuple[U64, U64]:
        head, tail, valid = self._sizes(begin, end)
        return (head + tail) << _u(1), valid << _u(3)

    def _first(self, begin: int, end: int) -> tuple[U64, U64]:
        size, _, _ = self._sizes(begin, end)
        return _big_endian(self.high_half[begin:end], size), size << _u(3)

    def _second(self, begin: int, end: int) -> tuple[U64, U64]:
        _, size, _ = self._sizes(begin, end)
        return _big_endian(self.low_half[begin:end], size), size << _u(3)

    def _sizes(self, begin: int, end: int) -> tuple[U64, U64, U64]:
        size = _decimal_size(self.low_half[begin:end], self.high_half[begin:end])
        valid = np.ones(end - begin, _u) if self.valid is None else self.valid[begin:end].astype(_u)
        size *= valid
        tail = np.minimum(size, _u(WORD))
        return size - tail, tail, valid


def _big_endian(half: U64, size: U64) -> U64:
    return (half << ((_u(WORD) - size) << _u(3))).byteswap()


def _decimal_size(lower: U64, upper: U64) -> U64:
    # As many bytes as the magnitude and a sign bit need, which is what fastavro writes.
    negative = upper >> _u(63)
    sign = _u(0) - negative
    magnitude = (lower ^ sign) + negative
    carry = (magnitude == 0).astype(_u) & negative
    above = (upper ^ sign) + carry
    size = np.ones(len(lower), _u)
    for count in range(1, WORD + 1):
        size += (above > 0) | (magnitude >= _u(1 << 8 * count - 1))
    for count in range(1, WORD):
        size += above >= _u(1 << 8 * count - 1)
    return size


def _fixed_decimal(low: U64, high: U64, size: int, valid: Flags | None) -> FixedWords:
    sign = (high.view(np.int64) >> 63).view(_u)
    words, sizes = [low], [min(size, WORD)]
    for half in (high, *[sign] * (-(-size // WORD))):
        rest = size - sum(sizes)
        if rest > 0:
            words.insert(0, half)
            sizes.insert(0, min(rest, WORD))
    shifted = [(word << _u(8 * (WORD - width))).byteswap() for word, width in zip(words, sizes, strict=True)]
    return FixedWords(shifted, sizes, valid)


def leaf_codec(arrow: pa.DataType, avro: AvroType) -> Codec:
    """The codec of a pair that `avro_fit.check_fit` has accepted."""
    match avro.kind:
        case "null":
            return Constant(b"")
        case "boolean":
            return BooleanCodec()
        case "float" | "double":
            return FloatCodec(avro.kind == "double")
        case "enum":
            return EnumCodec(avro.symbols)
        case "int" | "long":
            return IntegerCodec(_integers(arrow, avro), avro.kind)
    if avro.logical == "decimal":
        return DecimalCodec(avro.precision, avro.scale, avro.size)
    return FixedCodec(avro.size) if avro.kind == "fixed" else BytesCodec()


def spans(array: pa.Array) -> tuple[Bytes, I64, U64, Flags | None]:
    """Data, starts, lengths (0 for null) and validity of a string or binary array."""
    valid, count = validity(array), len(array)
    if arrow_is.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = _buffer(array.buffers()[1])
        start = np.arange(array.offset, array.offset + count, dtype=np.int64) * width
        length = np.full(count, width, _u)
    else:
        data = _buffer(array.buffers()[2])
        offsets = list_offsets(array)
        start, length = offsets[:-1], np.diff(offsets).view(_u)
    if valid is not None:
        length = length * valid.astype(_u)
    return data, start, length, valid


def list_offsets(array: pa.Array) -> I64:
    """The n + 1 offsets of a list, map, string or binary array, as its buffer has them."""
    if len(array) == 0:
        return np.zeros(1, np.int64)
    kind = array.type
    if arrow_is.is_fixed_size_list(kind):
        return np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * kind.list_size
    wide = arrow_is.is_large_list(kind) or arrow_is.is_large_string(kind) or arrow_is.is_large_binary(kind)
    raw = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)
    return raw[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _integers(arrow: pa.DataType, avro: AvroType) -> Callable[[pa.Array], npt.NDArray[Any]]:
    if arrow_is.is_date64(arrow):
        return lambda array: _values(array, np.int64) // 86_400_000
    unit = getattr(arrow, "unit", None)
    if unit is None or unit == "day" or arrow_is.is_date(arrow):
        return _stored
    wanted = "ms" if avro.logical.endswith("millis") else "ns" if avro.logical.endswith("nanos") else "us"
    return lambda array: _rescaled(array, _PER_SECOND[unit], _PER_SECOND[wanted], avro)


def _rescaled(array: pa.Array, held: int, wanted: int, avro: AvroType) -> npt.NDArray[Any]:
    values = _values(array, np.int32 if array.type.bit_width == 32 else np.int64)
    if held >= wanted:
        return values // (held // wanted) if held > wanted else values
    factor = wanted // held
    limit = (2**63 - 1) // factor
    beyond = np.flatnonzero((values > limit) | (values < -limit))
    valid = validity(array)
    for row in beyond[:] if valid is None else beyond[valid[beyond]]:
        raise UnfitValueError(int(row), f"{values[row]} {array.type} is outside the range of Avro {avro}")
    return values.astype(np.int64) * factor


def _stored(array: pa.Array) -> npt.NDArray[Any]:
    dtype = np.dtype(np.int32) if arrow_is.is_date(array.type) else np.dtype(array.type.to_pandas_dtype())
    return _values(array, dtype)


def _values(array: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    """The fixed-width values as they lie in memory; those under a null are arbitrary."""
    if len(array) == 0:
        return np.empty(0, dtype)
    item = np.dtype(dtype)
    flat = np.frombuffer(array.buffers()[1], item.base, offset=array.offset * item.itemsize)
    return flat[: len(array) * (item.itemsize // item.base.itemsize)]


def _bits(bitmap: Any, offset: int, count: int) -> Flags:
    first = offset // 8
    packed = np.frombuffer(bitmap, np.uint8)[first : (offset + count + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset - 8 * first :][:count].view(np.bool_)


def _buffer(buffer: Any) -> Bytes:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


