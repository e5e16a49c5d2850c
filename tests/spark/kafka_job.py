"""Bounded jobs and their consumer over Kafka, in a Spark of their own, which has Kafka's package.

    python -m tests.spark.kafka_job BROKER FOLDER        prints what the topic and the consumer have, as JSON

The job dies before its end, is run again, and has a next run. Ends with 3 if the package cannot be had.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.envelopes import unwrap
from control_messages.messages import to_fields
from control_messages.spark import (
    EmitColumns,
    KafkaTransport,
    ProducerSpec,
    partition_of,
    reconcile,
    run_bounded,
    run_until_end,
    task_of,
)
from tests.spark.avro_to_parquet import NOT_TO_BE_HAD
from tests.spark.dying_transports import Died, KafkaDiesBeforeTheEnd
from tools.spark_session import ROCKSDB_STATE, local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
PARTITIONS, TASKS = 2, 3
SCHEMA = "number bigint, time timestamp"


def main(broker: str, folder: Path) -> int:
    conf: dict[str, Any] = {"spark.jars.packages": PACKAGE, **ROCKSDB_STATE, "spark.sql.shuffle.partitions": "2"}
    try:
        spark = local_spark("kafka", quick_start=True, **conf)
    except Exception as error:  # noqa: BLE001 - py4j has one class for all errors
        print(error, file=sys.stderr)  # noqa: T201
        return NOT_TO_BE_HAD
    options = {"kafka.bootstrap.servers": broker}
    _create_topic(spark, broker, "numbers")
    producer = ProducerSpec("numbers", PARTITIONS, TASKS)
    generations = []

    def run(kind: type[KafkaTransport] = KafkaTransport) -> None:
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
        made = run_bounded(
            files.withColumn("value", F.col("number").cast("string")),
            producer,
            EmitColumns("time", partition=partition_of(producer, "number"), task=task_of(producer, "number")),
            kind("numbers", options),
            str(folder / "upstream"),
        )
        generations.append(made.generation)

    def arrive(start: int, count: int) -> None:
        rows = spark.range(start, start + count, numPartitions=1).withColumnRenamed("id", "number")
        rows = rows.withColumn("time", F.timestamp_seconds("number"))
        rows.write.mode("append").parquet(str(folder / "input"))

    taken: list[tuple[Any, ...]] = []
    transport = KafkaTransport("numbers", options, read_options={"maxOffsetsPerTrigger": "50"})

    def consume() -> None:
        flow = reconcile(transport.read(spark), "numbers").select("partition", "type", "message", "generation")
        writer = flow.writeStream.option("checkpointLocation", str(folder / "downstream"))
        query = writer.foreachBatch(lambda rows, _: taken.extend(map(tuple, rows.collect()))).start()
        assert run_until_end(query)

    arrive(0, 60)
    arrive(60, 40)
    try:
        run(KafkaDiesBeforeTheEnd)
    except Died:
        generations.append(-1)
    run()
    consume()
    arrive(100, 30)
    run()
    run()
    consume()
    print(json.dumps({"generations": generations, "topic": _topic(transport, spark), "flow": _texts(taken)}))  # noqa: T201
    spark.stop()
    return 0


def _create_topic(spark: SparkSession, broker: str, topic: str) -> None:
    java: Any = spark._jvm
    properties = java.java.util.HashMap()
    properties.put("bootstrap.servers", broker)
    client = java.org.apache.kafka.clients.admin.Admin.create(properties)
    new = java.org.apache.kafka.clients.admin.NewTopic(topic, PARTITIONS, 1)
    client.createTopics(java.java.util.Collections.singletonList(new)).all().get()
    client.close()


def _topic(transport: KafkaTransport, spark: SparkSession) -> list[list[Any]]:
    """Partition and content of every message of a topic, in their order."""
    rows = transport._all(spark).select("partition", "offset", "value").collect()
    found = []
    for row in sorted(rows):
        message = unwrap(bytes(row.value))
        found.append([row.partition, int(message) if isinstance(message, bytes) else to_fields(message)])
    return found


def _texts(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [
        [partition, kind, None if message is None else bytes(message).decode(), generation]
        for partition, kind, message, generation in rows
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
