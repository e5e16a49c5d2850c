"""Columns of whole numbers: integers, dates and times as varints, and decimals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro import varint
from arrow_avro.arrow_values import U64, Flags, stored_values, validity
from arrow_avro.encoding.column_encoder import Column, FixedWidthColumn, UnwritableValueError
from arrow_avro.encoding.pieces import DictionaryWords, Piece, Words
from arrow_avro.types import MAX_PRECISION
from arrow_avro.varint import WORD

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_avro.types import AvroType

_u = np.uint64
_LIMITS = {"int": 2**31, "long": 2**63}
_MAX_TABLE = 16384  # entries: in a larger table, look-ups miss the caches and arithmetic is faster
_BOOLEANS = np.array([0, 1], _u), np.array([8, 8], _u)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class IntegerEncoder:
    """Zig-zag varints of an Arrow type whose values the function `convert` makes numbers."""

    convert: Callable[[pa.Array], npt.NDArray[Any]]
    kind: str

    def prepare(self, array: pa.Array) -> Column:
        """Convert to numbers and check their range."""
        valid = validity(array)
        values = self.convert(array)
        smallest, largest = _range(values)
        limit = _LIMITS[self.kind]
        if valid is not None and not -varint.TABLED <= smallest <= largest < varint.TABLED:
            smallest, largest = _range(values[valid])  # the values of nulls are arbitrary
        if not -limit <= smallest <= largest < limit:
            wrong = (values < -limit) | (values > limit - 1)
            row = int(np.flatnonzero(wrong if valid is None else wrong & valid)[0])
            raise UnwritableValueError(row, f"{values[row]} is outside the range of Avro {self.kind}")
        return IntegerColumn(values, valid, smallest, largest)


@dataclass(frozen=True, slots=True)
class IntegerColumn:
    """Numbers from `smallest` to `largest`; those of rows that are not `valid` are arbitrary and have no bytes."""

    values: npt.NDArray[Any]
    valid: Flags | None
    smallest: int
    largest: int
    boolean: bool = False

    def pieces(self) -> list[Piece]:
        """A dictionary if the numbers lie close together, else one or two words: a varint has up to ten bytes."""
        if (
            self.smallest >= -varint.TABLED
            and self.largest < varint.TABLED
            and self.largest - self.smallest < _MAX_TABLE
        ):
            return [self._dictionary()]
        least = varint.size(max(0, 2 * self.smallest, -2 * self.largest - 1)) if self.valid is None else 0
        most = varint.size(max(2 * self.largest, -2 * self.smallest - 1))
        if most <= WORD:
            return [Words(lambda begin, end: self._heads(begin, end, least, most), least, most)]
        return [
            Words(lambda begin, end: self._heads(begin, end, least, most), min(least, WORD), WORD),
            Words(lambda begin, end: self._tails(begin, end, least, most), max(least - WORD, 0), most - WORD),
        ]

    def _dictionary(self) -> DictionaryWords:
        table, bits = _BOOLEANS if self.boolean else varint.tables(self.smallest, self.largest)
        # Indices are multiplied when tables are merged, so they need at least 32 bits.
        dtype: Any = np.dtype(f"i{max(4, self.values.itemsize)}").type
        values, valid, smallest = self.values, self.valid, dtype(self.smallest)
        if valid is None:
            if values.dtype == dtype:
                return DictionaryWords.of(lambda begin, end: values[begin:end] - smallest, table, bits)
            return DictionaryWords.of(lambda begin, end: values[begin:end].astype(dtype) - smallest, table, bits)
        null = dtype(len(table))

        def read(begin: int, end: int) -> npt.NDArray[Any]:
            return np.where(valid[begin:end], values[begin:end].astype(dtype, copy=False) - smallest, null)

        return DictionaryWords.of(read, np.append(table, _u(0)), np.append(bits, _u(0)), null=True)

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


def _range(values: npt.NDArray[Any]) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def length_pieces(length: U64, least: int, most: int, valid: Flags | None) -> list[Piece]:
    """The varints of lengths or counts, from `least` to `most`; no bytes for rows that are not `valid`."""
    return IntegerColumn(length.view(np.int64), valid, least, most).pieces()


@dataclass(frozen=True, slots=True)
class DecimalEncoder:
    """Unscaled numbers in two's complement, big endian: `size` bytes, or if that is 0 their length and the fewest."""

    precision: int
    scale: int
    size: int

    def prepare(self, array: pa.Array) -> Column:
        """Rescale and check the precision."""
        array, valid = self._rescaled(array), validity(array)
        halves = stored_values(array, np.dtype((_u, 2))).reshape(-1, 2)
        if valid is not None:
            halves = halves * valid.astype(_u)[:, None]
        low, high = np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])
        return _fixed_decimal(low, high, self.size, valid) if self.size else VariableDecimalColumn(low, high, valid)

    def _rescaled(self, array: pa.Array) -> pa.Array:
        if array.type.scale == self.scale and array.type.precision <= self.precision:
            return array
        digits = min(self.precision, MAX_PRECISION)
        try:
            return array.cast(pa.decimal128(digits, self.scale))
        except pa.ArrowInvalid as cause:
            for row, value in enumerate(array):
                if value.is_valid and abs(value.as_py()) >= 10 ** (digits - self.scale):
                    wanted = f"Avro decimal({self.precision},{self.scale})"
                    limit = "" if digits == self.precision else f" written with {digits} digits"
                    raise UnwritableValueError(row, f"{value.as_py()} has more digits than {wanted}{limit}") from cause
            raise


