"""Which version a task reads, and the stores that a worker process has open.

All tasks of a micro-batch read the version that its first task has pinned, those of a repeated batch too. Spark passes
the query and the batch to each task. A worker keeps what it has open for the tasks after this one.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyspark import TaskContext

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.host.cache import HostCache
from adjunct_store.host.directories import LazyDirectories
from adjunct_store.metrics import StoreMetrics
from adjunct_store.versions.pins import Pinning, ReaderId, reader_of
from adjunct_store.view import Form, View
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.worker_modules import keep_modules

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from adjunct_store.versions.manifest import Generation, Version
    from azure_account.location import Location

logger = logging.getLogger("adjunct_store")

Result = TypeVar("Result")

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a micro-batch; other tasks have none."""
RUN = "spark.jobGroup.id"
"""The same; in tasks of a streaming query it is the id of its run, unless `foreachBatch` sets another one."""
OPEN_STORES = 16
"""How many versions a worker keeps open that its task does not read; at most one of each store, for another query."""
IDLE_TASKS = OPEN_STORES
"""How many tasks in a row may leave a version unread that stays open."""
_PINS = 64
_PIN_SECONDS = 300.0


@dataclass(frozen=True)
class StoreReadSpec:
    """A store as the tasks of a query read it. Picklable; made on the driver.

    location: where the store is.
    reader: whose pin all tasks use. By default each batch of a streaming query has its own pin, and other tasks are
    refused.
    batch: the batch of that pin.
    version: the version that all batches read; by default the newest one when a batch begins.
    form: see `ReadSettings`.
    cache_dir: see `ReadSettings`.
    driver: an id of the process that made it. Another process with a copy of the query's checkpoint has another one.
    """

    location: Location
    reader: str | None = None
    batch: int = 0
    version: int | None = None
    form: Form = "auto"
    cache_dir: str | None = None
    driver: str = ""

    def pin(self, clock: Clock = SYSTEM_CLOCK) -> tuple[Version, Generation]:
        """The version of this task's batch, and its generation. `NotFoundError` if the store has none yet."""
        reader, batch = self.reads()
        key = (os.getpid(), self.location, reader, batch, _run())
        known = _pins.get(key)
        if known is not None and clock.monotonic() < known.until:
            return known.version, known.generation
        try:
            pinning = Pinning(self.location.open(), self.location.path, ReaderId(reader, self.driver), batch)
            found = pinning.pin(self.version)
        except NotFoundError as error:
            step = "Start its fill first, and the query after wait_until_ready."
            if self.version is not None:
                step = "Give the number of a version that it has, or leave `version` out for the newest one."
            raise NotFoundError("read", f"store {self.location}", error.failure, step) from error
        if pinning.is_new:  # no row waits for it
            threading.Thread(target=pinning.delete_older, name="adjunct-store-pins", daemon=True).start()
        _pins[key] = _CachedPin(*found, clock.monotonic() + _PIN_SECONDS)
        while len(_pins) > _PINS:
            _pins.popitem(last=False)
        return found

    def reads(self) -> tuple[str, int]:
        """The reader and the batch whose pin this task uses."""
        if self.reader is not None:  # a static DataFrame, though it may be read in a streaming query
            return self.reader, self.batch
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY)
        batch = None if context is None else context.getLocalProperty(BATCH)
        if query is None or batch is None:
            cause = "this task belongs to no batch of a streaming query"
            step = (
                "In a batch job give streaming=False to lookup or task_reader. A thread that foreachBatch starts "
                "must be a pyspark.InheritableThread: others do not know the batch."
            )
            raise ConfigurationError("read", f"store {self.location}", cause, step)
        if self.version is not None:  # one pin for all batches: a new one could only be of a version that serves
            return reader_of(query, self.version), 0
        return query, int(batch)

    def view(self) -> View:
        """The store as this task sees it. It stays open as long as the task runs; do not close it.

        After a `CorruptError` of the view the next call fetches the version again, in whatever task of the host.
        """
        version, generation = self.pin()
        return _open(self, version, generation).view

    def read(self, action: Callable[[View], Result]) -> Result:
        """What the action returns for the view. Each damaged partition of this host is fetched again, once."""
        version, generation = self.pin()
        for _ in range(generation.partitions):
            view = _open(self, version, generation).view
            try:
                return action(view)
            except CorruptError:
                if _open(self, version, generation).view is view:
                    raise  # what is stored is damaged
        return action(_open(self, version, generation).view)

    def lookup(self, keys: pa.RecordBatch) -> pa.StructArray:
        """The values of these keys, null where there is none."""
        return self.read(lambda view: view.lookup(keys))


