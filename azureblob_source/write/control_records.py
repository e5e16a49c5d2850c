"""Control messages in the write path: written after all other rows of a task, and listed in the log entry. Pure.

    rows ─┬─ user messages ────► written at once ──────────────┐
          └─ control messages ─► held until the task's end ────┴─► last rows of their partition, and in the log entry

With the option `emission` the sink also writes control messages itself: the watermarks of the tasks that sent the rows.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from arrow_avro import int64_array, stored_values
from azureblob_source.write.control_objects import merged, objects_of
from azureblob_source.write.routing import coalesce
from control_messages.envelopes import are_user_messages, unwrap, without_count
from control_messages.errors import BadEnvelopeError
from control_messages.messages import MessageType, message_type, to_fields
from control_messages.producer import FOR_THE_SINK, TaskWatermarks
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from arrow_avro import I64
    from azureblob_source.write.routing import Route, RoutedBatch, Router
    from control_messages.producer import ProducerSpec

PARTITION, VALUE, TASK, EVENT_TIME = "partition", "value", "task", "eventTime"
"""The columns that the option `emission` needs."""


def is_binary(kind: pa.DataType) -> bool:
    """Binary or large binary: the type of a column of envelopes or datums."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _is_int(kind: pa.DataType) -> bool:
    return kind in (pa.int32(), pa.int64())


def _is_task(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_string(kind)


_NEEDED: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    PARTITION: (_is_int, "an int or bigint"),
    VALUE: (is_binary, "binary"),
    TASK: (_is_task, "an integer or a string"),
    EVENT_TIME: (pa.types.is_timestamp, "a timestamp"),
}


