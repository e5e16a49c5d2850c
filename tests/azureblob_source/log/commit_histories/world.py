"""The storage of a history with its queries, and the work that processes do on it with the code under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from azure_account.memory.faults import Fault, LateEffect, LostAnswer
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Transaction
from azureblob_source.log.naming import batches_stream, blob_name, log_stream, log_version
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out
from azureblob_source.maintenance.repair import missing_blobs, plan_repair, repair
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.options import EARLIEST
from azureblob_source.read.following import Follower, TriggerLimits, new_blobs
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.planning import WritePlan
from azureblob_source.write.staged_task import StagedTask
from foundation.errors import AzureBlobError, ConflictError, CorruptError, FencedError, NotFoundError, TransientError
from tests.azureblob_source.log.commit_histories.processes import CommitProcess
from tests.azureblob_source.log.commit_histories.truth import Row, Truth, partition_of
from tests.azureblob_source.write.sink_rows import plan_of
from tests.histories.world import BOX, Late, World

if TYPE_CHECKING:
    from azure_account.retrying.retry_loop import Request

SCHEMA = pa.schema([("stream", pa.string()), ("n", pa.int64())])
MAX_FAILURES = 6
BLOB_GONE = "blob gone when it is read"
DAY = 24 * 3600.0


@dataclass
class Query:
    """A source of batches, with what Spark remembers of it. `kind` says how its batches are written.

    append, overwrite (complete mode), partitions (the same of the partitions of each batch), many (rows name their
    streams); app: an application with `txnAppId` that counts `txnVersion` itself and may start again further back;
    apps: the same with an id of its own for each batch; plain: writes without a transaction.
    """

    id: str
    kind: str
    streams: tuple[str, ...]
    rows: list[int]
    """Number of rows of each batch."""
    fickle: bool = False
    """Whether a batch may be without rows when it is repeated."""
    moving: bool = True
    """Whether a repeat may send the rows of a batch to other streams."""
    forgetful: bool = True
    """Whether a failed driver takes new logs, as one does that is started anew."""
    guarded: bool = False
    suffixed: bool = True
    """Whether the names of its blobs end in a random suffix; else another tool may take one."""
    partitioned: bool = False
    """Whether its rows have partitions."""
    committed: int = -1
    epoch: int = 0
    allowed: dict[int, set[frozenset[Row]]] = field(default_factory=dict)
    plain: list[tuple[int, list[LogEntry]]] = field(default_factory=list)
    stalled: str = ""
    """Why its last driver did not get to the end."""

    @property
    def log(self) -> str:
        """The log that its batches are committed to first."""
        return batches_stream(self.id) if self.kind == "many" else self.streams[0]

    def input(self, batch: int) -> list[Row]:
        """The rows of a batch."""
        return [(self.id, batch, number) for number in range(self.rows[batch])]

    def transaction(self, batch: int) -> Transaction | None:
        """The identity of a batch."""
        if self.kind == "apps":
            return Transaction(f"{self.id}-{batch}", 0)
        return None if self.kind == "plain" else Transaction(self.id, batch)


@dataclass
class ReaderState:
    """A streaming query over one stream: its checkpoint, and what it has delivered."""

    stream: str
    limits: TriggerLimits
    after: int | None = None
    planned: int | None = None
    names: list[str] = field(default_factory=list)
    delivered: Counter[Row] = field(default_factory=Counter)


@dataclass(kw_only=True)
class CommitWorld(World[CommitProcess]):
    """One history's storage, queries and readers."""

    queries: list[Query]
    readers: list[ReaderState]
    truth: Truth = field(default_factory=Truth)
    make: Callable[..., CommitProcess] = CommitProcess
    expiries: int = 0
    ids: int = 0
    checkpoint_interval: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        self.truth.clock = self.clock.now

    @property
    def seen(self) -> Counter[str]:
        """How often each interesting event has happened."""
        return self.truth.seen

    @property
    def streams(self) -> list[str]:
        """Every stream that is written to."""
        return sorted({stream for query in self.queries for stream in query.streams})

    @property
    def logs(self) -> list[str]:
        """Every log, batch logs too."""
        return sorted({*self.streams, *(query.log for query in self.queries)})

    def new_id(self) -> str:
        """A write id."""
        self.ids += 1
        return f"w{self.ids}"

    def utc(self) -> datetime:
        """The time of the history."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def note(self, process: CommitProcess, request: Request, fault: Fault | None) -> None:
        """Count what a request is part of, and show it."""
        self.truth.writer, aim = process.query, process.aim_of(request)
        if aim == "publish" and request.name in self.truth.removed:
            self.seen["publishes what was revoked"] += 1
        if aim == "commit" and process.kind == "driver" and process.voids_seen < self.truth.voids:
            self.seen["zombie's put after a void"] += process.born < self.expiries
        if aim == "commit" and (log_version(request.name) or 0) < self.truth.first[log_stream(request.name) or ""]:
            self.seen["vacuum passed a sleeping writer"] += 1
        if isinstance(fault, LostAnswer | LateEffect) and aim in ("commit", "publish"):
            self.seen[f"lost answer: {aim}"] += 1
        super().note(process, request, fault)

    def mark(self) -> tuple[int, int]:
        """Expiries and voids until now."""
        return self.expiries, self.truth.voids

    def arrive(self, late: Late[CommitProcess]) -> None:
        """A late request takes effect. No Put Block is under way for as long as staged blocks are kept."""
        expiries, voids = late.mark
        if late.request.operation == "stage_block" and expiries < self.expiries:
            return
        self.seen["late effect after an expiry"] += expiries < self.expiries
        self.seen["late effect after a void"] += voids < self.truth.voids
        super().arrive(late)


@lru_cache(maxsize=1000)
def write_plan(
    stream: str | None, epoch: int | None, transaction: Transaction | None, *, suffixed: bool = True
) -> WritePlan:
    """The plan of a write into one stream, or into those that the rows name; with the transaction of an application."""
    options: dict[str, object] = {} if epoch is None else {"epoch": epoch}
    if not suffixed:
        options["suffixRandomStringToBlobName"] = "false"
    if transaction is not None:
        options |= {"txnAppId": transaction.id, "txnVersion": transaction.version}
    if stream is None:
        return plan_of(SCHEMA, BOX, streamColumn="stream", **options)
    return plan_of(SCHEMA, f"{BOX}/{stream}", **options)


FINGERPRINT = write_plan("a", None, None).avro.fingerprint


# --- writing ----------------------------------------------------------------------------------------------------------


def committer(process: CommitProcess, query: Query, epoch: int | None) -> BatchCommitter:
    """A driver's committer, with logs that it has just opened."""
    logs: dict[str, CommitLog] = {}
    plan = write_plan(None if query.kind == "many" else query.streams[0], epoch, None, suffixed=query.suffixed)
    return BatchCommitter(
        replace(
            plan.of_commit,
            checkpoint_interval=process.world.checkpoint_interval,
            overwrite_partitions=query.kind == "partitions",
        ),
        process.container,
        lambda stream: logs.setdefault(stream, CommitLog(process.container, stream)),
        process.world.new_id,
        process.world.clock,
    )


