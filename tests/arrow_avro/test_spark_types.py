"""Arrow batches as Spark passes them, and Spark's schema of what is read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    YearMonthIntervalType,
)

from arrow_avro.nested_arrays import well_formed
from arrow_avro.spark_types import arrow_of, spark_of
from foundation.errors import ConfigurationError

pytestmark = [pytest.mark.every_spark, pytest.mark.oldest_spark]


def _empty_without_offsets(kind: pa.DataType) -> pa.Array:
    """An empty list or string array as Spark 4.0's Arrow library sends it: its offset buffer has no byte."""
    none = pa.py_buffer(b"")
    if pa.types.is_list(kind):
        return pa.Array.from_buffers(kind, 0, [None, none], children=[_empty_without_offsets(kind.value_type)])
    return pa.Array.from_buffers(kind, 0, [None, none, none])


def test_an_empty_array_without_offsets_gets_offsets() -> None:
    kind = pa.list_(pa.list_(pa.string()))
    lists = pa.Array.from_buffers(
        kind, 2, [pa.py_buffer(b"\x01"), pa.py_buffer(bytes(12))], 1, children=[_empty_without_offsets(kind.value_type)]
    )
    batch = pa.record_batch([lists], ["lists"])
    mended = well_formed(batch)
    mended.validate(full=True)
    assert {"lists": [[], None]} == mended.to_pydict()
    assert batch.schema == mended.schema


def test_all_other_batches_keep_their_rows_and_their_schema() -> None:
    point = pa.struct([pa.field("x", pa.int8(), nullable=False), pa.field("tags", pa.list_(pa.string()))])
    batch = pa.RecordBatch.from_pylist(
        [
            {"point": {"x": 1, "tags": ["a", None]}, "counts": [("k", 1)], "plain": "p"},
            {"point": None, "counts": None, "plain": None},
            {"point": {"x": 2, "tags": None}, "counts": [], "plain": ""},
        ],
        pa.schema([("point", point), ("counts", pa.map_(pa.string(), pa.int64())), ("plain", pa.string())]),
    )
    assert batch.equals(well_formed(batch), check_metadata=True)


def test_a_schema_comes_back_with_the_nullability_of_every_level() -> None:
    schema = StructType(
        [
            StructField("list", ArrayType(LongType(), containsNull=False), nullable=False),
            StructField("map", MapType(StringType(), TimestampNTZType(), valueContainsNull=False)),
            StructField("struct", StructType([StructField("x", ArrayType(LongType()), nullable=False)])),
        ]
    )
    assert schema == spark_of(arrow_of(schema))


@pytest.mark.parametrize(
    "kind",
    [ArrayType(NullType(), False), MapType(StringType(), NullType(), False), StructType([]), ArrayType(StructType([]))],
)
def test_a_void_that_may_not_be_null_and_a_struct_without_fields_have_an_arrow_form(kind: DataType) -> None:
    (field,) = spark_of(arrow_of(StructType([StructField("c", kind)])))
    assert kind.simpleString() == field.dataType.simpleString()


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (MapType(NullType(), LongType()), "column 'c' has type map<void,bigint>"),
        (StructType([StructField("x", ArrayType(CalendarIntervalType()))]), "column 'c.x.element' has type interval"),
        (MapType(StringType(), YearMonthIntervalType()), "column 'c.value' has type interval year to month"),
    ],
)
def test_a_type_that_arrow_lacks_is_refused_with_its_path(kind: DataType, named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{named}, which has no Avro form. Cast or drop it in the query"):
        arrow_of(StructType([StructField("ok", LongType()), StructField("c", kind)]))
