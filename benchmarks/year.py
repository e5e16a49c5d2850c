"""A year of one-minute batches, played without waiting in an account in memory: what each day costs, and what a read.

    python -m benchmarks.year [--days 365] [--seed 1] [--output year.png]

    writer      a batch each minute, a checkpoint of the log each 64th; is restarted about once a week, repeats a batch
    compaction  each night, until nothing is left to join          schema      a column more on days 100 and 200
    vacuum      each week, of what is older than 90 days           revert      of half an hour's batches on day 250
    followers   one reads each six hours, one each 30 days: together with the vacuum they see each row once

These are the package's own commit, compaction, vacuum and readers; only Spark is not there. There are three rows a
minute, so what is counted is the cost of many batches, not of many rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from arrow_avro import RowEncoder, arrow_schema, block, codec, header, header_schema
from azure_account.memory.account import MemoryAccount
from azure_account.retrying.retry_loop import Intercept
from azureblob_source.log.checkpointing import checkpoint_in_commit
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Transaction
from azureblob_source.log.naming import blob_name, block_id, schema_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from benchmarks.report import Report, save, show
from foundation.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arrow_avro import AvroSchema
    from azure_account.container import BlobContainer
    from azure_account.retrying.retry_loop import Request

CONTAINER, STREAM, QUERY = "container", "flights", "query"
ROWS = 3
"""Of a minute."""
MINUTES = 1440
EVERY = 64
KEPT = timedelta(days=90)
BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)
MEASURED = (1, 3, 10, 30, 100, 180, 270, 365)
SHOWN = (1, 10, 100, 365)
_CODEC = "deflate"
_READS = ("get", "properties", "block_ids", "age")
PRICES = {"write": 0.055, "read": 0.0044, "delete": 0.0}
"""USD for 10,000 requests, hot and locally redundant, in East US. https://azure.microsoft.com/pricing/details/storage/blobs/
A listing costs as much as a write."""


@dataclass
class RequestsOf(Intercept):
    """Counts the requests of one purpose; those for checkpoints of the log apart."""

    made: Counter[tuple[str, str]]
    purpose: str

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        """Make the request."""
        purpose = "checkpoints of the log" if self._is_for_checkpoints(request) else self.purpose
        kind = "delete" if request.operation == "delete" else "read" if request.operation in _READS else "write"
        self.made[purpose, kind] += 1
        return send()

    def _is_for_checkpoints(self, request: Request) -> bool:
        name = request.name
        return self.purpose == "batches" and ("/_iceberg/" in name or name.endswith("/_checkpoint.json"))


@dataclass
class Writer:
    """The streaming query: encodes, stages and commits a batch each minute, as one process until it is restarted."""

    container: BlobContainer
    clock: ManualClock
    random: Random
    batch: int = 0
    numbers: Any = field(default_factory=count)
    log: CommitLog = field(init=False)
    last: Draft | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new process, which repeats the last batch."""
        self.log = CommitLog(self.container, STREAM, clock=self.clock)
        if self.last is not None:
            self._commit(self.last)

    def write(self, minute: int, schema: AvroSchema, bodies: bytes) -> None:
        """One batch, of the encoded rows of a minute."""
        moment = BEGINNING + timedelta(minutes=minute)
        number, sync = next(self.numbers), self.random.randbytes(16)
        stored = codec(_CODEC).compress(bodies)
        data = b"".join((header(schema.json, _CODEC, sync), *block(ROWS, stored, sync)))
        attempt, first = f"{number:016x}", minute * ROWS
        name = blob_name(STREAM, None, moment, f"{number:08x}", ".avro")
        self.container.stage_block(name, block_id(attempt, 0), data)
        at = int(moment.timestamp()) * 1_000_000
        blob = BlobEntry(
            name, STREAM, None, attempt, 1, ROWS, len(bodies), len(data), schema.fingerprint, "end", at, at,
            {"id": (first, first + ROWS - 1)},
        )  # fmt: skip
        draft = new_draft(self.clock, None)
        self.last = Draft(draft.write_id, draft.timestamp, blobs=(blob,), transaction=Transaction(QUERY, self.batch))
        self._commit(self.last)
        self.batch += 1

    def _commit(self, draft: Draft) -> None:
        entry = commit_and_publish(self.log, draft, Publisher(self.container, threads=1))
        if isinstance(entry, LogEntry) and (entry.version + 1) % EVERY == 0:
            checkpoint_in_commit(self.log, entry)


@dataclass
class Reader:
    """A streaming read, which is restarted each time that it wakes, and the rows that it has seen."""

    days: float
    after: int = -1
    seen: Counter[int] = field(default_factory=Counter)

    def wake(self, container: BlobContainer, clock: ManualClock) -> None:
        """Read what has come since it last did."""
        log = CommitLog(container, STREAM, clock=clock)
        follower = Follower(log, 0, clock)
        until = follower.latest(self.after, TriggerLimits())
        if until > self.after:
            blobs = [blob for blob, _ in follower.blobs(self.after, until)]
            for _, batch in read_splits(container, list(split_blobs(blobs)), SplitSettings(columns=["id"])):
                self.seen.update(batch["id"].to_pylist())
            self.after = until


