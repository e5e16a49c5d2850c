"""Joins with a store, and other ways to read it in tasks: as Spark's own join would answer."""

from __future__ import annotations

import gc
import re
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark import (
    FillSettings,
    FillSpec,
    JoinColumns,
    JoinSettings,
    ReadSettings,
    fill,
    join,
    lookup,
    release_pins,
    task_reader,
)
from adjunct_store.versions.names import StoreNames
from foundation.errors import ConfigurationError, NotFoundError
from tests.spark.errors import error_of
from tools.reporting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.adjunct_store.spark.planes import Planes


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


@pytest.mark.every_spark
@pytest.mark.oldest_spark
@pytest.mark.parametrize("how", ["left", "inner", "left_semi", "anti"])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"form": "memory"}], ids=["plain", "shuffle", "memory"])
def test_a_join_answers_as_sparks_own(planes: Planes, how: Any, options: dict[str, Any]) -> None:
    right = planes.spark.range(200).selectExpr("id % 50 as k1", "cast(id as string) as k2", "id * 2 as v", "'t' as t")
    fill(planes.store, right, FillSpec(keys=["k1", "k2"], partitions=3), settings=FillSettings(cache_dir=planes.cache))
    left = planes.spark.range(300).selectExpr(
        "if(id % 17 = 0, null, id % 60) as k1", "cast(id as string) as k2", "array(id, null) as numbers"
    )
    columns = ["k1", "k2", "numbers"] if how in {"left_semi", "anti"} else ["k1", "k2", "numbers", "v", "t"]
    expected = left.join(right, on=["k1", "k2"], how=how).select(*columns)
    found = join(left, planes.store, on=["k1", "k2"], how=how, settings=JoinSettings(cache_dir=planes.cache, **options))
    assert expected.columns == found.columns
    assert rows_of(expected) == rows_of(found)


def test_columns_are_chosen_and_named(planes: Planes) -> None:
    planes.fill(("a", 1), values=["seats", "op"])
    rows = planes.spark.createDataFrame([("a", 5)], "plane string, seats int")
    found = join(
        rows,
        planes.store,
        on={"tail": "plane"},
        columns=JoinColumns(names=["seats"], prefix="of_"),
        settings=JoinSettings(cache_dir=planes.cache),
    )
    assert [{"plane": "a", "seats": 5, "of_seats": 1}] == [row.asDict() for row in found.collect()]


@pytest.mark.parametrize("form", ["rocksdb", "memory"])
def test_a_left_join_says_which_keys_the_store_has_though_their_values_are_null(planes: Planes, form: Any) -> None:
    planes.fill(("a", 1), ("b", None))
    rows = planes.spark.createDataFrame([("a",), ("b",), ("c",), (None,)], "tail string")
    found = join(
        rows,
        planes.store,
        on=["tail"],
        columns=JoinColumns(indicator="is.known"),
        settings=JoinSettings(form=form, cache_dir=planes.cache),
    )
    assert [("a", 1, True), ("b", None, True), ("c", None, False), (None, None, False)] == [
        tuple(row) for row in found.collect()
    ]
    assert ["tail", "seats", "is.known"] == found.columns
    assert not found.schema["is.known"].nullable
    only = join(
        rows,
        planes.store,
        on=["tail"],
        columns=JoinColumns(names=[], indicator="known"),
        settings=JoinSettings(cache_dir=planes.cache),
    )
    assert {"a", "b"} == {row.tail for row in only.where("known").collect()}


