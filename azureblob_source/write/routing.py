"""Routing: small batches are joined, and their rows grouped by stream and partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro import int64_array, stored_values, validity
from azureblob_source.log.naming import check_stream, partition_level
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COALESCED_ROWS = 32_768
COALESCED_BYTES = 16 << 20
"""Arrow batches are encoded together up to these sizes: Spark's 10,000 rows are too few to pay for a numpy call."""


@dataclass(frozen=True)
class Route:
    """A stream, and the partition level in the names of its blobs; None if they have none."""

    stream: str
    partition: str | None = None


@dataclass(frozen=True)
class RoutedBatch:
    """A batch with its rows grouped by route: route `routes[i]` has the rows `starts[i] … starts[i+1]-1`.

    Rows of one route keep their order. `starts` has one element more than `routes`.
    """

    batch: pa.RecordBatch
    routes: list[Route]
    starts: np.ndarray


@dataclass(frozen=True)
class Router:
    """Routes rows by their columns. `stream` is the default, for rows whose `stream_column` is null or not set."""

    stream: str | None
    stream_column: str | None = None
    partition_column: str | None = None
    drop_columns: bool = False

    def check(self, schema: pa.Schema) -> None:
        """`ConfigurationError` unless the routing columns exist and can be cast to strings."""
        for option, column in (("streamColumn", self.stream_column), ("partitionColumn", self.partition_column)):
            if column is None:
                continue
            if schema.get_field_index(column) < 0:
                message = f"Option `{option}` names column {column!r}; the rows have {', '.join(schema.names)}."
                raise ConfigurationError(message)
            if pa.types.is_nested(schema.field(column).type):
                message = f"Option `{option}`: column {column!r} is nested and has no text form. Name another column."
                raise ConfigurationError(message)
        if self.stream is None and self.stream_column is None:
            message = "No stream is named. Give `container/stream` as the path, or the option `stream`/`streamColumn`."
            raise ConfigurationError(message)

    def written_schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of `schema` that are stored: without the routing columns if `drop_columns` is set."""
        return pa.schema([field for field in schema if field.name not in self._dropped], schema.metadata)

    @property
    def _columns(self) -> tuple[str, ...]:
        named = (self.stream_column, self.partition_column)
        return tuple(dict.fromkeys(column for column in named if column is not None))

    @property
    def _dropped(self) -> list[str]:
        return list(self._columns) if self.drop_columns else []

    def route(self, batch: pa.RecordBatch) -> RoutedBatch:
        """Group the rows of `batch` by route."""
        if not self._columns:
            return RoutedBatch(batch, [Route(self.stream or "")], np.array([0, batch.num_rows]))
        if not batch.num_rows:
            return RoutedBatch(batch.drop_columns(self._dropped), [], np.array([0]))
        codes, routes = self._codes(batch)
        batch = batch.drop_columns(self._dropped)
        if len(routes) > 1 and np.any(codes[1:] < codes[:-1]):
            order = np.argsort(codes, kind="stable")
            batch, codes = batch.take(int64_array(order)), codes[order]
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        present = [routes[code] for code in codes[starts]]
        return RoutedBatch(batch, present, np.append(starts, batch.num_rows))

    def _codes(self, batch: pa.RecordBatch) -> tuple[np.ndarray, list[Route]]:
        """The index of each row's route, and the routes."""
        streams, stream_codes = self._levels(batch, "streamColumn", self.stream_column)
        partitions, partition_codes = self._levels(batch, "partitionColumn", self.partition_column)
        pairs = stream_codes * len(partitions) + partition_codes
        kept, codes = np.unique(pairs, return_inverse=True)
        routes = [
            self._route(streams[pair // len(partitions)], partitions[pair % len(partitions)]) for pair in kept.tolist()
        ]
        return codes, routes

    @staticmethod
    def _levels(batch: pa.RecordBatch, option: str, column: str | None) -> tuple[list[str | None], np.ndarray]:
        """The distinct values of a column as strings, None last, and the index of each row's value."""
        if column is None:
            return [None], np.zeros(batch.num_rows, np.int64)
        encoded = _as_text(batch, option, column).dictionary_encode()
        values = encoded.dictionary.to_pylist()
        indices = stored_values(encoded.indices, np.int32).astype(np.int64)
        valid = validity(encoded.indices)
        if valid is not None:
            indices[~valid] = len(values)
        return [*values, None], indices

    def _route(self, stream: str | None, partition: str | None) -> Route:
        if stream is None and self.stream is None:
            raise ConfigurationError(
                f"Option `streamColumn`: column {self.stream_column!r} is null in a row, and there is no default "
                "stream. Name one in the path, or fill the column."
            )
        return _route(self.stream if stream is None else stream, partition)


def coalesce(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches into larger ones: one ends with the batch that reaches `COALESCED_ROWS` or `COALESCED_BYTES`."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= COALESCED_ROWS or size >= COALESCED_BYTES:
            joined, waiting, rows, size = _joined(waiting), [], 0, 0
            while joined:  # nothing here keeps a batch that was yielded: it may have much memory
                yield joined.pop(0)
    if waiting:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch of several; more if a column would have more than 2 GiB."""
    return batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()


@lru_cache(maxsize=100_000)
def _route(stream: str, partition: str | None) -> Route:
    check_stream(stream, option="streamColumn")
    return Route(stream, None if partition is None else partition_level(partition))


def _as_text(batch: pa.RecordBatch, option: str, column: str) -> pa.Array:
    """A column as strings; binary values must be UTF-8."""
    try:
        return batch.column(column).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"Option `{option}`: column {column!r} cannot be read as text ({error}). Cast it in the query."
        raise ConfigurationError(message) from error


def slices(routed: RoutedBatch) -> Iterator[tuple[Route, int, int]]:
    """Each route with its first row and the row after its last."""
    yield from zip(routed.routes, routed.starts[:-1].tolist(), routed.starts[1:].tolist(), strict=True)
