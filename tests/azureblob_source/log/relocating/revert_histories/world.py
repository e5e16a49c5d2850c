"""A query whose checkpoint is set back, its batches, which are taken back, and the readers: storage, truth, work.

The input of the query is the numbers from 0 on, each of one stream. Its checkpoint says where the input of each planned
batch ends, and which batches are done. A backup of it is a copy; a batch that is planned again after a restore has
other rows than before.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Transaction, from_json
from azureblob_source.log.naming import batches_stream, blob_name, is_batch_log, log_stream, log_version
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.options import EARLIEST
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.staged_task import StagedTask
from foundation.errors import AzureBlobError, ConflictError, FencedError, NotFoundError, TransientError
from tests.azureblob_source.log.commit_histories.processes import aim_of
from tests.azureblob_source.write.sink_rows import plan_of
from tests.histories import world as histories
from tests.histories.process import HistoryProcess
from tests.histories.world import BOX, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azure_account.retrying.retry_loop import Request
    from azureblob_source.write.planning import WritePlan

QUERY, OTHER = "q", "other"
BOUNDARY = "/_log/_first.json"
PARTITIONS = "overwrite-partitions"
SCHEMA = pa.schema([("stream", pa.string()), ("n", pa.int64())])
Place = tuple[str, int]
"""Log and version of an entry."""


@dataclass
class Checkpoint:
    """What Spark has of the query on a disk, or a backup of that. ends: where the input of each planned batch ends.

    planned: when the last batch was planned. lost: the disk is lost, and another one has taken its place.
    """

    ends: list[int] = field(default_factory=list)
    committed: int = -1
    planned: float = 0.0
    lost: bool = False

    @property
    def last(self) -> int:
        """The last planned batch."""
        return len(self.ends) - 1

    def copy(self) -> Checkpoint:
        """A backup, or what is restored from one."""
        return Checkpoint(list(self.ends), self.committed, self.planned)

    def rows(self, batch: int) -> range:
        """The rows of a planned batch."""
        return range(self.ends[batch - 1] if batch else 0, self.ends[batch])


class RevertProcess(HistoryProcess):
    """A driver, a revert, a reader, or a vacuum. disk, batch, epoch: of a driver. puts: entries that it has put."""

    world: RevertWorld
    disk: Checkpoint | None = None
    batch = -1
    puts = 0

    def aim_of(self, request: Request) -> str:
        """What a request is for."""
        return aim_of(request)

    @property
    def is_between_parts(self) -> bool:
        """Whether it is about to put or to publish what is committed already."""
        if self.next is None or not self.is_at("commit", "publish", "remove"):
            return False
        return not self.is_at("commit") or (self.world.many and not self.next.name.startswith("_batches/"))


@dataclass
class Truth(histories.Truth):
    """The storage as a reader of the listing sees it, and what every log has had."""

    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Rows of every staged blob, by name; those of the other query are negative."""
    visible: set[str] = field(default_factory=set)
    count: Counter[int] = field(default_factory=Counter)
    """How often a reader of the listing sees each row, apart from blobs that have come back."""
    back: set[str] = field(default_factory=set)
    """Blobs that a suspended driver has published after they were taken back: it deletes them, or a repair does."""
    log: dict[str, dict[int, LogEntry]] = field(default_factory=lambda: defaultdict(dict))
    named: dict[str, Place] = field(default_factory=dict)
    first: Counter[str] = field(default_factory=Counter)
    taken_back: set[Place] = field(default_factory=set)
    put: Callable[[str, LogEntry], object] = lambda *_: None
    """Called with each new entry and its log."""

    def changed(self, name: str, data: bytes | None) -> None:
        """A blob was put or committed, or (None) deleted."""
        version = log_version(name)
        if name.endswith(BOUNDARY) and data is not None:
            self.first[name[: -len(BOUNDARY)]] = json.loads(data)["first"]
        elif version is not None and data is not None:
            self._entry(log_stream(name) or "", from_json(data, name))
        elif name in self.rows:
            self._blob(name, there=data is not None)

    def _entry(self, log: str, entry: LogEntry) -> None:
        if entry.version < self.first[log]:
            return
        there = self.log[log].setdefault(entry.version, entry)
        if there.write_id != entry.write_id:
            self.fail(f"version {entry.version} of {log} was committed twice")
        if there is not entry:
            return
        if not is_batch_log(log):
            self.named.update((blob.name, (log, entry.version)) for blob in entry.blobs)
        self.taken_back.update((log, version) for version in (*entry.reverts, *restored_away(entry)))
        self.put(log, entry)

    def _blob(self, name: str, *, there: bool) -> None:
        if there == (name in self.visible):
            return
        (self.visible.add if there else self.visible.remove)(name)
        if there and name not in self.named:
            self.fail(f"{name} is published and no entry names it")
        elif there and not self.is_in_effect(self.named[name]):
            self.seen["a suspended driver publishes what was taken back"] += 1
            self.back.add(name)
        elif name in self.back:
            self.back.discard(name)
        else:
            self.count.update(dict.fromkeys(self.rows[name], 1 if there else -1))
            twice = [row for row in self.rows[name] if self.count[row] > 1]
            if twice:
                self.fail(f"row {twice[0]} is visible twice")

    def revoked(self, log: str) -> set[int]:
        """The versions of a log that others have revoked."""
        return {version for entry in self.log[log].values() for version in entry.revoked}

    def restored_away(self, log: str) -> set[int]:
        """The versions of a log that have come after one that was restored."""
        return {version for entry in self.log[log].values() for version in restored_away(entry)}

    def is_in_effect(self, place: Place) -> bool:
        """Whether no entry has revoked this one, or restored one before it."""
        return place[1] not in self.revoked(place[0]) | self.restored_away(place[0])

    def in_effect(self, log: str) -> list[LogEntry]:
        """The entries of a log in effect, vacuumed ones too."""
        revoked = self.revoked(log)
        return [entry for version, entry in sorted(self.log[log].items()) if version not in revoked]

    def vacuumed(self, log: str, after: int) -> bool:
        """Whether a batch of the query after this one is in effect and vacuumed."""
        return any(
            entry.version < self.first[log] and entry.operation != "revert" and entry.transaction.version > after
            for entry in self.in_effect(log)
            if entry.transaction is not None and entry.transaction.id == QUERY
        )

    def of_log(self, stream: str) -> tuple[Counter[int], set[int]]:
        """The rows of a stream that readers of the log must see, and those that were removed, but by a revert."""
        kept: Counter[int] = Counter()
        gone: set[int] = set()
        away = self.restored_away(stream)
        for entry in self.in_effect(stream):
            rows = [row for blob in entry.blobs for row in self.rows[blob.name]]
            if entry.operation == PARTITIONS:
                own = {blob.partition for blob in entry.blobs}
                replaced = {row for row in kept if partition_of(row) in own}
                self.seen["overwrite of rows of the query"] += any(row >= 0 for row in replaced)
                gone |= replaced
                kept = Counter({row: count for row, count in kept.items() if row not in replaced})
            (gone if entry.version < self.first[stream] or entry.version in away else kept).update(rows)
        return kept, gone


