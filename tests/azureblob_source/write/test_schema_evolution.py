"""Which writer schemas a stream takes: those with which all of it can still be read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro import AvroSchema, arrow_schema, infer, superset
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.snapshot import take_snapshot, writer_schemas
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from azureblob_source.write.schema_evolution import Refusal, check_names, refusal
from foundation.errors import ConfigurationError
from tests.azureblob_source.write.sink_rows import (
    committer,
    new_account,
    plan_of,
    put_anyway,
    stage_rows,
    visible_blobs,
)

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount


def schema(**columns: pa.DataType) -> AvroSchema:
    return infer(pa.schema(list(columns.items())), name="row", namespace=None)


def refused(known: list[AvroSchema], written: AvroSchema, *, fixed: bool = False) -> Refusal:
    found = refusal(known, written, fixed=fixed)
    assert found is not None
    return found


# --- one pair of schemas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "written", "types"),
    [
        (pa.int32(), pa.string(), "is int in the stream and string in this write"),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), "decimal(10,2) in the stream and fixed(6) decimal(12,4) in this"),
        (pa.date32(), pa.timestamp("us", "UTC"), "is int date in the stream and long timestamp-micros in this write"),
        (
            pa.timestamp("us", "UTC"),
            pa.timestamp("us"),
            "timestamp-micros in the stream and long local-timestamp-",
        ),
        (pa.bool_(), pa.int32(), "is boolean in the stream and int in this write"),
        (pa.list_(pa.int32()), pa.list_(pa.string()), "column 'id.element' is int in the stream and string in this"),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.string())]), "column 'id.x' is int in the stream"),
    ],
)
def test_a_refusal_names_the_column_its_types_and_the_ways_out(
    there: pa.DataType, written: pa.DataType, types: str
) -> None:
    found = refused([schema(id=there)], schema(id=written))
    assert types in found.cause
    assert all(word in found.next_step for word in ("Cast", "`avroSchema` of a read", "another stream"))


@pytest.mark.parametrize(
    "written",
    [schema(id=pa.int64()), schema(id=pa.int32(), new=pa.string()), schema(other=pa.string()), schema(id=pa.null())],
)
def test_new_columns_and_wider_types_are_taken_unless_the_columns_are_fixed(written: AvroSchema) -> None:
    stream = [schema(id=pa.int32())]
    assert refusal(stream, written, fixed=False) is None
    assert refusal([], written, fixed=True) is None
    assert (written != schema(id=pa.null())) == (refusal(stream, written, fixed=True) is not None)


def test_what_a_fixed_stream_refuses_is_said_in_its_message() -> None:
    needed = infer(pa.schema([pa.field("id", pa.int32(), nullable=False)]), name="row", namespace=None)
    assert "this write adds column 'new'" in refused([needed], schema(id=pa.int32(), new=pa.int32()), fixed=True).cause
    assert "from int32 to int64" in refused([schema(id=pa.int32())], schema(id=pa.int64()), fixed=True).cause
    assert "makes column 'id' nullable" in refused([needed], schema(id=pa.int32()), fixed=True).cause


def test_a_schema_that_the_stream_has_is_taken_whatever_the_others_are() -> None:
    damaged = [schema(id=pa.int32()), schema(id=pa.string())]
    assert refusal(damaged, damaged[0], fixed=True) is None
    assert "cannot be read as a whole already" in refused(damaged, schema(other=pa.int32())).cause


@pytest.mark.parametrize(
    ("there", "written", "names"),
    [
        (schema(Id=pa.int32()), schema(id=pa.int32()), "columns 'Id' and 'id'"),
        (schema(a=pa.struct([("X", pa.int32())])), schema(a=pa.struct([("x", pa.int32())])), "columns 'a.X' and 'a.x'"),
        (
            schema(a=pa.list_(pa.struct([("X", pa.int32())]))),
            schema(a=pa.list_(pa.struct([("x", pa.int32())]))),
            "columns 'a.X' and 'a.x'",
        ),
    ],
)
def test_names_that_differ_by_case_only_are_refused(there: AvroSchema, written: AvroSchema, names: str) -> None:
    found = refused([there], written)
    assert f"the stream then has {names}, which differ by case only" in found.cause
    assert "Rename one of the two" in found.next_step


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"Id": pa.int32(), "id": pa.int32()}, "'Id' and 'id'"),
        ({"a": pa.struct([("É", pa.int32()), ("é", pa.int32())])}, "'a.É' and 'a.é'"),
        ({"a": pa.map_(pa.int32(), pa.struct([("X", pa.int32()), ("x", pa.int32())]))}, "'a.value.X' and 'a.value.x'"),
    ],
)
def test_one_write_with_names_that_differ_by_case_only_is_refused(columns: dict[str, Any], names: str) -> None:
    with pytest.raises(ConfigurationError, match=f"columns {names}, which differ by case only"):
        check_names(schema(**columns))
    with pytest.raises(ConfigurationError, match=f"columns {names}, which differ by case only"):
        plan_of(pa.schema(list(columns.items())))


# --- accepted by the writer ⇔ readable afterwards ---------------------------------------------------------------------

VALUES: dict[pa.DataType, Any] = {
    pa.null(): None,
    pa.bool_(): True,
    pa.int8(): 1,
    pa.int32(): 1,
    pa.int64(): 2**40,
    pa.float32(): 1.5,
    pa.float64(): 1e300,
    pa.string(): "é",
    pa.binary(): b"\xff",
    pa.date32(): date(2013, 1, 31),
    pa.timestamp("us", "UTC"): datetime(2013, 1, 31, tzinfo=UTC),
    pa.timestamp("us"): datetime(2013, 1, 31),  # noqa: DTZ001 - a wall clock
    pa.decimal128(10, 2): Decimal("1.25"),
    pa.decimal128(12, 2): Decimal("1.25"),
    pa.decimal128(12, 4): Decimal("1.25"),
}
NAMES = ("id", "Id", "v", "a b", "a-b")


def nested(inner: st.SearchStrategy[tuple[pa.DataType, Any]]) -> st.SearchStrategy[tuple[pa.DataType, Any]]:
    fields = st.dictionaries(st.sampled_from(NAMES[:3]), inner, min_size=1, max_size=2)
    return st.one_of(
        inner.map(lambda of: (pa.list_(of[0]), [of[1]])),
        inner.map(lambda of: (pa.map_(pa.string(), of[0]), [("k", of[1])])),
        fields.map(
            lambda of: (pa.struct([(name, each) for name, (each, _) in of.items()]), {n: v for n, (_, v) in of.items()})
        ),
    )


columns = st.recursive(st.sampled_from(list(VALUES.items())), nested, max_leaves=3)


@st.composite
def one_row(draw: st.DrawFn) -> pa.RecordBatch:
    """A write of one row, whose columns may have any of the names and types."""
    drawn = draw(st.dictionaries(st.sampled_from(NAMES), columns, min_size=1, max_size=3))
    fields = [
        pa.field(name, kind, nullable=kind == pa.null() or draw(st.booleans())) for name, (kind, _) in drawn.items()
    ]
    arrays = [pa.array([value], field.type) for field, (_, value) in zip(fields, drawn.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def rows_as_spark_reads_them(account: MemoryAccount) -> int:
    """How many rows a read gives. `ConfigurationError` if it fails, or if Spark would take two columns for one."""
    log = CommitLog(account.container("container"), "flights", readers=1)
    head = log.head()
    assert head is not None
    reader = superset(writer_schemas(log, head.schemas or ()))
    check_names(reader)
    expected = arrow_schema(reader)
    splits = list(split_blobs(take_snapshot(log, None).blobs, 1 << 20))
    read = [batch for _, batch in read_splits(log.container, splits, SplitSettings(reader=reader))]
    assert all(expected == batch.schema for batch in read)
    return sum(batch.num_rows for batch in read)


@settings(deadline=None, max_examples=60)
@given(st.lists(one_row(), min_size=2, max_size=3))
def test_a_write_is_accepted_if_and_only_if_the_stream_is_readable_after_it(writes: list[pa.RecordBatch]) -> None:
    account = new_account()
    container, accepted = account.container("container"), 0
    for seed, batch in enumerate(writes):
        try:
            plan = plan_of(batch.schema)
        except ConfigurationError as error:
            assert "differ by case only" in str(error)  # noqa: PT017 - nothing else is wrong with it
            continue
        before = visible_blobs(account)
        try:
            committer(container, plan, seed).commit([stage_rows(container, plan, [batch], seed=seed)], None)
        except ConfigurationError:
            assert before == visible_blobs(account)
            put_anyway(container, plan, batch)
            with pytest.raises(ConfigurationError):
                rows_as_spark_reads_them(account)
            return
        accepted += 1
        assert accepted == rows_as_spark_reads_them(account)
