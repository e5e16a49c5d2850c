"""Errors: the message names cause and next step, and no row is lost, duplicated or partly written.

`error_of` returns the last line of the traceback that Spark shows, which most users read first.
"""

from __future__ import annotations

import random
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.spark.errors import error_of
from tools.rough_proxy import Fate, rough_proxy

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored
    from tools.azurite import Azurite


def save(frame: DataFrame, options: dict[str, str], target: str | None, **more: str) -> None:
    frame.write.format("azureblob").options(**options, **more).mode("append").save(target)


WRONG_OPTIONS = {
    "unknown": (
        {"partitonColumn": "id"},
        "ConfigurationError: Option `partitoncolumn` is unknown. Did you mean partitionColumn?",
    ),
    "malformed size": (
        {"maxBlobSize": "10 apples"},
        "ConfigurationError: Option `maxBlobSize`: the value '10 apples' is not valid; expected ",
    ),
    "malformed choice": (
        {"codec": "brotli"},
        "ConfigurationError: Option `codec`: the value 'brotli' is not valid; expected ",
    ),
    "column that is not there": (
        {"partitionColumn": "day"},
        "ConfigurationError: Option `partitionColumn` names column 'day'; the rows have id.",
    ),
    "event time that is none": (
        {"eventTimeColumn": "id"},
        "ConfigurationError: Option `eventTimeColumn`: column 'id' is int64, it must be a timestamp. Cast it",
    ),
    "half a transaction": (
        {"txnAppId": "nightly"},
        "ConfigurationError: Options `txnAppId` and `txnVersion` belong together: set both or none.",
    ),
    "schema without a column": (
        {"avroSchema": '{"type": "record", "name": "r", "fields": [{"name": "other", "type": "long"}]}'},
        "ConfigurationError: ",
    ),
    "schema that is none": ({"avroSchema": "{"}, "ConfigurationError: Option `avroSchema` is not a valid Avro schema"),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_a_wrong_option_is_named_before_anything_is_written(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, case: str
) -> None:
    wrong, sentence = WRONG_OPTIONS[case]
    assert error_of(lambda: save(spark.range(3), {**options, **wrong}, target)).startswith(sentence)
    assert [] == stored.names()


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (None, "No container is named. Set the path to `container/stream`, or the option `container`."),
        ("Up_Per/events", "Container name 'Up_Per' is not valid: use 3 to 63 lower-case letters"),
        ("{container}", "No stream is named. Give `container/stream` as the path, or the option"),
        ("{container}/a/../b", "stream name 'a/../b' is invalid: it has an empty, `.` or `..` level"),
        ("{container}/_hidden", "stream name '_hidden' is invalid: level '_hidden' begins with `_`"),
        (
            "ftp://host/x",
            "Path 'ftp://host/x' is not supported. Use `container/path` or an https, abfss or wasbs URL.",
        ),
    ],
)
def test_an_invalid_location_is_refused_by_name(
    spark: SparkSession, options: dict[str, str], container_name: str, stored: Stored, path: str | None, sentence: str
) -> None:
    target = path and path.replace("{container}", container_name)
    assert error_of(lambda: save(spark.range(3), options, target)).startswith(f"ConfigurationError: {sentence}")
    assert [] == stored.names()


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_a_streaming_query_fails_with_the_same_message_and_can_be_corrected(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')

    def run(**more: str) -> None:
        writer = spark.readStream.schema("id long").json(str(tmp_path / "input")).writeStream.format("azureblob")
        writer = writer.options(**options, **more).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(target).awaitTermination()

    expected = "ConfigurationError: Option `cdec` is unknown. Did you mean codec?"
    assert expected == error_of(lambda: run(cdec="deflate"))
    assert [] == stored.names()
    run(codec="deflate")
    assert [1, 2] == sorted(row["id"] for row in stored.rows())


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("d3Jvbmcga2V5", "Get properties of {container}/_container failed: 403 .* Check accountKey"),
        ("no base64!", "Option `accountKey`: the account key is not base64. Copy it whole"),
    ],
)
def test_a_wrong_key_is_reported_at_once_and_not_shown(
    spark: SparkSession, azurite: Azurite, container_name: str, stored: Stored, key: str, sentence: str
) -> None:
    wrong = {"endpoint": azurite.endpoint, "accountKey": key}
    started = time.monotonic()
    answer = error_of(lambda: save(spark.range(3), wrong, f"{container_name}/events"))
    assert 20 > time.monotonic() - started
    assert re.match(f"ConfigurationError: {sentence.replace('{container}', container_name)}", answer)
    assert key not in answer
    assert [] == stored.names()


def test_an_endpoint_without_a_service_fails_in_bounded_time(
    spark: SparkSession, azurite: Azurite, target: str
) -> None:
    unreachable = {"endpoint": "http://127.0.0.1:9/devstoreaccount1", "accountKey": azurite.account_key}
    started = time.monotonic()
    sentence = error_of(lambda: save(spark.range(3), unreachable, target, retryDeadlineMs="800"))
    assert 20 > time.monotonic() - started
    assert re.fullmatch(r"TransientError: .* failed after \d attempts, \d\.\d s: .*endpoint.*", sentence)