def drive(process: CommitProcess, query: Query, *, final: bool = False) -> None:  # noqa: C901, PLR0912 - as Spark's loop is
    """One driver process of a query: batches until the input is through, as Spark runs and repeats them.

    The final drivers, which meet no faults, repeat every batch with its rows.
    """
    process.query = query.id
    world, draws = process.world, process.draws
    epoch = None
    if query.guarded:
        query.epoch += 1
        epoch = query.epoch
    writer = committer(process, query, epoch)
    failures = 0
    batch = query.committed + 1
    if query.kind in ("app", "apps") and batch and (final or draws.random() < 0.6):
        batch = draws.randrange(batch)
        world.seen["older txnVersion"] += 1
        world.seen["older txnVersion after an expiry"] += world.expiries > 0
    if query.guarded and query.kind != "many" and draws.random() < 0.5:
        try:
            log = writer.logs(query.streams[0])
            world.seen["epoch opened beside an unpublished batch"] += not_whole(world, query.streams[0])
            append_epoch(log, Draft(world.new_id(), world.utc().isoformat(), epoch=epoch), writer.publisher)
        except AzureBlobError as error:
            _failed(process, error)
            if isinstance(error, ConflictError) and "a vacuum has made" not in str(error):
                world.truth.fail(f"{query.id} cannot open its epoch: {error}")
            query.stalled = f"{query.id} cannot open its epoch: {error}"
            return
    while batch < len(query.rows):
        if query.kind == "plain":  # it is not repeated, whatever becomes of it
            if query.committed + 1 == len(query.rows):
                break
            batch = query.committed = query.committed + 1
        try:
            staged = stage_batch(process, query, batch, whole=final)
            rows = [row for task in staged for blob in task.blobs for row in world.truth.blob_rows[blob.name]]
            if query.kind in ("app", "apps"):
                plan = write_plan(query.streams[0], epoch, query.transaction(batch), suffixed=query.suffixed)
                writer = replace(writer, plan=replace(writer.plan, transaction=plan.of_commit.transaction))
            before = in_effect(world, query, batch)
            entries = writer.commit(
                staged, query.transaction(batch), overwrite=query.kind in ("overwrite", "partitions")
            )
        except AzureBlobError as error:
            failures += 1
            if not _failed(process, error) or failures > MAX_FAILURES:
                query.stalled = f"{query.id} cannot get on: {type(error).__name__}: {error}"
                return
            if query.forgetful:
                writer = committer(process, query, epoch)
            continue
        if not acknowledge(world, query, batch, entries, rows, before):
            return
        batch += 1
    query.stalled = ""


