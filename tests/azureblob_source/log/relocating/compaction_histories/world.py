"""Writers, a compaction, other maintenance and readers of streams in memory: the work that processes of a history do.

A query writes to stream `a`, or to `a` and `b` by its rows; another one, and batch writes, at times overwrites, write
to `a`. Rows are numbers, and each is of one stream. All blobs are real, as compactions read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, LogEntry, Transaction
from azureblob_source.log.naming import batches_stream
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance.checkpoints import last_published, make
from azureblob_source.maintenance.repair import missing_blobs, plan_repair, repair
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.options import source_options
from azureblob_source.read.relocating import read_moving_splits
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from azureblob_source.read.split_reader import SplitSettings
from azureblob_source.read.splits import split_blobs
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.staging import stage
from foundation.errors import (
    AzureBlobError,
    ConfigurationError,
    ConflictError,
    FencedError,
    NotFoundError,
    TransientError,
)
from tests.azureblob_source.log.commit_histories.processes import aim_of
from tests.azureblob_source.log.relocating.compaction_histories.truth import Truth
from tests.azureblob_source.write.sink_rows import ACCOUNT, plan_of
from tests.histories.process import HistoryProcess
from tests.histories.world import BOX, World

if TYPE_CHECKING:
    from azure_account.retrying.retry_loop import Request
    from azureblob_source.write.planning import WritePlan
    from azureblob_source.write.staged_task import StagedTask

QUERY, OTHER = "q", "other"
SCHEMA = pa.schema([("stream", pa.string()), ("gate", pa.string()), ("n", pa.int64()), ("text", pa.string())])
HOUR, DAY = 3600.0, 86400.0
MAX_FAILURES = 5


@dataclass
class Source:
    """What Spark has of a query on a disk: the rows of its planned batches, and the last batch that is done.

    lost: the disk is lost, and another one has taken its place.
    """

    batches: list[tuple[int, ...]] = field(default_factory=list)
    committed: int = -1
    lost: bool = False

    def restored(self, batch: int) -> Source:
        """An earlier checkpoint of it."""
        return Source(self.batches[: batch + 1], batch)


@dataclass
class Reader:
    """A streaming query over a stream: its checkpoint, and what it has delivered, each row with its version.

    began: the version after which it began, for the last time.
    """

    stream: str
    limits: TriggerLimits
    after: int = -1
    planned: int | None = None
    began: int = -1
    delivered: dict[int, int] = field(default_factory=dict)


class CompactionProcess(HistoryProcess):
    """A driver, a reader, or maintenance."""

    world: CompactionWorld

    def aim_of(self, request: Request) -> str:
        """What a request is for."""
        if request.operation == "get" and request.name.endswith(".avro"):
            return "read"
        return aim_of(request)


@dataclass(kw_only=True)
class CompactionWorld(World[CompactionProcess]):
    """One history's storage, queries and readers.

    recovering: batches after one are to be taken back. before: what the query had before its checkpoint was restored.
    """

    streams: tuple[str, ...]
    readers: list[Reader]
    epochs: bool
    truth: Truth = field(default_factory=Truth)
    make: Callable[..., CompactionProcess] = CompactionProcess
    source: Source = field(default_factory=Source)
    other: Source = field(default_factory=Source)
    before: Source = field(default_factory=Source)
    recovering: bool = False
    epoch: int = 0
    ids: int = 0
    rows: int = 0
    checkpoint_interval: int = 64
    auto_compact: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.truth.put = self._put

    @property
    def many(self) -> bool:
        """Whether the rows of the query name their streams."""
        return len(self.streams) > 1

    @property
    def logs(self) -> list[str]:
        """Every log."""
        return [*self.streams, batches_stream(QUERY)] if self.many else list(self.streams)

    @property
    def seen(self) -> Counter[str]:
        """How often each event was seen."""
        return self.truth.seen

    def new_id(self) -> str:
        """A write id."""
        self.ids += 1
        return f"w{self.ids}"

    def utc(self) -> datetime:
        """The time of the history."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def draft(self) -> Draft:
        """What maintenance appends begins as this."""
        return Draft(self.new_id(), self.utc().isoformat(), epoch=self.epoch if self.epochs else None)

    def new_rows(self, count: int) -> tuple[int, ...]:
        """Rows that nobody has written yet."""
        self.rows += count
        return tuple(range(self.rows - count, self.rows))

    def stream_of(self, row: int) -> str:
        """The stream of a row of the query: most are of the first."""
        return self.streams[row % 4 == 1 and len(self.streams) > 1]

    def _put(self, log: str, entry: LogEntry) -> None:
        seen, of_log = self.seen, self.truth.log[log]
        replaced = None if entry.replaces is None else of_log.get(entry.replaces)
        depth = max((_depth(of_log, entry.version, blob.name) for blob in entry.blobs if blob.moved), default=0)
        seen["compaction of moved rows"] += depth > 1
        seen["chain of three"] += depth > 2
        seen[f"entry: {entry.operation}"] += 1
        seen["void of a compaction"] += replaced is not None and replaced.operation == "compact"
        moved = _versions_moved(of_log)
        seen["revert of rows that were moved"] += entry.operation == "revert" and not moved.isdisjoint(entry.reverts)
        seen["second revert"] += entry.operation == "revert" and any(
            each.operation == "revert" and version < entry.version for version, each in of_log.items()
        )
        if entry.overwrites:
            seen[f"{entry.operation} of rows that were moved"] += bool(moved)
        seen["restore of rows that were moved"] += entry.operation == "restore" and any(
            rows in (entry.taken_back or ()) for rows in _versions_moved(of_log)
        )
        seen["part of a batch is replaced"] += replaced is not None and entry.operation == "replace"