def plain_envelopes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their envelopes as bytes: `emit` with `by_sink` puts them into a struct."""
    place = batch.schema.get_field_index(VALUE)
    if place < 0 or not _is_for_the_sink(batch.schema.field(place).type):
        return batch
    (envelopes,) = batch.column(place).flatten()
    return batch.set_column(place, pa.field(VALUE, envelopes.type), envelopes)


def _is_for_the_sink(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and [field.name for field in kind] == [FOR_THE_SINK]


def stored_rows(producer: ProducerSpec, rows: pa.Schema) -> pa.Schema:
    """The columns that are stored when option `emission` is set.

    `ConfigurationError` names the first column that `rows` lack, or that has the wrong type.
    """
    place = rows.get_field_index(VALUE)
    if place >= 0 and _is_for_the_sink(rows.field(place).type):
        rows = rows.set(place, pa.field(VALUE, rows.field(place).type.field(0).type))
    for column, (fits, expected) in _NEEDED.items():
        place = rows.get_field_index(column)
        if place < 0 and column == TASK and len(producer.names) == 1:
            continue
        if place < 0:
            raise ConfigurationError(
                f"Option `emission` needs a column {column!r}, {expected}; the rows to write have "
                f"{', '.join(rows.names)}."
            )
        kind = rows.field(place).type
        if not fits(kind):
            message = f"Option `emission`: column {column!r} is {kind}, it must be {expected}. Cast it in the query."
            raise ConfigurationError(message)
    return pa.schema([rows.field(PARTITION), rows.field(VALUE)])


class EnvelopeRouter:
    """Routes the rows of one task attempt, with envelopes in `column`: user messages first, then control messages.

    producer, sequence, writer: of the watermarks that are added, if any are.
    `routed` is called once and consumed to its end; then `messages` are the control messages that it has yielded.
    """

    def __init__(
        self,
        column: str,
        router: Router,
        producer: ProducerSpec | None,
        sequence: int | None = None,
        writer: int = 0,
    ) -> None:
        self._column, self._router = column, router
        self._own = None if producer is None else _OwnWatermarks(producer, sequence, writer)
        self._held: list[pa.RecordBatch] = []
        self._fields: dict[bytes, dict[str, Any]] = {}
        self._routes: dict[bytes, dict[Route, None]] = {}
        self._exhausted = False
        self.added: int = 0
        """Rows of the producer's watermarks so far."""

    def routed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[RoutedBatch]:
        """User messages of each batch as it comes, then all control messages, then the producer's watermarks.

        `ConfigurationError` describes the first row that is refused. Nothing of its batch is routed.
        """
        for batch in batches:
            user = self._user_rows(batch)
            if user.num_rows:
                yield self._router.route(user)
        for batch in coalesce(self._control_rows()):
            routed = self._router.route(batch)
            self._record(routed)
            yield routed
        self._exhausted = True

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """The control messages as objects of the log, each with its stream. `RuntimeError` until `routed` has ended."""
        if not self._exhausted:
            raise RuntimeError("the control messages of a task are known when all its rows are routed")
        found: list[dict[str, Any]] = []
        for envelope, routes in self._routes.items():
            by_stream: dict[str, list[str | None]] = defaultdict(list)
            for route in routes:
                by_stream[route.stream].append(route.partition)
            for stream, levels in by_stream.items():
                found += objects_of({**self._message(envelope), "stream": stream}, levels)
        return merged(found)

    def _user_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The user messages of a batch, perhaps none. Its control messages are held until the end."""
        if self._own is not None:
            self._own.check_partitions(batch)
        is_user = are_user_messages(batch.column(self._column))
        if not is_user.all():
            control = batch.take(int64_array(np.flatnonzero(~is_user)))
            batch = batch.take(int64_array(np.flatnonzero(is_user)))
            self._check(control)
            self._held.append(control if self._own is None else self._own.stored(control))
        return batch if self._own is None else self._own.observed(batch)

    def _control_rows(self) -> Iterator[pa.RecordBatch]:
        """The control messages held, then the producer's watermarks."""
        yield from self._held
        self._held = []
        if self._own is not None:
            for batch in self._own.rows():
                self.added += batch.num_rows
                yield batch

    def _record(self, routed: RoutedBatch) -> None:
        """Remember to which routes each message goes."""
        distinct, codes = _distinct(routed.batch.column(self._column))
        envelopes, count = list(map(without_count, distinct)), len(routed.routes)
        places = np.repeat(np.arange(count), np.diff(routed.starts))
        for pair in np.unique(codes * count + places).tolist():
            self._routes.setdefault(envelopes[pair // count], {})[routed.routes[pair % count]] = None

    def _message(self, envelope: bytes) -> dict[str, Any]:
        fields = self._fields.get(envelope)
        if fields is None:
            fields = self._fields[envelope] = _log_fields(envelope)
        return fields

    def _check(self, control: pa.RecordBatch) -> None:
        envelopes, codes = _distinct(control.column(self._column))
        for code, envelope in enumerate(envelopes):
            try:
                self._message(envelope)
            except BadEnvelopeError as error:
                row = int(np.flatnonzero(codes == code)[0])
                (route,) = self._router.route(control.slice(row, 1)).routes
                level = "" if route.partition is None else f" for partition {route.partition!r}"
                option = "envelopeColumn" if self._own is None else "emission"
                raise ConfigurationError(
                    "write",
                    f"an envelope{level} of stream {route.stream} (option `{option}`, column {self._column!r})",
                    str(error),
                    "Wrap every message in an envelope, or leave the option out.",
                ) from error


class _OwnWatermarks:
    """The watermarks that the sink writes for the tasks of a producer."""

    def __init__(self, producer: ProducerSpec, sequence: int | None, writer: int) -> None:
        self._producer = producer
        self._watermarks = TaskWatermarks(producer, sequence, writer)
        self._schema: pa.Schema | None = None

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are stored. Their schema is that of the watermarks' rows too."""
        stored = batch.select([PARTITION, VALUE])
        self._schema = stored.schema
        return stored

    def observed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The stored columns of user messages. Their event times advance the watermarks of their tasks."""
        tasks = batch.column(TASK) if batch.schema.get_field_index(TASK) >= 0 else None
        try:
            self._watermarks.observe(tasks, batch.column(EVENT_TIME), batch.column(PARTITION))
        except ValueError as error:
            raise ConfigurationError(f"Option `emission`: {error}") from error
        return self.stored(batch)

    def check_partitions(self, batch: pa.RecordBatch) -> None:
        """`ConfigurationError` if a row's partition is null or not one of the producer's: no watermark reaches it."""
        column = batch.column(PARTITION)
        wrong: int | None = None
        if not column.null_count:
            numbers = stored_values(column, np.int32 if column.type == pa.int32() else np.int64)
            if not len(numbers):
                return
            least, greatest = int(numbers.min()), int(numbers.max())
            if least >= 0 and greatest < self._producer.partitions:
                return
            wrong = least if least < 0 else greatest
        raise ConfigurationError(
            f"Option `emission`: column {PARTITION!r} is {'null' if wrong is None else wrong} in a row; the stream has "
            f"the partitions 0 to {self._producer.partitions - 1}. Correct the query, or `partitions` in the option."
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The watermarks of the tasks that sent rows, one row for each partition, in the schema of these rows."""
        if self._schema is None:
            return
        try:
            batch = self._watermarks.envelopes()
        except ValueError as error:
            raise ConfigurationError(f"Option `emission`: {error}") from error
        columns = [batch.column(field.name).cast(field.type) for field in self._schema]
        yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _distinct(envelopes: pa.Array) -> tuple[list[bytes], I64]:
    """The distinct values of a column without nulls, and for every row the index of its value."""
    encoded = envelopes.dictionary_encode()
    return encoded.dictionary.to_pylist(), stored_values(encoded.indices, np.int32).astype(np.int64)


_TYPE_NAMES = {
    MessageType.WATERMARK: "watermark",
    MessageType.END_OF_STREAM: "endOfStream",
    MessageType.DRAIN: "drain",
}


def _log_fields(envelope: bytes) -> dict[str, Any]:
    """Type and fields of a control message, but the count of its rows, which is another one in each partition.

    Samza's messages carry no task count, so their fields have none.
    """
    try:
        message, has_count = unwrap(envelope), True
    except BadEnvelopeError:
        message, has_count = unwrap(envelope, task_count=1), False
    if isinstance(message, bytes):
        raise TypeError("A user message has no fields for the log")
    fields = to_fields(message)
    if not has_count:
        del fields["taskCount"]
    for of_a_partition in ("writer", "rows"):
        fields.pop(of_a_partition, None)
    return {"type": _TYPE_NAMES[message_type(message)], **fields}
