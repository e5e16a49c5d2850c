"""The sinks, each as its own documents recommend, and how Spark reads what they have written."""

from __future__ import annotations

import io
import os
import uuid
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import fastavro
from azure.storage.blob import ContainerClient
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from benchmarks import hadoop_azure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tools.azurite import Azurite

FOLDER = "rows"
AVRO_SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "number", "type": "long"}, {"name": "text", "type": "string"}],
}
FILE = "_file"


class Sink(Enum):
    """The sinks by their names in the table."""

    AVRO = "Spark avro"
    BY_UUID = "foreachBatch, uuid names"
    BY_BATCH = "foreachBatch, names by batch"
    DELTA = "Delta"
    OURS = "azureblob"

    @property
    def container(self) -> str:
        """The container that the sink has for itself."""
        return f"kills-{self.name.lower().replace('_', '-')}"

    @property
    def suffix(self) -> str:
        """How its data files end."""
        return ".parquet" if self is Sink.DELTA else ".avro"

    @property
    def conf(self) -> dict[str, str]:
        """Settings of the session that the sink needs beside those of hadoop-azure."""
        return {
            Sink.DELTA: {
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            }
        }.get(self, {})


def writer(sink: Sink, rows: DataFrame, azurite: Azurite) -> DataStreamWriter:
    """The streaming write of `rows`, without its checkpoint and trigger."""
    match sink:
        case Sink.AVRO | Sink.DELTA:
            form = "avro" if sink is Sink.AVRO else "delta"
            return rows.writeStream.format(form).option("path", hadoop_azure.url(azurite, sink.container, FOLDER))
        case Sink.BY_UUID | Sink.BY_BATCH:
            named = _by_uuid if sink is Sink.BY_UUID else _by_batch
            return rows.writeStream.foreachBatch(partial(_upload_batch, azurite.connection_string, sink, named))
        case Sink.OURS:
            options = {"connectionString": azurite.connection_string, "path": f"{sink.container}/{FOLDER}"}
            return rows.writeStream.format("azureblob").options(**options)


def reader(sink: Sink, spark: SparkSession, azurite: Azurite) -> DataFrame:
    """The rows as Spark reads them by the sink's own log, if it has one, with the file of each row as `_file`."""
    if sink is Sink.OURS:
        options = {"connectionString": azurite.connection_string, "metadataColumns": "blob"}
        rows = spark.read.format("azureblob").options(**options).load(f"{sink.container}/{FOLDER}")
        return rows.withColumnRenamed("_blob", FILE)
    form = "delta" if sink is Sink.DELTA else "avro"
    rows = spark.read.format(form).load(hadoop_azure.url(azurite, sink.container, FOLDER))
    return rows.withColumn(FILE, F.input_file_name())


def _by_uuid(batch: int, partition: int) -> str:
    return f"{FOLDER}/{batch:08d}-{partition:04d}-{uuid.uuid4()}.avro"


def _by_batch(batch: int, partition: int) -> str:
    return f"{FOLDER}/{batch:08d}-{partition:04d}.avro"


def _upload_batch(
    connection_string: str, sink: Sink, named: Callable[[int, int], str], rows: DataFrame, batch: int
) -> None:
    rows.foreachPartition(partial(_upload_partition, connection_string, sink.container, partial(named, batch)))


def _upload_partition(connection_string: str, container: str, named: Callable[[int], str], rows: Iterator[Row]) -> None:
    """One blob for each partition of a batch, in one Put Blob."""
    records: list[dict[str, Any]] = [row.asDict() for row in rows]
    data = io.BytesIO()
    fastavro.writer(data, AVRO_SCHEMA, records)
    context = TaskContext.get()
    with ContainerClient.from_connection_string(connection_string, container) as client:
        client.upload_blob(named(context.partitionId() if context else 0), data.getvalue(), overwrite=True)


def connection_string() -> str:
    """The account of this process."""
    return os.environ["AZURE_STORAGE_CONNECTION_STRING"]
