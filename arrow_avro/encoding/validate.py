"""Checks that bytes are datums of a schema, all rows at once: each row has a cursor, which moves from value to value.

A row that is not valid is marked; after the last value the first of them is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from arrow_avro.arrow_values import are_utf8
from arrow_avro.encoding.assembly import assemble
from arrow_avro.encoding.pieces import EncodedRows, Spans
from arrow_avro.types import has_no_bytes, walk
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from arrow_avro.arrow_values import I64, Bytes
    from arrow_avro.schema import AvroSchema
    from arrow_avro.types import AvroType

_MAX_VARINT = 10
_MORE = 0x80  # set in all bytes of a varint but the last
_WIDTHS = {"float": 4, "double": 8}


def validate_datums(rows: EncodedRows, avro: AvroSchema) -> None:
    """Raise ConfigurationError, naming the first row that is not exactly one datum of `avro`."""
    try:
        row = invalid_row(rows, avro)
    except RecursionError as cause:
        raise ConfigurationError(
            "the valueColumn holds datums nested too deeply to be checked. Flatten them."
        ) from cause
    if row is not None:
        size = int(rows.offsets[row + 1] - rows.offsets[row])
        raise ConfigurationError(
            f"row {row} of its batch: the {size} bytes in the valueColumn are not one datum of option avroSchema. "
            "Write them with this schema and without any header."
        )


def invalid_row(rows: EncodedRows, avro: AvroSchema) -> int | None:
    """The first row that is not exactly one datum of `avro`. RecursionError for datums that are nested too deeply."""
    validation = _Validation(rows, avro.type)
    validation.value(avro.type, np.arange(len(rows)))
    invalid = np.flatnonzero(validation.invalid | (validation.cursor != validation.end))
    return int(invalid[0]) if len(invalid) else None


class _Validation:
    """The cursor of each row. A row that is `invalid` is not looked at any further.

    Each method takes row numbers, reads one thing at the cursors of these rows and moves them past it.
    """

    def __init__(self, rows: EncodedRows, root: AvroType) -> None:
        self.data: Bytes = rows.data
        self.cursor: I64 = rows.offsets[:-1].copy()
        self.end: I64 = rows.offsets[1:]
        self.invalid: npt.NDArray[np.bool_] = np.zeros(len(rows), np.bool_)
        self.records = {each.name: each for each in walk(root) if each.kind == "record"}

    def value(self, avro: AvroType, rows: I64) -> None:  # noqa: C901, PLR0912 - one case for each Avro type
        """Check one value of each row."""
        if len(rows) == 0:
            return
        match avro.kind:
            case "null":
                return
            case "boolean":
                self._boolean(rows)
            case "int":
                self._varint(rows, 2**31)
            case "long":
                self._varint(rows, 2**63)
            case "enum":
                self._number_below(rows, len(avro.symbols))
            case "float" | "double" | "fixed":
                self._bytes(rows, np.full(len(rows), _WIDTHS.get(avro.kind, avro.size), np.int64))
            case "bytes" | "string":
                self._sized_bytes(rows, text=avro.kind == "string")
            case "record" | "reference":
                for field in (self.records[avro.name] if avro.kind == "reference" else avro).fields:
                    rows = self._still_valid(rows)
                    self.value(field.type, rows)
            case "union":
                rows, index = self._number_below(rows, len(avro.branches))
                for number, branch in enumerate(avro.branches):
                    self.value(branch, rows[index == number])
            case _:
                self._items(avro, rows)

    def _items(self, avro: AvroType, rows: I64) -> None:
        """The blocks of an array or map: each a count of items (if negative, then a size in bytes) and the items."""
        empty = avro.kind == "array" and has_no_bytes(avro.element)
        while len(rows):
            rows, count = self._varint(rows, 2**63)
            sized = rows[count < 0]
            self._varint(sized, 2**63)
            ended = self.invalid[rows] | (count == 0)
            rows, left = rows[~ended], np.abs(count[~ended])
            # More items than bytes are refused at once: a loop over a huge count would take for ever.
            short = left > self.end[rows] - self.cursor[rows]
            self._fail(rows[short & (not empty)])
            items, left = self._valid_pairs(rows, left * (not empty))
            items, left = items[left > 0], left[left > 0]
            while len(items):
                if avro.kind == "map":
                    self._sized_bytes(items, text=True)
                self.value(avro.element, self._still_valid(items))
                left = left - 1
                going = (left > 0) & ~self.invalid[items]
                items, left = items[going], left[going]
            rows = self._still_valid(rows)

    def _number_below(self, rows: I64, count: int) -> tuple[I64, I64]:
        """The index of a branch or symbol; returned with the rows in which it is valid."""
        rows, number = self._varint(rows, 2**31)
        self._fail(rows[(number < 0) | (number >= count)])
        return self._valid_pairs(rows, number)

    def _sized_bytes(self, rows: I64, *, text: bool) -> None:
        rows, size = self._varint(rows, 2**63)
        start = self.cursor[rows]
        self._fail(rows[size < 0])
        rows, size, start = rows[size >= 0], size[size >= 0], start[size >= 0]
        whole = self._bytes(rows, size)
        if text:
            self._check_utf8(rows[whole], start[whole], size[whole])

    def _bytes(self, rows: I64, size: I64) -> npt.NDArray[np.bool_]:
        """`size` bytes of each row; returns which of the rows have them."""
        fit = size <= self.end[rows] - self.cursor[rows]
        self._fail(rows[~fit])
        self.cursor[rows[fit]] += size[fit]
        return fit

    def _boolean(self, rows: I64) -> None:
        rows = rows[self._bytes(rows, np.ones(len(rows), np.int64))]
        self._fail(rows[self.data[self.cursor[rows] - 1] > 1])

    def _check_utf8(self, rows: I64, start: I64, size: I64) -> None:
        if len(rows) == 0:
            return
        # `low` is 0, because spans of one length would have to follow each other without a gap, which these do not.
        span = Spans(self.data, start, size.view(np.uint64), 0, int(size.max()))
        texts = assemble([span], len(rows))
        buffers = [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)]
        array = pa.Array.from_buffers(pa.large_binary(), len(rows), buffers, null_count=0)
        if not are_utf8(array):
            self._fail(rows[[not are_utf8(array[index : index + 1]) for index in range(len(rows))]])

    def _varint(self, rows: I64, limit: int) -> tuple[I64, I64]:
        """A number from -limit to limit - 1; returned with the rows in which it is valid."""
        number = np.zeros(len(rows), np.uint64)
        going = np.arange(len(rows))
        for position in range(_MAX_VARINT):
            there = self.cursor[rows[going]] < self.end[rows[going]]
            self._fail(rows[going[~there]])
            going = going[there]
            byte = self.data[self.cursor[rows[going]]]
            self.cursor[rows[going]] += 1
            number[going] |= (byte & ~np.uint8(_MORE)).astype(np.uint64) << np.uint64(7 * position)
            if position == _MAX_VARINT - 1:
                self._fail(rows[going[byte > 1]])
            going = going[byte >= _MORE]
            if len(going) == 0:
                break
        value = (number >> np.uint64(1)).view(np.int64) ^ -(number & np.uint64(1)).view(np.int64)
        self._fail(rows[(value < -limit) | (value > limit - 1)])
        return self._valid_pairs(rows, value)

    def _fail(self, rows: I64) -> None:
        self.invalid[rows] = True

    def _still_valid(self, rows: I64) -> I64:
        return rows[~self.invalid[rows]]

    def _valid_pairs(self, rows: I64, values: I64) -> tuple[I64, I64]:
        valid = ~self.invalid[rows]
        return rows[valid], values[valid]
