"""A store of planes, filled from rows of a tail number, a number of seats, an order and an operation."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adjunct_store.spark import Filled, StoreFill, fill, fill_stream, join

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from azure_account.location import Location

SCHEMA = "tail string, seats int, at long, op string"
COLUMNS: dict[str, Any] = {"keys": ["tail"], "values": ["seats"], "order_by": "at", "delete_when": "op = 'D'"}


@dataclass
class Planes:
    """The store, and a folder of input files: a stream has one micro-batch for each file."""

    spark: SparkSession
    store: Location
    folder: Path
    files: int = 0

    @property
    def cache(self) -> Path:
        """Where tasks write and read."""
        return self.folder / "cache"

    def rows(self, *rows: tuple[Any, ...]) -> DataFrame:
        """Rows of tail and seats, then order (0) and operation (U)."""
        return self.spark.createDataFrame([(*row, *(0, "U")[len(row) - 2 :]) for row in rows], SCHEMA)

    def fill(self, *rows: tuple[Any, ...], **more: Any) -> Filled:
        """Apply rows as a batch."""
        return fill(self.store, self.rows(*rows), cache_dir=self.cache, **{**COLUMNS, **more})

    def feed(self, *rows: tuple[Any, ...]) -> None:
        """Add a file to the input of the stream."""
        (self.folder / "input").mkdir(exist_ok=True)
        names = ("tail", "seats", "at", "op")
        complete = [(*row, *(0, "U")[len(row) - 2 :]) for row in rows]
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in complete)
        file = self.folder / "input" / f"{self.files}.json"
        file.write_text(text)
        self.files += 1
        os.utime(file, (1.6e9 + self.files, 1.6e9 + self.files))  # the order in which Spark reads them

    def stream(self) -> DataFrame:
        """The input as a stream."""
        (self.folder / "input").mkdir(exist_ok=True)
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / "input"))

    def start(self, **more: Any) -> StoreFill:
        """Fill the store from the stream, until its end."""
        settings = {"trigger": {"availableNow": True}, "checkpoint": str(self.folder / "fill"), **COLUMNS, **more}
        stream = settings.pop("stream", None) or self.stream()
        return fill_stream(self.store, stream, cache_dir=self.cache, **settings)

    def run(self, **more: Any) -> StoreFill:
        """Fill the store with all that the stream has now. Raises what the fill fails with."""
        running = self.start(**more)
        assert running.await_termination(60)
        return running

    def join(self, tails: Iterable[str | None], **more: Any) -> list[tuple[Any, ...]]:
        """Tail numbers with their seats."""
        frame = self.spark.createDataFrame([(tail,) for tail in tails], "tail string")
        joined = join(frame, self.store, on=["tail"], cache_dir=self.cache, **more)
        return sorted((tuple(row) for row in joined.collect()), key=str)

    def content(self, tails: Iterable[str] = "abcdefgh") -> dict[str, int]:
        """The seats of those tail numbers that are in the store."""
        return dict(self.join(tails, how="inner"))
