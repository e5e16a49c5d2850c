"""Which version a task reads, and what its worker does about damaged files, without Spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.engine import rocks
from adjunct_store.host import cache as host_cache
from adjunct_store.host.cleaning import clean_cache
from adjunct_store.spark.reading import task_reader
from adjunct_store.spark.reading.pinning import plan
from adjunct_store.spark.reading.settings import ReadSettings
from adjunct_store.spark.reading.task_reader import BATCH, QUERY, StoreReadSpec
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.pins import release
from adjunct_store.view import FORMS, Form, View
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.errors import CorruptError, NotFoundError, TransientError
from foundation.host_locks import exclusive, try_directory
from state_backup.restoring.restore import materialise
from tests.adjunct_store.tasks import BatchWriter, location_of

STORE = "stores/planes"
SCHEMA = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("seats", pa.int64())]), partitions=4)
PARTITION_OF_1 = int(partition_of(pa.record_batch({"id": [1]}), SCHEMA.partitions)[0])
KEYS = pa.record_batch({"id": pa.array(range(4000), pa.int64())})


@dataclass
class Worker:
    """A store of four partitions, and a process that runs tasks which read it."""

    folder: Path
    patch: pytest.MonkeyPatch
    properties: dict[str, str] = field(default_factory=dict)
    tasks: int = 0

    def __post_init__(self) -> None:
        self.account = MemoryAccount()
        self.account.container("box").create()
        self.location = location_of(self.account.container("box"), STORE)
        self.patch.setattr(task_reader, "TaskContext", self)
        self.patch.setattr(task_reader, "_opened", type(task_reader._opened)())
        self.patch.setattr(task_reader, "_pins", type(task_reader._pins)())

    def writer(self, name: str = "writer") -> BatchWriter:
        container, schema = self.location.open(), SCHEMA.to_json()
        fill = open_fill(
            Location.in_container(container, STORE),
            schema,
            FillRequirements(partitions=4, source="test", threads=1, keep=10),
        )
        return BatchWriter(self.location, fill, SCHEMA, self.folder / name)

    def store(self, form: Form = "rocksdb", **more: Any) -> StoreReadSpec:
        return StoreReadSpec(self.location, cache_dir=str(self.folder / "cache"), form=form, **more)

    def begin_task(self, query: str | None = None, batch: int = 0) -> None:
        self.tasks += 1
        self.properties = {} if query is None else {QUERY: query, BATCH: str(batch)}

    def get(self) -> Worker:
        """As `TaskContext.get`."""
        return self

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - as TaskContext
        return self.properties.get(name)

    def taskAttemptId(self) -> int:  # noqa: N802 - as TaskContext
        return self.tasks

    def close_all(self) -> None:
        while task_reader._opened:
            task_reader._opened.popitem()[1].close()

    def directories(self, partition: int) -> list[Path]:
        found = (self.folder / "cache").glob(f"*/g1/p{partition}/*-*")
        return sorted(path for path in found if path.name.count("-") == 1 and "." not in path.name)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path, monkeypatch)


@pytest.mark.parametrize("given_first", [True, False])
def test_a_batch_reads_the_newest_version_and_a_given_one_side_by_side(worker: Worker, given_first: bool) -> None:
    writer = worker.writer()
    for batch in range(3):
        writer.run(batch, {1: {"seats": batch}})
    worker.begin_task("query", 0)
    stores = {0: worker.store(version=1), 1: worker.store(version=2), 2: worker.store()}
    for seats, store in stores.items() if given_first else reversed(stores.items()):
        assert {"seats": seats} == store.view().get(1)
    container, pins = worker.location.open(), StoreNames(STORE).all_pins
    assert 3 == len(list(container.list(pins)))
    release(container, STORE, "quer")
    assert 3 == len(list(container.list(pins)))
    release(container, STORE, "query")
    assert [] == list(container.list(pins))


def test_a_version_that_a_worker_opens_is_one_line_in_the_log(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    worker.writer().run(0, {1: {"seats": 1}, 2: {"seats": 2}})
    caplog.set_level("INFO", "adjunct_store")
    for _ in range(3):
        worker.begin_task("query", 0)
        worker.store().view()
    assert [f"store {STORE}: version 1 is opened, with 2 entries"] == [each.getMessage() for each in caplog.records]


class Together(Intercept):
    """Each first request for a partition waits until those for all others are made."""

    def __init__(self, partitions: int) -> None:
        self.all = threading.Barrier(partitions, timeout=30)
        self.seen: set[str] = set()
        self.lock = threading.Lock()

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        place = request.name.removeprefix(f"{STORE}/g1/").partition("/")[0]
        with self.lock:
            first = place.startswith("p") and place not in self.seen
            self.seen.add(place)
        if first:
            self.all.wait()
        return send()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reads", ["looks up", "scans", "counts"])
def test_the_partitions_of_a_version_are_fetched_at_the_same_time(worker: Worker, form: Form, reads: str) -> None:
    values = {key: {"seats": key} for key in range(100)}
    worker.writer().run(0, dict(values))
    together = Together(SCHEMA.partitions)
    worker.location = location_of(worker.account.restarted(together).container("box"), STORE)
    worker.begin_task("query")
    view = worker.store(form=form).view()
    match reads:
        case "looks up":
            assert list(values.values()) == view.get_many([(key,) for key in values])
        case "scans":
            assert values == {key: value for (key,), value in view.scan()}
        case "counts":
            assert 100 == view.entries
    assert {"p0", "p1", "p2", "p3"} <= together.seen
    worker.close_all()


def test_only_the_partitions_that_have_keys_are_fetched(worker: Worker) -> None:
    worker.writer().run(0, {key: {"seats": key} for key in range(100)})
    worker.begin_task("query")
    where = partition_of(KEYS, SCHEMA.partitions)
    keys = [(key,) for key in range(100) if where[key] in (1, 3)]
    assert None not in worker.store().view().get_many(keys)
    assert [0, 1, 0, 1] == [len(worker.directories(partition)) for partition in range(4)]
    worker.close_all()


def test_a_partition_that_cannot_be_fetched_is_an_error_and_the_others_are_closed(worker: Worker) -> None:
    version = worker.writer().run(0, {key: {"seats": key} for key in range(100)})
    container = worker.location.open()
    for blob in list(container.list(f"{StoreNames(STORE).state(1, 2)}/")):
        container.delete(blob.name)
    worker.begin_task("query")
    for _ in range(2):
        with pytest.raises(
            NotFoundError, match=f"fetch checkpoint {version.checkpoints[2]} of generation 1, partition 2"
        ):
            worker.store().view().get_many([(key,) for key in range(100)])
    worker.close_all()
    assert [] != worker.directories(0)
    clean_cache(worker.folder / "cache")
    assert [] == [path for partition in range(4) for path in worker.directories(partition)]


def test_a_given_version_is_read_by_all_batches_though_it_serves_no_more(worker: Worker) -> None:
    writer = worker.writer()
    writer.run(0, {1: {"seats": 0}})
    for batch in range(1, 15):
        worker.begin_task("query", batch)
        assert {"seats": 0} == worker.store(version=1).view().get(1)
        writer.run(batch, {1: {"seats": batch}})
    worker.begin_task("another", 0)
    with pytest.raises(NotFoundError, match="version 1 does not serve.*Give the number of a version that it has"):
        worker.store(version=1).view()


def test_tasks_of_a_query_with_a_copied_checkpoint_leave_the_pins_of_the_other_one(worker: Worker) -> None:
    writer = worker.writer()
    writer.run(0, {1: {"seats": 0}})
    plans = [plan(worker.location, ReadSettings(), streaming=True).pinned for _ in range(2)]
    assert plans[0].driver == plans[1].driver != "", "both are of this process"
    own, copy = (replace(plans[0], cache_dir=str(worker.folder / "cache"), driver=name) for name in ("own", "copy"))
    worker.begin_task("query", 50)
    assert {"seats": 0} == own.view().get(1)
    for batch in range(51, 55):
        worker.begin_task("query", batch)
        copy.view()
        writer.run(batch, {1: {"seats": batch}})
    worker.close_all()
    task_reader._pins.clear()  # another worker process
    worker.begin_task("query", 50)
    assert {"seats": 0} == own.view().get(1)
    worker.close_all()


def test_a_static_dataframe_has_its_version_in_a_streaming_query_too(worker: Worker) -> None:
    writer = worker.writer()
    writer.run(0, {1: {"seats": 0}})
    static = worker.store(reader="batch-1", version=1)
    for batch in range(1, 15):  # beyond `keep`: version 1 does not serve
        assert {"seats": 0} == static.view().get(1)
        writer.run(batch, {1: {"seats": batch}})
        worker.begin_task("query", batch)
        assert {"seats": 0} == static.view().get(1)
        assert {"seats": batch} == worker.store().view().get(1)


def test_a_store_that_was_deleted_and_made_again_is_another_one(worker: Worker) -> None:
    worker.writer().run(0, {1: {"seats": 100}})
    worker.begin_task()
    assert {"seats": 100} == worker.store(reader="batch-1").view().get(1)
    container = worker.location.open()
    for blob in list(container.list(f"{STORE}/")):
        container.delete(blob.name)
    worker.writer("another").run(0, {1: {"seats": 999}})
    worker.begin_task()
    assert {"seats": 999} == worker.store(reader="batch-2").view().get(1)


def test_a_worker_has_one_version_of_a_store_open_for_each_query_however_often_it_changes(worker: Worker) -> None:
    writer = worker.writer()
    for batch in range(6):
        version = writer.run(batch, {1: {"seats": batch}})
        worker.begin_task("query", batch)
        assert {"seats": batch} == worker.store().view().get(1)
    there = worker.directories(PARTITION_OF_1)
    assert [False, True] == [_is_open(path) for path in there]
    assert version.checkpoints[PARTITION_OF_1] == there[-1].name
    writer.run(6, {1: {"seats": 6}})
    worker.begin_task("another", 0)
    assert {"seats": 6} == worker.store().view().get(1)
    assert [True, True] == [_is_open(path) for path in worker.directories(PARTITION_OF_1)]
    worker.close_all()


def _is_open(directory: Path) -> bool:
    lock = try_directory(directory)
    if lock is not None:
        lock.release()
    return lock is None


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The states of which checkpoints were fetched."""
    states: list[str] = []

    def counted(state: Any, *given: Any) -> Any:
        states.append(state.path.removeprefix(f"{STORE}/g1/"))
        return materialise(state, *given)

    monkeypatch.setattr(host_cache, "materialise", counted)
    return states


