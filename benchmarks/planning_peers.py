"""Planning a read of the same small batches beside peers, on the emulator: requests, and seconds where each one waits.

A peer of a log is a Delta table; one of a stream without a log is a folder of the same Avro files. A proxy counts the
requests of all alike.
"""

from __future__ import annotations

import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from rich.console import Console
from rich.progress import track

from arrow_avro import read_header
from azure_account import open_account
from azureblob_source.read.blob_bytes import BlobBytes, RangeReader
from azureblob_source.read.blobs import listed_blobs
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from benchmarks.counting_proxy import counting_proxy
from benchmarks.report import Report
from benchmarks.rounds import alternate, seconds
from benchmarks.trigger import Writer
from tools.azurite import local_azurite, running_azurite

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account import BlobContainer
    from benchmarks.counting_proxy import CountingProxy
    from tools.azurite import Azurite

BATCHES = (100, 1_000, 1_050)
"""At the first two a Delta table has just made a checkpoint; at the last one 50 commits follow it."""

DELAY = 0.03
_CONTAINER = "peers"
_STREAM, _FOLDER, _DELTA, _NO_CHECKPOINT = "stream", "folder", "delta", "no-checkpoint"
_THREADS = 16


def planning_beside_peers(rounds: int) -> Report:
    """One table: a line for each peer and each number of batches."""
    lines: list[dict[str, str | float]] = []
    with (
        running_azurite() as azurite,
        counting_proxy(azurite.blob_port, DELAY) as proxy,
        tempfile.TemporaryDirectory() as folder,
    ):
        forms = Forms(Writer.to(azurite, f"{_CONTAINER}/{_STREAM}"), Path(folder))
        for batches in BATCHES:
            forms.fill(batches)
            lines += _measured(local_azurite(proxy.port, proxy.port), proxy, batches, rounds)
    note = (
        f"Medians of {rounds}, {1000 * DELAY:.0f} ms a request. Checkpoints as by default: every 64 batches of a "
        "stream, every 100 of a Delta table. Spark's `avro` reader lists, and reads the header of one file"
    )
    return Report("Planning beside peers", lines, note)


@dataclass
class Forms:
    """Batches of one row as a stream, as a folder of its Avro files, and as a Delta table with and without checkpoints.

    table: the folder in which deltalake writes the table. It is copied: deltalake 1.6 cannot append on the emulator.
    """

    writer: Writer
    table: Path
    present: int = 0

    def fill(self, batches: int) -> None:
        """Add batches until there are as many."""
        added = range(self.present, batches)
        for number in track(added, f"{batches:,} batches", console=Console(stderr=True), transient=True):
            self.writer.append()
            rows = pa.table({"id": pa.array([number], pa.int64())})
            write_deltalake(DeltaTable(self.table) if number else self.table, rows, mode="append")
        self.present = batches
        container = self.writer.committer.container
        avro = [blob.name for blob in listed_blobs(_STREAM, list(container.list(f"{_STREAM}/")))]
        files = [file for file in self.table.rglob("*") if file.is_file()]
        with ThreadPoolExecutor(_THREADS) as pool:
            copies = [pool.submit(_copy, container, name) for name in avro]
            copies += [pool.submit(self._upload, file, _DELTA) for file in files]
            copies += [pool.submit(self._upload, file, _NO_CHECKPOINT) for file in files if file.suffix == ".json"]
            for copy in copies:
                copy.result()

    def _upload(self, file: Path, folder: str) -> None:
        self.writer.committer.container.put(f"{folder}/{file.relative_to(self.table)}", file.read_bytes())


def _copy(container: BlobContainer, name: str) -> None:
    container.put(f"{_FOLDER}/{Path(name).name}", container.get(name).data)


def _measured(azurite: Azurite, proxy: CountingProxy, batches: int, rounds: int) -> list[dict[str, str | float]]:
    contenders = {
        "stream": partial(_plan, azurite, _STREAM),
        "folder of Avro files": partial(_plan, azurite, _FOLDER),
        "the folder listed, one header read": partial(_list_and_read_one, azurite),
        "Delta table": partial(_files_of_delta, azurite, _DELTA),
        "Delta table without checkpoints": partial(_files_of_delta, azurite, _NO_CHECKPOINT),
    }
    timed = {name: partial(_timed, proxy, act, batches) for name, act in contenders.items()}
    taken = alternate(f"{batches:,} batches", timed, rounds)
    return [
        {
            "batches": batches,
            "form": name,
            "requests": round(statistics.median(requests for requests, _ in each)),
            "s": statistics.median(spent for _, spent in each),
        }
        for name, each in taken.items()
    ]


def _timed(proxy: CountingProxy, plan: Callable[[], int], batches: int) -> tuple[int, float]:
    """Requests and seconds of planning."""
    files = 0

    def act() -> None:
        nonlocal files
        files = plan()

    proxy.take_requests()
    spent = seconds(act)
    if files != batches:
        raise AssertionError(f"{files} files were planned, not {batches}.")
    return proxy.take_requests(), spent


def _plan(azurite: Azurite, folder: str) -> int:
    """Plan a read as Spark's process for it does."""
    options = {"path": f"{_CONTAINER}/{folder}", "connectionString": azurite.connection_string}
    plan = ReadPlan(source_options(options, {}))
    files = len(plan.snapshot.blobs)
    SnapshotReader(plan, spark_schema(plan)).partitions()
    return files


def _list_and_read_one(azurite: Azurite) -> int:
    """What Spark's own reader needs at least."""
    container = open_account({"connectionString": azurite.connection_string}).container(_CONTAINER)
    blobs = listed_blobs(_FOLDER, list(container.list(f"{_FOLDER}/")))
    read_header(BlobBytes(RangeReader(container), blobs[0]), blob=blobs[0].name)
    return len(blobs)


def _files_of_delta(azurite: Azurite, folder: str) -> int:
    options = {
        "azure_storage_account_name": azurite.account_name,
        "azure_storage_account_key": azurite.account_key,
        "azure_storage_endpoint": azurite.endpoint,
        "allow_http": "true",
    }
    return len(DeltaTable(f"az://{_CONTAINER}/{folder}", storage_options=options).file_uris())
