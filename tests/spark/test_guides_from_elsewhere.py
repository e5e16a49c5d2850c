"""The first jobs of docs/from, run as they stand, on folders in the layouts of those tools."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from tools.guides import python_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tests.spark.stored import Stored

GUIDES = Path(__file__).parents[2] / "docs" / "from"
NUMBERED = {"type": "record", "name": "edit", "fields": [{"name": "number", "type": "long"}]}


def first_job(guide: str) -> str:
    first, *others = python_blocks(GUIDES / guide)
    for code in others:
        compile(code, guide, "exec")
    return first


class Jobs:
    """Runs jobs with the names that the README gives, on containers and folders of the test."""

    def __init__(self, spark: SparkSession, account: dict[str, str], container: str, folder: Path) -> None:
        self.names: dict[str, Any] = {"spark": spark, "account": account}
        self.container, self.folder = container, folder

    def run(self, guide: str) -> None:
        code = first_job(guide).replace("mycontainer/", f"{self.container}/")
        code = code.replace("/tmp/checkpoints", str(self.folder))  # noqa: S108 - the guide's
        code = code.replace('("adoptFolder", True)', '("adoptFolder", True).option("minBlobAgeMs", 0)')
        exec(compile(code, guide, "exec"), self.names)  # noqa: S102 - a file of this repository

    def passengers(self) -> None:
        """The stream of the README's first example."""
        rows = self.names["spark"].range(1000).selectExpr("id", "concat('gate ', id % 3) AS gate")
        writer = rows.write.format("azureblob").options(**self.names["account"]).mode("append")
        writer.save(f"{self.container}/passengers")


@pytest.fixture
def jobs(spark: SparkSession, options: dict[str, str], container_name: str, tmp_path: Path) -> Jobs:
    return Jobs(spark, options, container_name, tmp_path)


@pytest.mark.parametrize(
    ("guide", "name", "copy"),
    [
        ("SAMZA.md", "wikipedia/2019/12/20/16/45-{}-3f2a91c0.avro", "wikipedia-spark"),
        ("KAFKA_CONNECT.md", "topics/flights/partition={}/flights+{}+0000000000.avro", "flights"),
        ("AUTO_LOADER.md", "landing/2026/11/{}.avro", "loaded"),
    ],
)
def test_a_folder_of_another_tool_is_copied_once(jobs: Jobs, stored: Stored, guide: str, name: str, copy: str) -> None:
    stored.client.create_container()
    for number in range(2):
        data = io.BytesIO()
        fastavro.writer(data, NUMBERED, [{"number": 10 * number + each} for each in range(10)])
        stored.client.upload_blob(name.replace("{}", str(number)), data.getvalue())

    jobs.run(guide)
    jobs.run(guide)

    blobs = [(name, stored.bytes(name)) for name in stored.data(copy)]
    if guide == "KAFKA_CONNECT.md":
        assert {"0", "1"} == {name.split("/")[1] for name, _ in blobs}, "Kafka's partitions are those of the copy"
    files = [gzip.decompress(data) if name.endswith(".gz") else data for name, data in blobs]
    assert list(range(20)) == sorted(row["number"] for data in files for row in fastavro.reader(io.BytesIO(data)))


def test_a_query_of_sparks_avro_sink_goes_on_here(jobs: Jobs, stored: Stored) -> None:
    jobs.passengers()
    jobs.run("SPARK_AVRO.md")
    jobs.run("SPARK_AVRO.md")
    assert list(range(1000)) == sorted(row["id"] for row in stored.rows("passengers-by-gate"))
    gates = {name.split("/")[1] for name in stored.data("passengers-by-gate")}
    assert {"gate 0", "gate 1", "gate 2"} == gates


def test_a_query_keeps_its_checkpoint_when_its_sink_is_exchanged_for_this_one(
    jobs: Jobs, stored: Stored, tmp_path: Path
) -> None:
    spark = jobs.names["spark"]

    def run(writer: DataStreamWriter, first: int, target: str) -> None:
        spark.range(first, first + 10).coalesce(1).write.mode("append").parquet(str(tmp_path / "input"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start(target).awaitTermination()

    spark.range(0).write.parquet(str(tmp_path / "input"))
    rows = spark.readStream.schema("id long").parquet(str(tmp_path / "input"))
    run(rows.writeStream.format("parquet"), 0, str(tmp_path / "before"))
    run(rows.writeStream.format("azureblob").options(**jobs.names["account"]), 10, f"{jobs.container}/after")
    assert list(range(10)) == sorted(row["id"] for row in spark.read.parquet(str(tmp_path / "before")).collect())
    assert list(range(10, 20)) == sorted(row["id"] for row in stored.rows("after"))


def test_transactions_and_versions_of_delta_have_their_names_here(
    jobs: Jobs, stored: Stored, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs.run("DELTA.md")
    assert list(range(20)) == sorted(row["id"] for row in stored.rows("loaded"))
    printed = [int(row) for row in re.findall(r"^\|\s+(\d+)\|$", capfd.readouterr().out, re.MULTILINE)]
    assert [20, 10] == [len(printed[:20]), len(printed[20:])]
    assert list(range(10)) == sorted(printed[20:])