@pytest.mark.parametrize("form", ["rocksdb", "memory"])
@pytest.mark.parametrize("damaged", [(3,), (0, 1, 2, 3)])
def test_damaged_partitions_are_fetched_again_and_no_others(
    worker: Worker, fetched: list[str], damaged: tuple[int, ...], form: Any
) -> None:
    worker.writer().run(0, {key: {"seats": key} for key in range(4000)})
    worker.begin_task("query", 0)
    store = worker.store(form=form)
    expected = store.lookup(KEYS)
    worker.close_all()
    for partition in damaged:
        _overwrite(worker.directories(partition)[0])
    worker.begin_task("query", 0)
    assert expected.equals(store.lookup(KEYS))
    assert sorted(["p0", "p1", "p2", "p3", *(f"p{each}" for each in damaged)]) == sorted(fetched)


def test_a_view_that_met_damage_opens_nothing_more_and_harms_no_other(worker: Worker, fetched: list[str]) -> None:
    worker.writer().run(0, {key: {"seats": key} for key in range(4000)})
    worker.begin_task("query", 0)
    worker.store().lookup(KEYS)
    worker.close_all()
    _overwrite(worker.directories(0)[0])
    worker.begin_task("query", 0)
    old = worker.store().view()
    errors = sum(_is_damaged(old, key) for key in range(100))
    assert 0 < errors < 100
    fresh = worker.store().view()
    assert {"seats": 7} == fresh.get(7)
    with pytest.raises(CorruptError, match=r"Call view\(\) again"):
        old.lookup(KEYS)
    assert fresh is worker.store().view()
    assert 0 == fresh.lookup(KEYS).null_count
    assert ["p0", "p0", "p1", "p2", "p3"] == sorted(fetched)
    worker.close_all()
    assert not any(_is_open(path) for number in range(4) for path in worker.directories(number))


