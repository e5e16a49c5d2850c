"""The third program that is killed: a streaming query that follows a folder of Event Hubs Capture, and copies it.

    python -m tests.crash.capture_job FOLDER CHECKPOINT TARGET     connection string: AZURE_STORAGE_CONNECTION_STRING

It follows the folder until it is killed; with `--available-now` it ends with 0 when it has read what is there.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the query."""
    given = _parser().parse_args(arguments)
    account = {"connectionString": os.environ["AZURE_STORAGE_CONNECTION_STRING"]}
    conf = dict(setting.split("=", 1) for setting in given.conf)
    spark = local_spark("capture", **{"spark.master": "local[2]", **conf})
    reader = spark.readStream.format("azureblob").options(**account)
    reader = reader.option("adoptFolder", True).option("minBlobAgeMs", 0).option("maxBlobsPerTrigger", given.blobs)
    frame = reader.load(given.folder).selectExpr("SequenceNumber", "CAST(Body AS STRING) AS body")
    writer = frame.writeStream.format("azureblob").options(**account).option("checkpointLocation", given.checkpoint)
    writer = writer.trigger(availableNow=True) if given.available_now else writer.trigger(processingTime="2 seconds")
    writer.start(given.target).awaitTermination()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="capture_job")
    parser.add_argument("folder", help="container/folder")
    parser.add_argument("checkpoint")
    parser.add_argument("target", help="container/stream")
    parser.add_argument("--blobs", type=int, default=100, help="maxBlobsPerTrigger")
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    return parser


if __name__ == "__main__":
    main()
