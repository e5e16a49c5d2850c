"""Batches that fill a store: each is a version, whose content is that of the rows so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark import FillSettings, FillSpec, JoinSettings, KeyValueExtractor, fill, join
from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill import BATCH_SOURCE, VersionWriter
from adjunct_store.versions.manifest_store import open_fill, read_manifest
from adjunct_store.versions.opening import FillRequirements
from foundation.errors import ConfigurationError, FencedError
from tests.adjunct_store.spark.planes import COLUMNS, Planes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.every_spark
@pytest.mark.oldest_spark
@pytest.mark.parametrize("partitions", [1, 3])
def test_each_batch_is_a_version_with_all_changes_so_far(planes: Planes, partitions: int) -> None:
    first = planes.fill(("a", 1), ("b", 2), ("c", 3), partitions=partitions)
    assert (3, 0, 0) == (first.upserts, first.deletes, first.ignored)
    assert {"a": 1, "b": 2, "c": 3} == planes.content()

    second = planes.fill(("a", 10, 5), ("b", None, 5, "D"), ("d", 4, 5), partitions=partitions)
    assert (2, 1, 0) == (second.upserts, second.deletes, second.ignored)
    assert {"a": 10, "c": 3, "d": 4} == planes.content()
    assert (3, 1, 3) == (second.version.entries, second.version.batch, first.version.entries)
    assert second.version.number > first.version.number


def test_the_highest_order_of_a_key_wins_whenever_it_arrives(planes: Planes) -> None:
    planes.fill(("a", 1, 10), ("a", 2, 30), ("a", 3, 20), ("b", 1, 10))
    later = planes.fill(("a", 9, 29), ("b", None, 20, "D"))
    assert (0, 1, 1) == (later.upserts, later.deletes, later.ignored)
    assert {"a": 2} == planes.content()
    planes.fill(("b", 7, 15))
    assert {"a": 2} == planes.content(), "an older change does not bring a deleted key back"
    planes.fill(("b", 8, 21))
    assert {"a": 2, "b": 8} == planes.content()


def test_a_version_that_is_published_is_one_line_in_the_log(planes: Planes, caplog: pytest.LogCaptureFixture) -> None:
    planes.fill(("a", 1, 10), ("b", 2, 30))
    caplog.set_level("INFO", "adjunct_store")
    version = planes.fill(("a", 9, 9), ("b", None, 40, "D"), ("c", 3, 1)).version
    _, line = (record.getMessage() for record in caplog.records if record.name == "adjunct_store")
    counts = "1 upserts, 1 deletes, 1 older ones ignored, 0 rows with null keys"
    assert f": version {version.number} is published, with batch 1: {counts}; 2 entries, {version.bytes} bytes" in line


def test_without_an_order_the_last_batch_wins(planes: Planes) -> None:
    more: dict[str, Any] = {"order_by": None}
    planes.fill(("a", 1, 9), ("b", 2), **more)
    planes.fill(("a", 3, 1), ("b", None, 0, "D"), ("b", None, 0, "D"), **more)
    assert {"a": 3} == planes.content()


def test_two_rows_of_a_key_that_contradict_each_other_are_refused(planes: Planes) -> None:
    planes.fill(("a", 1), order_by=None)
    with pytest.raises(ConfigurationError, match=r"two different changes of key tail='b'.*Give `then_by`"):
        planes.fill(("b", 1), ("b", 2), ("a", 5), order_by=None)
    assert {"a": 1} == planes.content()
    with pytest.raises(ConfigurationError, match=r"two different changes of key tail='c'.*same order"):
        planes.fill(("c", 1, 7), ("c", 2, 7), rebuild=True)


def test_partitions_without_rows_keep_what_they_have(planes: Planes) -> None:
    first = planes.fill(*((tail, 1) for tail in "abcdefgh"), partitions=4).version
    second = planes.fill(("a", 2, 1), partitions=4).version
    changed = [before != after for before, after in zip(first.checkpoints, second.checkpoints, strict=True)]
    assert 1 == sum(changed)
    assert {**dict.fromkeys("bcdefgh", 1), "a": 2} == planes.content()


def test_a_batch_without_rows_is_a_version(planes: Planes) -> None:
    assert 0 == planes.fill().version.entries
    assert {} == planes.content()
    planes.fill(("a", 1))
    assert 1 == planes.fill().version.entries
    assert {"a": 1} == planes.content()


def test_another_host_goes_on_from_what_is_stored(planes: Planes) -> None:
    planes.fill(("a", 1), ("b", 2))
    other = Planes(planes.spark, planes.store, planes.folder / "elsewhere")
    other.folder.mkdir()
    other.fill(("b", 3, 1), ("c", 4))
    assert {"a": 1, "b": 3, "c": 4} == other.content()
    planes.fill(("a", 5, 1))
    assert {"a": 5, "b": 3, "c": 4} == planes.content()


def test_a_batch_that_was_written_and_not_published_does_not_count(planes: Planes) -> None:
    planes.fill(("a", 1), ("b", 2))
    rows = planes.rows(("a", 100, 5), ("b", None, 5, "D"), ("x", 100))
    spec = FillSpec(**COLUMNS)
    schema = changes_of(rows, spec).schema
    opened = open_fill(
        planes.store, schema.to_json(), FillRequirements(partitions=schema.partitions, source=BATCH_SOURCE)
    )
    reports = VersionWriter(planes.store, opened, spec, schema, planes.cache)._written(rows, 1)
    assert 1 == len(reports)
    assert {"a": 1, "b": 2} == planes.content()
    planes.fill(("a", 3, 1))
    assert {"a": 3, "b": 2} == planes.content(), "the next batch begins from what was published"


def test_a_batch_that_was_published_is_not_applied_again(planes: Planes) -> None:
    rows, spec = planes.rows(("a", 1)), FillSpec(**{**COLUMNS, "order_by": None})
    schema = changes_of(rows, spec).schema
    opened = open_fill(planes.store, schema.to_json(), FillRequirements(partitions=schema.partitions, source="test"))
    filler = VersionWriter(planes.store, opened, spec, schema, planes.cache)
    first = filler.run(rows, 7)
    again = filler.run(planes.rows(("a", 2)), 7)
    assert (first.version, 0) == (again.version, again.upserts)
    assert {"a": 1} == planes.content()


def test_a_rebuild_that_fails_changes_nothing_for_the_fills_after_it(planes: Planes) -> None:
    planes.fill(("a", 1), ("b", 2))
    for more in ({}, {"values": ["op"]}, {"source": "other"}):
        with pytest.raises(ConfigurationError, match="rows have a null in a key column"):
            planes.fill(("a", 9), (None, 1), rebuild=True, **more)
        planes.fill(("c", 3))
        assert {"a": 1, "b": 2, "c": 3} == planes.content()


def test_a_first_fill_that_fails_does_not_fix_the_columns_of_the_store(planes: Planes) -> None:
    with pytest.raises(ConfigurationError, match="rows have a null"):
        planes.fill((None, 1), values=["op"])
    planes.fill(("a", 1))
    assert {"a": 1} == planes.content()


def test_a_fill_that_another_one_has_replaced_is_fenced(planes: Planes) -> None:
    rows, spec = planes.rows(("a", 1)), FillSpec(**COLUMNS)
    schema = changes_of(rows, spec).schema
    opened = open_fill(
        planes.store, schema.to_json(), FillRequirements(partitions=schema.partitions, source=BATCH_SOURCE)
    )
    planes.fill(("b", 2))
    with pytest.raises(FencedError):
        VersionWriter(planes.store, opened, spec, schema, planes.cache).run(rows, 1)
    assert {"b": 2} == planes.content()


def test_null_keys_are_an_error_that_counts_them_or_are_skipped_and_counted(planes: Planes) -> None:
    rows = [("a", 1), (None, 2), (None, 3), ("b", 4)]
    with pytest.raises(ConfigurationError, match=r"2 rows have a null in a key column \(tail\).*null_keys=\"skip\""):
        planes.fill(*rows, partitions=2)
    manifest = read_manifest(planes.store.open(), planes.store.path)
    assert manifest is not None and () == manifest.versions
    assert 2 == planes.fill(*rows, partitions=2, null_keys="skip").nulls
    assert {"a": 1, "b": 4} == planes.content()
    assert (0, 1) == ((found := planes.fill((None, 1), partitions=2, null_keys="skip")).upserts, found.nulls)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"keys": ["tail", "op"]}, "its keys are tail string, those of this fill are tail string, op string"),
        ({"keys": ["seats"], "values": ["tail"]}, "its keys are tail string, those of this fill are seats int"),
        ({"values": ["seats", "at"]}, "its values are seats int, those of this fill are seats int, at long"),
        ({"partitions": 2}, "its partitions are 1, those of this fill are 2"),
        ({"order_by": None}, "its order_by are at bigint, those of this fill are none"),
        ({"source": "other"}, "it is filled from batch, not from other.*rebuild=True"),
        ({"values": ["seats", "seats"]}, "has a column twice"),
        ({"delete_when": "max(at) > 1"}, "cannot be evaluated for each row"),
        ({"partitions": 2}, "Give partitions=1, or build the store again"),
        ({"keys": ["tailnum"]}, "Column 'tailnum' of the fill is not in the DataFrame"),
    ],
)
def test_a_store_keeps_its_columns_unless_it_is_made_anew(
    planes: Planes, columns: dict[str, Any], message: str
) -> None:
    planes.fill(("a", 1))
    before = read_manifest(planes.store.open(), planes.store.path)
    with pytest.raises(ConfigurationError, match=message):
        planes.fill(("a", 2), **columns)
    assert before == read_manifest(planes.store.open(), planes.store.path)


def test_a_rebuild_has_its_own_rows_only(planes: Planes) -> None:
    planes.fill(("a", 1), ("b", 2))
    planes.fill(("c", 3), values=["seats", "op"], rebuild=True)
    assert [("c", 3, "U")] == planes.join("abc", how="inner")


def test_order_columns_have_no_nulls(planes: Planes) -> None:
    with pytest.raises(ConfigurationError, match="order_by: the column is null in a row that has a key"):
        planes.fill(("a", 1, None))


def test_keys_of_all_types_are_found(planes: Planes) -> None:
    columns = (
        "id % 2 = 0 as flag", "cast(id as tinyint) as tiny", "cast(-id as smallint) as small", "cast(id as int) as i",
        "-id * 1000000007 as l", "cast(id as string) as s", "cast(cast(id as string) as binary) as b",
        "date_add(date'1969-12-01', cast(id as int)) as d", "timestamp_seconds(id * 86400 - 5) as t",
        "cast(timestamp_seconds(id) as timestamp_ntz) as n", "id as value",
    )  # fmt: skip
    rows = planes.spark.range(100).selectExpr(*columns)
    keys = rows.columns[:-1]
    fill(
        planes.store,
        rows.where("value >= 20"),
        FillSpec(keys=keys, partitions=3),
        settings=FillSettings(cache_dir=planes.cache),
    )
    for shuffle in (False, True):
        left = rows.withColumnRenamed("value", "expected")
        found = join(
            left, planes.store, on=keys, settings=JoinSettings(shuffle=shuffle, cache_dir=planes.cache)
        ).select("expected", "value")
        expected = [(each, each if each >= 20 else None) for each in range(100)]
        assert expected == sorted((tuple(row) for row in found.collect()), key=lambda row: row[0])


def test_values_of_all_shapes_come_back(planes: Planes) -> None:
    rows = planes.spark.range(20).selectExpr(
        "id",
        "named_struct('x', id, 'y', if(id % 3 = 0, null, 'text')) as s",
        "if(id % 4 = 0, null, sequence(0, id)) as numbers",
        "map('k', cast(id as double)) as m",
        "cast(id as decimal(12, 3)) as money",
        "timestamp_seconds(id) as t",
        "if(id % 2 = 0, null, id > 10) as flag",
    )
    fill(planes.store, rows, FillSpec(keys=["id"]), settings=FillSettings(cache_dir=planes.cache))
    found = join(rows.select("id"), planes.store, on=["id"], settings=JoinSettings(cache_dir=planes.cache))
    assert sorted(map(str, rows.collect())) == sorted(map(str, found.collect()))


def test_an_extractor_fills_a_store(planes: Planes) -> None:
    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            words = [each.split("=") for each in batch.column("line").to_pylist()]
            keys, values = [word[0] for word in words], [int(word[1]) for word in words]
            yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values, pa.int32())], names=["tail", "seats"])

    lines = planes.spark.createDataFrame([("a=1",), ("b=22",)], "line string")
    extractor = KeyValueExtractor(parse, "tail string, seats int")
    fill(
        planes.store, lines, FillSpec(keys=["tail"], extractor=extractor), settings=FillSettings(cache_dir=planes.cache)
    )
    assert {"a": 1, "b": 22} == planes.content()


def test_keys_may_have_the_names_of_the_engines_columns(planes: Planes) -> None:
    rows = planes.spark.createDataFrame([("a", 1, 5)], "value string, order int, v int")
    fill(
        planes.store,
        rows,
        FillSpec(keys=["value", "order"], order_by="v", values=["v"]),
        settings=FillSettings(cache_dir=planes.cache),
    )
    found = join(rows.drop("v"), planes.store, on=["value", "order"], settings=JoinSettings(cache_dir=planes.cache))
    assert [("a", 1, 5)] == [tuple(row) for row in found.collect()]


def test_a_stream_is_no_batch(planes: Planes) -> None:
    with pytest.raises(ConfigurationError, match="needs a batch DataFrame; use fill_stream"):
        fill(planes.store, planes.stream(), FillSpec(keys=["tail"]))


def test_a_large_fill_equals_a_dictionary(planes: Planes) -> None:
    expected: dict[int, int] = {}
    for batch in range(3):
        rows = planes.spark.range(2000).selectExpr(
            f"(id * 7919 + {batch * 31}) % 1500 as key", f"id + {batch * 10000} as value", f"id + {batch * 5000} as at"
        )
        rows = rows.withColumn("op", F.when(F.col("value") % 11 == 0, "D"))
        spec = FillSpec(["key"], ["value"], order_by="at", delete_when="op = 'D'", partitions=3)
        fill(planes.store, rows, spec, FillSettings(cache_dir=planes.cache))
        for row in sorted(rows.collect(), key=lambda row: row["at"]):
            expected[row.key] = row.value
    expected = {key: value for key, value in expected.items() if value % 11}
    keys = planes.spark.range(1500).withColumnRenamed("id", "key")
    found = join(keys, planes.store, on=["key"], how="inner", settings=JoinSettings(cache_dir=planes.cache)).collect()
    assert expected == {row.key: row.value for row in found}


def test_strings_that_are_no_utf8_are_refused_and_can_be_replaced(planes: Planes) -> None:
    rows = planes.spark.sql("select 'a' as tail, cast(X'636166E9' as string) as name")
    spec, settings = FillSpec(keys=["tail"]), FillSettings(cache_dir=planes.cache)
    with pytest.raises(ConfigurationError, match=r"column 'name', row 0 .*b'caf\\xe9' is not UTF-8: make_valid_utf8"):
        fill(planes.store, rows, spec, settings)
    swapped = rows.select(F.col("name").alias("tail"), F.col("tail").alias("name"))
    with pytest.raises(ConfigurationError, match=r"Key column 'tail' has a string .*b'caf\\xe9'.* make_valid_utf8"):
        fill(planes.store, swapped, spec, settings)
    fill(planes.store, rows.withColumn("name", F.make_valid_utf8("name")), spec, settings)
    found = join(rows.select("tail"), planes.store, on=["tail"]).collect()
    assert [("a", "caf\ufffd")] == [tuple(row) for row in found]
    absent = join(swapped.select("tail"), planes.store, on=["tail"]).select("name").collect()
    assert [(None,)] == [tuple(row) for row in absent]
