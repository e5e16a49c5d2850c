"""The envelopes of an intermediate stream: a type byte, then a user payload or the JSON of a control message. Pure.

One by one, and a column at a time. A null is a user message of null, so that a tombstone of Kafka passes. An envelope
is rejected if it has zero bytes, an unknown type, or control data that cannot be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_is

from control_messages.arrow_memory import (
    I64,
    binary_values,
    data_offsets,
    integer_array,
    integers,
    validity,
)
from control_messages.errors import BadEnvelopeError
from control_messages.messages import ControlMessage, MessageType, Watermark, from_json, message_type, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

I16 = npt.NDArray[np.int16]

NULL, EMPTY = -1, -2
"""What `types` returns for a row without a type byte."""

_CACHED_BYTES = 1024
"""Longer control messages are not cached, so that the cache stays small."""


@dataclass(frozen=True)
class Rejected:
    """An envelope that cannot be read: its row, the reason, and its bytes."""

    row: int
    reason: str
    envelope: bytes


@dataclass(frozen=True)
class Unwrapped:
    """A column of envelopes, divided. Every row is in one of `user_rows`, `control_rows` and `rejected`, all ascending.

    user_rows: the rows of the user messages; payloads: their payloads, of the type of the envelopes.
    control_rows: the rows of the control messages; messages: the messages. Equal envelopes share one message.
    """

    user_rows: I64
    payloads: pa.Array
    control_rows: I64
    messages: list[ControlMessage]
    rejected: list[Rejected]

    @property
    def control(self) -> list[tuple[int, ControlMessage]]:
        """Row and message of the control messages. For a million, making the pairs takes longer than `unwrap_all`."""
        return list(zip(self.control_rows.tolist(), self.messages, strict=True))


def wrap(message: ControlMessage | bytes) -> bytes:
    """The envelope of a control message or of a user payload. `ValueError` for a message that `to_fields` refuses."""
    if isinstance(message, bytes):
        return b"\0" + message
    return bytes((message_type(message),)) + to_json(message)


def unwrap(envelope: bytes, task_count: int | None = None) -> ControlMessage | bytes:
    """The control message or user payload in an envelope. `task_count` is for messages without one.

    `BadEnvelopeError` if the bytes are no envelope.
    """
    if not envelope:
        raise BadEnvelopeError("An envelope has at least a type byte, this one has zero bytes.")
    try:
        kind = MessageType(envelope[0])
    except ValueError:
        known = f"known are 0 to {max(MessageType)}"
        text = f"The type byte is {envelope[0]}, {known}: these bytes are no envelope, or need a newer release."
        raise BadEnvelopeError(text) from None
    data = envelope[1:]
    return data if kind is MessageType.USER else from_json(kind, data, task_count)


def types(envelopes: pa.Array) -> I16:
    """The type byte of every row; `NULL` for a null and `EMPTY` for zero bytes. `TypeError` for other columns."""
    if not (arrow_is.is_binary(envelopes.type) or arrow_is.is_large_binary(envelopes.type)):
        raise TypeError(f"envelopes are binary, these are {envelopes.type}.")
    offsets, data = data_offsets(envelopes), envelopes.buffers()[2]
    if data is None or data.size == 0:
        found = np.zeros(len(envelopes), np.int16)
    else:
        # The offset of an empty last row is the size of the data.
        found = np.frombuffer(data, np.uint8).take(offsets[:-1], mode="clip").astype(np.int16)
    found[offsets[1:] == offsets[:-1]] = EMPTY
    if envelopes.null_count:
        found[~validity(envelopes)] = NULL
    return found


def are_user_messages(envelopes: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows are user messages, including nulls. `TypeError` for a column that is not binary."""
    found = types(envelopes)
    user: npt.NDArray[np.bool_] = (found == MessageType.USER) | (found == NULL)
    return user