def partition_of(row: int) -> str | None:
    """The partition of a row, in histories with overwrites of partitions."""
    return (None, "x", "y")[row % 3]


def restored_away(entry: LogEntry) -> range:
    """The versions that have come after the one that an entry restores."""
    return range(0) if entry.restores is None else range(entry.restores + 1, entry.version)


@dataclass
class Reader:
    """A streaming query over one stream: where it is, and from which entry it has each row."""

    stream: str
    limits: TriggerLimits
    after: int | None = None
    delivered: dict[int, Place] = field(default_factory=dict)


@dataclass(kw_only=True)
class RevertWorld(World[RevertProcess]):
    """One history's storage, query and readers.

    many: the rows name their streams. epochs: each driver has one. partitioned: rows have partitions, which the other
    query overwrites. disk: the checkpoint in use. recovering: the
    checkpoint was set back to `disk`, and what the log has after batch `after` is not taken back yet. before: the disk
    that was lost.
    """

    many: bool
    epochs: bool
    streams: tuple[str, ...]
    readers: list[Reader]
    truth: Truth = field(default_factory=Truth)
    make: Callable[..., RevertProcess] = RevertProcess
    disk: Checkpoint = field(default_factory=Checkpoint)
    before: Checkpoint | None = None
    backups: list[Checkpoint] = field(default_factory=list)
    recovering: bool = False
    after: int = -1
    epoch: int = 0
    ids: int = 0
    others: int = 0
    checkpoint_interval: int = 64
    partitioned: bool = False
    acknowledged: set[int] = field(default_factory=set)
    """Rows of the other query that are done."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.truth.put = self._put

    @property
    def seen(self) -> Counter[str]:
        """How often each event was seen."""
        return self.truth.seen

    @property
    def log(self) -> str:
        """The log that the query's batches are committed to first."""
        return batches_stream(QUERY) if self.many else self.streams[0]

    @property
    def logs(self) -> list[str]:
        """Every log."""
        return sorted({*self.streams, self.log})

    def new_id(self) -> str:
        """A write id."""
        self.ids += 1
        return f"w{self.ids}"

    def utc(self) -> datetime:
        """The time of the history."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def draft(self) -> Draft:
        """What a revert appends begins as this; it has the epoch of the next driver."""
        return Draft(self.new_id(), self.utc().isoformat(), epoch=self.epoch if self.epochs else None)

    def stream_of(self, row: int) -> str:
        """The stream of a row: most are of the first one, few of the last."""
        return self.streams[(0, 0, 1, 0, 0, 0, 2, 0, 1)[row * 7 % 9] % len(self.streams)]

    def _put(self, log: str, entry: LogEntry) -> None:
        if self.running is not None:
            self.running.puts += 1
        own = entry.transaction is not None and entry.transaction.id == QUERY
        self.seen["batch without rows"] += own and log == self.log and not entry.blobs and entry.operation == "append"
        if entry.operation == "revert":
            self.seen["revert of a log"] += 1
            self.seen["revert of a stream that has no part of the batches"] += not entry.reverts
            self.seen["revert of a stream without a log"] += entry.version == 0
            self.seen["second revert of a log"] += any(
                each.operation == "revert" for each in self.truth.log[log].values() if each is not entry
            )
            self.seen["revert of several batches"] += len(entry.reverts) > 1
            self.seen["revert beside a vacuum"] += self.truth.first[log] > 0
        self.seen["overwrite of partitions"] += entry.operation == PARTITIONS
        self.seen["epoch of a batch log"] += entry.operation == "epoch" and is_batch_log(log)


@lru_cache(maxsize=1000)
def write_plan(stream: str | None, epoch: int | None) -> WritePlan:
    """The plan of a write into one stream, or into those that the rows name."""
    options: dict[str, object] = {} if epoch is None else {"epoch": epoch}
    if stream is None:
        return plan_of(SCHEMA, BOX, streamColumn="stream", **options)
    return plan_of(SCHEMA, f"{BOX}/{stream}", **options)


def committer(process: RevertProcess, stream: str | None, epoch: int | None) -> BatchCommitter:
    """A driver's committer, with logs that it has just opened."""
    logs: dict[str, CommitLog] = {}
    return BatchCommitter(
        replace(write_plan(stream, epoch).of_commit, checkpoint_interval=process.world.checkpoint_interval),
        process.container,
        lambda name: logs.setdefault(name, CommitLog(process.container, name)),
        process.world.new_id,
        process.world.clock,
    )