def _versions_moved(log: dict[int, LogEntry]) -> set[int]:
    return {rows.version for each in log.values() for blob in each.blobs for rows in blob.moved}


def _depth(log: dict[int, LogEntry], version: int, name: str) -> int:
    """How often the rows of a blob were moved."""
    before = {blob.name: each for each, entry in log.items() for blob in entry.blobs if blob.moved}
    removed = [each.name for each in log[version].removed if each.name in before and before[each.name] < version]
    return 1 + max((_depth(log, before[each], each) for each in removed), default=0)


# --- writing ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def write_plan(stream: str | None, epoch: int | None) -> WritePlan:
    """The plan of a write into one stream, or into those that the rows name."""
    options: dict[str, object] = (
        {"partitionColumn": "gate"} if epoch is None else {"partitionColumn": "gate", "epoch": epoch}
    )
    if stream is None:
        return plan_of(SCHEMA, BOX, streamColumn="stream", **options)
    return plan_of(SCHEMA, f"{BOX}/{stream}", **options)


def committer(process: CompactionProcess, stream: str | None, epoch: int | None) -> BatchCommitter:
    """A driver's committer, with logs that it has just opened."""
    logs: dict[str, CommitLog] = {}
    return BatchCommitter(
        replace(
            write_plan(stream, epoch).of_commit,
            checkpoint_interval=process.world.checkpoint_interval,
            auto_compact=process.world.auto_compact,
        ),
        process.container,
        lambda name: logs.setdefault(name, CommitLog(process.container, name)),
        process.world.new_id,
        process.world.clock,
    )


def stage_batch(process: CompactionProcess, rows: Sequence[int], plan: WritePlan) -> list[StagedTask]:
    """One task of a batch; it stages real blobs, of few or many bytes."""
    world = process.world
    batch = pa.record_batch(
        [
            [world.stream_of(row) for row in rows],
            ["xy"[row % 2] for row in rows],
            list(rows),
            ["t" * (row * 37 % 200) for row in rows],
        ],
        schema=SCHEMA,
    )
    names = BlobIds(process.draws.randbytes, suffixed=True)
    staged = stage([batch], plan, process.container, names=names, clock=world.clock)
    of_stream = plan.options.router.stream
    for blob in staged.blobs:
        world.truth.staged[blob.name] = tuple(
            row
            for row in rows
            if "xy"[row % 2] == blob.partition and blob.stream == (of_stream or world.stream_of(row))
        )
    return [staged]


