"""The examples of docs/CONTROL_MESSAGES.md, run in their order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account import Location
from control_messages.spark import (
    AzureBlobTransport,
    EmitColumns,
    ProducerSpec,
    partition_of,
    run_bounded,
    run_until_end,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "CONTROL_MESSAGES.md"
DAY, HOUR = 86_400_000, 3_600_000

pytestmark = [pytest.mark.usefixtures("rocksdb_state"), pytest.mark.slow]


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


def streaming(spark: SparkSession, folder: Path, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    """The rows as a streaming frame of one file."""
    frame = spark.createDataFrame(rows, schema)
    frame.coalesce(1).write.parquet(str(folder))
    return spark.readStream.schema(frame.schema).parquet(str(folder))


def test_the_examples_of_the_guide_work(
    spark: SparkSession, options: dict[str, str], container_name: str, tmp_path: Path
) -> None:
    def seconds(day: int, hour: int = 0) -> int:
        return (day * DAY + hour * HOUR) // 1000

    flown = [
        ("EWR", "BOS", seconds(1)),
        ("JFK", "BOS", seconds(2)),
        ("LGA", "SFO", seconds(2)),
        ("EWR", "BOS", seconds(3)),
    ]
    rows = streaming(spark, tmp_path / "flights", flown, "origin string, dest string, second bigint")
    taken: list[Any] = []
    names: dict[str, Any] = {
        "spark": spark,
        "flights": rows.select("origin", "dest", F.timestamp_seconds("second").alias("departure")),
        "take": lambda batch, _: taken.extend(batch.collect()),
    }
    jobs, days, join, union, next_stream = (
        re.sub("^account = .*$", f"account = {options!r}", code, flags=re.MULTILINE)
        .replace('"container/', f'"{container_name}/')
        .replace("checkpoints/", f"{tmp_path}/checkpoints/")
        for code in examples()
    )

    exec(jobs, names)  # noqa: S102 - a file of this repository, here and below
    assert 4 == sum(row.type == "message" for row in taken)
    assert 8 == sum(row.type == "endOfStream" for row in taken)

    taken.clear()
    exec(days, names)  # noqa: S102
    assert {(DAY, 1), (2 * DAY, 1), (3 * DAY, 1)} == {(row.day, row.flights) for row in taken}
    assert 4 == sum(row.flights for row in taken)

    on_time = [("EWR", seconds(0, 5), "UA1"), ("EWR", seconds(0, 5), "UA2"), ("JFK", 0, "B61")]
    for name, columns, some in (
        ("flights", "flight string", [*on_time, ("EWR", None, "UA3"), (None, seconds(0, 5), "UA4")]),
        ("weather", "wind double", [("EWR", seconds(0, 5), 7.5), ("EWR", seconds(0, 6), 8.5)]),
        ("abroad", "flight string", [("LHR", seconds(0, 5), "BA1")]),
    ):
        frame = streaming(spark, tmp_path / f"input-{name}", some, f"origin string, second bigint, {columns}")
        frame = frame.withColumn("time_hour", F.timestamp_seconds("second"))
        producer = ProducerSpec(name, 2)
        run_bounded(
            frame.withColumn("value", F.to_json(F.struct("*"))),
            producer,
            EmitColumns("time_hour", partition=partition_of(producer, "origin")),
            AzureBlobTransport(Location(f"{container_name}/{name}", options)),
            str(tmp_path / f"checkpoint-{name}"),
        )
    taken.clear()
    exec(join, names)  # noqa: S102
    joined = {(row.flight, row.origin, row.hour, row.wind) for row in taken if row.type == "message"}
    with_nulls = {("UA3", "EWR", None, None), ("UA4", None, 5 * HOUR, None)}
    assert {
        ("UA1", "EWR", 5 * HOUR, 7.5),
        ("UA2", "EWR", 5 * HOUR, 7.5),
        ("B61", "JFK", 0, None),
    } == joined - with_nulls
    assert with_nulls <= joined

    taken.clear()
    exec(union, names)  # noqa: S102
    writer = names["united"].writeStream.option("checkpointLocation", str(tmp_path / "checkpoint-united"))
    run_until_end(writer.foreachBatch(names["take"]).start())
    united = {(row.flight, row.hour) for row in taken if row.type == "message" and row.flight not in ("UA3", "UA4")}
    assert {("UA1", 5 * HOUR), ("UA2", 5 * HOUR), ("B61", 0), ("BA1", 5 * HOUR)} == united

    exec(next_stream, names)  # noqa: S102
    envelopes = AzureBlobTransport(Location(f"{container_name}/counts", options))
    control = envelopes.control(spark)
    assert control is not None
    sent = control.where("type = 'endOfStream'").groupBy("partition").count().collect()
    assert [(str(number), 8) for number in range(4)] == sorted(tuple(row) for row in sent)
