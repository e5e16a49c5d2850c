"""The program that loses its disk: a streaming aggregation over flights, whose checkpoint is backed up.

    python -m tests.crash.checkpoint_job INPUT CHECKPOINT CONTAINER/STATE --output FOLDER

It restores the checkpoint if this disk has none, goes on where that says, and ends with 0 when the input is through.
Each batch replaces `FOLDER/<batch>.parquet`, the rows of the groups that it has changed; the line `restored N` says
where a life has begun. Connection string: AZURE_STORAGE_CONNECTION_STRING.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from state_backup import Location
from state_backup.spark import CheckpointSettings, back_up_checkpoint, restore_checkpoint
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
GROUPS = ("origin", "dest", "carrier")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the query to the end of its input."""
    given = _parser().parse_args(arguments)
    conf = dict(setting.split("=", 1) for setting in given.conf)
    settings = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB, "spark.sql.shuffle.partitions": "2", **conf}
    spark = local_spark("checkpoint", **{"spark.master": "local[2]", **settings})
    state = Location(given.path)
    found = restore_checkpoint(state, given.checkpoint)
    print(f"restored {found.batch if found.restored else None}", flush=True)  # noqa: T201 - a program

    def write(rows: DataFrame, batch: int) -> None:
        new = given.output / f".{batch}"
        pq.write_table(rows.toArrow(), new)
        new.rename(given.output / f"{batch}.parquet")

    schema = from_arrow_schema(pq.read_schema(next(given.input.glob("*.parquet"))))
    flights = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(given.input))
    totals = flights.groupBy(*GROUPS).agg(F.count("*").alias("flights"), F.sum("distance").alias("miles"))
    query = (
        totals.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(given.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    with back_up_checkpoint(query, state, given.checkpoint, CheckpointSettings(every=2.0)):
        query.awaitTermination()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="checkpoint_job")
    parser.add_argument("input", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("path", help="container/state")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    return parser


if __name__ == "__main__":
    main()