def drive(process: CompactionProcess, batches: int) -> None:
    """One driver of the query, on the disk of its machine: so many batches, as Spark runs and repeats them."""
    world, source = process.world, process.world.source
    epoch = None
    if world.epochs:
        epoch = world.epoch = world.epoch + 1
    _drive(process, source, QUERY, batches, write_plan(None if world.many else "a", epoch), epoch)


def drive_other(process: CompactionProcess, batches: int) -> None:
    """The same of another query, which has a checkpoint of its own, and no epoch."""
    _drive(process, process.world.other, OTHER, batches, write_plan("a", None), None)


def _drive(
    process: CompactionProcess, source: Source, query: str, batches: int, plan: WritePlan, epoch: int | None
) -> None:
    world, many = process.world, plan.options.router.stream is None
    writer = committer(process, None if many else "a", epoch)
    failures = 0
    while batches > 0:
        batch = source.committed + 1
        if batch == len(source.batches):
            source.batches.append(world.new_rows(process.draws.choice([0, 1, 1, 2, 3, 9, 40])))
        rows = source.batches[batch]
        try:
            staged = stage_batch(process, rows, plan) if rows else []
            writer.commit(staged, Transaction(query, batch))
        except AzureBlobError as error:
            failures += 1
            if not _goes_on(process, error) or failures > MAX_FAILURES or source.lost:
                return
            continue
        if source.committed + 1 != batch:
            world.seen["zombie stopped by its checkpoint"] += 1
            return
        source.committed, batches = batch, batches - 1
        if source.lost:
            return
        for stream in world.streams if many else ("a",):
            world.truth.acknowledge(stream, tuple(row for row in rows if not many or world.stream_of(row) == stream))


def _goes_on(process: CompactionProcess, error: AzureBlobError) -> bool:
    """Whether a driver repeats its batch after an error."""
    process.world.trace(f"    {process!r} failed: {error}")
    process.world.seen[f"{process.kind} failed: {type(error).__name__}"] += 1
    return isinstance(error, ConflictError | TransientError | NotFoundError) and not isinstance(error, FencedError)


def write_once(process: CompactionProcess, *, overwrite: str = "") -> None:
    """A batch write without a transaction; it is not repeated. overwrite: `all`, or `partitions`; none by default."""
    world = process.world
    epoch = world.epoch if world.epochs else None
    rows = world.new_rows(process.draws.choice([1, 2, 5]))
    plan = write_plan("a", epoch)
    try:
        staged = stage_batch(process, rows, plan)
        writer = committer(process, "a", epoch)
        writer = replace(writer, plan=replace(writer.plan, overwrite_partitions=overwrite == "partitions"))
        writer.commit(staged, None, overwrite=bool(overwrite))
    except AzureBlobError as error:
        _goes_on(process, error)
        return
    world.truth.acknowledge("a", rows)


# --- maintenance ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What maintenance does, and by which errors it may end. gone: also by `NotFoundError`, if rows are taken away."""

    act: Callable[[CompactionProcess], None]
    may_end: tuple[type[AzureBlobError], ...] = (ConflictError, TransientError)
    gone: bool = False

    def __call__(self, process: CompactionProcess) -> None:
        """Do it."""
        world = process.world
        before = world.truth.destroyed
        try:
            self.act(process)
        except AzureBlobError as error:
            world.trace(f"    {process!r} failed: {error}")
            world.seen[f"{process.kind} failed: {type(error).__name__}"] += 1
            if self.gone and isinstance(error, NotFoundError) and world.truth.destroyed > before:
                return
            is_fenced = isinstance(error, FencedError) and process.kind in ("compaction", "vacuum")
            if not isinstance(error, self.may_end) or is_fenced:
                world.truth.fail(f"{process!r} ends with {type(error).__name__}: {error}")


def compacts(stream: str, *, large: int = 10**7, fresh: float = 0.0) -> Work:
    """`azureblob compact` of what was committed before the last `fresh` seconds."""

    def act(process: CompactionProcess) -> None:
        world, log = process.world, CommitLog(process.container, stream)
        if log.refresh() is None:
            return
        try:
            published = last_published(log).version
        except NotFoundError:
            return
        before = datetime.fromtimestamp(world.clock.now() - fresh + 1, UTC)
        plan = plan_compaction(log, CompactionRules(before, small=10**6, large=large), published)
        done = compact(log, plan, lambda: Draft(world.new_id(), world.utc().isoformat()), Publisher(process.container))
        world.seen["compaction"] += done.made
        world.seen["compaction lost its blobs to others"] += done.outdated

    return Work(act)


