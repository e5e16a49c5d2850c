"""Sinks that cost nothing themselves: what is left is Spark and the way of the rows into Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass
class Counted(WriterCommitMessage):
    """Rows of one task."""

    rows: int


class CountingWriter(DataSourceArrowWriter):
    """Takes Arrow batches and looks at their length."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        """Count the rows of a task."""
        return Counted(sum(batch.num_rows for batch in iterator))


class CountingStreamWriter(DataSourceStreamArrowWriter):
    """The same for micro-batches."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counted:
        """Count the rows of a task."""
        return Counted(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is to be done."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is to be done."""


class Counting(DataSource):
    """The format `counting`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "counting"

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:  # noqa: ARG002
        """For batch writes."""
        return CountingWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> CountingStreamWriter:  # noqa: ARG002, N802
        """For streaming writes."""
        return CountingStreamWriter()


def register(spark: SparkSession) -> None:
    """Let `spark` know the format `counting`."""
    spark.dataSource.register(Counting)
