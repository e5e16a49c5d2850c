"""A source that costs nothing itself: what is left is Spark, and the way of the rows out of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PARTITIONS = 8


class GivingReader(DataSourceReader):
    """Gives the batches of a file in Arrow's stream format, which is mapped into memory, several times over."""

    def __init__(self, file: str, times: int) -> None:
        self.file = file
        self.times = times

    def partitions(self) -> list[InputPartition]:
        """As many tasks as the read beside it has."""
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Every eighth batch."""
        with pa.memory_map(self.file) as source:
            batches = list(pa.ipc.open_stream(source))
        for _ in range(self.times):
            yield from batches[partition.value :: PARTITIONS]


class Giving(DataSource):
    """The format `giving`: options `file` and `times`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "giving"

    def schema(self) -> StructType:
        """That of the file."""
        with pa.memory_map(self.options["file"]) as source:
            return from_arrow_schema(pa.ipc.open_stream(source).schema)

    def reader(self, schema: StructType) -> GivingReader:  # noqa: ARG002
        """For batch reads."""
        return GivingReader(self.options["file"], int(self.options["times"]))


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(Giving)