@dataclass(frozen=True)
class _CachedPin:
    """A pin that this process has read. until: after that it is read again, which renews it if it grows old."""

    version: Version
    generation: Generation
    until: float


@dataclass
class _OpenVersion:
    """A version that this process has open. reader, turn: of the last task that used it, see `_TaskCounter`."""

    view: View
    directories: LazyDirectories
    metrics: StoreMetrics
    reader: str
    turn: int

    def __post_init__(self) -> None:
        self.metrics.add("versionsOpen", 1)

    def close(self) -> None:
        self.view.close()
        self.directories.close()
        self.metrics.add("versionsOpen", -1)


@dataclass
class _TaskCounter:
    """Counts the tasks of this process; it runs one at a time. Outside of tasks each use is a turn."""

    count: int = 0
    task: int | None = None

    def of(self, task: int | None) -> int:
        """The turn of this task."""
        if task is None or task != self.task:
            self.count, self.task = self.count + 1, task
        return self.count


_turns = _TaskCounter()
_Key: TypeAlias = "tuple[int, Location, str, str | None, tuple[str, ...], str]"
_pins: OrderedDict[tuple[int, Location, str, int, str | None], _CachedPin] = OrderedDict()
_opened: OrderedDict[_Key, _OpenVersion] = OrderedDict()
# The process id is part of the keys: a forked process must not use what its parent has open.


def _key(store: StoreReadSpec, version: Version, generation: Generation) -> _Key:
    """By what is in the version: a store that was deleted and made again has the same numbers."""
    schema = json.dumps(generation.schema, sort_keys=True)
    return os.getpid(), store.location, store.form, store.cache_dir, version.checkpoints, schema


def _open(store: StoreReadSpec, version: Version, generation: Generation) -> _OpenVersion:
    key, turn = _key(store, version, generation), _turns.of(_task())
    reader, _ = store.reads()
    found = _opened.get(key)
    if found is None or found.turn != turn:
        _close_idle(key, reader, turn)
    if found is None:
        directories = LazyDirectories(_host_cache(store), version)
        metrics = StoreMetrics(store.location.container, store.location.path)
        schema = StoreSchema.from_json(generation.schema)
        keep_modules()
        view = View(directories, schema, store.form, metrics, partial(_discard, key, directories))
        found = _opened[key] = _OpenVersion(view, directories, metrics, reader, turn)
        text = "store %s: version %d is opened, with %d entries"
        logger.info(text, store.location.path, version.number, version.entries)
    found.reader, found.turn = reader, turn
    _opened.move_to_end(key)
    return found


def _host_cache(store: StoreReadSpec) -> HostCache:
    location = store.location
    cache_dir = None if store.cache_dir is None else Path(store.cache_dir)
    return HostCache(location.open(), location.path, cache_dir)


def _close_idle(opening: _Key, reader: str, turn: int) -> None:
    """Close versions of earlier tasks: that which the reader has read of the store before, and others but the last few.

    Else each worker would keep files on disk, or values in memory, of versions that no batch reads any more. Of another
    reader one version of the store stays, until no task has read it for a while.
    """
    idle = [key for key, each in _opened.items() if key[0] == os.getpid() and each.turn != turn and key != opening]
    same = [key for key in idle if _without_version(key) == _without_version(opening)]
    before = [key for key in same if _opened[key].reader == reader]
    long = [key for key in idle if _opened[key].turn < turn - IDLE_TASKS]
    for key in {*before, *same[:-1], *long, *idle[: max(0, len(idle) - OPEN_STORES + 1)]}:
        _opened.pop(key).close()


def _without_version(key: _Key) -> tuple[Any, ...]:
    return key[:4]


def _discard(key: _Key, directories: LazyDirectories, partition: int, error: CorruptError) -> None:
    """Let the next task fetch a partition again. The view stays open, since a scan may be using it."""
    found = _opened.get(key)
    if found is not None and found.directories is directories:
        logger.warning("Partition %d of store %s is fetched again: %s", partition, key[1].path, error)
        del _opened[key]
        found.metrics.add("versionsOpen", -1)
        directories.discard(partition)


def _run() -> str | None:
    """The run of the streaming query: one that is started again reads its pins again."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(RUN)


def _task() -> int | None:
    context = TaskContext.get()
    return None if context is None else context.taskAttemptId()
