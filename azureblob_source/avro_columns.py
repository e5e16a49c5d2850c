"""Leaf columns: Arrow arrays of plain values as pieces of Avro bytes.

A codec is made once for an (Arrow type, Avro type) pair. `prepare` takes one array, checks its values and returns a
column, whose `pieces(low, high)` are the bytes of the rows from `low` up to `high`. A null contributes no bytes: the
branch byte that stands for it belongs to the union around (`avro_nested`).
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
_BOOLEANS = np.array([0, 1], _u), np.array([1, 1], _u)
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

    def pieces(self, low: int, high: int) -> list[Piece]:
        """The bytes of the rows `low` up to `high`: at least one row; kinds and bounds are the same for any range."""
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

    def prepare(self, array: pa.Array) -> Column:  # noqa: ARG002 - it has no values to look at
        """Nothing to check."""
        return self

    def pieces(self, low: int, high: int) -> list[Piece]:
        """The constant."""
        return constant(self.content, high - low)


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

    def pieces(self, low: int, high: int) -> list[Piece]:
        """One piece for each word."""
        if self.valid is None:
            pairs = zip(self.words, self.sizes, strict=True)
            return [Words(word[low:high].astype(_u), size, size, size) for word, size in pairs]
        valid = self.valid[low:high].astype(_u)
        return [
            Words(word[low:high] * valid, valid * _u(size), 0, size)
            for word, size in zip(self.words, self.sizes, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class IntegerCodec:
    """Zig-zag varints of any Arrow type that `integers` turns into numbers."""

    integers: Callable[[pa.Array], npt.NDArray[Any]]
    kind: str

    def prepare(self, array: pa.Array) -> Column:
        """Convert, then check the range."""
        valid = validity(array)
        values = self.integers(array)
        present = values if valid is None else values[valid]
        if len(present) == 0:
            return IntegerColumn(np.zeros(len(array), np.int8), valid, 0, 0)
        smallest, largest = int(present.min()), int(present.max())
        limit = _LIMITS[self.kind]
        if not -limit <= smallest <= largest < limit:
            wrong = (values < -limit) | (values > limit - 1)
            row = int(np.flatnonzero(wrong if valid is None else wrong & valid)[0])
            raise UnfitValueError(row, f"{values[row]} is outside the range of Avro {self.kind}")
        return IntegerColumn(values, valid, smallest, largest)


@dataclass(frozen=True, slots=True)
class IntegerColumn:
    """Numbers from `smallest` to `largest`; those that are not `valid` are arbitrary."""

    values: npt.NDArray[Any]
    valid: Flags | None
    smallest: int
    largest: int
    boolean: bool = False

    def pieces(self, low: int, high: int) -> list[Piece]:
        """Codes if the numbers lie close together, else one or two words."""
        values = self.values[low:high]
        valid = None if self.valid is None else self.valid[low:high]
        if -varint.TABLED <= self.smallest and self.largest < varint.TABLED and self.largest - self.smallest < _WIDEST:
            return [integer_codes(values, valid, self.smallest, self.largest, boolean=self.boolean)]
        return self._words(values if valid is None else np.where(valid, values, 0), valid)

    def _words(self, values: npt.NDArray[Any], valid: Flags | None) -> list[Piece]:
        number = varint.zigzag(values)
        least = varint.size(max(0, 2 * self.smallest, -2 * self.largest - 1))
        most = varint.size(max(2 * self.largest, -2 * self.smallest - 1))
        least = 1 if valid is not None else least
        length: Any = most if least == most else varint.lengths(number, least, most)
        word = varint.words(number, length)
        if valid is not None:
            length, least = length * valid, 0
            word *= valid
        if most <= WORD:
            return [Words(word, length, least, most)]
        if least == most:
            return [Words(word, WORD, WORD, WORD), Words(varint.tails(number), most - WORD, most - WORD, most - WORD)]
        head = np.minimum(length, _u(WORD))
        return [
            Words(word, head, min(least, WORD), WORD),
            Words(varint.tails(number), length - head, max(least - WORD, 0), most - WORD),
        ]


def integer_codes(
    values: npt.NDArray[Any], valid: Flags | None, smallest: int, largest: int, *, boolean: bool = False
) -> Codes:
    """Varints (or bytes, if `boolean`) looked up in a table of all numbers from `smallest` to `largest`."""
    table, sizes = varint.tables()
    if boolean:
        table, sizes = _BOOLEANS
    else:
        table = table[smallest + varint.TABLED : largest + varint.TABLED + 1]
        sizes = sizes[smallest + varint.TABLED : largest + varint.TABLED + 1]
    least, most = int(sizes.min()), int(sizes.max())
    code = values.astype(np.int32 if values.itemsize <= 4 else np.int64, copy=False)  # room for products of codes
    if smallest:
        code = code - smallest
    if valid is None:
        return Codes(code, table, sizes, least, most)
    code = np.where(valid, code, code.dtype.type(largest - smallest + 1))
    return Codes(code, np.append(table, _u(0)), np.append(sizes, _u(0)), 0, most, null=True)


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

    def pieces(self, low: int, high: int) -> list[Piece]:
        """The length as a word and the bytes as a span."""
        length = self.length[low:high]
        span = Spans(self.data, self.start[low:high], length, self.least, self.most)
        valid = None if self.valid is None else self.valid[low:high]
        return [*length_pieces(length, self.least, self.most, valid), span] if self.prefixed else [span]


def length_pieces(length: U64, least: int, most: int, valid: Flags | None) -> list[Piece]:
    """The varints of lengths or counts; no bytes for rows that are not `valid`."""
    return IntegerColumn(length.view(np.int64), valid, least, most).pieces(0, len(length))


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

    def pieces(self, low: int, high: int) -> list[Piece]:
        """The length and up to two words."""
        lower, upper = self.low_half[low:high], self.high_half[low:high]
        size = _decimal_size(lower, upper)
        tail = np.minimum(size, _u(WORD))
        head = size - tail
        valid = _u(1) if self.valid is None else self.valid[low:high].astype(_u)
        first = (upper << ((_u(WORD) - head) << _u(3))).byteswap() * valid
        second = (lower << ((_u(WORD) - tail) << _u(3))).byteswap() * valid
        prefix = (size << _u(1)) * valid
        one: Any = 1 if self.valid is None else valid
        return [
            Words(prefix, one, 0 if self.valid is not None else 1, 1),
            Words(first, head * valid, 0, WORD),
            Words(second, tail * valid, 0, WORD),
        ]


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