def not_whole(world: CommitWorld, stream: str) -> bool:
    """Whether the newest entry that adds blobs to a stream is visible in part or not at all."""
    adding = [version for version, entry in world.truth.log[stream].items() if entry.blobs]
    newest = world.truth.log[stream][max(adding)] if adding else None
    return newest is not None and any(blob.name not in world.truth.visible for blob in newest.blobs)


def _failed(process: CommitProcess, error: AzureBlobError) -> bool:
    """Count a failure; False if the process is to end."""
    seen = process.world.seen
    seen[f"failed: {type(error).__name__}"] += 1
    process.world.trace(f"    {process!r:12} failed: {error}")
    if isinstance(error, FencedError):
        seen["fenced writer"] += 1
        return False
    return True


def in_effect(world: CommitWorld, query: Query, batch: int) -> LogEntry | None:
    """The entry in effect for a batch by now, if it was committed and has a transaction."""
    transaction = query.transaction(batch)
    return None if transaction is None else world.truth.in_effect(query.log, transaction)


def acknowledge(
    world: CommitWorld,
    query: Query,
    batch: int,
    entries: Sequence[LogEntry],
    staged: Sequence[Row],
    before: LogEntry | None,
) -> bool:
    """Tell Spark that a batch is done. False for a zombie, whose batch another driver has done.

    `before` was in effect for the batch when the commit began. A repeat without rows that found nothing then is
    right, even if another driver commits the batch while the answer is on its way.
    """
    label = f"batch {batch} of {query.id}"
    world.trace(f"    {label} is done; {len(entries)} entries")
    if query.transaction(batch) is None:
        query.plain.append((batch, list(entries)))
        world.truth.acknowledge(label, entries, staged)
        return True
    if query.kind not in ("app", "apps"):
        if query.committed + 1 != batch:
            world.seen["zombie stopped by its checkpoint"] += 1
            return False
        query.committed = batch
    query.committed = max(query.committed, batch)
    found = in_effect(world, query, batch)
    if not entries and not staged and before is None and found is not None and found.blobs:
        world.seen["committed beside a repeat without rows"] += 1
        found = None
    world.truth.acknowledge(label, [] if found is None else [found], staged)
    return True


def stage_batch(process: CommitProcess, query: Query, batch: int, *, whole: bool) -> list[StagedTask]:
    """The tasks of a batch: rows spread at random over tasks and, if they move, over streams."""
    draws, rows = process.draws, query.input(batch)
    attempted = query.allowed.setdefault(batch, set())
    if attempted and query.fickle and not whole and draws.random() < 0.4:
        process.world.seen["repeat without rows"] += bool(rows)
        rows = []
    attempted.add(frozenset(rows))
    tasks: dict[tuple[int, str, str], list[Row]] = {}
    for row in rows:
        stream = query.streams[(draws.randrange(8) if query.moving else row[2]) % len(query.streams)]
        partition = partition_of(row) if query.partitioned else None
        tasks.setdefault((draws.randrange(2), stream, partition or ""), []).append(row)
    return [
        StagedTask(len(of_task), (stage_blob(process, (stream, partition or None), of_task, suffixed=query.suffixed),))
        for (_, stream, partition), of_task in sorted(tasks.items())
    ]


