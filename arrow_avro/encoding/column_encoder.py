"""What every column type provides: an encoder, made once for a pair of types, and a column, made for each array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from arrow_avro.encoding.pieces import Piece, Words, constant

if TYPE_CHECKING:
    import pyarrow as pa

    from arrow_avro.arrow_values import U64, Flags

_u = np.uint64


class UnwritableValueError(ValueError):
    """A value cannot be written. `row` is its index in the array, `path` leads from there to nested fields."""

    def __init__(self, row: int, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason
        self.path = path

    def within(self, row: int, name: str) -> UnwritableValueError:
        """An error as this one, said of the enclosing array, in which the value is in `row`, in the field `name`."""
        return UnwritableValueError(row, self.reason, (name, *self.path))


class Column(Protocol):
    """One array whose values have been checked. Its nulls have no bytes: the branch byte is that of a `UnionColumn`."""

    def pieces(self) -> list[Piece]:
        """The bytes of all rows."""
        ...


class ColumnEncoder(Protocol):
    """Encodes arrays of one Arrow type as one Avro type."""

    def prepare(self, array: pa.Array) -> Column:
        """Check all values. Raises UnwritableValueError for the first that cannot be written."""
        ...


@dataclass(frozen=True, slots=True)
class ConstantEncoder:
    """Writes the same bytes in every row: null, or the default of a field that has no column."""

    content: bytes

    def prepare(self, array: pa.Array) -> Column:
        """Count the rows; there is nothing to check."""
        return ConstantColumn(self.content, len(array))


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A column that has the same bytes in each of `count` rows."""

    content: bytes
    count: int

    def pieces(self) -> list[Piece]:
        """A word, or a span if it is longer."""
        return constant(self.content, self.count)


@dataclass(frozen=True, slots=True)
class FixedWidthColumn:
    """Values of the same number of bytes, as one or more words of the given sizes."""

    words: list[npt.NDArray[Any]]
    sizes: list[int]
    valid: Flags | None

    def pieces(self) -> list[Piece]:
        """One piece for each word."""
        return [_fixed_word(word, size, self.valid) for word, size in zip(self.words, self.sizes, strict=True)]


def _fixed_word(word: npt.NDArray[Any], size: int, valid: Flags | None) -> Words:
    if valid is None:
        return Words(lambda begin, end: (word[begin:end].astype(_u), 8 * size), size, size)

    def read(begin: int, end: int) -> tuple[U64, U64]:
        present = valid[begin:end].astype(_u)
        return word[begin:end] * present, present * _u(8 * size)

    return Words(read, 0, size)