@dataclass
class Year:
    """The account, who works in it, and what they have done."""

    days: int
    random: Random
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.clock = ManualClock(BEGINNING.timestamp())
        self.account = MemoryAccount(clock=self.clock)
        self.account.container(CONTAINER).create()
        self.schemas = [self._schema(columns) for columns in ((), ("gate",), ("gate", "note"))]
        self.writer = Writer(self.process("batches"), self.clock, self.random)
        self.readers = {"a reader each 6 hours": Reader(0.25), "a reader each 30 days": Reader(30)}

    def process(self, purpose: str) -> BlobContainer:
        """The container as a process for this purpose has it."""
        return self.account.restarted(RequestsOf(self.made, purpose)).container(CONTAINER)

    def _schema(self, more: Sequence[str]) -> AvroSchema:
        fields: list[Any] = [{"name": "id", "type": "long"}]
        fields += [{"name": name, "type": ["null", "string"], "default": None} for name in more]
        text = json.dumps({"type": "record", "name": "row", "fields": fields})
        schema = header_schema(text, blob="the schema")
        self.account.container(CONTAINER).put(schema_name(STREAM, schema.fingerprint), schema.json.encode())
        return schema

    def play(self, day: int) -> None:
        """One day, from midnight to midnight."""
        schema = self.schemas[(day >= 100) + (day >= 200)]
        minutes = range(day * MINUTES, (day + 1) * MINUTES)
        bodies = _encoded(schema, minutes)
        for place, minute in enumerate(minutes):
            self.clock.advance(BEGINNING.timestamp() + 60 * minute + 1 - self.clock.now())
            self.writer.write(minute, schema, bodies[place])
            if self.random.random() < 1 / (7 * MINUTES):
                self.writer.restart()
                self.done["restarts"] += 1
            if day == 250 and place == 90:
                self._revert(schema, minute, bodies[: place + 1])
            for name, reader in self.readers.items():
                if (minute + 1) % round(reader.days * MINUTES) == 0:
                    reader.wake(self.process(name), self.clock)
        self._compact()
        if day % 7 == 6:
            self._vacuum()

    def _revert(self, schema: AvroSchema, minute: int, bodies: Sequence[bytes]) -> None:
        """Take the last half hour's batches back, and write them again."""
        to = self.writer.batch - 31
        container = self.process("revert")
        plan = plan_revert(container, STREAM, Transaction(QUERY, to))
        carry_out(container, plan, lambda: new_draft(self.clock, None), Publisher(container), self.clock)
        self.writer.batch, self.writer.last = to + 1, None
        self.writer.restart()
        for back in range(29, -1, -1):
            self.writer.write(minute - back, schema, bodies[len(bodies) - 1 - back])
        self.done["batches taken back"] += len(plan.batches)

    def _compact(self) -> None:
        container = self.process("compaction")
        log = CommitLog(container, STREAM, clock=self.clock)
        rules = CompactionRules(datetime.fromtimestamp(self.clock.now(), UTC))
        while True:
            plan = plan_compaction(log, rules, checkpoints.last_published(log).version)
            if not plan.groups:
                break
            done = compact(log, plan, lambda: new_draft(self.clock, None), Publisher(container))
            self.done["blobs joined"] += done.replaced
        checkpoints.make(log)

    def _vacuum(self) -> None:
        container = self.process("vacuum")
        log = CommitLog(container, STREAM, clock=self.clock)
        plan = plan_vacuum(log, datetime.fromtimestamp(self.clock.now(), UTC) - KEPT)
        done = vacuum(container, plan, lambda: f"{self.random.getrandbits(64):016x}")
        self.done["versions vacuumed"] += len(plan.outdated)
        self.done["blobs vacuumed"] += done.blobs

    def check(self) -> None:
        """Each row was seen once by each reader that is not behind, and none twice."""
        for name, reader in self.readers.items():
            twice = [row for row, times in reader.seen.items() if times > 1]
            whole = self.days * MINUTES * ROWS if self.days % reader.days == 0 else len(reader.seen)
            if twice or len(reader.seen) != whole:
                raise SystemExit(f"{name} has {len(reader.seen):,} rows of {whole:,}, {len(twice)} of them twice")


def _encoded(schema: AvroSchema, minutes: range) -> list[bytes]:
    """The encoded rows of each minute."""
    ids = np.arange(minutes[0] * ROWS, (minutes[-1] + 1) * ROWS)
    kinds = arrow_schema(schema)
    columns = [pa.array(ids) if name == "id" else pa.array([f"x{each % 7}" for each in ids]) for name in kinds.names]
    rows = RowEncoder(kinds, schema).encode(pa.record_batch(columns, schema=kinds))
    ends = rows.offsets[::ROWS]
    return [rows.data[start:end].tobytes() for start, end in pairwise(ends.tolist())]