@pytest.mark.parametrize(
    ("on", "more", "message"),
    [
        (["nothing"], {}, "Column 'nothing', for key 'tail' of the store, is not in the DataFrame"),
        (
            ["number"],
            {},
            r"'number' is of type bigint, key 'tail' of the store is string\. Cast it: F\.col\('number'\)",
        ),
        (["tail", "number"], {}, "on: it has 2 columns; the store has 1 keys: tail"),
        ({"plane": "tail"}, {}, "on: it maps keys plane; the store has tail"),
        (["tail"], {"names": ["engines"]}, "names: the store has no value column 'engines'; it has seats"),
        (["tail"], {"names": ["seats", "seats"]}, r"names: \['seats', 'seats'\] has a column twice"),
        (["tail"], {"names": "seats"}, r"names of JoinColumns is 'seats': give a list"),
        (["tail"], {"how": "outer"}, "Argument how: 'outer' is not possible. Give left, inner, semi or anti"),
        (["tail"], {"how": "anti", "names": ["seats"]}, "a join with how='anti' adds none"),
        (["tail"], {"how": "semi", "prefix": "of_"}, "a join with how='semi' adds none"),
        (
            ["tail"],
            {"how": "inner", "indicator": "known"},
            "indicator: it would be the same in all rows of a join with how='inner'",
        ),
        (["tail"], {"names": [], "indicator": "Number"}, "indicator: 'Number' is also another column"),
        (["tail"], {"prefix": "of_", "indicator": "OF_seats"}, "indicator: 'OF_seats' is also another"),
        (["tail"], {"form": "mem"}, "Argument form of JoinSettings is 'mem': give 'auto', 'rocksdb' or 'memory'"),
        (["tail"], {"version": "newest"}, "version of JoinSettings is 'newest': give a whole number"),
        (["tail"], {}, "Value column 'seats' of store .* is also a column of the DataFrame"),
    ],
)
def test_joins_that_cannot_be_are_refused_at_once(planes: Planes, on: Any, more: dict[str, Any], message: str) -> None:
    planes.fill(("a", 1))
    rows = planes.spark.createDataFrame([], "tail string, number long, SEATS int")
    with pytest.raises(ConfigurationError, match=message):
        join_with(rows, planes, on, **more)


def join_with(rows: DataFrame, planes: Planes, on: Any, how: str = "left", **more: Any) -> DataFrame:
    """The join with some columns and settings."""
    columns = JoinColumns(**{name: more.pop(name) for name in ("names", "prefix", "indicator") if name in more})
    return join(rows, planes.store, on, how, columns, JoinSettings(cache_dir=planes.cache, **more))


def test_columns_with_the_names_of_the_keys_are_taken_by_name(planes: Planes) -> None:
    rows = planes.spark.createDataFrame([("JFK", "LAX", 1), ("LAX", "JFK", 2)], "origin string, dest string, n int")
    fill(
        planes.store, rows, FillSpec(keys=["origin", "dest"]), settings=FillSettings(cache_dir=planes.folder / "writer")
    )
    asked = rows.select("dest", "origin").where("dest = 'LAX'")
    for on, n in ((["dest", "origin"], 1), (["origin", "dest"], 1), ({"origin": "dest", "dest": "origin"}, 2)):
        assert [("LAX", "JFK", n)] == [tuple(row) for row in join(asked, planes.store, on=on).collect()]
    renamed = asked.toDF("to", "from")
    assert [("LAX", "JFK", 2)] == [tuple(row) for row in join(renamed, planes.store, on=["to", "from"]).collect()]
    with pytest.raises(ConfigurationError, match="'dest', which has the name of a key, is in the place of key 'ori"):
        join(asked.toDF("dest", "from"), planes.store, on=["dest", "from"])
    advised = {"origin": "dest", "dest": "from"}
    of_both = join(asked.toDF("dest", "from"), planes.store, on=advised)
    assert [("LAX", "JFK", 2)] == [tuple(row) for row in of_both.collect()]


def test_a_column_that_is_there_twice_is_joined_unless_it_is_the_key(planes: Planes) -> None:
    planes.fill(("a", 1))
    rows = planes.spark.createDataFrame([("a", 7)], "tail string, number long").select("tail", "number", "number")
    assert [("a", 7, 7, 1)] == [tuple(row) for row in join(rows, planes.store, on=["tail"]).collect()]
    with pytest.raises(ConfigurationError, match="has column 'tail' twice"):
        join(rows.select("tail", "tail"), planes.store, on=["tail"])


@pytest.mark.parametrize("shuffle", [True, False])
def test_columns_of_the_rows_may_have_any_name(planes: Planes, shuffle: bool) -> None:
    names = ["k.k", "a`b", "ü 1", "n"]
    rows = planes.spark.createDataFrame([("a", 1, 2, 3)], "a string, b int, c int, d int").toDF(*names)
    fill(planes.store, rows, FillSpec(keys=["k.k"]), settings=FillSettings(cache_dir=planes.folder / "writer"))
    asked = rows.select("`k.k`", F.col("n").alias("x.y"))
    found = join(asked, planes.store, on=["k.k"], settings=JoinSettings(shuffle=shuffle, cache_dir=planes.cache))
    assert [{"k.k": "a", "x.y": 3, "a`b": 1, "ü 1": 2, "n": 3}] == [row.asDict() for row in found.collect()]


