"""The examples of pages that have no test of their own: a folder that is adopted, and a stream as an Iceberg table."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import fastavro

from tools.guides import python_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.stored import Stored

NUMBERED = {"type": "record", "name": "event", "fields": [{"name": "number", "type": "long"}]}


def run(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, "example", "exec"), names)  # noqa: S102 - a file of this repository


def test_a_folder_of_captures_is_followed_from_the_latest_on(
    spark: SparkSession, options: dict[str, str], container_name: str, stored: Stored, tmp_path: Path
) -> None:
    def capture(number: int) -> None:
        data = io.BytesIO()
        fastavro.writer(data, NUMBERED, [{"number": number}])
        stored.client.upload_blob(f"captures/namespace/hub/0/2026/11/21/10/0{number}/00.avro", data.getvalue())

    def followed() -> list[int]:
        names: dict[str, Any] = {"spark": spark, "account": options}
        run(code.replace('("adoptFolder", True)', '("adoptFolder", True).option("minBlobAgeMs", 0)'), names)
        writer = names["captured"].writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        rows: list[Any] = []
        query = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True).start()
        query.awaitTermination()
        return [row.number for row in rows]

    code = python_blocks("docs/READING.md")[1].replace("captures/", f"{container_name}/captures/")
    stored.client.create_container()
    capture(0)
    assert [] == followed()
    capture(1)
    assert [1] == followed()


def test_a_stream_becomes_an_iceberg_table(
    spark: SparkSession, options: dict[str, str], container_name: str, stored: Stored
) -> None:
    """Spark's Iceberg reads it in test_iceberg.py."""
    (code,) = python_blocks("docs/ICEBERG.md")
    write, _, reads = code.partition("\ntable = ")
    assert 2 == reads.count('spark.read.format("iceberg")')
    run(write.replace('"demo/', f'"{container_name}/'), {"rows": spark.range(3), "account": options})
    assert [0, 1, 2] == sorted(row["id"] for row in stored.rows("flights"))