def stage(process: RevertProcess, rows: Iterable[int]) -> list[StagedTask]:
    """The tasks of a batch: one for each stream, at times two."""
    world, tasks = process.world, defaultdict[tuple[str, int, str], list[int]](list)
    for row in rows:
        stream, task = world.stream_of(row) if row >= 0 else world.streams[0], process.draws.randrange(2)
        tasks[stream, task, (world.partitioned and partition_of(row)) or ""].append(row)
    return [
        StagedTask(len(rows), (_stage_blob(process, stream, partition or None, rows),))
        for (stream, _, partition), rows in sorted(tasks.items())
    ]


def _stage_blob(process: RevertProcess, stream: str, partition: str | None, rows: list[int]) -> BlobEntry:
    attempt = f"{process.draws.getrandbits(64):016x}"
    name = blob_name(stream, partition, datetime(2013, 1, 31, 12, 0, 5, tzinfo=UTC), attempt[:8], ".avro")
    schema = write_plan("a", None).avro.fingerprint
    blob = BlobEntry(name, stream, partition, attempt, 1, len(rows), 1, 1, schema, "end")
    process.world.truth.rows[name] = tuple(rows)
    process.container.stage_block(name, blob.block_ids[0], b"x")
    return blob


def drive(process: RevertProcess, batches: int) -> None:
    """One driver of the query, on the disk of its machine: so many batches, as Spark runs them. It ends at an error.

    If its disk was lost meanwhile, the program starts the query again with the restored checkpoint: without epochs, as
    then nobody else does.
    """
    world, disk = process.world, process.world.disk
    epoch = None
    if world.epochs:
        epoch = world.epoch = world.epoch + 1
    process.disk = disk
    writer = committer(process, None if world.many else world.streams[0], epoch)
    failures = 0
    while batches > 0:
        if disk.lost and not world.epochs:
            if world.recovering or any(each.disk is world.disk for each in world.alive("driver")):
                world.seen["driver of a lost disk is stopped by hand"] += 1
                return
            world.seen["the same process goes on after a revert"] += 1
            disk = process.disk = world.disk
        batch = process.batch = disk.committed + 1
        if batch == len(disk.ends):
            disk.ends.append((disk.ends[-1] if batch else 0) + process.draws.choice([0, 1, 2, 3, 5]))
            disk.planned = world.clock.now()
        staged = stage(process, disk.rows(batch))
        try:
            writer.commit(staged, Transaction(QUERY, batch))
        except AzureBlobError as error:
            _stopped(process, error)
            failures += 1
            if failures == 1 and disk.lost and not world.epochs:
                continue
            if failures > 1:
                world.truth.fail(f"a process cannot go on after a revert: {error}")
            return
        if disk.committed + 1 != batch:
            return
        disk.committed, batches = batch, batches - 1
        world.trace(f"    {process!r}: batch {batch} is done: {disk.rows(batch)}{' (lost)' * disk.lost}")


