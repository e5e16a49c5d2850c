"""The programs of the guides that `tools.trial` runs: the first example of each page, and what it says comes before.

page ──blocks──► program as it stands, but for account and folders ──► runs on input of `INPUTS`
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient

from tools.guides import python_blocks, with_account

if TYPE_CHECKING:
    from pathlib import Path

README = "README.md"
STORES = "docs/ADJUNCT_STORES.md"
CONTAINER = "mycontainer"
SESSION = """
import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
flights = spark.readStream.schema("origin string, dest string, departure timestamp").parquet("/mnt/flights/EWR")
"""
"""Of a reader who has `your session spark and streaming DataFrame flights`."""


@dataclass(frozen=True)
class Guide:
    """The example of a page. blocks: its code, as (page, number of the block), with what the page says comes before."""

    page: str
    blocks: tuple[tuple[str, int], ...]
    prints: str = ""
    """What its output has."""
    before: str = ""
    """The reader's own code, if the page speaks of it."""
    arguments: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()
    """The streams that it writes until it is ended by SIGTERM. Without any it ends by itself."""
    adopts: bool = False
    """It reads files of other tools, which wait until they are a minute old."""

    def program(self, folder: Path) -> str:
        """The program as it stands, but for the account, which is that of the environment, and its folders."""
        code = self.before + "\n".join(python_blocks(page)[number] for page, number in self.blocks)
        places = {"/mnt/": f"{folder}/", "/tmp/": f"{folder}/tmp/"}  # noqa: S108 - the guides'
        return re.sub("|".join(places), lambda found: places[found[0]], with_account(code, {}))


def _first(page: str, prints: str = "", before: str = "") -> Guide:
    return Guide(page, ((page, 0),), prints, before)


def _after(first: str, page: str, prints: str = "", *, adopts: bool = False) -> Guide:
    return Guide(page, ((first, 0), (page, 0)), prints, adopts=adopts)


GUIDES = (
    _first(README, "gate "),
    _after(README, "docs/READING.md"),
    Guide("docs/LOGGING.md", (("docs/LOGGING.md", 0), (README, 0)), "gate "),
    _first("docs/STATE_BACKUP.md", "'kafka.flights.3': '1042'"),
    _first("docs/MAINTENANCE.md", before="account = {}\n"),
    _first(STORES, "1 3322"),
    _after(STORES, "docs/ADJUNCT_STORES_FILLING.md", "1 1 0"),
    _first("docs/CONTROL_MESSAGES.md", before=SESSION),
    Guide("docs/COORDINATION.md", (("docs/COORDINATION.md", 0),), serves=("EWR", "JFK", "LGA")),
    Guide("docs/PIPELINE.md", (("docs/PIPELINE.md", 0),), arguments=("driver-1",)),
    Guide("docs/PIPELINE.md", (("docs/PIPELINE.md", -1),), arguments=("now",)),
    _after(README, "docs/from/SPARK_AVRO.md"),
    _after(README, "docs/from/DELTA.md", "| 19|"),
    _after(README, "docs/from/SAMZA.md"),
    _after(README, "docs/from/KAFKA_CONNECT.md", adopts=True),
    _after(README, "docs/from/AUTO_LOADER.md", adopts=True),
)
NOT_RUN = {
    "docs/ADJUNCT_STORES_OPERATIONS.md": "its first example continues the last one of another page",
    "docs/ICEBERG.md": "needs Iceberg's jar and abfss",
    "docs/METRICS.md": "a module for Spark's processes, which tests/spark/test_metrics.py runs",
    "docs/TROUBLESHOOTING.md": "parts of programs",
}
ADOPTABLE_AFTER = 61.0
"""Seconds after which a blob of another tool is old enough: `minBlobAgeMs`."""

_OTHER_TOOLS = (
    "wikipedia/2019/12/20/16/45-{}-3f2a91c0.avro",
    "topics/flights/partition={}/flights+{}+0000000000.avro",
    "landing/2026/11/{}.avro",
)


def write_inputs(folder: Path, connection: str) -> None:
    """What the guides read: folders of other tools in the container, and parquet files in `folder`."""
    schema = {"type": "record", "name": "edit", "fields": [{"name": "number", "type": "long"}]}
    with ContainerClient.from_connection_string(connection, CONTAINER) as container:
        container.create_container()
        for number in range(2):
            data = io.BytesIO()
            fastavro.writer(data, schema, [{"number": 10 * number + each} for each in range(10)])
            for name in _OTHER_TOOLS:
                container.upload_blob(name.replace("{}", str(number)), data.getvalue())
    times = pa.array([datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in (5, 6)])
    for airport in ("EWR", "JFK", "LGA"):
        rows = pa.table({"flight": ["UA1", "B61"], "origin": [airport] * 2, "dest": ["BOS", "SFO"], "departure": times})
        (folder / "flights" / airport).mkdir(parents=True)
        pq.write_table(rows, folder / "flights" / airport / "0.parquet")


def has_commits(connection: str, stream: str) -> bool:
    """Whether a stream has an entry in its log."""
    with ContainerClient.from_connection_string(connection, CONTAINER) as container:
        return any(name.endswith(".json") for name in container.list_blob_names(name_starts_with=f"{stream}/_log/"))