def count_user_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Control envelopes as they are, and in place of user messages their number in each partition.

    batches: columns partition, value (null for a user message) and position. The result has a column rows too, the
    number, which is 0 for a control envelope. Runs in Spark's workers, so it imports neither pyspark nor pandas.
    """
    for batch in batches:
        is_user = pc.is_null(batch.column("value"))
        control = batch.filter(pc.invert(is_user))
        counted = pc.value_counts(batch.column("partition").filter(is_user))
        absent = (pa.nulls(len(counted), batch.column(name).type) for name in ("value", "position"))
        zeros = integer_array(np.zeros(control.num_rows, np.int64))
        names = ["partition", "value", "position", "rows"]
        yield pa.RecordBatch.from_arrays([*control.columns, zeros], names)
        yield pa.RecordBatch.from_arrays([counted.field(0), *absent, counted.field(1)], names)


def unwrap_all(envelopes: pa.Array, task_count: int | None = None) -> Unwrapped:
    """`unwrap` for every row; bad envelopes are returned as `rejected`. Equal control envelopes are parsed once.

    task_count: for messages without one. `TypeError` for a column that is not binary.
    """
    is_user = are_user_messages(envelopes)
    user_rows, other_rows = np.flatnonzero(is_user), np.flatnonzero(~is_user)
    others = _chosen(envelopes, other_rows).dictionary_encode()
    codes, distinct = integers(others.indices), binary_values(others.dictionary)
    read = [_read(envelope, task_count) for envelope in distinct]
    good = np.fromiter((not isinstance(one, str) for one in read), np.bool_, len(read))[codes]
    bad = zip(other_rows[~good].tolist(), codes[~good].tolist(), strict=True)
    return Unwrapped(
        user_rows,
        _without_type(_chosen(envelopes, user_rows)),
        other_rows[good],
        [read[code] for code in codes[good].tolist()],
        [Rejected(row, read[code], distinct[code]) for row, code in bad],
    )


def without_count(envelope: bytes) -> bytes:
    """A control envelope without the count of its rows at its end, which is another one in each partition."""
    return _COUNT.sub(b"}", envelope)


_COUNT = re.compile(rb',"writer":(0|[1-9]\d{0,17}),"rows":(0|[1-9]\d{0,17})\}\Z')


def _read(envelope: bytes, task_count: int | None) -> Any:
    """As `_control_or_reason`, but of watermarks that differ in their count only, one is parsed."""
    if len(envelope) > _CACHED_BYTES:
        return _control_or_reason(envelope, task_count)
    count = _COUNT.search(envelope)
    if count is None:
        return _cached(envelope, task_count)
    message = _cached(without_count(envelope), task_count)
    if not isinstance(message, Watermark) or (message.writer, message.rows) != (None, None):
        return _control_or_reason(envelope, task_count)
    writer, rows = map(int, count.groups())
    return replace(message, writer=writer, rows=rows)


@lru_cache(maxsize=4096)
def _cached(envelope: bytes, task_count: int | None) -> Any:
    """Every partition gets the same messages, and a consumer reads one partition after the other."""
    return _control_or_reason(envelope, task_count)


def _control_or_reason(envelope: bytes, task_count: int | None) -> Any:
    """The message; or a string, the reason why it cannot be read."""
    try:
        return unwrap(envelope, task_count)
    except BadEnvelopeError as error:
        return str(error)


def _chosen(array: pa.Array, rows: I64) -> pa.Array:
    """The given rows, in ascending order; without a copy if they are contiguous."""
    if len(rows) == 0:
        return array.slice(0, 0)
    first = int(rows[0])
    if int(rows[-1]) - first + 1 == len(rows):
        return array.slice(first, len(rows))
    return array.take(integer_array(rows))


def _without_type(envelopes: pa.Array) -> pa.Array:
    data = envelopes.buffers()[2]
    # Without a stop, Arrow computes the size of its buffer from one that overflows. No value is longer than the data.
    return pc.binary_slice(envelopes, 1, 1 + (0 if data is None else data.size))