def _stopped(process: RevertProcess, error: AzureBlobError) -> None:
    world, is_behind = process.world, process.disk is not None and process.disk.lost
    world.trace(f"    {process!r} stops: {error}")
    world.seen[f"driver stops: {type(error).__name__}"] += 1
    world.seen["suspended driver puts no part of what was taken back"] += "a revert has taken it back" in str(error)
    if isinstance(error, FencedError):
        world.seen["driver of a lower epoch is fenced"] += 1
        world.seen["driver of a lower epoch on a lost disk is fenced"] += is_behind


def write_other(process: RevertProcess) -> None:
    """A batch of another query, to the first stream."""
    world = process.world
    batch = world.others = world.others + 1
    writer = committer(process, world.streams[0], None)
    overwrites = world.partitioned and process.draws.random() < 0.6
    writer = replace(writer, plan=replace(writer.plan, overwrite_partitions=overwrites))
    try:
        writer.commit(stage(process, [-batch]), Transaction(OTHER, batch), overwrite=overwrites)
    except AzureBlobError as error:
        _stopped(process, error)
        return
    world.acknowledged.add(-batch)
    world.seen["batch of another query"] += 1


def take_back(process: RevertProcess, number: int) -> None:
    """What follows a restore: the command, with any stream of the query."""
    world, truth, disk, after = process.world, process.world.truth, process.world.disk, process.world.after
    there = [stream for stream in world.streams if truth.log[stream]]
    named = {blob.stream for entry in truth.log[world.log].values() for blob in entry.blobs} if world.many else set()
    streams = there or sorted(named) or (["a"] if truth.log[world.log] else [])
    if not streams:
        world.recovering = False
        return
    stream = streams[number % len(streams)]
    refused = any(truth.vacuumed(log, after) for log in world.logs)
    try:
        plan = plan_revert(process.container, stream, Transaction(QUERY, after))
        world.seen["revert of nothing"] += not plan.is_needed
        if plan.is_needed or world.epochs:
            carry_out(process.container, plan, world.draft, Publisher(process.container))
    except NotFoundError as error:
        if there:
            truth.fail(f"a revert does not find its stream: {error}")
        world.recovering = False
        world.seen["revert of a query that has written no rows"] += 1
        return
    except ConflictError as error:
        _refused(process, error, refused=refused)
        return
    except TransientError:
        world.seen["revert without an answer"] += 1
        return
    if refused:
        truth.fail(f"batches after {after} are taken back although one was vacuumed")
    if world.disk is disk and world.recovering:
        places = {name: truth.named[name] for name in truth.visible - truth.back}
        left = [name for name, (log, version) in places.items() if version in truth.revoked(log)]
        if left:
            truth.fail(f"the revert has ended, and {left[0]} is visible")
        world.trace(f"    {process!r}: batches after {after} are taken back")
        world.recovering = False
        world.seen["revert"] += 1