def _is_damaged(view: View, key: int) -> bool:
    try:
        assert {"seats": key} == view.get(key)
    except CorruptError:
        return True
    return False


def test_the_end_of_a_manifest_that_is_lost_is_found_when_it_is_opened(worker: Worker) -> None:
    """RocksDB reads it as that of the version before: keys of the newest batch were missing in silence."""
    writer = worker.writer()
    writer.run(0, {key: {"seats": key} for key in range(0, 4000, 2)})
    writer.run(1, {key: {"seats": key} for key in range(1, 4000, 2)})
    worker.begin_task("query", 0)
    mine = KEYS.filter(pa.array(partition_of(KEYS, SCHEMA.partitions) == 2))
    expected = worker.store().lookup(mine)
    assert 0 == expected.null_count
    sizes = range(len(_manifest(worker).read_bytes()) - 1, 0, -3)
    for size in sizes:
        worker.close_all()
        manifest = _manifest(worker)
        manifest.write_bytes(manifest.read_bytes()[:size])
        worker.begin_task("query", 0)
        assert expected.equals(worker.store().lookup(mine)), size
    assert len(sizes) > 70


def test_bits_that_a_disk_flips_in_files_that_are_not_read_again_are_found_by_who_reads_them(
    worker: Worker, fetched: list[str]
) -> None:
    """Neither size nor time tells of it, so the next version links the file."""
    draws, writer = Random(5), worker.writer()
    mine = KEYS.filter(pa.array(partition_of(KEYS, SCHEMA.partitions) == 2))
    writer.run(0, {key: {"seats": key} for key in range(4000)})
    linked = 0
    for batch in range(1, 81):
        _make_old(worker.directories(2))
        if batch % 3 == 0:  # the fetches of the two batches before have noted its files
            _flip_a_bit(worker.directories(2)[-1], draws)
        writer.run(batch, {mine["id"][0].as_py(): {"seats": batch}})
        worker.begin_task("query", batch)
        before = len(fetched)
        rocks._cache.clear()  # as in a new worker: this one has the blocks in memory
        found = worker.store().lookup(mine)
        assert [batch, *mine["id"].to_pylist()[1:]] == found.field("seats").to_pylist()
        linked += len(fetched) > before + 1
    assert linked > 10, "how often a damaged file was linked, found when it was read, and fetched again"


