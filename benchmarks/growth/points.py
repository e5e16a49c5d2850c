"""What is measured: the points of each axis, of which only one property differs from the common base. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

OLD_TIME, NEW_TIME = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
"""The event time of all rows of a history, and of the rows that are written after it."""


class Contender(StrEnum):
    """Who writes and reads, by the names of the tables."""

    OURS = "azureblob"
    COMPILED = "azureblob, compiled"
    DELTA = "Delta"
    AVRO = "Spark avro"
    FOREACH = "foreachBatch"


class Axis(StrEnum):
    """What grows."""

    ROWS = "rows"
    COLUMNS = "columns"
    PARTITIONS = "partitions"
    BLOBS = "blobs"
    HISTORY = "versions before"
    CORES = "cores"


WRITERS = (Contender.OURS, Contender.DELTA, Contender.AVRO, Contender.FOREACH)
"""The compiled decoder has no part in a write."""
READERS = (Contender.OURS, Contender.COMPILED, Contender.DELTA, Contender.AVRO)
"""What `foreachBatch` has written is read as Spark's `avro` reads its own."""


@dataclass(frozen=True)
class Point:
    """One size of the data. rows, columns: of one write.

    partitions: values of the column by which rows are parted; 0: they are not. blobs: of a write; 0: as many as the
    sink makes. tasks: of the write. history: versions before; -1: none, and the folder is new. cores: of Spark.
    """

    axis: Axis
    value: int
    rows: int = 100_000
    columns: int = 10
    partitions: int = 0
    blobs: int = 0
    tasks: int = 1
    history: int = -1
    cores: int = 1

    @property
    def writers(self) -> tuple[Contender, ...]:
        """Who writes. How many blobs `foreachBatch` makes is for its function to say."""
        return WRITERS[:-1] if self.blobs else WRITERS

    @property
    def readers(self) -> tuple[Contender, ...]:
        """Who reads."""
        return tuple(each for each in READERS if self.axis is not Axis.CORES or each is not Contender.COMPILED)

    @property
    def most_rounds(self) -> int:
        """Rounds at most: the emulator keeps all in memory for minutes, even what is deleted."""
        return 2 if self.rows * self.columns > 5_000_000 else 5


VALUES = {
    Axis.ROWS: (10_000, 100_000, 1_000_000),
    Axis.COLUMNS: (5, 20, 80, 200),
    Axis.PARTITIONS: (1, 10, 100, 500),
    Axis.BLOBS: (10, 100, 1_000),
    Axis.HISTORY: (1, 10, 100, 1_000),
    Axis.CORES: (1, 2),
}
QUICK = {
    Axis.ROWS: (10_000, 100_000),
    Axis.COLUMNS: (5, 20),
    Axis.PARTITIONS: (1, 20),
    Axis.BLOBS: (10, 50),
    Axis.HISTORY: (1, 100),
    Axis.CORES: (1, 2),
}


def points(axis: Axis, *, quick: bool) -> list[Point]:
    """The points of an axis, in rising order."""
    return [_point(axis, value, 100_000 if quick else 1_000_000) for value in (QUICK if quick else VALUES)[axis]]


def _point(axis: Axis, value: int, many: int) -> Point:
    base = Point(axis, value)
    match axis:
        case Axis.ROWS:
            return replace(base, rows=value)
        case Axis.COLUMNS:
            return replace(base, columns=value)
        case Axis.PARTITIONS:
            return replace(base, partitions=value)
        case Axis.BLOBS:
            return replace(base, blobs=value)
        case Axis.HISTORY:
            return replace(base, rows=10, columns=2, history=value)
        case Axis.CORES:
            return replace(base, rows=many, tasks=2, cores=value)