@dataclass(frozen=True, slots=True)
class VariableDecimalColumn:
    """128-bit numbers in two halves, written as Avro `bytes`."""

    low_half: U64
    high_half: U64
    valid: Flags | None

    def pieces(self) -> list[Piece]:
        """The length and two words, of which either may be shorter than eight bytes."""
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
    # As many bytes as the magnitude and a sign bit need: fastavro writes the same.
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


def _fixed_decimal(low: U64, high: U64, size: int, valid: Flags | None) -> FixedWidthColumn:
    sign = (high.view(np.int64) >> 63).view(_u)
    words, sizes = [low], [min(size, WORD)]
    for half in (high, *[sign] * (-(-size // WORD))):
        rest = size - sum(sizes)
        if rest > 0:
            words.insert(0, half)
            sizes.insert(0, min(rest, WORD))
    shifted = [(word << _u(8 * (WORD - width))).byteswap() for word, width in zip(words, sizes, strict=True)]
    return FixedWidthColumn(shifted, sizes, valid)


def integer_converter(arrow: pa.DataType, avro: AvroType) -> Callable[[pa.Array], npt.NDArray[Any]]:
    """The function that gives the numbers of an array in the unit of the Avro type, rounded down."""
    if arrow_is.is_date64(arrow):
        return lambda array: stored_values(array, np.int64) // 86_400_000
    unit = getattr(arrow, "unit", None)
    if unit is None or unit == "day" or arrow_is.is_date(arrow):
        return stored
    wanted = "ms" if avro.logical.endswith("millis") else "ns" if avro.logical.endswith("nanos") else "us"
    return lambda array: _rescaled(array, _PER_SECOND[unit], _PER_SECOND[wanted], avro)


def _rescaled(array: pa.Array, given: int, wanted: int, avro: AvroType) -> npt.NDArray[Any]:
    values = stored_values(array, np.dtype(f"i{array.type.bit_width // 8}"))
    if given >= wanted:
        return values // (given // wanted) if given > wanted else values
    factor = wanted // given
    limit = (2**63 - 1) // factor
    beyond = np.flatnonzero((values > limit) | (values < -limit))
    valid = validity(array)
    for row in beyond if valid is None else beyond[valid[beyond]]:
        raise UnwritableValueError(int(row), f"{values[row]} {array.type} is outside the range of Avro {avro}")
    return values.astype(np.int64) * factor


def stored(array: pa.Array) -> npt.NDArray[Any]:
    """The numbers as Arrow stores them."""
    dtype = np.dtype(np.int32) if arrow_is.is_date(array.type) else np.dtype(array.type.to_pandas_dtype())
    return stored_values(array, dtype)