def test_a_version_that_is_not_there_is_named_with_those_that_are(planes: Planes) -> None:
    planes.fill(("a", 1))
    rows = planes.spark.createDataFrame([("a",)], "tail string")
    with pytest.raises(NotFoundError, match=r"no version 99; its versions are 1\. Give one of these"):
        join(rows, planes.store, on=["tail"], settings=JoinSettings(version=99))


def test_collated_keys_are_refused_for_a_store_compares_bytes(planes: Planes) -> None:
    planes.fill(("a", 1))
    rows = planes.spark.createDataFrame([("A", 1)], "tail string, number int")
    collated = rows.selectExpr("tail collate UTF8_LCASE as tail", "number")
    says = r"Key column 'tail' is of type string collate UTF8_LCASE\. Cast it: F\.col\('tail'\)\.cast\('string'\)"
    with pytest.raises(ConfigurationError, match=says):
        join(collated, planes.store, on=["tail"])
    with pytest.raises(ConfigurationError, match=says):
        fill(planes.store, collated, FillSpec(keys=["tail"]), settings=FillSettings(rebuild=True))
    cast = collated.withColumn("tail", F.lower(F.col("tail").cast("string")))
    assert [("a", 1, 1)] == [tuple(row) for row in join(cast, planes.store, on=["tail"]).collect()]


def test_a_watermark_stays(planes: Planes) -> None:
    planes.fill(("a", 1))
    rows = planes.spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    found = join(rows.selectExpr("timestamp", "string(value) as tail"), planes.store, on=["tail"])
    assert {"spark.watermarkDelayMs": 60_000} == found.schema["timestamp"].metadata


def test_a_store_without_a_version_cannot_be_read(planes: Planes) -> None:
    with pytest.raises(NotFoundError, match="it has no version that readers get.*wait_until_ready"):
        planes.join("a")
    planes.fill(("a", 1))
    with pytest.raises(NotFoundError, match="it has no version 9; its versions are 1"):
        planes.join("a", version=9)


def test_a_batch_job_reads_the_version_that_was_the_newest_when_it_was_planned(planes: Planes) -> None:
    planes.fill(("a", 1))
    rows = planes.spark.createDataFrame([("a",)], "tail string")
    planned = join(rows, planes.store, on=["tail"], settings=JoinSettings(cache_dir=planes.cache))
    for order in range(1, 6):
        planes.fill(("a", 10 * order, order), keep=1)
    assert [("a", 1)] == [tuple(row) for row in planned.collect()]
    assert [("a", 50)] == planes.join("a")


def test_a_given_version_is_read(planes: Planes) -> None:
    first = planes.fill(("a", 1)).version
    planes.fill(("a", 2, 1))
    assert [("a", 1)] == planes.join("a", version=first.number)
    assert [("a", 2)] == planes.join("a")


def test_jobs_of_one_version_share_a_pin_that_the_exit_releases(planes: Planes) -> None:
    planes.fill(("a", 1))
    planes.join("a")
    planes.join("ab")
    pins = StoreNames(planes.store.path).all_pins
    assert 1 == len(list(planes.store.open().list(pins)))
    release_pins()
    assert [] == list(planes.store.open().list(pins))


def garbage_is_collected(planes: Planes) -> None:
    gc.collect()
    java: Any = planes.spark._jvm
    told_later = java._gateway_client.finalizer_deque  # a thread of py4j tells the JVM what Python has no more
    wait_for(lambda: not told_later, 60)
    java.System.gc()


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_a_dataframe_that_nobody_has_any_more_has_no_pin(planes: Planes) -> None:
    rows = planes.spark.createDataFrame([("a",)], "tail string")

    def joined(order: int) -> DataFrame:
        planes.fill(("a", order, order), keep=1)
        return join(rows, planes.store, on=["tail"], settings=JoinSettings(cache_dir=planes.cache))

    def pins() -> int:
        return len(list(planes.store.open().list(StoreNames(planes.store.path).all_pins)))

    derived = joined(1).where("seats > 0").select((F.col("seats") + 100).alias("more"))
    joined(2).createOrReplaceTempView("forgotten")
    cached = joined(3).cache()
    assert [("a", 3)] == [tuple(row) for row in cached.collect()]
    del cached
    for order in range(4, 12):
        joined(order)
    deadline = time.monotonic() + 60
    while pins() > 5:  # of the three that are in use, of the newest join, and of one that is not garbage yet
        assert time.monotonic() < deadline, f"{pins()} pins of {order} joins"
        garbage_is_collected(planes)
        order += 1
        joined(order)
    assert [(101,)] == [tuple(row) for row in derived.collect()]
    assert [("a", 2)] == [tuple(row) for row in planes.spark.table("forgotten").collect()]
    planes.spark.catalog.dropTempView("forgotten")


