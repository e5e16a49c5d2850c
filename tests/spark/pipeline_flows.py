"""The definitions of a declarative pipeline, which `spark-pipelines` imports from a copy of this file.

Stream `events` of container PIPELINE_CONTAINER → streaming table `events` → sink `copies`, which is stream `copies`;
`counts` are the table's rows by key, `snapshot` is a batch read. The environment names the account.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

CONTAINER = os.environ["PIPELINE_CONTAINER"]
spark = SparkSession.active()


@dp.table
def events() -> DataFrame:
    return spark.readStream.format("azureblob").load(f"{CONTAINER}/events")


@dp.materialized_view
def counts() -> DataFrame:
    return spark.read.table("events").groupBy("id").count()


@dp.materialized_view
def snapshot() -> DataFrame:
    return spark.read.format("azureblob").load(f"{CONTAINER}/events")


dp.create_sink("copies", format="azureblob", options={"path": f"{CONTAINER}/copies"})


@dp.append_flow(target="copies")
def to_copies() -> DataFrame:
    return spark.readStream.table("events")