def test_reading_an_absent_stream_names_it_and_creates_nothing(
    spark: SparkSession, options: dict[str, str], container_name: str, stored: Stored
) -> None:
    read = spark.read.format("azureblob").options(**options)

    def load(**more: str) -> DataFrame:
        return spark.read.format("azureblob").options(**options, **more).load(f"{container_name}/events")

    sentence = error_of(lambda: read.load(f"{container_name}/nothing"))
    assert sentence.startswith("NotFoundError: ")
    assert container_name in sentence
    save(spark.range(1), options, f"{container_name}/events")
    assert f"{container_name}/nothing failed: there is no" in error_of(lambda: read.load(f"{container_name}/nothing"))
    assert "Option `columns` names nope" in error_of(lambda: load(columns="id,nope"))
    assert "/events failed: the newest is 0. Ask for one that exists" in error_of(lambda: load(versionAsOf="7"))
    history = read.option("view", "commits").load(f"{container_name}/nothing")
    assert "/nothing failed: there is none. Check container and stream" in error_of(history.collect)


@pytest.mark.every_spark
def test_every_partition_value_is_one_level_of_the_name_and_the_row_keeps_the_value(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    values = [None, "", "..", ".", "a/b", "a\\b", "50%", "x=y", "grüß 👋", "tab\there", "_log", "ends. ", "?#*:"]
    frame = spark.createDataFrame([(value,) for value in values], "day string").coalesce(1)
    save(frame, options, target, partitionColumn="day")
    assert sorted(map(repr, values)) == sorted(repr(row["day"]) for row in stored.rows())
    levels = {name.removeprefix("events/").rsplit("/", 5)[0] for name in stored.data()}
    assert len(values) == len(stored.data())
    assert {0} == {level.count("/") for level in levels if not level.startswith("20")}


def test_a_partition_value_too_long_for_a_name_is_refused_and_nothing_is_published(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    frame = spark.range(3).selectExpr("repeat('x', 2000) AS day", "id")
    sentence = error_of(lambda: save(frame, options, target, partitionColumn="day"))
    assert re.match(r"ConfigurationError: The blob name would have 20\d\d characters, Azure allows 1024", sentence)
    assert sentence.endswith("Shorten the partition value, for instance by hashing the column.")
    assert [] == stored.names()


def test_a_row_larger_than_a_block_is_written_whole(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr("id", "repeat('x', 300000) AS text")
    save(frame, options, target, maxFlushThresholdSize="1k")
    assert [(0, 300_000), (1, 300_000), (2, 300_000)] == [(row["id"], len(row["text"])) for row in stored.rows()]


@pytest.mark.every_spark
def test_throttling_only_delays_a_write(spark: SparkSession, azurite: Azurite, target: str, stored: Stored) -> None:
    began: list[float] = []

    def busy_for_a_while(method: str, path: str) -> Fate:
        began.append(time.monotonic())
        return Fate.BUSY if began[-1] - began[0] < 4 else Fate.PASS

    with rough_proxy(azurite, busy_for_a_while) as proxy:
        save(spark.range(100), proxy.options, target)
    assert proxy.fates[Fate.BUSY] > 1
    assert list(range(100)) == sorted(row["id"] for row in stored.rows())


def test_endless_throttling_fails_with_advice(
    spark: SparkSession, azurite: Azurite, target: str, stored: Stored
) -> None:
    with rough_proxy(azurite, lambda *_: Fate.BUSY) as proxy:
        sentence = error_of(lambda: save(spark.range(3), proxy.options, target, retryDeadlineMs="1500"))
    assert sentence.startswith("TransientError: Get properties of ")
    assert "The account is throttling: lower the number of concurrent writers, or raise retryDeadlineMs." in sentence
    assert [] == stored.names()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_network_that_drops_every_eighth_request_neither_loses_nor_duplicates_a_row(
    spark: SparkSession, azurite: Azurite, target: str, stored: Stored, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    rough = [Fate.LOST, Fate.UNANSWERED, *[Fate.PASS] * 14]
    (tmp_path / "input").mkdir()
    for file in range(4):
        (tmp_path / "input" / f"{file}.json").write_text("".join(f'{{"id": {10 * file + i}}}\n' for i in range(10)))

    with rough_proxy(azurite, lambda *_: chance.choice(rough)) as proxy:
        frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "input"))
        writer = frame.withColumn("part", frame.id % 3).writeStream.format("azureblob").options(**proxy.options)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option("partitionColumn", "part")
        writer.trigger(availableNow=True).start(target).awaitTermination()
        back = spark.read.format("azureblob").options(**proxy.options).load(target)
        assert list(range(40)) == sorted(row.id for row in back.collect())
    assert proxy.fates[Fate.LOST] and proxy.fates[Fate.UNANSWERED]
    assert list(range(40)) == sorted(row["id"] for row in stored.rows())