def scan_of(frame: DataFrame) -> tuple[set[str], str]:
    """Which columns Spark reads of a file, and which filters it gives to the scan."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    (pushed,) = re.findall(r"PushedFilters: \[(.*?)\]", plan)
    (read,) = re.findall(r"ReadSchema: struct<(.*?)>", plan)
    return {each.partition(":")[0] for each in read.split(",")}, pushed


def test_spark_reads_what_was_selected_before_a_join_or_what_is_left_after_a_lookup(planes: Planes) -> None:
    """As the guide says of the two."""
    planes.fill(("a", 1))
    folder = str(planes.folder / "flights")
    planes.spark.createDataFrame([("a", 7, "x", "y")], "tail string, n int, wide string, more string").write.parquet(
        folder
    )
    flights = planes.spark.read.parquet(folder)
    after = (
        join(flights, planes.store, on=["tail"], settings=JoinSettings(cache_dir=planes.cache))
        .where("n > 5")
        .select("n", "seats")
    )
    before = join(
        flights.where("n > 5").select("n", "tail"),
        planes.store,
        on=["tail"],
        settings=JoinSettings(cache_dir=planes.cache),
    )
    assert ({"tail", "n", "wide", "more"}, "") == scan_of(after)
    columns, pushed = scan_of(before)
    assert {"tail", "n"} == columns
    assert "GreaterThan(n,5)" in pushed
    assert [(7, 1)] == [tuple(row) for row in after.collect()] == [tuple(row) for row in before.drop("tail").collect()]
    if hasattr(F, "arrow_udf"):
        value = lookup(planes.store, "tail", streaming=False, settings=ReadSettings(cache_dir=planes.cache))
        found = flights.withColumn("plane", value).where("n > 5").select("n", "plane.seats")
        columns, pushed = scan_of(found)
        assert {"tail", "n"} == columns
        assert "GreaterThan(n,5)" in pushed
        assert [(7, 1)] == [tuple(row) for row in found.collect()]


def test_a_damaged_file_of_the_host_is_fetched_again(planes: Planes) -> None:
    rows = planes.spark.range(5000).selectExpr("id", "repeat(cast(rand(3) as string), 20) as text")
    fill(planes.store, rows, FillSpec(keys=["id"]), settings=FillSettings(cache_dir=planes.folder / "writer"))
    keys = rows.select("id").repartition(1)
    expected = rows_of(rows)
    assert expected == rows_of(join(keys, planes.store, on=["id"], settings=JoinSettings(cache_dir=planes.cache)))
    before = data_files(planes.cache)
    damage(planes.cache)
    assert before != data_files(planes.cache)
    assert expected == rows_of(
        join(keys, planes.store, on=["id"], settings=JoinSettings(form="memory", cache_dir=planes.cache))
    )
    assert before == data_files(planes.cache)


@pytest.mark.parametrize("scans", [False, True])
def test_a_damaged_file_that_a_function_meets_is_fetched_again_by_the_next_attempt(planes: Planes, scans: bool) -> None:
    rows = planes.spark.range(5000).selectExpr("id", "repeat(cast(rand(3) as string), 20) as text")
    fill(planes.store, rows, FillSpec(keys=["id"]), settings=FillSettings(cache_dir=planes.folder / "writer"))
    reader = task_reader(planes.store, streaming=False, settings=ReadSettings(cache_dir=planes.cache))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            view = reader.view()
            count = sum(1 for _ in view.scan()) if scans else sum(view.get(key) is not None for key in range(5000))
            yield pa.RecordBatch.from_pydict({"count": [count]})

    def counted() -> list[int]:
        return [row["count"] for row in planes.spark.range(1).coalesce(1).mapInArrow(read, "count long").collect()]

    before = [5000]
    task_reader(planes.store, streaming=False, settings=ReadSettings(cache_dir=planes.cache)).view().get(1)  # fetches
    damage(planes.cache)
    with pytest.raises(PySparkException, match="CorruptError"):
        counted()
    assert before == counted()


def data_files(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.rglob("*.sst") if ".waste" not in str(path)}


def damage(cache: Path) -> None:
    """Overwrite the middle of each data file."""
    for path in cache.rglob("*.sst"):
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 4)
            file.write(b"\xff" * (path.stat().st_size // 2))


def test_functions_in_tasks_read_single_keys_and_scan(planes: Planes) -> None:
    planes.fill(("ab", 1), ("ac", 2), ("b", 3), partitions=2)
    reader = task_reader(planes.store, streaming=False, settings=ReadSettings(cache_dir=planes.cache))

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = []
            for text in batch.column("text").to_pylist():
                view = reader.view()
                exact = view.get(text)
                begins = [f"{key[0]}={value['seats']}" for key, value in view.prefix(text)]
                found.append(f"{exact and exact['seats']}: {' '.join(begins)}")
            yield pa.RecordBatch.from_arrays([pa.array(found)], names=["found"])

    texts = planes.spark.createDataFrame([("a",), ("b",), ("c",)], "text string").coalesce(1)
    found = [row.found for row in texts.mapInArrow(scan, "found string").collect()]
    assert ["None: ab=1 ac=2", "3: b=3", "None: "] == found


def test_lookup_is_a_column_of_structs(planes: Planes) -> None:
    planes.fill(("a", 1), ("b", None))
    frame = planes.spark.createDataFrame([("a",), ("b",), ("c",), (None,)], "tail string")
    if not hasattr(F, "arrow_udf"):
        with pytest.raises(ConfigurationError, match=r"lookup needs Spark 4\.1.*Use join"):
            lookup(planes.store, "tail", streaming=False)
        return
    value = lookup(planes.store, F.col("tail"), streaming=False, settings=ReadSettings(cache_dir=planes.cache))
    found = frame.select("tail", value.alias("v")).select("tail", "v", F.col("v").isNull().alias("absent")).collect()
    assert [("a", (1,), False), ("b", (None,), False), ("c", None, True), (None, None, True)] == [
        tuple(row) for row in found
    ]
    with pytest.raises(ConfigurationError, match="lookup got 2 columns; store .* has 1 keys: tail"):
        lookup(planes.store, "tail", "tail")


def test_a_reader_of_streaming_tasks_is_refused_elsewhere(planes: Planes) -> None:
    planes.fill(("a", 1))
    reader = task_reader(planes.store)

    def get(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reader.view()
            yield batch

    frame = planes.spark.range(1)
    assert "ConfigurationError: read store" in error_of(lambda: frame.mapInArrow(get, "id long").collect())


CASES: list[tuple[Any, dict[str, Any], tuple[bool, bool]]] = [
    (["Tail", "NUMBER"], {}, (True, True)),
    (["number", "TAIL"], {}, (True, False)),
    ({"tail": "TAIL", "NUMBER": "number"}, {}, (True, False)),
    ({"tail": "Tail", "number": "NUMBER"}, {}, (True, True)),
    (["tail", "Number"], {"names": ["SEATS"]}, (True, False)),
    (["Tail", "NUMBER"], {"names": ["seats"], "prefix": "p_"}, (True, True)),
    (["Tail", "NUMBER"], {"names": ["seats", "SEATS"]}, (False, False)),
    (["Tail", "NUMBER"], {"indicator": "number"}, (False, True)),
    (["tail", "none"], {}, (False, False)),
]
"""Keys, columns, and whether they are found without and with the case of letters."""


@pytest.mark.parametrize("sensitive", [False, True])
def test_columns_are_found_as_spark_compares_them(planes: Planes, sensitive: bool) -> None:
    spark = planes.spark
    spark.conf.set("spark.sql.caseSensitive", str(sensitive).lower())
    try:
        right = spark.range(9).selectExpr("cast(id as string) as tail", "id as number", "id * 2 as seats")
        spec = FillSpec(["tail", "number"] if sensitive else ["TAIL", "number"])
        fill(planes.store, right, spec, FillSettings(cache_dir=planes.cache))
        left = spark.range(5).selectExpr("cast(id as string) as Tail", "id as NUMBER")
        for on, columns, found in CASES:
            if found[sensitive]:
                joined = join(left, planes.store, on, "left", JoinColumns(**columns), settings_of(planes))
                assert [0, 2, 4, 6, 8] == sorted(row[2] for row in joined.collect())
                assert ["Tail", "NUMBER"] == joined.columns[:2]
            else:
                with pytest.raises(ConfigurationError):
                    join(left, planes.store, on, "left", JoinColumns(**columns), settings_of(planes))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def settings_of(planes: Planes) -> JoinSettings:
    return JoinSettings(cache_dir=planes.cache)
