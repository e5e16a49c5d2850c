"""A process dies at any storage call or file operation of fill, publish, fetch and switch; another one goes on."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.host.folders import store_folder
from adjunct_store.versions.manifest_store import open_fill, read_manifest
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.pins import release
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at
from state_backup import plan_sweep, sweep
from state_backup.index.checkpoint_id import CheckpointId
from tests.adjunct_store.tasks import BatchWriter, Content, location_of, read
from tests.state_backup.dying import dying

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from adjunct_store.versions.manifest_store import Fill
    from azure_account.container import BlobContainer

STORE = "stores/planes"
NAMES = StoreNames(STORE)
SCHEMA = StoreSchema(
    pa.schema([("id", pa.int64())]), pa.schema([("seats", pa.int64()), ("of", pa.string())]), partitions=2, ordered=True
)
SOURCES = ("first", "second")
"""The store is filled from the first; then it is made anew from the second, beside what it has."""
BATCHES = 2


def changes(source: str, batch: int) -> Mapping[int, dict[str, Any] | None]:
    """Each batch changes, deletes and adds keys."""
    deleted = {} if batch == 0 else dict.fromkeys(range(batch, 40, 5))
    return {**{key: {"seats": batch, "of": source} for key in range(7 * batch, 30 + batch)}, **deleted}


def content(source: str, batch: int) -> Content:
    """What a version has."""
    found: dict[int, dict[str, Any] | None] = {}
    for each in range(batch + 1):
        found.update(changes(source, each))
    return {key: value for key, value in sorted(found.items()) if value is not None}


@dataclass
class Reader:
    """A query whose batches read the whole store. done: the versions of the batches that have ended."""

    cache_dir: Path
    done: list[int] = field(default_factory=list)

    def run(self, container: BlobContainer) -> None:
        """Run the next batch, or the one that has died."""
        confirmed = _confirmed(container, len(self.done))
        found = read(location_of(container, STORE), "query", len(self.done), self.cache_dir)
        assert content(found.generation.source, found.version.batch) == found.content
        assert found.version.number == (confirmed or found.version.number)
        assert found.version.number >= max(self.done, default=0)
        self.done.append(found.version.number)


def _confirmed(container: BlobContainer, batch: int) -> int | None:
    """The version that a batch has pinned, if the process that did it was killed then."""
    name = NAMES.pin("query", batch)
    if name not in {blob.name for blob in container.list(NAMES.all_pins)}:
        return None
    pin = json.loads(container.get(name).data)
    return int(pin["version"]) if pin["confirmed"] else None


def run(container: BlobContainer, folder: Path, reader: Reader) -> Fill:
    """What a process does: it fills the store as far as it is not, and a batch of the reader follows each version."""
    manifest = read_manifest(container, STORE)
    current = None if manifest is None else manifest.current
    sources = SOURCES if current is None else SOURCES[SOURCES.index(current.source) :]
    for source in sources:
        fill = opened(container, source)
        done = -1 if fill.base is None else fill.base.batch
        for batch in range(done + 1, BATCHES):
            publish(container, fill, folder, source, batch)
            reader.run(container)
        fill.clean_up()
    return fill


def opened(container: BlobContainer, source: str) -> Fill:
    manifest = read_manifest(container, STORE)
    other = manifest is not None and manifest.current is not None and manifest.current.source != source
    schema = SCHEMA.to_json()
    return open_fill(
        Location.in_container(container, STORE),
        schema,
        FillRequirements(partitions=2, source=source, rebuild=other, keep=1, threads=1),
    )


def publish(container: BlobContainer, fill: Fill, folder: Path, source: str, batch: int) -> None:
    """The next version; the second source serves when all its batches are there."""
    writer = BatchWriter(location_of(container, STORE), fill, SCHEMA, folder / "writer")
    writer.run(batch, changes(source, batch), batch, bootstrapped=batch >= BATCHES - 1)


def go_on(container: BlobContainer, folder: Path, reader: Reader) -> None:
    """After a death: nobody sees anything half; another process goes on to the end, and leaves nothing behind."""
    manifest = read_manifest(container, STORE)
    if manifest is not None and manifest.newest is not None:
        reader.run(container)
        other = read(location_of(container, STORE), "other host", 0, folder / "other host")
        assert content(other.generation.source, other.version.batch) == other.content
    run(container, folder, reader)
    fill = opened(container, SOURCES[-1])
    publish(container, fill, folder, SOURCES[-1], BATCHES)
    reader.run(container)
    last = read(location_of(container, STORE), "last", 0, folder / "reader")
    assert content(SOURCES[-1], BATCHES) == last.content
    check_nothing_is_left(container, fill, folder)


def check_nothing_is_left(container: BlobContainer, fill: Fill, folder: Path) -> None:
    for reader in ("query", "other host", "last"):
        release(container, STORE, reader)
    fill.clean_up()
    number = fill.generation.number
    manifest = read_manifest(container, STORE)
    assert manifest is not None
    assert [number] == [each.number for each in manifest.generations]
    assert fill.base is not None
    assert [fill.base] == list(manifest.versions)
    needed = {NAMES.manifest}
    for partition in range(SCHEMA.partitions):
        state = NAMES.state(number, partition)
        sweep(Location.in_container(container, state), plan_sweep(Location.in_container(container, state), min_age=0))
        needed |= {*plan_sweep(Location.in_container(container, state), min_age=0).in_use, f"{state}/checkpoint.json"}
    assert needed == {blob.name for blob in container.list(uncommitted=True)}
    cache = store_folder(container, STORE, folder / "reader")
    assert [number] == cache.generations()
    for each in cache.partitions(number):
        names = {path.name for path in each.path.iterdir()} - {"lock", "verified"}
        assert 1 <= len([CheckpointId.parse(name) for name in names]) <= 2
    work = store_folder(container, STORE, folder / "writer")
    assert {number} <= set(work.generations()) <= {number - 1, number}
    for each in work.partitions(number):
        assert {"at", "lock", "store"} == {path.name for path in each.work.iterdir()}


def kind(name: str) -> str:
    """What a blob is."""
    if name == NAMES.manifest:
        return "manifest"
    if name.startswith(NAMES.all_pins):
        return "pin"
    return next((each for each in ("checkpoint.json", "index", "files") if f"/{each}" in name), "listing")


EVERY = [pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(3600)]), 61]
"""Die at each call; or at some, in less time."""


@pytest.mark.parametrize("step", EVERY)
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_process_that_dies_at_any_storage_call_is_followed_by_one_that_goes_on(
    tmp_path: Path, after_effect: bool, step: int
) -> None:
    died: Counter[tuple[str, str]] = Counter()
    for number in itertools.count(1 + step // 2 * after_effect, step):
        account, folder = MemoryAccount(), tmp_path / str(number)
        account.container("box").create()
        folder.mkdir()
        faults, reader = FaultInjector(at(number, Crash(after_effect=after_effect))), Reader(folder / "reader")
        try:
            run(account.restarted(faults).container("box"), folder, reader)
        except ProcessDied:
            last = faults.attempts[number - 1]
            died[last.operation, kind(last.name)] += 1
        go_on(account.container("box"), folder, reader)
        shutil.rmtree(folder)
        if not faults.died:
            break
    print(number, died)  # noqa: T201 - shown by -s
    if step == 1:
        assert {("put", "manifest"), ("put", "pin"), ("put", "checkpoint.json"), ("get", "files")} <= set(died)


@pytest.mark.parametrize("step", EVERY)
def test_a_process_that_dies_at_any_file_operation_is_followed_by_one_that_goes_on(tmp_path: Path, step: int) -> None:
    died: Counter[str] = Counter()
    for number in itertools.count(1, step):
        account, folder = MemoryAccount(), tmp_path / str(number)
        account.container("box").create()
        folder.mkdir()
        reader = Reader(folder / "reader")
        with dying(folder, number) as death:
            run(account.container("box"), folder, reader)
        if death.died:
            died[death.done[number - 1]] += 1
        go_on(account.container("box"), folder, reader)
        shutil.rmtree(folder)
        if not death.died:
            break
    print(number, died)  # noqa: T201 - shown by -s
    if step == 1:
        assert {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"} <= set(died)
