"""Check that bytes are datums of a schema, all rows at once: each row has a cursor, and fields are skipped in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from azure_account.errors import ConfigurationError
from azureblob_source.avro.encoding.assembly import assemble
from azureblob_source.avro.encoding.pieces import EncodedRows, Spans
from azureblob_source.avro.types import has_no_bytes

if TYPE_CHECKING:
    from azureblob_source.arrow_values import I64, Bytes
    from azureblob_source.avro.schema import AvroSchema
    from azureblob_source.avro.types import AvroType

_MAX_VARINT = 10
_MORE = 0x80  # set in all bytes of a varint but the last
_WIDTHS = {"float": 4, "double": 8}


def validate_datums(rows: EncodedRows, avro: AvroSchema) -> None:
    """Raise ConfigurationError, naming the first row, unless each row is exactly one datum of `avro`."""
    walk = _Walk(rows, avro.type)
    try:
        walk.skip(avro.type, np.arange(len(rows)))
    except RecursionError as cause:
        raise ConfigurationError(
            "the valueColumn holds datums nested too deeply to be checked. Flatten them."
        ) from cause
    bad = np.flatnonzero(walk.bad | (walk.cursor != walk.end))
    if len(bad):
        row = int(bad[0])
        size = int(rows.offsets[row + 1] - rows.offsets[row])
        raise ConfigurationError(
            f"row {row} of its batch: the {size} bytes in the valueColumn are not one datum of option avroSchema. "
            "Write them with this schema and without any header."
        )


class _Walk:
    """The cursors. A row whose bytes break the schema is `bad` and takes no further part."""

    def __init__(self, rows: EncodedRows, root: AvroType) -> None:
        self.data: Bytes = rows.data
        self.cursor: I64 = rows.offsets[:-1].copy()
        self.end: I64 = rows.offsets[1:]
        self.bad: npt.NDArray[np.bool_] = np.zeros(len(rows), np.bool_)
        self.records: dict[str, AvroType] = {}
        self._collect(root)

    def skip(self, avro: AvroType, rows: I64) -> None:  # noqa: C901, PLR0912 - one case for each Avro type
        """Move the cursors of `rows` over one value."""
        if len(rows) == 0:
            return
        match avro.kind:
            case "null":
                return
            case "boolean":
                self._check_bytes(rows, self._take(rows, np.ones(len(rows), np.int64)), 2)
            case "int":
                self._varint(rows, 2**31)
            case "long":
                self._varint(rows, 2**63)
            case "enum":
                self._number_below(rows, len(avro.symbols))
            case "float" | "double" | "fixed":
                self._take(rows, np.full(len(rows), _WIDTHS.get(avro.kind, avro.size), np.int64))
            case "bytes" | "string":
                self._sized(rows, text=avro.kind == "string")
            case "record" | "reference":
                for field in (self.records[avro.name] if avro.kind == "reference" else avro).fields:
                    rows = self._good(rows)
                    self.skip(field.type, rows)
            case "union":
                rows, index = self._number_below(rows, len(avro.branches))
                for number, branch in enumerate(avro.branches):
                    self.skip(branch, rows[index == number])
            case _:
                self._blocks(avro, rows)

    def _blocks(self, avro: AvroType, rows: I64) -> None:
        empty = avro.kind == "array" and has_no_bytes(avro.element)
        while len(rows):
            rows, count = self._varint(rows, 2**63)
            sized = rows[count < 0]
            self._varint(sized, 2**63)
            ended = self.bad[rows] | (count == 0)
            rows, left = rows[~ended], np.abs(count[~ended])
            # A count that the bytes left cannot hold would have us loop for ever.
            short = left > self.end[rows] - self.cursor[rows]
            self._fail(rows[short & (not empty)])
            items, left = self._kept(rows, left * (not empty))
            items, left = items[left > 0], left[left > 0]
            while len(items):
                if avro.kind == "map":
                    self._sized(items, text=True)
                self.skip(avro.element, self._good(items))
                left = left - 1
                going = (left > 0) & ~self.bad[items]
                items, left = items[going], left[going]
            rows = self._good(rows)

    def _number_below(self, rows: I64, count: int) -> tuple[I64, I64]:
        rows, number = self._varint(rows, 2**31)
        self._fail(rows[(number < 0) | (number >= count)])
        return self._kept(rows, number)

    def _sized(self, rows: I64, *, text: bool) -> None:
        rows, size = self._varint(rows, 2**63)
        start = self.cursor[rows]
        self._fail(rows[size < 0])
        rows, size, start = rows[size >= 0], size[size >= 0], start[size >= 0]
        whole = self._take(rows, size)
        if text:
            self._check_text(rows[whole], start[whole], size[whole])

    def _take(self, rows: I64, size: I64) -> npt.NDArray[np.bool_]:
        fit = size <= self.end[rows] - self.cursor[rows]
        self._fail(rows[~fit])
        self.cursor[rows[fit]] += size[fit]
        return fit

    def _check_bytes(self, rows: I64, taken: npt.NDArray[np.bool_], below: int) -> None:
        rows = rows[taken]
        self._fail(rows[self.data[self.cursor[rows] - 1] >= below])

    def _check_text(self, rows: I64, start: I64, size: I64) -> None:
        if len(rows) == 0:
            return
        # No lower bound, for spans of one length are taken to follow each other, which these do not.
        span = Spans(self.data, start, size.view(np.uint64), 0, int(size.max()))
        texts = assemble([span], len(rows))
        buffers = [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)]
        array = pa.Array.from_buffers(pa.large_binary(), len(rows), buffers, null_count=0)
        if not _is_text(array):
            self._fail(rows[[not _is_text(array[index : index + 1]) for index in range(len(rows))]])

    def _varint(self, rows: I64, limit: int) -> tuple[I64, I64]:
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
        return self._kept(rows, value)

    def _fail(self, rows: I64) -> None:
        self.bad[rows] = True

    def _good(self, rows: I64) -> I64:
        return rows[~self.bad[rows]]

    def _kept(self, rows: I64, values: I64) -> tuple[I64, I64]:
        good = ~self.bad[rows]
        return rows[good], values[good]

    def _collect(self, avro: AvroType) -> None:
        if avro.kind == "record":
            self.records[avro.name] = avro
        inner: list[Any] = [*(field.type for field in avro.fields), *avro.branches, avro.items]
        for one in inner:
            if one is not None:
                self._collect(one)


def _is_text(array: pa.Array) -> bool:
    try:
        array.cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True
