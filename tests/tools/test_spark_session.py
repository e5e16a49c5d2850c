"""The local Spark runs data sources that are written in Python, with this Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

pytestmark = [pytest.mark.every_spark, pytest.mark.oldest_spark]


class Interpreter(DataSource):
    """A data source of one row: the Python that a worker runs."""

    @classmethod
    def name(cls) -> str:
        return "interpreter"

    def schema(self) -> str:
        return "executable string"

    def reader(self, schema: StructType) -> DataSourceReader:
        return InterpreterReader(schema)


class InterpreterReader(DataSourceReader):
    def __init__(self, schema: StructType) -> None:
        self.names = schema.fieldNames()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({self.names[0]: [sys.executable]})


def test_workers_run_the_same_python_as_the_driver(spark: SparkSession) -> None:
    spark.dataSource.register(Interpreter)
    assert [sys.executable] == [row.executable for row in spark.read.format("interpreter").load().collect()]


def test_workers_import_the_packages_of_the_checkout(spark: SparkSession) -> None:
    def names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import foundation.errors

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"name": [foundation.errors.__name__]})

    rows = spark.range(1, numPartitions=1).mapInArrow(names, "name string").collect()
    assert ["foundation.errors"] == [row.name for row in rows]


def test_times_are_utc_and_the_web_interface_is_off(spark: SparkSession) -> None:
    assert "UTC" == spark.conf.get("spark.sql.session.timeZone")
    assert spark.sparkContext.uiWebUrl is None
