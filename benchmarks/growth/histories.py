"""A stream, a Delta table and a folder of Avro files into which many small batches were written before.

They are written without Spark, which takes half a second for each. Delta's is written by deltalake on the local disk,
with a checkpoint every 10 versions as Spark makes them, and is uploaded, since deltalake cannot append on the emulator.
"""

from __future__ import annotations

import io
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from azure_account import connect
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from azureblob_source.write.staging import stage
from benchmarks.growth.points import OLD_TIME

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

ROWS = 10
_THREADS = 8
_SCHEMA = pa.schema([("id", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
_AVRO_SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": ["long", "null"]},
        {"name": "time", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "null"]},
    ],
}


def _batch(number: int) -> pa.RecordBatch:
    time = datetime.fromisoformat(OLD_TIME).astimezone(UTC)
    numbers = range(number * ROWS, (number + 1) * ROWS)
    return pa.RecordBatch.from_pydict({"id": list(numbers), "time": [time] * ROWS}, _SCHEMA)


def fill_stream(azurite: Azurite, path: str, versions: int) -> None:
    """Versions of one blob each."""
    raw = {"path": path, "connectionString": azurite.connection_string, "eventTimeColumn": "time"}
    options = sink_options(raw, {})
    container = connect(options.account).container(options.address.container)
    container.create()
    ids, log = itertools.count(), CommitLog(container, str(options.address.path))
    plan = plan_for_rows(options, _SCHEMA)
    committer = BatchCommitter(plan.of_commit, container, lambda _: log, lambda: f"w{next(ids)}")
    for number in range(versions):
        staged = stage([_batch(number)], plan, container, names=BlobIds(os.urandom, suffixed=True))
        committer.commit([staged], None)


def fill_folder(azurite: Azurite, path: str, files: int) -> None:
    """Avro files of the same rows."""
    container, put = _putting(azurite, path)
    container.create()

    def one(number: int) -> None:
        data = io.BytesIO()
        fastavro.writer(data, _AVRO_SCHEMA, _batch(number).to_pylist())
        put(f"part-{number:05d}.avro", data.getvalue())

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(one, range(files)))


def _putting(azurite: Azurite, path: str) -> tuple[Any, Any]:
    name, _, folder = path.partition("/")
    options = sink_options({"path": path, "connectionString": azurite.connection_string}, {})
    container = connect(options.account).container(name)
    return container, lambda file, data: container.put(f"{folder}/{file}", data)


@dataclass
class DeltaTables:
    """A Delta table that grows on the local disk, copies of which are uploaded."""

    folder: Path
    present: int = field(default=0, init=False)

    def fill(self, azurite: Azurite, path: str, versions: int) -> None:
        """A table of so many versions of one file each; no fewer than in the last call."""
        from deltalake import DeltaTable, write_deltalake  # noqa: PLC0415 - the environment of the job has none

        for number in range(self.present, versions):
            rows = pa.Table.from_batches([_batch(number)])
            settings: Any = {} if number else {"configuration": {"delta.checkpointInterval": "10"}}
            write_deltalake(DeltaTable(self.folder) if number else self.folder, rows, mode="append", **settings)
        self.present = versions
        container, put = _putting(azurite, path)
        container.create()
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(partial(_copy, put, self.folder), files))


def _copy(put: Any, folder: Path, file: Path) -> None:
    put(str(file.relative_to(folder)), file.read_bytes())
