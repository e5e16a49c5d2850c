"""Batch jobs as the guides of Spark, Delta and Databricks write them, with this format in place of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, Window
from pyspark.sql import functions as F  # noqa: N812 - as the guides name it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.spark.errors import error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

    from tests.spark.stored import Stored

pytestmark = [pytest.mark.every_spark, pytest.mark.oldest_spark]

SOME_COLUMNS = StructType([StructField("id", LongType()), StructField("kind", StringType())])


def odd_rows(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch[batch["id"] % 2 == 1][["id", "kind"]]


READS: dict[str, tuple[Callable[[DataFrameReader, str], DataFrame], list[Any]]] = {
    "load(path)": (lambda reader, path: reader.load(path).select("id"), [(n,) for n in range(6)]),
    "option path": (lambda reader, path: reader.option("path", path).load().select("id"), [(n,) for n in range(6)]),
    "load(path, format, options)": (
        lambda reader, path: reader.load(path, format="azureblob", columns="kind,id").limit(6).where("id > 4"),
        [("b", 5)],
    ),
    "options of several types": (
        lambda reader, path: reader.option("versionAsOf", 0).option("ignoreCorruptBlobs", True).load(path).select("id"),
        [(n,) for n in range(4)],
    ),
    "schema as DDL": (lambda reader, path: reader.schema("kind string").load(path).distinct(), [("a",), ("b",)]),
    "schema as types": (
        lambda reader, path: reader.schema(SOME_COLUMNS).load(path).where(F.col("id") == 3),
        [(3, "b")],
    ),
    "filter, select, order": (
        lambda reader, path: (
            reader.load(path).filter(F.col("kind") == "a").select("id", "kind").orderBy(F.desc("id")).limit(1)
        ),
        [(4, "a")],
    ),
    "group and aggregate": (
        lambda reader, path: reader.load(path).groupBy("kind").agg(F.count("*"), F.max("id")),
        [("a", 3, 4), ("b", 3, 5)],
    ),
    "group by a window of time": (
        lambda reader, path: reader.load(path).groupBy(F.window("at", "3 minutes")).count().select("count"),
        [(3,), (3,)],
    ),
    "window function": (
        lambda reader, path: (
            reader.load(path)
            .withColumn("place", F.row_number().over(Window.partitionBy("kind").orderBy(F.desc("id"))))
            .where("place = 1")
            .select("id", "kind")
        ),
        [(4, "a"), (5, "b")],
    ),
    "drop duplicates": (
        lambda reader, path: reader.load(path).dropDuplicates(["kind"]).select("kind"),
        [("a",), ("b",)],
    ),
    "join with itself": (
        lambda reader, path: (
            reader.load(path).alias("l").join(reader.load(path).alias("r"), "kind").groupBy("kind").count()
        ),
        [("a", 9), ("b", 9)],
    ),
    "union of two loads": (
        lambda reader, path: (
            reader.load(path).unionByName(reader.load(path), allowMissingColumns=True).groupBy().count()
        ),
        [(12,)],
    ),
    "pivot": (
        lambda reader, path: reader.load(path).groupBy().pivot("kind", ["a", "b"]).sum("id"),  # noqa: PD010
        [(6, 9)],
    ),
    "a Python function": (
        lambda reader, path: reader.load(path).select(F.udf(str.upper, "string")("kind")).distinct(),
        [("A",), ("B",)],
    ),
    "mapInPandas": (
        lambda reader, path: reader.load(path).mapInPandas(odd_rows, SOME_COLUMNS),
        [(1, "b"), (3, "b"), (5, "b")],
    ),
    "cached and repartitioned": (
        lambda reader, path: reader.load(path).repartition(2, "kind").cache().select(F.sum("id")),
        [(15,)],
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_read(name: str, spark: SparkSession, options: dict[str, str], events: str) -> None:
    read, expected = READS[name]
    found = read(spark.read.format("azureblob").options(**options), events)
    assert expected == sorted(map(tuple, found.collect()))
    spark.catalog.clearCache()


SQL: dict[str, tuple[list[str], list[Any]]] = {
    "CREATE TEMPORARY VIEW": (
        ["CREATE TEMPORARY VIEW events USING azureblob OPTIONS (path '{events}', {account})"],
        [(n,) for n in range(6)],
    ),
    "CREATE OR REPLACE TEMP VIEW with columns": (
        ["CREATE OR REPLACE TEMP VIEW events (id BIGINT) USING azureblob OPTIONS (path '{events}', {account})"],
        [(n,) for n in range(6)],
    ),
    "a view over a view, with common table expression": (
        [
            "CREATE TEMPORARY VIEW raw USING azureblob OPTIONS (path '{events}', columns 'id, kind', {account})",
            "CREATE TEMPORARY VIEW events AS WITH a AS (SELECT * FROM raw WHERE kind = 'a') SELECT id FROM a",
        ],
        [(0,), (2,), (4,)],
    ),
    "CACHE TABLE": (
        [
            "CREATE TEMPORARY VIEW events USING azureblob OPTIONS (path '{events}', versionAsOf 0, {account})",
            "CACHE TABLE events",
            "REFRESH TABLE events",
        ],
        [(n,) for n in range(4)],
    ),
    "the commits of a stream": (
        [
            "CREATE TEMPORARY VIEW commits USING azureblob OPTIONS (path '{events}', view 'commits', {account})",
            "CREATE TEMPORARY VIEW events AS SELECT rows AS id FROM commits",
        ],
        [(2,), (4,)],
    ),
    "INSERT INTO a view": (
        [
            "CREATE TEMPORARY VIEW written (id BIGINT) USING azureblob OPTIONS (path '{target}', {account})",
            "INSERT INTO written VALUES (7)",
            "INSERT INTO written SELECT id FROM range(2)",
            "CREATE TEMPORARY VIEW events USING azureblob OPTIONS (path '{target}', {account})",
        ],
        [(0,), (1,), (7,)],
    ),
    "INSERT OVERWRITE a view": (
        [
            "CREATE TEMPORARY VIEW written (id BIGINT) USING azureblob OPTIONS (path '{target}', {account})",
            "INSERT INTO written VALUES (7)",
            "INSERT OVERWRITE written SELECT id FROM range(2)",
            "CREATE TEMPORARY VIEW events USING azureblob OPTIONS (path '{target}', {account})",
        ],
        [(0,), (1,)],
    ),
}


@pytest.fixture
def no_views(spark: SparkSession) -> Iterator[None]:
    yield
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)


@pytest.mark.usefixtures("no_views")
@pytest.mark.parametrize("name", SQL)
def test_statements_of_sql(name: str, spark: SparkSession, events: str, target: str, sql_options: str) -> None:
    statements, expected = SQL[name]
    for statement in statements:
        spark.sql(statement.format(events=events, target=target, account=sql_options))
    assert expected == sorted(map(tuple, spark.sql("SELECT id FROM events").collect()))


@pytest.mark.usefixtures("no_views")
def test_a_loaded_frame_is_named_for_sql(spark: SparkSession, options: dict[str, str], events: str) -> None:
    frame = spark.read.format("azureblob").options(**options).load(events)
    frame.printSchema()
    frame.show(3, truncate=False)
    frame.createOrReplaceTempView("events")
    frame.createOrReplaceGlobalTempView("events")
    assert 6 == spark.table("global_temp.events").count() == spark.read.table("events").count()
    assert [Row(kind="a", n=3)] == spark.sql("SELECT kind, count(*) n FROM {f} GROUP BY 1", f=frame).where(
        "kind = 'a'"
    ).collect()
    assert 15 == frame.toPandas()["id"].sum()  # type: ignore[index]
    assert (0, 6) == (frame.orderBy("id").first()["id"], len(frame.take(10)))  # type: ignore[index]
    spark.catalog.dropGlobalTempView("events")


WRITES: dict[str, Callable[[DataFrame, dict[str, str], str], object]] = {
    "append": lambda rows, options, path: rows.write.format("azureblob").mode("append").options(**options).save(path),
    "overwrite": lambda rows, options, path: (
        rows.write.format("azureblob").mode("overwrite").options(**options).save(path)
    ),
    "path as an option": lambda rows, options, path: (
        rows.write.format("azureblob").options(**options).option("path", path).mode("append").save()
    ),
    "named arguments": lambda rows, options, path: rows.write.save(
        path, format="azureblob", mode="append", codec="deflate", **options
    ),
    "options of several types": lambda rows, options, path: (
        rows.coalesce(1)
        .write.format("azureblob")
        .options(**options)
        .option("maxMessagesPerBlob", 1)
        .option("suffixRandomStringToBlobName", True)
        .mode("append")
        .save(path)
    ),
    "a column for each partition": lambda rows, options, path: (
        rows.repartition("kind")
        .sortWithinPartitions("id")
        .write.format("azureblob")
        .options(**options, partitionColumn="kind")
        .mode("append")
        .save(path)
    ),
    "twice, as one transaction": lambda rows, options, path: [
        write.save(path)  # type: ignore[func-returns-value]
        for write in 2 * [rows.write.format("azureblob").options(**options, txnAppId="d", txnVersion=1).mode("append")]
    ],
    "by the default format": lambda rows, options, path: rows.write.options(**options).mode("append").save(path),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write(name: str, spark: SparkSession, options: dict[str, str], target: str, stored: Stored) -> None:
    rows = spark.createDataFrame([Row(id=0, kind="a"), Row(id=1, kind="b")])
    spark.conf.set("spark.sql.sources.default", "azureblob")
    try:
        WRITES[name](rows, options, target)
    finally:
        spark.conf.unset("spark.sql.sources.default")
    assert [{"id": 0, "kind": "a"}, {"id": 1, "kind": "b"}] == sorted(stored.rows(), key=lambda row: int(row["id"]))


@pytest.mark.usefixtures("no_views")
def test_a_frame_is_inserted_into_a_view(spark: SparkSession, target: str, sql_options: str, stored: Stored) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW written (id BIGINT) USING azureblob OPTIONS (path '{target}', {sql_options})")
    spark.range(2).write.insertInto("written")
    spark.range(2, 4).writeTo("written").append()
    assert [0, 1, 2, 3] == sorted(row["id"] for row in stored.rows())


def test_pandas_nested_columns_and_computed_ones_are_written_and_read(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    import pandas as pd

    rows = spark.createDataFrame(pd.DataFrame({"id": [0, 1], "text": ["a b", "c"]}))
    made = rows.select(
        "id",
        F.split("text", " ").alias("words"),
        F.struct("id", F.lit(None).cast("double").alias("none")).alias("pair"),
        F.create_map(F.lit("id"), "id").alias("by_name"),
        F.current_timestamp().alias("ingested"),
    )
    made.write.format("azureblob").options(**options).mode("append").save(target)
    found = spark.read.format("azureblob").options(**options).load(target)
    counted = found.select("id", F.explode("words").alias("word")).groupBy("id").count().orderBy("id").collect()
    assert [(0, 2), (1, 1)] == [tuple(row) for row in counted]
    assert [(1, {"id": 1})] == [tuple(row) for row in found.where("pair.id = 1").select("pair.id", "by_name").collect()]
    assert 2 == found.where("ingested <= current_timestamp() AND pair.none IS NULL").count()


@pytest.mark.parametrize("mode", [None, "error", "errorifexists", "ignore"])
def test_modes_that_look_for_a_table_are_refused_by_spark(
    mode: str | None, spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    with pytest.raises(AnalysisException, match=r"Please use either the .Append. or .Overwrite. mode instead"):
        spark.range(1).write.format("azureblob").options(**options).mode(mode).save(target)
    assert [] == stored.names()


IN_PLACE_OF_TABLES = "for SQL, use `CREATE TEMPORARY VIEW name USING azureblob OPTIONS (path 'container/stream', …)`."
TABLES: dict[str, Callable[[SparkSession, dict[str, str], str], object]] = {
    "CREATE TABLE": lambda spark, _, account: spark.sql(
        f"CREATE TABLE copied USING azureblob OPTIONS (path 'data/events', {account})"
    ),
    "CREATE TABLE with LOCATION": lambda spark, _, account: spark.sql(
        f"CREATE TABLE copied USING azureblob OPTIONS ({account}) LOCATION '/data/events' TBLPROPERTIES ('a' = 'b')"
    ),
    "catalog.createTable": lambda spark, options, _: spark.catalog.createTable(
        "copied", "data/events", "azureblob", None, None, **options
    ),
    "CREATE TABLE AS SELECT": lambda spark, _, account: spark.sql(
        f"CREATE TABLE copied USING azureblob OPTIONS ({account}) AS SELECT 1 AS id"
    ),
    "saveAsTable": lambda spark, options, _: (
        spark.range(3).write.format("azureblob").options(**options).mode("append").saveAsTable("copied")
    ),
    "writeTo": lambda spark, options, _: (
        spark.range(3).writeTo("copied").using("azureblob").options(**options).createOrReplace()
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_catalog_table_is_refused_before_anything_is_written_with_what_works(
    name: str, spark: SparkSession, options: dict[str, str], sql_options: str
) -> None:
    assert error_of(lambda: TABLES[name](spark, options, sql_options)).endswith(IN_PLACE_OF_TABLES)
    assert not spark.catalog.tableExists("copied")


def test_a_table_whose_columns_are_given_is_refused_when_it_is_used(spark: SparkSession, sql_options: str) -> None:
    spark.sql(f"CREATE TABLE copied (id BIGINT) USING azureblob OPTIONS (path 'data/events', {sql_options})")
    try:
        assert error_of(spark.sql("SELECT * FROM copied").collect).endswith(IN_PLACE_OF_TABLES)
        assert error_of(lambda: spark.sql("INSERT INTO copied VALUES (1)")).endswith(IN_PLACE_OF_TABLES)
    finally:
        spark.sql("DROP TABLE copied")


def test_rows_of_save_as_table_with_a_path_are_loaded_by_that_path(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    writer = spark.range(3).write.format("azureblob").options(**options)
    writer.option("path", target).mode("append").saveAsTable("copied")
    try:
        assert error_of(spark.table("copied").collect).endswith(IN_PLACE_OF_TABLES)
        assert 3 == spark.read.format("azureblob").options(**options).load(target).count()
    finally:
        spark.sql("DROP TABLE copied")


def test_several_paths_are_refused_with_what_works(spark: SparkSession, options: dict[str, str], events: str) -> None:
    reader = spark.read.format("azureblob").options(**options)
    sentence = error_of(lambda: reader.load([events, events]))
    assert sentence.endswith("`load` each path alone, and join the DataFrames with `unionByName`.")
    assert 12 == reader.load(events).unionByName(reader.load(events)).count()
