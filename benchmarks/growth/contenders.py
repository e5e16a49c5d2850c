"""How each contender writes rows by Spark and reads them back, with the options that it has by default.

`foreachBatch` stands for a function of its kind, called with one batch: it puts one blob for each task, or for each
value of the partition column, by fastavro.
"""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import fastavro
from azure.storage.blob import ContainerClient
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from benchmarks import hadoop_azure
from benchmarks.growth.points import NEW_TIME, Contender

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from benchmarks.growth.points import Point
    from tools.azurite import Azurite

PARTITION = "p"
_AVRO_TYPES: dict[str, Any] = {
    "bigint": "long",
    "int": "int",
    "double": "double",
    "string": "string",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}


@dataclass(frozen=True)
class Place:
    """Where one write goes, or one read finds its rows. since: for reads of what is new only, in ISO 8601."""

    azurite: Azurite
    container: str
    folder: str
    since: str = ""

    @property
    def url(self) -> str:
        """For hadoop-azure."""
        return hadoop_azure.url(self.azurite, self.container, self.folder)

    @property
    def options(self) -> dict[str, str]:
        """For the format `azureblob`."""
        return {"connectionString": self.azurite.connection_string, "path": f"{self.container}/{self.folder}"}


def rows_of(spark: SparkSession, point: Point) -> DataFrame:
    """The rows of one write. They are computed within the write, by Java."""
    numbers = spark.range(0, point.rows, 1, point.tasks)
    if point.history >= 0:
        return numbers.select((F.col("id") + 1_000_000).alias("id"), F.lit(NEW_TIME).cast("timestamp").alias("time"))
    columns = [_column(number).alias(f"c{number}") for number in range(point.columns)]
    if point.partitions:
        columns.append(F.concat(F.lit("p"), (F.col("id") % point.partitions).cast("string")).alias(PARTITION))
    return numbers.select(*columns)


def _column(number: int) -> Column:
    """One of five kinds, with values of which about a third of the bits is random."""
    drawn = F.pmod(F.xxhash64("id", F.lit(number)), F.lit(100_000))
    match number % 5:
        case 0:
            return F.col("id") + number
        case 1:
            return drawn / 100
        case 2:
            return F.concat(F.lit("text-"), drawn.cast("string"))
        case 3:
            return drawn.cast("int")
        case _:
            return F.timestamp_micros(F.lit(1_400_000_000_000_000) + F.col("id") * 1_000 + drawn)


def write(contender: Contender, rows: DataFrame, point: Point, place: Place) -> None:
    """Append the rows of a point."""
    if contender is Contender.FOREACH:
        _of_foreach_batch(place, PARTITION if point.partitions else None, rows)
        return
    ours = contender is Contender.OURS
    form = {Contender.OURS: "azureblob", Contender.DELTA: "delta", Contender.AVRO: "avro"}[contender]
    writer = rows.write.format(form).mode("append")
    if point.blobs:
        limit = "maxMessagesPerBlob" if ours else "maxRecordsPerFile"
        writer = writer.option(limit, point.rows // point.blobs)
    if ours and point.partitions:
        writer = writer.option("partitionColumn", PARTITION)
    elif point.partitions:
        writer = writer.partitionBy(PARTITION)
    if ours and point.history >= 0:
        writer = writer.option("eventTimeColumn", "time")
    writer.options(**place.options).save() if ours else writer.save(place.url)


def read(contender: Contender, spark: SparkSession, place: Place) -> DataFrame:
    """All rows, or those since a time: by the log's event times, by Delta's statistics, by times of modification."""
    match contender:
        case Contender.OURS | Contender.COMPILED:
            since = {"startTime": place.since} if place.since else {}
            return spark.read.format("azureblob").options(**place.options, **since).load()
        case Contender.DELTA:
            # Else it would know the table from its own write. A reader is a process of its own as a rule.
            jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to ask Java
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
            rows = spark.read.format("delta").load(place.url)
            return rows.where(F.col("time") >= F.lit(place.since).cast("timestamp")) if place.since else rows
        case _:
            reader = spark.read.format("avro")
            return (reader.option("modifiedAfter", place.since) if place.since else reader).load(place.url)


def _of_foreach_batch(place: Place, column: str | None, rows: DataFrame) -> None:
    schema = _avro_schema(rows.schema)
    rows.foreachPartition(partial(_upload, place, schema, column))


def _avro_schema(schema: StructType) -> dict[str, Any]:
    fields = [{"name": each.name, "type": _AVRO_TYPES[each.dataType.simpleString()]} for each in schema.fields]
    return {"type": "record", "name": "row", "fields": fields}


def _upload(place: Place, schema: dict[str, Any], column: str | None, rows: Iterator[Row]) -> None:
    groups: dict[str, Iterable[dict[str, Any]]] = {"": (row.asDict() for row in rows)}
    if column is not None:
        by_value: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            by_value[f"{column}={row[column]}/"].append(row.asDict())
        groups = dict(by_value)
    context = TaskContext.get()
    task = context.partitionId() if context else 0
    with ContainerClient.from_connection_string(place.azurite.connection_string, place.container) as client:
        for prefix, records in groups.items():
            data = io.BytesIO()
            fastavro.writer(data, schema, records)
            client.upload_blob(f"{place.folder}/{prefix}{task:04d}.avro", data.getvalue(), overwrite=True)