def _read(year: Year, what: str, since: timedelta | None) -> dict[str, str | float]:
    """Plan a batch read and carry it out, as Spark's processes would."""
    made: Counter[tuple[str, str]] = Counter()
    container = year.account.restarted(RequestsOf(made, "read")).container(CONTAINER)
    options = {"path": f"{CONTAINER}/{STREAM}", "connectionString": "UseDevelopmentStorage=true"}
    if since is not None:
        options["startTime"] = (datetime.fromtimestamp(year.clock.now(), UTC) - since).isoformat()
    begun = time.perf_counter()
    plan = ReadPlan(source_options(options, {}))
    plan.container = container
    snapshot = plan.snapshot
    reader = SnapshotReader(plan, spark_schema(plan))
    partitions = reader.partitions()
    planned, asked = time.perf_counter() - begun, sum(made.values())
    rows = sum(batch.num_rows for each in partitions for batch in reader.read(each))
    return {
        "read": what,
        "blobs": len(snapshot.blobs),
        "rows": rows,
        "requests to plan": asked,
        "s": planned,
        "requests to read": sum(made.values()) - asked,
        "s in all": time.perf_counter() - begun,
    }


def _sizes(year: Year) -> dict[str, str | float]:
    """How many blobs of each kind there are, and their bytes."""
    found: dict[str, list[int]] = {"entries": [], "checkpoints": [], "data": []}
    for blob in year.account.container(CONTAINER).list(""):
        kind = "entries" if "/_log/" in blob.name else "checkpoints" if "/_iceberg/" in blob.name else "data"
        if "/_schemas/" not in blob.name:
            found[kind].append(blob.size)
    line: dict[str, str | float] = {}
    for kind, sizes in found.items():
        line |= {kind: len(sizes), f"MB of {kind}": sum(sizes) / 1e6}
    return line


def _costs(year: Year) -> Report:
    lines: list[dict[str, str | float]] = []
    for purpose in sorted({purpose for purpose, _ in year.made}):
        counts = {kind: year.made[purpose, kind] for kind in PRICES}
        price = sum(counts[kind] * PRICES[kind] / 10_000 for kind in counts)
        lines.append({"for": purpose, **{f"{kind}s": counts[kind] for kind in counts}, "USD": price})
    total = {"for": "in all", **{key: sum(float(line[key]) for line in lines) for key in lines[0] if key != "for"}}
    done = ", ".join(f"{number:,} {what}" for what, number in year.done.items())
    return Report(f"Requests of {year.days} days", [*lines, total], f"{done}. Deletes are free")


def main() -> None:
    """Play the days, and print what they cost."""
    given = _parser().parse_args()
    year = Year(given.days, Random(given.seed))
    reads: list[dict[str, str | float]] = []
    sizes: list[dict[str, str | float]] = []
    for day in track(range(given.days), "days", console=Console(stderr=True), transient=True):
        year.play(day)
        if day + 1 in (*MEASURED, given.days):
            some = (("the last hour", timedelta(hours=1)), ("a day", timedelta(days=1)), ("all", None))
            reads += [{"day": day + 1, **_read(year, what, since)} for what, since in some]
            sizes.append({"day": day + 1, **_sizes(year)})
    year.check()
    days = {*SHOWN, given.days}
    reports = [
        _costs(year),
        Report("What is stored", [line for line in sizes if line["day"] in days], f"A vacuum keeps {KEPT.days} days"),
        Report("Batch reads", [line for line in reads if line["day"] in days], "requests take no time here"),
    ]
    for report in reports:
        show(report, Console())
    save("year", reports)
    if given.output is not None:
        _plot(reads, sizes, given.output)


def _plot(reads: Sequence[dict[str, str | float]], sizes: Sequence[dict[str, str | float]], output: Path) -> None:
    """Requests and seconds of a read, and sizes, over the days."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only for a plot

    figure = Figure(figsize=(12, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, key in zip(axes, ("requests to plan", "s"), strict=False):
        for what in ("the last hour", "a day", "all"):
            lines = [line for line in reads if line["read"] == what]
            axis.plot([line["day"] for line in lines], [line[key] for line in lines], marker="o", label=what)
        axis.set(xlabel="day", ylabel=key, ylim=(0, None))
        axis.legend()
    for kind in ("entries", "checkpoints", "data"):
        axes[2].plot([line["day"] for line in sizes], [line[f"MB of {kind}"] for line in sizes], marker="o", label=kind)
    axes[2].set(xlabel="day", ylabel="MB stored", ylim=(0, None))
    axes[2].legend()
    figure.savefig(output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Play a year of one-minute batches.")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a plot, as PNG or SVG")
    return parser


if __name__ == "__main__":
    main()
