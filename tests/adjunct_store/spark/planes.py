"""A store of planes, filled from rows of a tail number, a number of seats, an order and an operation."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from adjunct_store.spark import (
    FillResult,
    FillSettings,
    FillSpec,
    JoinSettings,
    StreamFill,
    StreamFillSettings,
    fill,
    fill_stream,
    join,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from azure_account.location import Location

SCHEMA = "tail string, seats int, at long, op string"
COLUMNS: dict[str, Any] = {"keys": ["tail"], "values": ["seats"], "order_by": "at", "delete_when": "op = 'D'"}

_SPEC = {each.name for each in fields(FillSpec)}


def spec_of(given: Mapping[str, Any]) -> FillSpec:
    """`COLUMNS`, changed by those of the arguments that are fields of a `FillSpec`."""
    return FillSpec(**{**COLUMNS, **{name: each for name, each in given.items() if name in _SPEC}})


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The other arguments."""
    return {name: each for name, each in given.items() if name not in _SPEC}


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

    def fill(self, *rows: tuple[Any, ...], **more: Any) -> FillResult:
        """Apply rows as a batch."""
        return fill(
            self.store, self.rows(*rows), spec_of(more), FillSettings(cache_dir=self.cache, **settings_of(more))
        )

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

    def start(self, **more: Any) -> StreamFill:
        """Fill the store from the stream, until its end."""
        given = {"trigger": {"availableNow": True}, "cache_dir": self.cache, **settings_of(more)}
        stream = given.pop("stream", None) or self.stream()
        checkpoint = given.pop("checkpoint", str(self.folder / "fill"))
        settings = StreamFillSettings(**given)
        return fill_stream(self.store, stream, spec_of(more), checkpoint=checkpoint, settings=settings)

    def run(self, **more: Any) -> StreamFill:
        """Fill the store with all that the stream has now. Raises what the fill fails with."""
        running = self.start(**more)
        assert running.await_termination(60)
        return running

    def joined(self, tails: Iterable[str | None], how: str = "left", **more: Any) -> DataFrame:
        """Tail numbers with their seats. As long as it is referred to, its pin stays."""
        frame = self.spark.createDataFrame([(tail,) for tail in tails], "tail string")
        settings = JoinSettings(cache_dir=self.cache, **more)
        return join(frame, self.store, on=["tail"], how=how, settings=settings)

    def join(self, tails: Iterable[str | None], how: str = "left", **more: Any) -> list[tuple[Any, ...]]:
        """Tail numbers with their seats."""
        return sorted((tuple(row) for row in self.joined(tails, how, **more).collect()), key=str)

    def content(self, tails: Iterable[str] = "abcdefgh") -> dict[str, int]:
        """The seats of those tail numbers that are in the store."""
        return dict(self.join(tails, how="inner"))