def _flip_a_bit(directory: Path, draws: Random) -> None:
    """Of the largest table."""
    table = max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
    table.write_bytes(data)
    _make_old([directory])


def _make_old(directories: list[Path]) -> None:
    """As files are that were not written in the last seconds, and all with the same time."""
    for path in (path for directory in directories for path in directory.iterdir()):
        os.utime(path, (1_600_000_000, 1_600_000_000))


def _manifest(worker: Worker) -> Path:
    return next(worker.directories(2)[-1].glob("MANIFEST-*"))


def test_what_is_stored_damaged_is_downloaded_once_by_each_attempt_and_the_step_is_one_for_stores(
    worker: Worker, fetched: list[str]
) -> None:
    worker.writer().run(0, {key: {"seats": key} for key in range(4000)})
    container = worker.location.open()
    files = [blob for blob in container.list(f"{STORE}/g1/p3/files/") if blob.size > 1000]
    largest = max(files, key=lambda blob: blob.size)
    container.put(largest.name, container.get(largest.name).data[:-1] + b"\x00")
    for attempt in range(3):
        worker.begin_task("query", 0)
        with pytest.raises(CorruptError, match=r"partition 3, of store .*rebuild=True.*verify --deep"):
            worker.store().lookup(KEYS)
        assert ["p0", "p1", "p2", *["p3"] * (attempt + 1)] == sorted(fetched)


def test_a_discard_that_must_wait_too_long_keeps_no_directory_on_the_disk(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = worker.writer()
    writer.run(0, {key: {"seats": key} for key in range(4000)})
    worker.begin_task("query", 0)
    worker.store().lookup(KEYS)
    worker.close_all()
    damaged = worker.directories(3)[0]
    _overwrite(damaged)
    monkeypatch.setattr(host_cache.HostCache.__init__, "__kwdefaults__", _patient(0.2))
    worker.begin_task("query", 0)
    with exclusive(damaged.parent / "lock"), pytest.raises(TransientError, match="Run it again later"):
        worker.store().lookup(KEYS)
    for batch in range(1, 6):
        writer.run(batch, {key: {"seats": batch} for key in range(4000)})
        worker.begin_task("query", batch)
        assert {batch} == set(worker.store().lookup(KEYS).field(0).to_pylist())
    worker.close_all()
    assert [2] * 4 == [len(worker.directories(number)) for number in range(4)]


def _patient(seconds: float) -> dict[str, Any]:
    return {**(host_cache.HostCache.__init__.__kwdefaults__ or {}), "lock_timeout": seconds}


def _overwrite(directory: Path) -> None:
    for path in directory.glob("*.sst"):
        path.write_bytes(b"x" * path.stat().st_size)


def test_a_worker_that_reads_many_stores_in_turn_keeps_them_open(worker: Worker) -> None:
    stores = []
    for number in range(10):
        location = location_of(worker.account.container("box"), f"stores/s{number}")
        fill = open_fill(location, SCHEMA.to_json(), FillRequirements(partitions=4, source="test", threads=1))
        BatchWriter(location, fill, SCHEMA, worker.folder / f"writer{number}").run(0, {1: {"seats": number}})
        stores.append(StoreReadSpec(location, cache_dir=str(worker.folder / "cache"), form="memory"))
    seen = []
    for batch in range(2):
        for number, store in enumerate(stores):
            worker.begin_task("query", batch)
            seen.append(store.view())
            assert {"seats": number} == seen[-1].get(1)
    assert [id(view) for view in seen[:10]] == [id(view) for view in seen[10:]]
    worker.close_all()


def test_a_version_that_no_task_reads_any_more_is_closed_after_a_while(worker: Worker) -> None:
    writer = worker.writer()
    old, new = (writer.run(batch, {1: {"seats": batch}}) for batch in range(2))
    for version in (old, new):
        worker.begin_task("query", version.number)
        assert {"seats": version.batch} == worker.store(version=version.number).view().get(1)
    first = worker.directories(PARTITION_OF_1)[0]
    for _ in range(task_reader.IDLE_TASKS):
        assert _is_open(first)
        worker.begin_task("query", 2)
        assert {"seats": 1} == worker.store(version=new.number).view().get(1)
        assert {"seats": 1} == worker.store(version=new.number).view().get(1)
    assert not _is_open(first)
    worker.close_all()