def vacuums(log: str, age: float) -> Work:
    """`azureblob vacuum`."""

    def act(process: CompactionProcess) -> None:
        world, of = process.world, CommitLog(process.container, log)
        if of.refresh() is None:
            return
        plan = plan_vacuum(of, datetime.fromtimestamp(world.clock.now() - age, UTC))
        world.seen["vacuum deletes a blob before its entry"] += len(plan.moved)
        world.seen["vacuum removes a blob of the head"] += len(plan.newest_moved)
        vacuum(process.container, plan, world.new_id)
        world.seen["vacuum"] += bool(plan.outdated)

    return Work(act, gone=True)


def repairs(*, leave_out_missing: bool = False) -> Work:
    """`azureblob repair`, at times with `--leave-out-missing`, which must not leave out rows that are there."""

    def act(process: CompactionProcess) -> None:
        world = process.world
        if leave_out_missing:
            log = CommitLog(process.container, "a")
            missing = missing_blobs(log)
            if missing and all(blob.moved for blob in missing):
                world.seen["leaves out missing blobs"] += 1
                leave_out(log, missing, world.draft(), Publisher(process.container))
            return
        plan = plan_repair(process.container, None, world.utc())
        done = repair(process.container, plan, world.draft, Publisher(process.container))
        world.seen["repair published"] += done.published
        world.seen["repair voided"] += done.voided

    return Work(act, gone=True)


def checkpoints(stream: str, *, rebuild: bool) -> Work:
    """`azureblob checkpoint`."""

    def act(process: CompactionProcess) -> None:
        try:
            make(CommitLog(process.container, stream), rebuild=rebuild)
        except NotFoundError:
            return

    return Work(act, (ConflictError, TransientError))


def restores(stream: str, version: int) -> Work:
    """`azureblob restore`."""

    def act(process: CompactionProcess) -> None:
        world, log = process.world, CommitLog(process.container, stream)
        try:
            done = restore(log, version, world.draft(), Publisher(process.container))
        except ConfigurationError as error:
            if "has deleted rows" not in str(error):
                raise
            world.seen["restore of what was deleted is refused"] += 1
            return
        except NotFoundError:
            if version >= world.truth.first[stream]:
                raise
            return
        world.seen["restore"] += done is not None

    return Work(act, (ConflictError, FencedError, TransientError), gone=True)


def takes_back(source: Source) -> Work:
    """What follows a restore: `azureblob revert`, to the batch of the restored checkpoint."""

    def act(process: CompactionProcess) -> None:
        world, truth, last = process.world, process.world.truth, Transaction(QUERY, source.committed)
        if not any(truth.log[log] for log in world.logs):
            world.recovering = False
            return
        there = [stream for stream in world.streams if truth.log[stream]]
        named = {blob.stream for entry in truth.log[batches_stream(QUERY)].values() for blob in entry.blobs}
        stream = [*world.streams[:1], *sorted(named), *there][-1]
        try:
            plan = plan_revert(process.container, stream, last)
            if plan.is_needed or world.epochs:
                carry_out(process.container, plan, world.draft, Publisher(process.container))
        except ConflictError as error:
            if "a vacuum has removed" not in str(error):
                raise
            world.seen["revert is refused after a vacuum"] += 1
            if world.source is source and world.recovering:  # the newer checkpoint is found
                world.source, world.recovering = world.before, False
                world.source.lost = False
            return
        except NotFoundError:
            if truth.log[stream]:
                raise
        if world.source is source and world.recovering:
            world.seen["revert"] += 1
            world.recovering = False

    return Work(act)


# --- reading ----------------------------------------------------------------------------------------------------------


def raw_options(stream: str, given: dict[str, str]) -> dict[str, str]:
    """The options of a read that waits for nobody."""
    return {"path": f"{BOX}/{stream}", **ACCOUNT, "publishTimeoutMs": "1", **given}


