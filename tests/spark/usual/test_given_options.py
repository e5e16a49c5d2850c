"""Which options Spark gives a Python source and sink, by each way to start a read or a write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from azureblob_source.read.options import source_options
from azureblob_source.write.options import sink_options
from foundation.errors import ConfigurationError
from tests.spark.usual.recorder import recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.write_job import WriteJob

pytestmark = [pytest.mark.every_spark, pytest.mark.oldest_spark]
ACCOUNT = {"accountname": "acme", "accountkey": "c2VjcmV0a2V5"}


class Ways:
    """Starts reads and writes of the format `recorder`."""

    def __init__(self, spark: SparkSession, job: WriteJob) -> None:
        self.spark, self.job = spark, job
        self.rows = spark.createDataFrame([(1, "a")], "id long, kind string")
        self.read = spark.read.format("recorder")
        self.write = self.rows.write.format("recorder").mode("append")
        self.read_stream = spark.readStream.format("recorder")
        self.write_stream = self.written(job.input())

    def written(self, frame: DataFrame, format_: str = "recorder") -> Any:
        writer = frame.writeStream.format(format_).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.job.folder / "checkpoint"))

    def follow(self, frame: DataFrame) -> None:
        self.written(frame, "noop").queryName("follow").start().awaitTermination()

    def view(self, statement: str, named: str = "recorded") -> None:
        """Make the view `recorded`, run the statement, and drop the view."""
        self.spark.sql(f"CREATE TEMPORARY VIEW {named} USING recorder OPTIONS (path 'data/s', `tags.x` 'y')")
        try:
            self.spark.sql(statement).collect()
        finally:
            self.spark.catalog.dropTempView(named)

    def table(self, create: str, *statements: str) -> None:
        self.spark.sql(create)
        try:
            for statement in statements:
                self.spark.sql(statement).collect()
        finally:
            self.spark.sql("DROP TABLE recorded_table")

    def save_as_table(self, writer: Any) -> None:
        writer.saveAsTable("recorded_table")
        self.spark.sql("DROP TABLE recorded_table")

    def to_table(self, writer: Any) -> None:
        writer.toTable("recorded_table").awaitTermination()
        self.spark.sql("DROP TABLE recorded_table")

    def by_default(self) -> None:
        self.spark.conf.set("spark.sql.sources.default", "recorder")
        self.spark.conf.set("spark.datasource.recorder.columns", "id")
        try:
            self.rows.write.mode("append").save("data/s")
            self.spark.read.load("data/s").collect()
        finally:
            self.spark.conf.unset("spark.sql.sources.default")
            self.spark.conf.unset("spark.datasource.recorder.columns")

    def checkpoint_by_setting(self) -> None:
        self.spark.conf.set("spark.sql.streaming.checkpointLocation", str(self.job.folder / "checkpoints"))
        try:
            writer = self.job.input().writeStream.format("recorder").queryName("named").trigger(availableNow=True)
            writer.start("data/s").awaitTermination()
        finally:
            self.spark.conf.unset("spark.sql.streaming.checkpointLocation")


CREATED = {"path", "location", "provider", "owner", "tags.x", "option.tags.x"}
CREATE = "CREATE TABLE recorded_table {} USING recorder OPTIONS (path 'data/s', `tags.x` 'y')"
NO_CONTAINER, OF_A_TABLE, ONE_PATH = "No container is named", "for a catalog table", "A read is of one stream"

WAYS: dict[str, tuple[Callable[[Ways], object], dict[str, set[str]], str | None]] = {
    "save": (lambda way: way.write.save("data/s"), {"writer": {"path"}}, None),
    "save, path as option": (lambda way: way.write.option("path", "data/s").save(), {"writer": {"path"}}, None),
    "save, named arguments": (
        lambda way: way.rows.write.save("data/s", format="recorder", mode="overwrite", codec="null"),
        {"writer": {"path", "codec"}},
        None,
    ),
    "load": (lambda way: way.read.load("data/s").collect(), {"schema": {"path"}, "reader": {"path"}}, None),
    "load, named arguments": (
        lambda way: way.spark.read.load("data/s", "recorder", columns="id").collect(),
        {"schema": {"path", "columns"}, "reader": {"path", "columns"}},
        None,
    ),
    "load, two paths": (
        lambda way: way.read.load(["data/s", "data/t"]).collect(),
        {"schema": {"paths"}, "reader": {"paths"}},
        ONE_PATH,
    ),
    "load, with a schema": (
        lambda way: way.read.schema("id long, kind string").load("data/s").count(),
        {"reader": {"path"}},
        None,
    ),
    "by settings": (
        lambda way: way.by_default(),
        {"writer": {"path"}, "schema": {"path"}, "reader": {"path"}},
        None,
    ),
    "view": (
        lambda way: way.view("SELECT * FROM recorded"),
        {"schema": {"path", "tags.x"}, "reader": {"path", "tags.x"}},
        None,
    ),
    "start": (
        lambda way: way.write_stream.start("data/s").awaitTermination(),
        {"streamWriter": {"path", "checkpointlocation"}},
        None,
    ),
    "start, with a name": (
        lambda way: way.write_stream.queryName("named").partitionBy("kind").start("data/s").awaitTermination(),
        {"streamWriter": {"path", "checkpointlocation", "queryname"}},
        None,
    ),
    "start, checkpoint by a setting": (
        lambda way: way.checkpoint_by_setting(),
        {"streamWriter": {"path", "queryname"}},
        None,
    ),
    "foreachBatch": (
        lambda way: (
            way.written(way.job.input())
            .foreachBatch(lambda batch, _: batch.write.format("recorder").mode("append").save("data/s"))
            .queryName("named")
            .start()
            .awaitTermination()
        ),
        {"writer": {"path"}},
        None,
    ),
    "follow": (
        lambda way: way.follow(way.read_stream.load("data/s")),
        {"schema": {"path"}, "streamReader": {"path"}},
        None,
    ),
    "CREATE TABLE": (lambda way: way.table(CREATE.format("")), {"schema": CREATED}, OF_A_TABLE),
    "catalog.createTable": (
        lambda way: (
            way.spark.catalog.createTable("recorded_table", "data/s", "recorder"),
            way.spark.sql("DROP TABLE recorded_table"),
        ),
        {"schema": {"path", "location", "provider", "owner", "external", "option.path"}},
        OF_A_TABLE,
    ),
    "a table with a schema": (
        lambda way: way.table(
            CREATE.format("(id long, kind string)"),
            "SELECT * FROM recorded_table",
            "INSERT INTO recorded_table VALUES (1, 'a')",
        ),
        {"reader": set(), "writer": set()},
        NO_CONTAINER,
    ),
    "CREATE TABLE AS SELECT": (
        lambda way: way.table(CREATE.format("") + " AS SELECT 1L AS id, 'a' AS kind"),
        {"writer": set()},
        NO_CONTAINER,
    ),
    "saveAsTable": (lambda way: way.save_as_table(way.write), {"writer": set()}, NO_CONTAINER),
    "saveAsTable, with a path": (
        lambda way: way.save_as_table(way.write.option("path", "data/s")),
        {"writer": {"path"}},
        None,
    ),
    "toTable": (
        lambda way: way.to_table(way.write_stream.queryName("named")),
        {"streamWriter": {"checkpointlocation", "queryname"}},
        NO_CONTAINER,
    ),
    "toTable, with a path": (
        lambda way: way.to_table(way.write_stream.option("path", "data/s")),
        {"streamWriter": {"checkpointlocation", "path"}},
        None,
    ),
}
"""For each way what it does, the names of the options that Spark gives to each call, and how ours refuse them."""


@pytest.fixture
def log(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "calls"
    made.touch()
    spark.dataSource.register(recorder(made))
    yield made
    spark.sql("DROP TABLE IF EXISTS recorded_table")


@pytest.mark.parametrize("name", WAYS)
def test_spark_gives_these_options_and_ours_accepts_or_refuses_them(
    name: str, spark: SparkSession, job: WriteJob, log: Path
) -> None:
    act, expected, refused = WAYS[name]
    act(Ways(spark, job))
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert expected == {call: set(given) for call, given in calls}
    for call, given in calls:
        parse = sink_options if "riter" in call else source_options
        if refused is None:
            parse({**ACCOUNT, **given}, {})
        else:
            with pytest.raises(ConfigurationError, match=refused):
                parse({**ACCOUNT, **given}, {})


@pytest.mark.parametrize(
    "statement", ["INSERT INTO recorded VALUES (1, 'a')", "INSERT OVERWRITE recorded SELECT 1L, 'a'"]
)
def test_an_insert_into_a_view_gives_the_view_s_options(
    statement: str, spark: SparkSession, job: WriteJob, log: Path
) -> None:
    Ways(spark, job).view(statement)
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert [{"path": "data/s", "tags.x": "y"}] == [given for call, given in calls if call == "writer"]
