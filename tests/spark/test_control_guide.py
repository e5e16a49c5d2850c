"""The examples of docs/CONTROL_MESSAGES.md, run in their order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account import Location
from control_messages.spark import AzureBlobTransport
from tests.spark.parquet_stream import streaming
from tools.guides import python_blocks, with_account

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "CONTROL_MESSAGES.md"
DAY = 86_400_000

pytestmark = [pytest.mark.usefixtures("rocksdb_state"), pytest.mark.slow]


def test_the_examples_of_the_guide_work(
    spark: SparkSession, options: dict[str, str], container_name: str, tmp_path: Path
) -> None:
    def seconds(day: int) -> int:
        return day * DAY // 1000

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
    upstream, downstream, days, next_stream = (
        with_account(code, options)
        .replace('"container/', f'"{container_name}/')
        .replace("checkpoints/", f"{tmp_path}/checkpoints/")
        for code in python_blocks(GUIDE)
    )

    exec(upstream, names)  # noqa: S102 - a file of this repository, here and below
    exec(downstream, names)  # noqa: S102
    assert 4 == sum(row.type == "message" for row in taken)
    assert 8 == sum(row.type == "endOfStream" for row in taken)

    taken.clear()
    exec(days, names)  # noqa: S102
    assert {(DAY, 1), (2 * DAY, 1), (3 * DAY, 1)} == {(row.day, row.flights) for row in taken}
    assert 4 == sum(row.flights for row in taken)

    exec(next_stream, names)  # noqa: S102
    envelopes = AzureBlobTransport(Location(f"{container_name}/counts", options))
    control = envelopes.control(spark)
    assert control is not None
    sent = control.where("type = 'endOfStream'").groupBy("partition").count().collect()
    assert [(str(number), 8) for number in range(4)] == sorted(tuple(row) for row in sent)