def _refused(process: RevertProcess, error: ConflictError, *, refused: bool) -> None:
    """A revert is refused since something of the query was vacuumed: the newer checkpoint is found. Or it goes on."""
    world = process.world
    world.trace(f"    {process!r} is refused: {error}")
    if "after the revert was planned" in str(error):
        world.seen["revert meets a driver that goes on"] += 1
        if not world.epochs:
            world.truth.fail(f"a revert is refused: {error}")
    elif not refused or "a vacuum has removed" not in str(error):
        world.truth.fail(f"a revert is refused without reason: {error}")
    elif world.before is not None:
        world.seen["revert is refused after a vacuum"] += 1
        world.disk, world.before, world.recovering = world.before, None, False
        world.disk.lost = False


def vacuum_log(process: RevertProcess, log: str, before: float) -> None:
    """`azureblob vacuum`."""
    try:
        plan = plan_vacuum(CommitLog(process.container, log), datetime.fromtimestamp(before, UTC))
        done = vacuum(process.container, plan, process.world.new_id)
    except (ConflictError, NotFoundError):
        return
    process.world.seen["vacuum"] += done.entries > 0


# --- reading ----------------------------------------------------------------------------------------------------------


def snapshot(process: RevertProcess, stream: str) -> Counter[int]:
    """The rows of a stream as a batch read finds them in the log."""
    world = process.world
    try:
        found = take_snapshot(CommitLog(process.container, stream), None, world.clock, publish_timeout=0)
    except (NotFoundError, TransientError):
        return Counter()
    world.seen["snapshot"] += 1
    rows = Counter(row for blob in found.blobs for row in world.truth.rows[blob.name])
    if any(count > 1 for count in rows.values()):
        world.truth.fail(f"a snapshot of {stream} has a row twice")
    return rows


def follow(process: RevertProcess, reader: Reader, batches: int) -> None:
    """A streaming read: micro-batches from its checkpoint on."""
    world = process.world
    follower = Follower(CommitLog(process.container, reader.stream), 1e9, world.clock)
    for _ in range(batches):
        try:
            if not _micro_batch(process, follower, reader):
                return
        except NotFoundError:
            gone = reader.after is None or reader.after + 1 < world.truth.first[reader.stream]
            world.seen["follower overtaken by a vacuum" if gone else "follower's blob is taken back meanwhile"] += 1
            if gone:
                reader.after, reader.delivered = None, {}
            return


def _micro_batch(process: RevertProcess, follower: Follower, reader: Reader) -> bool:
    """False if there is nothing new."""
    world, stream, truth = process.world, reader.stream, process.world.truth
    after = follower.version_before(EARLIEST) if reader.after is None else reader.after
    until = follower.latest(after, reader.limits)
    if until <= after:
        return False
    before = {version for log, version in truth.taken_back if log == stream and after < version <= until}
    found, hidden = follower.blobs(after, until), follower.taken_back(after, until)
    wrong = before & {blob.version for blob, _ in found}
    later = {version for entry in truth.log[stream].values() if entry.version > until for version in entry.reverts}
    if wrong or (before & later) - hidden:
        truth.fail(f"a follower of {stream} reads {sorted(wrong or before - hidden)}, which was taken back before")
    world.seen["follower skips what was taken back"] += bool(hidden)
    newest = max((entry.version for entry in truth.log[stream].values() if entry.operation == "revert"), default=0)
    of_newest = truth.log[stream][newest].reverts if newest else ()
    world.seen["follower skips what an earlier revert took back"] += bool(hidden - set(of_newest))
    for blob, _ in found:
        process.container.get(blob.name)
        for row in truth.rows[blob.name]:
            earlier = reader.delivered.get(row)
            if earlier is not None and earlier not in truth.taken_back:
                truth.fail(f"a follower of {stream} delivers row {row} twice")
            world.seen["follower reads again what was taken back"] += earlier is not None
            reader.delivered[row] = (stream, blob.version or 0)
    reader.after = until
    follower.forget(until)
    world.seen["follower's batch"] += 1
    return True
