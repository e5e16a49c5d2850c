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

PARTITIONS = 4


class GivingReader(DataSourceReader):
    """Gives the batches of a file in Arrow's file format, which is mapped into memory, several times over."""

    def __init__(self, file: str, times: int) -> None:
        self.file = file
        self.times = times

    def partitions(self) -> list[InputPartition]:
        """As many tasks as there are blobs for the read beside it."""
        tasks = min(PARTITIONS, pa.ipc.open_file(pa.memory_map(self.file)).num_record_batches)
        return [InputPartition(number) for number in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A part of the batches, which are only pointed at."""
        file = pa.ipc.open_file(pa.memory_map(self.file))
        batches = [file.get_batch(number) for number in range(partition.value, file.num_record_batches, PARTITIONS)]
        for _ in range(self.times):
            yield from batches


class Giving(DataSource):
    """The format `giving`: options `file` and `times`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "giving"

    def schema(self) -> StructType:
        """That of the file."""
        return from_arrow_schema(pa.ipc.open_file(pa.memory_map(self.options["file"])).schema)

    def reader(self, schema: StructType) -> GivingReader:  # noqa: ARG002
        """For batch reads."""
        return GivingReader(self.options["file"], int(self.options["times"]))


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(Giving)
