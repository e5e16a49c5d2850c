"""What the guide's table *What a null becomes* says, null by null (docs/READING.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from foundation.errors import ConfigurationError
from tests.azureblob_source.write.sink_rows import (
    blob_rows,
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
    visible_rows,
)

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

POINT = pa.struct([("x", pa.int64()), pa.field("y", pa.int64(), nullable=False)])


def written(batch: pa.RecordBatch, **options: Any) -> MemoryAccount:
    account, plan = new_account(), plan_of(batch.schema, **options)
    container = account.container("container")
    committer(container, plan).commit([stage_rows(container, plan, [batch])], None)
    return account


def one_column(values: list[Any], kind: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, kind)], schema=pa.schema([("a", kind)]))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [1, None]),
        (pa.string(), ["", None]),
        (pa.list_(pa.int64()), [[1, None], [], None]),
        (pa.map_(pa.string(), pa.int64()), [{"k": None}, {}, None]),
        (POINT, [{"x": None, "y": 1}, None]),
    ],
    ids=str,
)
def test_a_null_is_a_null_at_every_level_and_not_a_zero_or_an_empty_value(kind: pa.DataType, values: list[Any]) -> None:
    (data,) = visible_blobs(written(one_column(values, kind))).values()
    assert [{"a": value} for value in values] == blob_rows(data)


def test_a_column_of_nulls_alone_is_stored() -> None:
    (data,) = visible_blobs(written(one_column([None, None], pa.null()))).values()
    assert [{"a": None}, {"a": None}] == blob_rows(data)


@pytest.mark.parametrize("default", [{}, {"default": 7}])
def test_a_null_in_a_type_without_null_is_refused_also_if_the_field_has_a_default(default: dict[str, int]) -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "a", "type": "long", **default}]}
    with pytest.raises(
        ConfigurationError, match=r"column 'a', row 1 of its batch: null does not fit.*Change the value"
    ):
        written(one_column([1, None], pa.int64()), avroSchema=json.dumps(schema))


def test_a_null_partition_has_no_level_and_an_empty_one_has() -> None:
    batch = one_column(["EWR", None, ""], pa.string())
    levels = {"flights/EWR": [{"a": "EWR"}], "flights": [{"a": None}], "flights/%00": [{"a": ""}]}
    assert levels == visible_rows(written(batch, partitionColumn="a"))


def test_a_null_stream_is_the_stream_of_the_path_and_refused_without_one() -> None:
    batch = one_column(["arrivals", None], pa.string())
    account = written(batch, streamColumn="a")
    assert {"arrivals": [{"a": "arrivals"}], "flights": [{"a": None}]} == visible_rows(account)
    with pytest.raises(ConfigurationError, match=r"column 'a' is null in a row, and there is no default stream"):
        written(batch, path="container", streamColumn="a")


@pytest.mark.parametrize(("values", "times"), [([None, 3, 1, None], (1, 3)), ([None, None], (None, None))])
def test_a_null_event_time_is_stored_and_does_not_count_for_the_range(values: list[int | None], times: Any) -> None:
    batch = one_column(values, pa.timestamp("us", "UTC"))
    plan = plan_of(batch.schema, eventTimeColumn="a")
    (blob,) = stage_rows(new_account().container("container"), plan, [batch]).blobs
    assert (len(values), *times) == (blob.rows, blob.min_event_time, blob.max_event_time)
