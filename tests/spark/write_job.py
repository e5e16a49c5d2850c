"""A streaming job that writes what is fed to it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class WriteJob:
    """A streaming job over a folder of JSON files: one micro-batch for each file, until all are read."""

    spark: SparkSession
    options: dict[str, str]
    folder: Path
    schema: str = "id long, kind string"

    def feed(self, name: str, *rows: dict[str, Any]) -> None:
        """Add a file to the input."""
        (self.folder / "input").mkdir(exist_ok=True)
        file = self.folder / "input" / f"{name}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Spark takes files in the order of their times, which it reads in whole milliseconds.
        at = 1_600_000_000 + len(list(file.parent.iterdir()))
        os.utime(file, (at, at))

    def input(self, files_at_once: int = 1) -> DataFrame:
        """The input as a stream."""
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", files_at_once)
        return reader.json(str(self.folder / "input"))

    def start(self, frame: DataFrame, target: str, mode: str = "append", job: str = "a", **more: str) -> StreamingQuery:
        """Start or restart a query."""
        writer = frame.writeStream.format("azureblob").options(**self.options, **more).outputMode(mode)
        checkpoint = str(self.folder / f"checkpoint-{job}")
        return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(target)

    def run(self, frame: DataFrame, target: str, mode: str = "append", **more: str) -> None:
        """Run a query to the end of its input. Raises its error."""
        self.start(frame, target, mode, **more).awaitTermination()

    def read(self, target: str, **more: str) -> DataFrame:
        """The written stream as a DataFrame."""
        return self.spark.read.format("azureblob").options(**self.options, **more).load(target)


def row(number: int, kind: str = "x") -> dict[str, Any]:
    return {"id": number, "kind": kind}
