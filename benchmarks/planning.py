"""Planning a batch read of a long log, as Spark's process for it does: requests, rounds, seconds, memory.

The account is in memory, and each request takes some milliseconds as in a region of Azure. A round is a request that
begins after another one has ended: the most that follow each other are counted. Partitions are pickled, as for tasks.
"""

from __future__ import annotations

import gc
import json
import pickle
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from arrow_avro import header_schema
from azure_account.memory.account import MemoryAccount
from azure_account.retrying.retry_loop import Intercept
from azure_account.values import BlobAttributes
from azureblob_source.log.checkpoint.building import MANIFEST_BLOBS
from azureblob_source.log.checkpoint.live_table import live_table
from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
from azureblob_source.log.checkpoint.table_columns import TableColumns
from azureblob_source.log.checkpointing import make_checkpoint
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, BlobEntry, LogEntry, to_json
from azureblob_source.log.naming import log_name, schema_name
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from benchmarks.peak import peak, reset_peak
from benchmarks.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.retrying.retry_loop import Request

INTERVAL = 64
STREAM, CONTAINER = "flights", "container"
_DELAY = 0.03
_YEAR = 525_600
_BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)
_ID = "planning"
_COLUMNS = [f"column{number}" for number in range(8)]
_SCHEMA = json.dumps({"type": "record", "name": "row", "fields": [{"name": name, "type": "long"} for name in _COLUMNS]})
_OPTIONS = {"path": f"{CONTAINER}/{STREAM}", "connectionString": "UseDevelopmentStorage=true"}


@dataclass
class Watched(Intercept):
    """Lets each request take a while, and notes when it began and ended."""

    spans: list[tuple[float, float, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        """Make the request."""
        begun = time.perf_counter()
        time.sleep(_DELAY)
        try:
            return send()
        finally:
            with self.lock:
                self.spans.append((begun, time.perf_counter(), request.operation))

    @property
    def rounds(self) -> int:
        """How many requests follow each other at most, each after the one before has ended."""
        count, free = 0, 0.0
        for begun, ended, _ in sorted(self.spans, key=lambda span: span[1]):
            if begun >= free:
                count, free = count + 1, ended
        return count


def planning() -> list[Report]:
    """Two tables: whole streams, and the last hour of a year."""
    lines = []
    for length in (1, 1_000, 100_000):
        account = new_account()
        _put_versions(account, length)
        lines.append(_planned(account, f"{length:,} versions, no checkpoint"))
        if length >= INTERVAL:
            _put_checkpoint(account, length)
            lines.append(_planned(account, f"{length:,} versions"))
    account = new_account()
    put_many_blobs(account, versions=31_250, each=32)
    lines.append(_planned(account, "31,250 versions, 1,000,000 blobs"))
    account = new_account()
    _put_versions(account, _YEAR)
    _put_checkpoint(account, _YEAR)
    hour = _planned(account, "the last hour", startTime=_timestamp(_YEAR - 60))
    note = f"{1000 * _DELAY:.0f} ms a request. MiB: above the account's own"
    return [
        Report("Planning a batch read", lines, note),
        Report("Planning a read of a year of one-minute batches", [hour], f"{note}. The tail has {_YEAR % INTERVAL}"),
    ]


def new_account() -> MemoryAccount:
    """An account with the container and the writer schema of the stream."""
    account = MemoryAccount()
    container = account.container(CONTAINER)
    container.create()
    container.put(schema_name(STREAM, _ID), _SCHEMA.encode())
    return account


def _timestamp(version: int) -> str:
    return (_BEGINNING + timedelta(minutes=version)).isoformat(timespec="milliseconds")


def minute_entry(version: int, blobs: int) -> LogEntry:
    """One minute's batch, whose blobs are visible."""
    moment = _BEGINNING + timedelta(minutes=version)
    minute = round(moment.timestamp()) * 1_000_000
    added = tuple(
        BlobEntry(
            name=f"{STREAM}/P{number:03d}/{moment:%Y/%m/%d/%H/%M-%S}-{version:08x}.avro",
            stream=STREAM, partition=f"P{number:03d}", attempt=f"{version:024x}{number:08x}", blocks=1, rows=1000,
            uncompressed=100_000, size=30_000, schema=_ID, rolled_by="end", min_event_time=minute - 60_000_000,
            max_event_time=minute, bounds=dict.fromkeys(_COLUMNS, (version + number, version + 1000 + number)),
        )
        for number in range(blobs)
    )  # fmt: skip
    return LogEntry(
        f"w{version}", _timestamp(version), version=version, published_up_to=version - 1, blobs=added,
        list_version=version // 64 * 64, schemas=(_ID,), log_id="w0",
    )  # fmt: skip


def _put_versions(account: MemoryAccount, length: int) -> None:
    container = account.container(CONTAINER)
    for version in track(range(length), f"{length:,} entries", console=Console(stderr=True), transient=True):
        container.put(log_name(STREAM, version), to_json(minute_entry(version, 1)))
    _publish(container, minute_entry(length - 1, 1))


def _publish(container: BlobContainer, entry: LogEntry) -> None:
    for blob in entry.blobs:
        container.put(blob.name, b"x", BlobAttributes({ATTEMPT: blob.attempt}))


def _put_checkpoint(account: MemoryAccount, length: int) -> None:
    """Make the last one that was due, from the entries."""
    log = CommitLog(account.container(CONTAINER), STREAM)
    log.refresh()
    make_checkpoint(log, log.read(length // INTERVAL * INTERVAL - 1), rebuild=True)


def put_many_blobs(account: MemoryAccount, versions: int, each: int) -> None:
    """A log of which the first entry and those after the last checkpoint are there."""
    container = account.container(CONTAINER)
    store = CommitLog(container, STREAM).checkpoints
    end = versions // INTERVAL * INTERVAL
    columns = TableColumns({}, lambda _: header_schema(_SCHEMA, blob=_ID))
    manifests = []
    step = MANIFEST_BLOBS // each
    for first in track(range(0, end, step), "manifests", console=Console(stderr=True), transient=True):
        entries = [minute_entry(version, each) for version in range(first, min(first + step, end))]
        table = live_table(((entry, blob) for entry in entries for blob in entry.blobs), columns)
        manifests.append(store.write(table, end - 1))
    last = minute_entry(end - 1, each)
    state = LogCheckpoint(last.version, last.log_id, last.write_id, last.timestamp, 0, manifests=tuple(manifests))
    store.put(state)
    for version in (0, *range(end - 1, versions)):
        container.put(log_name(STREAM, version), to_json(minute_entry(version, each)))
    _publish(container, minute_entry(versions - 1, each))


def _planned(account: MemoryAccount, name: str, **options: str) -> dict[str, str | float]:
    watched = Watched()
    gc.collect()
    before = reset_peak()
    plan = ReadPlan(source_options({**_OPTIONS, **options}, {}))
    plan.container = account.restarted(watched).container(CONTAINER)
    begun, used = time.perf_counter(), time.process_time()
    taken = plan.snapshot  # before the schema, as Spark's process for the plan does
    reader = SnapshotReader(plan, spark_schema(plan))
    partitions = reader.partitions()
    size = sum(len(pickle.dumps(each)) for each in partitions)
    return {
        "log": name,
        "blobs": len(taken.blobs) if isinstance(taken.blobs, tuple) else len(taken.blobs.table),
        "requests": len(watched.spans),
        "rounds": watched.rounds,
        "s": time.perf_counter() - begun,
        "processor s": time.process_time() - used,
        "MiB": peak() - before,
        "tasks": len(partitions),
        "pickled MiB": size / (1 << 20),
    }
