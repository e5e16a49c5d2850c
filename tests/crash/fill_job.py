"""The program that is killed while it fills a store from files of changes.

    python -m tests.crash.fill_job INPUT CHECKPOINT CONTAINER --cache FOLDER

It goes on where the checkpoint says, and ends with 0 when the input is through. All versions stay.
Connection string: AZURE_STORAGE_CONNECTION_STRING.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from adjunct_store.spark import FillSpec, StreamFillSettings, fill_stream
from azure_account import Location
from tests.crash.planes_changes import COLUMNS, SCHEMA
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE = "stores/planes"
ALL_VERSIONS = 1000


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill the store with all that the input has."""
    parser = argparse.ArgumentParser(prog="fill_job")
    parser.add_argument("input", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("container")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    given = parser.parse_args(arguments)
    conf = dict(setting.split("=", 1) for setting in given.conf)
    spark = local_spark("fill", **{"spark.sql.shuffle.partitions": "3", **conf})
    account = {"connectionString": os.environ["AZURE_STORAGE_CONNECTION_STRING"]}
    store = Location(f"{given.container}/{STORE}", account)
    changes = spark.readStream.schema(from_arrow_schema(SCHEMA)).option("maxFilesPerTrigger", 1)
    with fill_stream(
        store,
        changes.parquet(str(given.input)),
        FillSpec(**COLUMNS),
        checkpoint=str(given.checkpoint),
        settings=StreamFillSettings(trigger={"availableNow": True}, keep=ALL_VERSIONS, cache_dir=given.cache),
    ) as filling:
        filling.await_termination()


if __name__ == "__main__":
    main()
