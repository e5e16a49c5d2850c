"""Common mistakes of new users: the message that they read, and that following its advice helps."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from azureblob_source.log.boundary import Boundary, to_json
from tests.spark.errors import error_of
from tests.spark.versions import append_version
from tools.guides import python_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored

pytestmark = pytest.mark.every_spark

TROUBLESHOOTING = Path(__file__).parents[2] / "docs" / "TROUBLESHOOTING.md"


def save(frame: DataFrame, options: dict[str, str], target: str, **more: str) -> None:
    frame.write.format("azureblob").options(**options, **more).mode("append").save(target)


def load(spark: SparkSession, options: dict[str, str], target: str, **more: str) -> DataFrame:
    return spark.read.format("azureblob").options(**options, **more).load(target)


def follow(spark: SparkSession, options: dict[str, str], target: str, folder: Path, **more: str) -> None:
    """Run a query over all that is available, and drop its rows."""
    frame = spark.readStream.format("azureblob").options(**options, **more).load(target)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def in_a_thread(act: Callable[[], object]) -> None:
    """Run `act` in a new thread. Raises its error."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def documented(beginning: str) -> str:
    """The only line of the troubleshooting page that contains `beginning` in its first 60 characters."""
    (line,) = (line.strip() for line in TROUBLESHOOTING.read_text("utf-8").splitlines() if beginning in line[:60])
    return line


def test_a_thread_writes_after_the_documented_line(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        in_a_thread(lambda: save(spark.range(3), options, target))
    _, code = python_blocks("docs/TROUBLESHOOTING.md")
    names: dict[str, Any] = {"spark": spark, "options": options}
    exec(code, names)  # noqa: S102 - a file of this repository
    in_a_thread(lambda: names["save"](spark.range(3), target))
    assert [0, 1, 2] == sorted(row["id"] for row in stored.rows())


def test_a_streaming_query_starts_in_a_thread_after_the_documented_line(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "a.json").write_text('{"id": 1}\n')

    def start() -> None:
        exec(documented("spark.createDataFrame("), {"spark": spark})  # noqa: S102 - the line of the page
        frame = spark.readStream.schema("id long").json(str(tmp_path / "input"))
        writer = frame.writeStream.format("azureblob").options(**options).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(target).awaitTermination()

    in_a_thread(start)
    assert [1] == [row["id"] for row in stored.rows()]


def test_an_option_of_a_batch_read_on_a_stream_is_the_last_line_of_the_error(
    spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path
) -> None:
    save(spark.range(1), options, target)
    with pytest.raises(PySparkException) as caught:
        follow(spark, options, target, tmp_path, versionAsOf="0")
    assert "Option `versionAsOf` belongs to spark.read. Leave it out here." in str(caught.value)
    assert "UnboundLocalError" not in str(caught.value)
    follow(spark, options, target, tmp_path)


def test_a_transaction_on_a_streaming_query_is_refused_and_within_foreach_batch_it_works(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    for number in range(3):
        (tmp_path / "input" / f"{number}.json").write_text(f'{{"id": {number}}}\n')
    frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "input"))

    def run(writer: Any, *target: str) -> None:
        checkpoint = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        checkpoint.trigger(availableNow=True).start(*target).awaitTermination()

    transaction = {"txnAppId": "copy", "txnVersion": "1"}
    sentence = error_of(lambda: run(frame.writeStream.format("azureblob").options(**options, **transaction), target))
    assert sentence.startswith("ConfigurationError: Options `txnAppId` and `txnVersion` are for df.write: ")
    assert [] == stored.names()

    def write(batch: DataFrame, number: int) -> None:
        save(batch, options, target, txnAppId="copy", txnVersion=str(number))

    run(frame.writeStream.foreachBatch(write))
    assert [0, 1, 2] == sorted(row["id"] for row in stored.rows())


def test_options_of_other_formats_get_hints_and_the_hints_help(
    spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path
) -> None:
    for id_ in (1, 2):
        append_version(options, target, pa.RecordBatch.from_pydict({"id": [id_]}))

    def sentence(**more: str) -> str:
        return error_of(lambda: load(spark, options, target, **more))

    assert "`timestampAsOf` is its name here." in sentence(**{"as-of-timestamp": "2013"})
    times = load(spark, options, target, view="commits").select("version", "timestamp").collect()
    assert [0, 1] == sorted(row.version for row in times if row.timestamp is not None)
    assert [1] == [row.id for row in load(spark, options, target, versionAsOf="0").collect()]
    assert "`maxBlobsPerTrigger` is its name here." in sentence(maxFilesPerTrigger="1")
    follow(spark, options, target, tmp_path, maxBlobsPerTrigger="1")


def test_a_frame_whose_blobs_an_overwrite_deleted_is_loaded_again(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    save(spark.range(1), options, target)
    frame = load(spark, options, target)
    assert 1 == len(frame.collect())
    spark.range(2).write.format("azureblob").options(**options).mode("overwrite").save(target)
    sentence = error_of(frame.collect)
    assert "Load the DataFrame again, without `versionAsOf`, to read the stream as it is now. Start a" in sentence
    assert 2 == len(load(spark, options, target).collect())


def test_a_frame_whose_column_has_become_wider_is_loaded_again(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    append_version(options, target, pa.RecordBatch.from_arrays([pa.array([1], pa.int32())], ["id"]))
    frame = load(spark, options, target)
    append_version(options, target, pa.RecordBatch.from_pydict({"id": [2**40]}))
    sentence = error_of(frame.collect)
    assert "read column 'id' failed: the DataFrame has it as int32, the stream as int64: " in sentence
    assert "If the type has changed since, load the DataFrame again" in sentence
    assert [1, 2**40] == sorted(row.id for row in load(spark, options, target).collect())


def test_a_query_whose_versions_were_vacuumed_continues_with_a_new_checkpoint(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, tmp_path: Path
) -> None:
    for id_ in range(4):
        append_version(options, target, pa.RecordBatch.from_pydict({"id": [id_]}))
    follow(spark, options, target, tmp_path)
    for id_ in range(4, 8):
        append_version(options, target, pa.RecordBatch.from_pydict({"id": [id_]}))
    stored.client.upload_blob("events/_log/_first.json", to_json(Boundary(6)))
    for version in range(6):
        stored.client.delete_blob(f"events/_log/{version:020d}.json")
    sentence = error_of(lambda: follow(spark, options, target, tmp_path))
    assert sentence.startswith("NotFoundError: read on from version 3 of ")
    assert sentence.endswith("Start the query with a new checkpoint: it begins at version 6.")
    follow(spark, options, target, tmp_path / "new")


def test_a_read_after_a_first_write_without_rows_fails_with_the_next_step(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    save(spark.range(0), options, target)
    assert "write one with rows: a first write of none leaves nothing" in error_of(lambda: load(spark, options, target))
    save(spark.range(2), options, target)
    assert 2 == load(spark, options, target).count()
