"""A data set is published ten times while tasks of batches read it, on two hosts: each batch has one of them, whole."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.host.folders import store_folder
from adjunct_store.versions.manifest_store import Fill, open_fill, read_manifest
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.pins import release
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from tests.adjunct_store.host.processes import CONTEXT, run_all
from tests.adjunct_store.tasks import BatchWriter, Content, location_of, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from azure_account.container import BlobContainer
    from tools.azurite import Azurite

SETS = 10
STORE = "stores/sets"
SCHEMA = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("number", pa.int64())]), partitions=2)
READERS = {"follows": "first host", "dawdles": "second host"}
"""Queries, and where their tasks run. One begins a batch after each step of the fill, which waits for that. The other
one ends a batch when there is a newer data set."""
FOLLOWING = ("follows",)
TASKS = 2
SECONDS = 120.0
"""A wait for so long (s) fails the test."""


def data_set(number: int) -> Content:
    """Each value has the number of its data set; keys come and go."""
    return {key: {"number": number} for key in range(5 * number, 60 + 10 * number)}


def source(number: int) -> str:
    return f"set {number}"


class Shared:
    """What the fill and the tasks know of each other, whether they are threads or processes."""

    def __init__(self) -> None:
        self._changed = CONTEXT.Condition()
        self._steps, self._published = CONTEXT.Value("i", 0, lock=False), CONTEXT.Value("i", 0, lock=False)
        self._followed = CONTEXT.Array("i", TASKS * len(FOLLOWING), lock=False)
        self._last = CONTEXT.Array("b", len(READERS), lock=False)
        self._barriers = {reader: CONTEXT.Barrier(TASKS, timeout=SECONDS) for reader in READERS}

    @property
    def published(self) -> int:
        """The newest data set."""
        return int(self._published.value)

    def step(self, published: int = 0) -> None:
        """The fill has done something: wait until each task that follows has read after that."""
        with self._changed:
            self._steps.value += 1
            self._published.value = max(self.published, published)
            self._changed.notify_all()
            if self.published:
                self._wait(lambda: min(self._followed) >= self._steps.value)

    def begin(self, reader: str, task: int) -> bool:
        """Wait until a task of the next batch is to read. Whether this batch is the last one."""
        place = list(READERS).index(reader)
        self._barriers[reader].wait()
        if task == 0:
            self._last[place] = self.published == SETS
        self._barriers[reader].wait()
        self._wait_to_read(reader, task)
        return bool(self._last[place])

    def _wait_to_read(self, reader: str, task: int) -> None:
        with self._changed:
            if reader in FOLLOWING:
                place = TASKS * FOLLOWING.index(reader) + task
                self._wait(lambda: self.published > 0)
                self._wait(lambda: self._steps.value > self._followed[place] or self.published == SETS)
                return
            before = self.published
            self._wait(lambda: self.published > before * (task > 0) or self.published == SETS)

    def end(self, reader: str, task: int, steps: int) -> None:
        """A task has read what there was after these steps."""
        if reader in FOLLOWING:
            with self._changed:
                self._followed[TASKS * FOLLOWING.index(reader) + task] = steps
                self._changed.notify_all()

    @property
    def steps(self) -> int:
        """How many steps the fill has made."""
        return int(self._steps.value)

    def _wait(self, until: Callable[[], bool]) -> None:
        assert self._changed.wait_for(until, SECONDS), "nothing happens"


def publish_all(location: Location, cache_dir: Path, shared: Shared, parts: int) -> Fill:
    """The data sets, one after the other, each in some batches: readers see nothing of it before the last."""
    settings: dict[str, Any] = {"partitions": SCHEMA.partitions, "threads": 1}
    fill = open_fill(
        Location.in_container(location.open(), STORE),
        SCHEMA.to_json(),
        FillRequirements(source=source(1), bounded=True, **settings),
    )
    for number in range(1, SETS + 1):
        if number > 1:
            fill = fill.build_beside(SCHEMA.to_json(), source(number))
        writer, rows = BatchWriter(location, fill, SCHEMA, cache_dir), list(data_set(number).items())
        for part in range(parts - 1):
            writer.run(part, dict(rows[part::parts]))
            shared.step()
        writer.run(parts - 1, dict(rows[parts - 1 :: parts]), bootstrapped=True, sealed=True)
        shared.step(published=number)
    return fill


@dataclass(frozen=True)
class Seen:
    """What a task has read. number: of the data set. newest: which one there was before the task began to read."""

    reader: str
    batch: int
    number: int
    whole: bool
    newest: int


def run_task(location: Location, reader: str, task: int, cache_dir: Path, shared: Shared) -> list[Seen]:
    """One task of each batch of a query. The last batch begins when the last data set is there."""
    seen: list[Seen] = []
    last = False
    while not last:
        last = shared.begin(reader, task)
        steps, newest = shared.steps, shared.published
        found = read(location, reader, len(seen), cache_dir)
        number = int(found.generation.source.removeprefix("set "))
        seen.append(Seen(reader, len(seen), number, data_set(number) == found.content, newest))
        shared.end(reader, task, steps)
    return seen


def check(seen: Iterable[Seen]) -> None:
    """Each batch has read one data set, and all of it; and the test was not too easy."""
    batches: dict[tuple[str, int], list[Seen]] = defaultdict(list)
    for each in seen:
        batches[each.reader, each.batch].append(each)
    for batch, tasks in batches.items():
        assert TASKS == len(tasks), batch
        assert 1 == len({each.number for each in tasks}), f"a batch has read two versions: {tasks}"
        assert all(each.whole for each in tasks), f"a batch has read half of a data set: {tasks}"
    for reader in READERS:
        assert batches[max(key for key in batches if key[0] == reader)][0].number == SETS
        numbers = [batches[key][0].number for key in sorted(batches) if key[0] == reader]
        assert sorted(numbers) == numbers, f"{reader} went back: {numbers}"
        assert len(set(numbers)) >= SETS // 2, f"{reader} has seen {numbers}"
    amid = {key for key, tasks in batches.items() if any(each.newest > each.number for each in tasks)}
    assert len({batches[key][0].number for key in amid}) >= SETS // 2, f"data sets were published amid {amid} only"
    unsealed = len(batches) - len({(key[0], tasks[0].number) for key, tasks in batches.items()})
    assert unsealed >= SETS // 2, "too few batches began when the next data set was there in part"


def check_nothing_is_left(container: BlobContainer, fill: Fill, caches: Path) -> None:
    """When the readers have released their pins, the old data sets are gone, from the container and from the hosts."""
    for reader in READERS:
        release(container, STORE, reader)
    fill.clean_up()
    manifest = read_manifest(container, STORE)
    assert manifest is not None
    assert [SETS] == [each.number for each in manifest.generations]
    assert [(SETS, len(data_set(SETS)))] == [(each.generation, each.entries) for each in manifest.versions]
    names = StoreNames(STORE)
    blobs = [blob.name for blob in container.list(names.folder, uncommitted=True)]
    assert {SETS, None} == {names.generation_of(blob) for blob in blobs}
    for host in sorted(set(READERS.values())):
        folder = store_folder(container, STORE, caches / host)
        assert [SETS] == folder.generations()
        for each in folder.partitions(SETS):
            assert 1 == len([path for path in each.path.iterdir() if path.is_dir()])


def wait_for(*futures: Future[Any]) -> None:
    """Raises the first error."""
    for each in as_completed(futures):
        each.result()


def test_tasks_in_threads_read_one_whole_data_set_in_a_batch(tmp_path: Path) -> None:
    container = MemoryAccount().container("box")
    container.create()
    location, shared = location_of(container, STORE), Shared()
    with ThreadPoolExecutor(1 + TASKS * len(READERS)) as pool:
        filling = pool.submit(publish_all, location, tmp_path / "filler", shared, 3)
        tasks = [
            pool.submit(run_task, location, reader, task, tmp_path / host, shared)
            for reader, host in READERS.items()
            for task in range(TASKS)
        ]
        wait_for(filling, *tasks)
    check(seen for task in tasks for seen in task.result())
    check_nothing_is_left(container, filling.result(), tmp_path)


def test_tasks_in_processes_read_one_whole_data_set_in_a_batch(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    location = Location(f"{container_name}/{STORE}", {"connectionString": azurite.connection_string})
    location.open().create()
    shared = Shared()
    calls = [
        (run_task, location, reader, task, tmp_path / host, shared)
        for reader, host in READERS.items()
        for task in range(TASKS)
    ]
    with ThreadPoolExecutor(2) as pool:
        tasks = pool.submit(run_all, calls)
        filling = pool.submit(publish_all, location, tmp_path / "filler", shared, 2)
        wait_for(tasks, filling)
    check(seen for task in tasks.result() for seen in task)
    check_nothing_is_left(location.open(), filling.result(), tmp_path)