def read_rows(process: CompactionProcess, stream: str, given: dict[str, str]) -> Counter[tuple[int, int]] | None:
    """A batch read, as the driver and its tasks make it: version and number of each row. None if it has to wait."""
    plan = ReadPlan(source_options(raw_options(stream, given), {}))
    plan.container = process.container
    try:
        reader = SnapshotReader(plan, spark_schema(plan))
        partitions = reader.partitions()
        task = SnapshotReader(ReadPlan(plan.options), reader.schema)
        task.plan.container = process.container
        batches = (batch for each in partitions for batch in task.read(each))
        return Counter((row.get("_version", -1), row["n"]) for batch in batches for row in batch.to_pylist())
    except TransientError:
        process.world.seen["reader waits for a publisher"] += 1
        return None


def reads(stream: str, version: int | None = None, *, by_version: bool = True) -> Callable[[CompactionProcess], None]:
    """A batch read beside others: each row is true and there once, and none is lacking that it owes."""

    def act(process: CompactionProcess) -> None:
        world, truth = process.world, process.world.truth
        given = {"metadataColumns": "version"} if by_version else {}
        given |= {} if version is None else {"versionAsOf": str(version)}
        before, destroyed, acknowledged = truth.live(stream, version), truth.destroyed, set(truth.acknowledged)
        first, head = truth.first[stream], truth.head(stream)
        whole = truth.rows_at(stream, head if version is None else version)
        taken = whole - truth.live(stream)
        try:
            found = read_rows(process, stream, given)
        except NotFoundError as error:
            world.trace(f"    {process!r} failed: {error}")
            world.seen[f"{process.kind} failed: NotFoundError"] += 1
            if truth.destroyed == destroyed and not taken and before and (version is None or version >= first):
                truth.fail(f"a read of {stream} at {version} fails: {error}")
            return
        if found is None:
            return
        world.seen["read" if version is None else "read of a version"] += 1
        owed = {each for each in before & truth.live(stream, version) if (stream, each[1]) in acknowledged}
        see = _as_they_are if by_version else _numbers
        truth.check_read(
            f"a read of {stream} at {version}", found, see(truth.ever(stream)), first if by_version else -1
        )
        if lacks := see(owed) - set(found):
            truth.fail(f"a read of {stream} at {version} lacks {min(lacks)}")
        more = set(found) - see(whole) - see(before)
        if truth.destroyed == destroyed and version is not None and more:
            truth.fail(f"a read of {stream} at {version} has {sorted(more)}")

    return act


