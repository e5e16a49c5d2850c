"""The second program that is killed: a streaming query that copies one stream of `azureblob` to another.

    python -m tests.crash.copy_job SOURCE CHECKPOINT TARGET        connection string: AZURE_STORAGE_CONNECTION_STRING

It follows the source until it is killed; with `--available-now` it ends with 0 when it has read what is there.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from azureblob_source.read.source import read_plan
from foundation.errors import NotFoundError
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the query."""
    given = _parser().parse_args(arguments)
    account = {"connectionString": os.environ["AZURE_STORAGE_CONNECTION_STRING"]}
    await_stream({"path": given.source, **account})
    conf = dict(setting.split("=", 1) for setting in given.conf)
    spark = local_spark("copy", **{"spark.master": "local[2]", **conf})
    reader = spark.readStream.format("azureblob").options(**account).option("maxBlobsPerTrigger", given.blobs)
    writer = reader.load(given.source).writeStream.format("azureblob").option("partitionColumn", "origin")
    writer = writer.options(**account).option("checkpointLocation", given.checkpoint)
    writer = writer.trigger(availableNow=True) if given.available_now else writer.trigger(processingTime="0 seconds")
    writer.start(given.target).awaitTermination()


def await_stream(options: dict[str, str]) -> None:
    """Wait until the stream has a schema."""
    while not _has_schema(options):
        time.sleep(0.1)


def _has_schema(options: dict[str, str]) -> bool:
    try:
        return bool(read_plan(options, {}).arrow_schema())
    except NotFoundError:
        return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="copy_job")
    parser.add_argument("source", help="container/stream")
    parser.add_argument("checkpoint")
    parser.add_argument("target", help="container/stream")
    parser.add_argument("--blobs", type=int, default=5, help="maxBlobsPerTrigger")
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    return parser


if __name__ == "__main__":
    main()
