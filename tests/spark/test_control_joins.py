"""Bounded jobs whose streams are joined and united, with nulls in the columns that they are joined by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account import Location
from control_messages.spark import (
    AzureBlobTransport,
    EmitColumns,
    EventTimeProcessor,
    ProducerSpec,
    partition_of,
    process,
    reconcile,
    run_bounded,
    run_until_end,
)
from tests.spark.parquet_stream import streaming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

HOUR = 3_600_000
FOREVER = 2**62

pytestmark = [pytest.mark.usefixtures("rocksdb_state"), pytest.mark.slow]


class FlightsAndWind(EventTimeProcessor):
    """Each flight with the wind at its airport in its hour; without, if there is none, or the flight is late."""

    schema = "flight string, origin string, hour bigint, wind double"

    def init(self, handle: Any) -> None:
        self._waiting = handle.getMapState("waiting", "hour bigint, origin string", "flights array<string>")
        self._wind = handle.getMapState("wind", "hour bigint, origin string", "wind double")

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> None:
        for (stream, *parts), rows in messages.groupby(["stream", "hour", "origin"], dropna=False):
            key = tuple(None if pd.isna(part) else part for part in parts)
            if stream == "weather":
                self._wind.updateValue(key, (rows["wind"].iloc[0],))
            else:
                before = self._waiting.getValue(key)[0] if self._waiting.containsKey(key) else []
                self._waiting.updateValue(key, ([*before, *rows["flight"]],))

    def on_watermark(self, partition: Any, watermark: int) -> Iterator[pd.DataFrame]:
        yield self._join(watermark - HOUR)

    def on_end(self, partition: Any) -> Iterator[pd.DataFrame]:
        yield self._join(FOREVER)

    def _join(self, last: int) -> pd.DataFrame:
        """The flights of the hours up to `last`, and those without an hour; the state forgets them."""
        rows = []
        for key, (flights,) in list(self._waiting.iterator()):
            if key[0] is None or key[0] <= last:
                wind = self._wind.getValue(key)[0] if self._wind.containsKey(key) else None
                rows += [(flight, key[1], key[0], wind) for flight in flights]
                self._waiting.removeKey(key)
        for key in [key for key, _ in self._wind.iterator() if key[0] is None or key[0] <= last]:
            self._wind.removeKey(key)
        return pd.DataFrame(rows, columns=["flight", "origin", "hour", "wind"]).astype({"hour": "Int64"})


class Union(EventTimeProcessor):
    """The flights of two streams."""

    schema = "flight string, hour bigint"

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> Iterator[pd.DataFrame]:
        yield messages[["flight", "hour"]]


def test_streams_of_bounded_jobs_are_joined_and_united_also_by_columns_with_nulls(
    spark: SparkSession, options: dict[str, str], container_name: str, tmp_path: Path
) -> None:
    five = 5 * HOUR // 1000
    on_time = [("EWR", five, "UA1"), ("EWR", five, "UA2"), ("JFK", 0, "B61")]
    inputs: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
        "flights": ("flight string", [*on_time, ("EWR", None, "UA3"), (None, five, "UA4")]),
        "weather": ("wind double", [("EWR", five, 7.5), ("EWR", five + HOUR // 1000, 8.5)]),
        "abroad": ("flight string", [("LHR", five, "BA1")]),
    }

    def transport(name: str) -> AzureBlobTransport:
        return AzureBlobTransport(Location(f"{container_name}/{name}", options))

    for name, (columns, rows) in inputs.items():
        frame = streaming(spark, tmp_path / f"input-{name}", rows, f"origin string, second bigint, {columns}")
        frame = frame.withColumn("time_hour", F.timestamp_seconds("second"))
        producer = ProducerSpec(name, 2)
        run_bounded(
            frame.withColumn("value", F.to_json(F.struct("*"))),
            producer,
            EmitColumns("time_hour", partition=partition_of(producer, "origin")),
            transport(name),
            str(tmp_path / f"checkpoint-{name}"),
        )

    def by_hour(name: str) -> DataFrame:
        """A flow with the columns of its rows."""
        flow = reconcile(transport(name).read(spark), name)
        row = F.from_json(F.col("message").cast("string"), f"origin string, time_hour timestamp, {inputs[name][0]}")
        parsed = flow.select("*", row.alias("row"))
        return parsed.select("*", F.unix_millis("row.time_hour").alias("hour"), "row.*").drop("row")

    def messages(flow: DataFrame, checkpoint: str) -> list[Any]:
        """The user messages that a query has returned up to the end."""
        taken: list[Any] = []
        writer = flow.writeStream.option("checkpointLocation", str(tmp_path / checkpoint))
        run_until_end(writer.foreachBatch(lambda batch, _: taken.extend(batch.collect())).start())
        return [row for row in taken if row.type == "message"]

    joined = messages(process([by_hour("flights"), by_hour("weather")], FlightsAndWind()), "joined")
    assert {
        ("UA1", "EWR", 5 * HOUR, 7.5),
        ("UA2", "EWR", 5 * HOUR, 7.5),
        ("B61", "JFK", 0, None),
        ("UA3", "EWR", None, None),
        ("UA4", None, 5 * HOUR, None),
    } == {(row.flight, row.origin, row.hour, row.wind) for row in joined}

    united = messages(process([by_hour("flights"), by_hour("abroad")], Union()), "united")
    assert [("B61", 0), ("BA1", 5 * HOUR), ("UA1", 5 * HOUR), ("UA2", 5 * HOUR), ("UA3", None), ("UA4", 5 * HOUR)] == (
        sorted((row.flight, row.hour) for row in united)
    )
