"""Rows become changes: which columns, in which task, in which order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill_spec import FillSpec, KeyValueExtractor
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


def changed(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("k0").collect()]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [("a", 1, "x", 5, "U"), ("b", 2, None, 6, "D"), ("c", 3, "z", 7, None)],
        "id string, number int, text string, at long, op string",
    )


@pytest.mark.every_spark
@pytest.mark.oldest_spark
@pytest.mark.parametrize("partitions", [1, 2, 5, 13])
def test_a_task_has_the_rows_of_one_partition_sorted_by_key(spark: SparkSession, partitions: int) -> None:
    rows = spark.range(300).selectExpr("id", "cast(id % 7 as string) as name", "id % 3 as value", "-id as at")
    changes = changes_of(rows, FillSpec(["name", "id"], partitions=partitions, order_by="at"))

    def described(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches))
        keys = list(zip(table["k0"].to_pylist(), table["k1"].to_pylist(), strict=True))
        parts = pa.array([sorted(set(table["partition"].to_pylist()))], pa.list_(pa.int32()))
        yield pa.RecordBatch.from_arrays(
            [parts, pa.array([len(keys)], pa.int32()), pa.array([keys == sorted(keys)])],
            names=["partitions", "rows", "sorted"],
        )

    frame = changes.by_partition()
    found = frame.mapInArrow(described, "partitions array<int>, rows int, sorted boolean").collect()
    assert partitions == len(found)
    assert list(range(partitions)) == sorted(each for row in found for each in row.partitions)
    assert 300 == sum(row.rows for row in found)
    assert all(row.sorted for row in found)


def test_all_columns_but_keys_and_order_are_values(rows: DataFrame) -> None:
    changes = changes_of(rows, FillSpec(["id"], order_by="at"))
    assert ["number", "text", "op"] == changes.schema.values.names
    assert (0, "a", (1, "x", "U"), 5) == changed(changes.frame)[0]
    assert changes.schema.ordered


def test_a_row_deletes_where_the_condition_is_true_and_not_where_it_is_null(rows: DataFrame) -> None:
    changes = changes_of(rows, FillSpec(["id"], ["number"], delete_when="op = 'D'"))
    assert [(1,), None, (3,)] == [row[2] for row in changed(changes.frame)]
    assert not changes.schema.ordered


def test_a_struct_column_that_is_null_deletes(rows: DataFrame) -> None:
    frame = rows.select("id", F.when(F.col("number") != 2, F.struct("number", "text")).alias("after"))
    changes = changes_of(frame, FillSpec(["id"], "after"))
    assert [(1, "x"), None, (3, "z")] == [row[2] for row in changed(changes.frame)]
    assert ["number", "text"] == changes.schema.values.names


def test_an_extractor_makes_keys_and_values(rows: DataFrame) -> None:
    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = pa.array([f"{each}!" for each in batch.column("id").to_pylist()])
            yield pa.RecordBatch.from_arrays([names, batch.column("number")], names=["name", "number"])

    extractor = KeyValueExtractor(split, "name string, number int")
    changes = changes_of(rows, FillSpec(["name"], extractor=extractor))
    assert ["a!", "b!", "c!"] == [row[1] for row in changed(changes.frame)]


def test_columns_may_have_any_name(rows: DataFrame) -> None:
    frame = rows.select(F.col("id").alias("value"), F.col("number").alias("a.b`c"), F.col("at").alias("order"))
    changes = changes_of(frame, FillSpec(["value"], order_by="order"))
    assert (0, "a", (1,), 5) == changed(changes.frame)[0]


def test_what_spark_knows_of_nulls_makes_no_other_schema(spark: SparkSession) -> None:
    spec = FillSpec(["id"])
    required = spark.range(1).selectExpr("id", "array(1) as numbers", "struct(1 as x) as s")
    optional = spark.createDataFrame([], "id long, numbers array<int>, s struct<x: int>")
    assert changes_of(required, spec).schema == changes_of(optional, spec).schema


def test_columns_of_then_by_are_not_stored_unless_they_are_named(rows: DataFrame) -> None:
    changes = changes_of(rows, FillSpec(["id"], then_by=["at", "number"]))
    assert ["text", "op"] == changes.schema.values.names
    assert (0, "a", ("x", "U"), 5, 1) == changed(changes.frame)[0]
    assert changes.schema == changes_of(rows, FillSpec(["id"], ["text", "op"])).schema, "a store need not be rebuilt"
    assert ["at"] == changes_of(rows, FillSpec(["id"], ["at"], then_by="at")).schema.values.names
    with pytest.raises(ConfigurationError, match=r"then_by: column 'text' is of type string\. Give an integral or"):
        changes_of(rows, FillSpec(["id"], then_by="text"))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "int", "tinyint"])
def test_orders_are_integers_or_timestamps(spark: SparkSession, kind: str) -> None:
    spec = FillSpec(["id"], order_by="at")
    assert changes_of(spark.createDataFrame([], f"id int, v int, at {kind}"), spec).schema.ordered
    with pytest.raises(ConfigurationError, match=r"order_by: column 'at' is of type string\. Give an integral or"):
        changes_of(spark.createDataFrame([], "id int, v int, at string"), spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (FillSpec(["tail"]), "Column 'tail' of the fill is not in the DataFrame, which has id, number, text, at, op"),
        (FillSpec(["id"], ["seats"]), "Column 'seats' of the fill is not in the DataFrame"),
        (FillSpec(["id"], order_by="when"), "Column 'when' of the fill is not in the DataFrame"),
        (FillSpec(["id"], then_by="when"), "Column 'when' of the fill is not in the DataFrame"),
        (FillSpec(["id"], "number"), r"values: column 'number' is of type int, not a struct.*values=\['number'\]"),
        (FillSpec(["id"], []), "no value column is left"),
        (
            FillSpec(["id"], delete_when="nothing = 1"),
            "delete_when: 'nothing = 1' is not an expression over columns id, nu",
        ),
        (FillSpec(["id"], delete_when="op = = 1"), "delete_when: 'op = = 1' is not an expression over"),
        (FillSpec(["id"], delete_when="number"), "delete_when: 'number' is of type int. Give a Boolean"),
    ],
)
def test_what_is_no_change_is_refused_before_a_row_is_read(rows: DataFrame, spec: FillSpec, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        changes_of(rows, spec)


def test_floats_are_no_keys(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="'id' has type double, which keys cannot have: cast it"):
        changes_of(spark.createDataFrame([], "id double, v int"), FillSpec(["id"]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"keys": []}, "keys of FillSpec is empty: give a list of columns"),
        ({"keys": "id"}, "keys of FillSpec is 'id': give a list"),
        ({"keys": ["id", "id"]}, "has a column twice"),
        ({"keys": ["id"], "null_keys": "drop"}, "null_keys of FillSpec is 'drop': give 'fail' or 'skip'"),
        ({"keys": ["id"], "partitions": 0}, "partitions of FillSpec is 0: give a whole number of at least 1"),
        (
            {"keys": ["id"], "extractor": print},
            "extractor of FillSpec is of type builtin.*: give a KeyValueExtractor",
        ),
        ({"keys": ["id"], "delete_when": True}, "delete_when of FillSpec is True: give a text"),
    ],
)
def test_a_spec_is_checked_when_it_is_made(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        FillSpec(**spec)


def test_timestamps_are_keys_in_any_time_zone_of_the_session(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(datetime(2026, 1, 1, tzinfo=UTC), 1)], "at timestamp, v int")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        schema = changes_of(frame, FillSpec(["at"])).schema
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert pa.schema([("at", pa.timestamp("us", "UTC"))]) == schema.keys


def test_columns_that_differ_in_upper_and_lower_case_only_are_refused_when_they_are_named(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, 2, 3)], "id int, n int, N int")
    for spec in (FillSpec(keys=["id"]), FillSpec(keys=["n"], values=["id"]), FillSpec(keys=["id"], values=["N"])):
        with pytest.raises(ConfigurationError, match=r"has column '[nN]' twice, if upper and lower case are the same"):
            changes_of(rows, spec)