def _as_they_are(rows: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    return set(rows)


def _numbers(rows: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(-1, row) for _, row in rows}


def follows(reader: Reader, batches: int) -> Callable[[CompactionProcess], None]:
    """A streaming read: micro-batches from its checkpoint on."""

    def act(process: CompactionProcess) -> None:
        world = process.world
        log = CommitLog(process.container, reader.stream)
        follower = Follower(log, 1e9, world.clock, by_version=True)
        for _ in range(batches):
            before = reader.after, world.truth.destroyed
            try:
                if not _micro_batch(process, follower, reader):
                    return
            except TransientError:
                world.seen["follower failed: TransientError"] += 1
                return
            except NotFoundError as error:
                world.trace(f"    {process!r} failed: {error}")
                if before == (reader.after, world.truth.destroyed):
                    _check_gone(world, reader, error)
                if before[0] == reader.after:
                    _begin_again(world, reader)
                return

    return act


def _check_gone(world: CompactionWorld, reader: Reader, error: NotFoundError) -> None:
    """A follower fails only if rows of its range were taken away before it began."""
    truth, stream = world.truth, reader.stream
    head = truth.head(stream)
    whole = truth.rows_at(stream, head if reader.planned is None else reader.planned, reader.after)
    gone = reader.after + 1 < truth.first[stream] or whole - truth.rows(stream, reader.after, head)
    if not gone and truth.log[stream]:
        truth.fail(f"a follower of {stream} after {reader.after} fails: {error}")


def _begin_again(world: CompactionWorld, reader: Reader) -> None:
    """A reader whose rows are gone begins at the newest version that it can."""
    truth, stream = world.truth, reader.stream
    world.seen["follower begins again"] += 1
    until = truth.head(stream) if reader.planned is None else reader.planned
    overwritten = (entry.version - 1 for entry in truth.in_effect(stream) if entry.operation == "overwrite")
    dropped = (version for version, _ in truth.limbo(stream) if version <= until)
    reader.after = reader.began = max(reader.after, truth.first[stream] - 1, *overwritten, *dropped)
    reader.planned = None


def _micro_batch(process: CompactionProcess, follower: Follower, reader: Reader) -> bool:
    """False if there is nothing new."""
    world, truth, stream = process.world, process.world.truth, reader.stream
    after, destroyed = reader.after, truth.destroyed
    until = reader.planned
    if until is None:
        until = follower.latest(after, reader.limits)
        if until <= after or reader.after != after:
            return False
        reader.planned = until
    world.seen["follower plans a range again"] += reader.planned == until
    found = read_range(process, follower, after, until)
    if (reader.after, reader.planned) != (after, until):
        return False  # another process of this query has done it
    if truth.destroyed == destroyed:
        expected, limbo = truth.followed(stream, after, until)
        if Counter({each: count for each, count in found.items() if each not in limbo}) != expected:
            truth.fail(f"a follower of {stream} has in ({after}, {until}] {_differ(found, expected)}")
    for version, row in found:
        if not after < version <= until:
            truth.fail(f"a follower of {stream} delivers row {row} of version {version} in ({after}, {until}]")
        before = reader.delivered.get(row)
        if before is not None and before not in truth.revoked(stream):
            truth.fail(f"a follower of {stream} delivers row {row} twice")
        reader.delivered[row] = version
    reader.after, reader.planned = until, None
    world.seen["follower's batch"] += 1
    follower.forget(until)
    return True


def read_range(process: CompactionProcess, follower: Follower, after: int, until: int) -> Counter[tuple[int, int]]:
    """The rows of a range of versions as a streaming query reads them, each with its version."""
    splits = list(split_blobs(blob for blob, _ in follower.blobs(after, until)))
    log = CommitLog(process.container, follower.log.stream)  # the task's
    found: Counter[tuple[int, int]] = Counter()
    for split, first, batch in read_moving_splits(log, splits, SplitSettings(), by_version=True):
        numbers = batch["n"].to_pylist()
        versions = [split.blob.version or 0] * len(numbers)
        if split.blob.part is not None:
            each = [version for version, count in split.blob.part.versions for _ in range(count)]
            versions = each[first : first + len(numbers)]
        found.update(zip(versions, numbers, strict=True))
    return found


def reads_range(stream: str, after: int, until: int) -> Callable[[CompactionProcess], None]:
    """A range that was read long ago is read again: its rows are those that it had, but for what was taken back."""

    def act(process: CompactionProcess) -> None:
        world, truth, destroyed = process.world, process.world.truth, process.world.truth.destroyed
        follower = Follower(CommitLog(process.container, stream), 1e9, world.clock, by_version=True)
        expected, limbo = truth.followed(stream, after, until)
        whole = truth.rows_at(stream, until, after)
        overwritten = whole - truth.rows(stream, after, truth.head(stream))
        if follower.latest(None, TriggerLimits()) < until or truth.destroyed > destroyed:
            return
        try:
            found = read_range(process, follower, after, until)
        except TransientError:
            return
        except NotFoundError as error:
            if after + 1 >= truth.first[stream] and not overwritten and truth.destroyed == destroyed:
                truth.fail(f"({after}, {until}] of {stream} is not found any more: {error}")
            return
        world.seen["range is read again"] += 1
        found = Counter({each: count for each, count in found.items() if each not in limbo})
        if truth.destroyed == destroyed and found != expected:
            truth.fail(f"({after}, {until}] of {stream} read again has {_differ(found, expected)}")

    return act


def _differ(found: Counter[Any], expected: Counter[Any]) -> str:
    return f"more: {sorted((found - expected).elements())}, less: {sorted((expected - found).elements())}"