def stage_blob(
    process: CommitProcess, route: tuple[str, str | None], rows: Sequence[Row], *, suffixed: bool
) -> BlobEntry:
    """One blob of one or two blocks, for a stream and partition. Without a suffix the second in its name is its own."""
    stream, partition = route
    truth, attempt = process.world.truth, f"{process.draws.getrandbits(64):016x}"
    started = datetime(2013, 1, 31, 12, 0, 5, tzinfo=UTC)
    if not suffixed:
        started += timedelta(seconds=len(truth.blob_rows))
    name = blob_name(stream, partition, started, attempt[:8] if suffixed else None, ".avro")
    blocks = process.draws.choice([1, 1, 2])
    blob = BlobEntry(
        name=name, stream=stream, partition=partition, attempt=attempt, blocks=blocks, rows=len(rows),
        uncompressed=1, size=blocks, schema=FINGERPRINT, rolled_by="end",
    )  # fmt: skip
    truth.blob_rows[name], truth.sizes[name] = tuple(rows), blocks
    for block in blob.block_ids:
        process.container.stage_block(name, block, b"x")
    return blob


# --- maintenance ------------------------------------------------------------------------------------------------------


def epoch_of(world: CommitWorld, stream: str | None) -> int | None:
    """The epoch that a repair by hand has to name."""
    epochs = [query.epoch for query in world.queries if query.guarded and (stream is None or stream in query.streams)]
    return max(epochs, default=None)


def repair_stream(process: CommitProcess, stream: str | None, age: timedelta, *, leftovers: bool) -> None:
    """`azureblob repair`."""
    world = process.world
    draft = Draft("", world.utc().isoformat(), epoch=epoch_of(world, stream))
    plan = plan_repair(process.container, stream, world.utc() - age)
    world.truth.protect()
    done = repair(
        process.container,
        plan,
        lambda: Draft(world.new_id(), draft.timestamp, epoch=draft.epoch),
        Publisher(process.container),
        leftovers=leftovers,
    )
    world.seen["repair published"] += done.published
    world.seen["repair voided"] += done.voided
    world.seen["repair removed leftovers"] += done.removed


def leave_out_missing(process: CommitProcess, stream: str) -> None:
    """`azureblob repair --leave-out-missing`: what the error for a blob that was deleted by hand advises."""
    world, log = process.world, CommitLog(process.container, stream)
    draft = Draft(world.new_id(), world.utc().isoformat(), epoch=epoch_of(world, stream))
    missing = missing_blobs(log)
    leave_out(log, missing, draft, Publisher(process.container))
    world.seen["blobs deleted by hand are left out"] += len(missing)


def vacuum_log(process: CommitProcess, log: str, age: timedelta) -> None:
    """`azureblob vacuum`."""
    world = process.world
    plan = plan_vacuum(CommitLog(process.container, log), world.utc() - age)
    done = vacuum(process.container, plan, world.new_id)
    world.seen["vacuumed entries"] += done.entries


def forgive(act: Callable[[CommitProcess], object]) -> Callable[[CommitProcess], None]:
    """A read or maintenance that may end with an error of ours, and is run again; but nothing here is damaged."""

    def forgiven(process: CommitProcess) -> None:
        try:
            act(process)
        except AzureBlobError as error:
            foreign = any(name in str(error) for name in process.world.truth.foreign)
            if isinstance(error, CorruptError) and not foreign:
                process.world.truth.fail(f"a {process.kind} takes for damaged what is not: {error}")
            process.world.seen[f"{process.kind} failed: {type(error).__name__}"] += 1
            process.world.trace(f"    {process!r:12} failed: {error}")

    return forgiven


# --- reading ----------------------------------------------------------------------------------------------------------


