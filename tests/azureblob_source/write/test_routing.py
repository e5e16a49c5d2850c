from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azureblob_source.log.naming import partition_level
from azureblob_source.write.routing import Route, Router, slices
from foundation.errors import ConfigurationError

ROWS = pa.schema([("stream", pa.string()), ("part", pa.string()), ("n", pa.int64())])
streams = st.sampled_from(["a", "b/c", "a"]) | st.none()
partitions = st.text(st.characters(codec="utf-8"), max_size=3) | st.sampled_from(["EWR", "JFK", "%", ""]) | st.none()


def batch_of(rows: list[tuple[str | None, str | None]]) -> pa.RecordBatch:
    columns = [[row[0] for row in rows], [row[1] for row in rows], list(range(len(rows)))]
    return pa.record_batch([pa.array(c, t.type) for c, t in zip(columns, ROWS, strict=True)], schema=ROWS)


def routed_rows(router: Router, batch: pa.RecordBatch) -> dict[Route, list[Any]]:
    routed = router.route(batch)
    rows = routed.batch.to_pylist()
    assert routed.batch.schema == router.written_schema(batch.schema)
    assert len(rows) == routed.starts[-1]
    return {route: rows[first:last] for route, first, last in slices(routed)}


@given(
    st.lists(st.tuples(streams, partitions), max_size=30),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_rows_get_the_routes_that_a_loop_over_rows_gives(
    rows: list[tuple[str | None, str | None]], by_stream: bool, by_partition: bool, drop: bool
) -> None:
    router = Router("default", "stream" if by_stream else None, "part" if by_partition else None, drop)
    batch = batch_of(rows)
    expected: dict[Route, list[Any]] = defaultdict(list)
    dropped = {name for name, used in (("stream", by_stream), ("part", by_partition)) if drop and used}
    for row in batch.to_pylist():
        stream = (row["stream"] if by_stream else None) or "default"
        partition = row["part"] if by_partition else None
        route = Route(stream, None if partition is None else partition_level(partition))
        expected[route].append({name: value for name, value in row.items() if name not in dropped})
    found = routed_rows(router, batch)
    if not by_stream and not by_partition and not rows:
        assert {Route("default"): []} == found
    else:
        assert expected == found


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (pa.array([2013, -1, 0], pa.int32()), ["2013", "-1", "0"]),
        (pa.array([True, False, True]), ["true", "false", "true"]),
        (pa.array([date(2013, 1, 31)] * 3), ["2013-01-31"] * 3),
        (pa.array([Decimal("1.20"), None, Decimal("0.00")]), ["1.20", None, "0.00"]),
        (pa.array([datetime(2013, 1, 31, 5, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
         ["2013-01-31 05%3A00%3A00.000000Z"] * 3),
        (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
        (pa.array([b"raw", b"", None]), ["raw", "%00", None]),
        (pa.array(["a", "b", "a"], pa.large_string()), ["a", "b", "a"]),
        (pa.nulls(3), [None] * 3),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_any_column_that_is_not_nested_can_name_the_partition(column: pa.Array, levels: list[str | None]) -> None:
    batch = pa.record_batch({"part": column, "n": [0, 1, 2]})
    router = Router("s", None, "part")
    router.check(batch.schema)
    found = {row["n"]: route for route, rows in routed_rows(router, batch).items() for row in rows}
    assert [Route("s", level) for level in levels] == [found[n] for n in range(3)]


def test_a_batch_with_one_route_is_not_copied() -> None:
    batch = batch_of([("a", "x")] * 5)
    assert Router("s").route(batch).batch is batch
    columns = Router(None, "stream", "part").route(batch).batch.columns
    assert [c.buffers()[1].address for c in batch.columns] == [c.buffers()[1].address for c in columns]


def test_one_column_can_name_stream_and_partition_and_be_dropped() -> None:
    batch = batch_of([("a", None), ("b", None)])
    found = routed_rows(Router(None, "stream", "stream", True), batch)
    assert {Route("a", "a"): [{"part": None, "n": 0}], Route("b", "b"): [{"part": None, "n": 1}]} == found


@pytest.mark.parametrize(
    ("router", "message"),
    [
        (Router("s", "where"), "Option `streamColumn` names column 'where'; the rows have stream, part, n"),
        (Router("s", None, "where"), "Option `partitionColumn` names column 'where'; the rows have stream, part, n"),
        (Router(None), "No stream is named.*`stream`/`streamColumn`"),
        (Router(None, None, "part"), "No stream is named"),
    ],
)
def test_invalid_routing_is_refused_before_the_first_row(router: Router, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        router.check(ROWS)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.map_(pa.string(), pa.int8())]
)
def test_a_nested_column_cannot_route(kind: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match=r"Option `partitionColumn`: column 'x' is nested.*another column"):
        Router("s", None, "x").check(pa.schema([("x", kind)]))


def test_a_null_stream_needs_a_default() -> None:
    with pytest.raises(ConfigurationError, match=r"Option `streamColumn`: column 'stream' is null.*Name one"):
        Router(None, "stream").route(batch_of([("a", None), (None, None)]))


def test_a_stream_named_by_a_row_is_validated_like_any_other() -> None:
    with pytest.raises(ConfigurationError, match=r"stream name '_log/x' is invalid.*`streamColumn`"):
        Router(None, "stream").route(batch_of([("_log/x", None)]))


def test_binary_values_that_are_not_utf_8_are_refused_with_option_and_column() -> None:
    batch = pa.record_batch({"raw": [b"\xff"]})
    with pytest.raises(
        ConfigurationError, match=r"Option `partitionColumn`: column 'raw' cannot be read as text.*Cast"
    ):
        Router("s", None, "raw").route(batch)


def test_a_column_without_a_text_form_is_refused_with_option_and_column() -> None:
    batch = pa.record_batch({"span": pa.nulls(1, pa.month_day_nano_interval())})
    with pytest.raises(ConfigurationError, match=r"Option `streamColumn`: column 'span' cannot be read as text"):
        Router("s", "span").route(batch)