def read_snapshot(process: CommitProcess, stream: str, *, timeout: float = 3.0) -> Counter[Row] | None:
    """A batch read: each row once, and every row that was acknowledged before it began. None if there is nothing."""
    world = process.world
    truth = world.truth
    before = {
        row: truth.named[name]
        for name in truth.visible
        if name.startswith(f"{stream}/")
        for row in truth.blob_rows[name]
        if row in truth.acknowledged
    }
    try:
        snapshot = take_snapshot(CommitLog(process.container, stream), None, world.clock, publish_timeout=timeout)
        found = read_blobs(process, (blob.name for blob in snapshot.blobs))
    except NotFoundError:
        return None
    world.seen["snapshot"] += 1
    if any(count > 1 for count in found.values()):
        truth.fail("a snapshot has a row twice")
    missing = [row for row, place in before.items() if row not in found and not truth.excused(row, place)]
    if missing:
        truth.fail(f"a snapshot lacks {missing[0]}, which was acknowledged before")
    return found


def read_blobs(process: CommitProcess, names: Iterable[str]) -> Counter[Row]:
    """The rows of blobs, without those that are gone by now."""
    found: Counter[Row] = Counter()
    for name in names:
        try:
            process.container.get(name)
        except NotFoundError:
            process.world.seen[BLOB_GONE] += 1
            continue
        if name in process.world.truth.foreign:
            process.world.truth.fail(f"a {process.kind} reads another tool's blob {name} as one of the stream")
        found.update(process.world.truth.blob_rows[name])
    return found


def follow_stream(process: CommitProcess, reader: ReaderState, batches: int) -> None:
    """A streaming read: micro-batches from its checkpoint on."""
    world = process.world
    follower = Follower(CommitLog(process.container, reader.stream), 30.0, world.clock)
    for _ in range(batches):
        try:
            if not _micro_batch(process, follower, reader):
                return
        except NotFoundError:
            world.seen["follower overtaken by a vacuum"] += 1
            reader.after, reader.planned, reader.delivered = None, None, Counter()
            return
        except TransientError:
            world.seen["follower waits for a publisher"] += 1
            return


def _micro_batch(process: CommitProcess, follower: Follower, reader: ReaderState) -> bool:
    """False if there is nothing new."""
    world = process.world
    start = follower.version_before(EARLIEST) if reader.after is None else reader.after
    after = reader.after = start if reader.after is None else reader.after
    again = reader.planned
    if again is None:
        until = follower.latest(after, reader.limits)
        if until <= after:
            return False
    else:
        until = again
    if (reader.after, reader.planned) not in ((after, None), (after, until)):
        return False  # another process of this query has planned the next range
    entries = follower.entries(after, until)
    _check_entries(world, reader.stream, entries)
    names = [blob.name for blob, _ in follower.blobs(after, until)]
    left_out = {blob.name for _, blob in new_blobs(entries)} - set(names)
    world.seen["follower leaves out what was overwritten"] += bool(left_out)
    if (reader.after, reader.planned) not in ((after, None), (after, until)):
        return False
    before = names if reader.planned is None else [name for name in reader.names if name not in left_out]
    if names != before or not all(map(world.truth.is_deleted, left_out)):
        world.truth.fail(f"a follower reads versions {after + 1} to {until} again, and they name other blobs")
    reader.planned, reader.names = until, names
    found = read_blobs(process, names)
    if reader.planned != until or reader.after != after:
        return False  # another process of this query has done it
    reader.delivered.update(found)
    reader.after, reader.planned = until, None
    world.seen["follower's batch"] += 1
    follower.forget(until)
    twice = [row for row in found if reader.delivered[row] > 1]
    for row in twice:
        if row[:2] in world.truth.by_hand or is_known_limit(world, row):
            world.seen["delivered twice: known limit"] += 1
            reader.delivered[row] = 1
        else:
            world.truth.fail(f"a follower delivers row {row} twice")
    return True


def _check_entries(world: CommitWorld, stream: str, entries: Iterable[LogEntry]) -> None:
    for entry in entries:
        committed = world.truth.log[stream].get(entry.version)
        if committed is None or committed.write_id != entry.write_id:
            world.truth.fail(f"a follower reads version {entry.version} of {stream}, which was never committed")


def is_known_limit(world: CommitWorld, row: Row) -> bool:
    """Decision 2: parts of a batch over many streams that were whole are read again if the batch entry is replaced."""
    query = next(query for query in world.queries if query.id == row[0])
    entries = [each for each in world.truth.log[query.log].values() if each.transaction == query.transaction(row[1])]
    return query.kind == "many" and len(entries) > 1
