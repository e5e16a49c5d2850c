"""Fills that back their checkpoints up, in random histories without Spark.

Drivers die at any request, lose their disks, and wake after their successors have begun. Each batch of the store begins
where the one before it has ended, and a driver that starts again gets on.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from adjunct_store.spark.filling.fill import FillResult, VersionWriter
from adjunct_store.spark.filling.fill_backup import FillBackup
from adjunct_store.spark.filling.query_checkpoint import CheckpointState
from adjunct_store.spark.filling.settings import StreamFillSettings
from adjunct_store.spark.filling.stream_plan import StreamPlan
from adjunct_store.versions.manifest_store import open_fill, read_manifest
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.transitions import Publication
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import ProcessDied, effect
from foundation.errors import AzureBlobError, TransientError
from tests.histories.mutants import Mutant, edited
from tests.state_backup.spark.checkpoint_files import write_files
from tests.state_backup.spark.test_batches import MEMORY, POLICY, Faulty

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.opening import TakeoverPlan

BATCHES, MOST_TURNS = 8, 300
STOPS = ("before the backup", "before the publication", "after it")


class Stopped(Exception):  # noqa: N818 - no error
    """The driver is killed, or suspended, at this moment."""


@dataclass
class Checkpoints:
    """The folder of a fill's checkpoints on a disk, with what Spark would do there. draws: how far a batch reads."""

    path: str
    draws: Random

    def location(self, generation: int) -> str:
        return f"{self.path}/g{generation}"

    def last_generation(self) -> int:
        return max((int(folder.name[1:]) for folder in Path(self.path).glob("g?")), default=0)

    def state(self, generation: int) -> CheckpointState:
        folder = Path(self.location(generation))
        planned, committed = (
            max((int(file.name) for file in (folder / log).glob("*")), default=-1) for log in ("offsets", "commits")
        )
        known = (folder / "metadata").exists()
        query = json.loads((folder / "metadata").read_text())["id"] if known else ""
        return CheckpointState(planned, committed, query)

    def plan(self, generation: int) -> int:
        """Plan the next batch, unless it is planned."""
        found = self.state(generation)
        batch, folder = found.committed + 1, Path(self.location(generation))
        if not found.query:
            write_files(folder, {"metadata": json.dumps({"id": f"{self.draws.getrandbits(64):x}"})})
        if found.planned < batch:
            begin = self.offsets(generation, batch - 1)[1] if batch else 0
            offsets = begin, begin + self.draws.randint(1, 100)
            write_files(folder, {f"offsets/{batch}": f"v1\n{{}}\n{json.dumps(offsets)}"})
        return batch

    def offsets(self, generation: int, batch: int) -> tuple[int, int]:
        begin, end = json.loads((Path(self.location(generation)) / f"offsets/{batch}").read_text().splitlines()[2])
        return begin, end


@dataclass
class Writer(VersionWriter):
    """Publishes the offsets of a batch as its checkpoint. stop: the moment at which the driver stops."""

    checkpoints: Any = None
    stop: str = ""

    def _run(self, rows: Any, batch: int, *, bootstrapped: bool, sealed: bool) -> FillResult:
        begin, end = self.checkpoints.offsets(self.fill.generation.number, batch)
        for moment, act in (
            ("before the backup", lambda: self.before_publish(batch)),
            ("before the publication", lambda: self.fill.publish(Publication(batch, {0: f"{begin}-{end}"}, 1, 1))),
        ):
            if self.stop == moment:
                raise Stopped
            act()
        base = self.fill.base
        assert base is not None
        return FillResult(base)


class Driver:
    """A process that runs the fill. `ConfigurationError` and others as `fill_stream`."""

    def __init__(self, account: MemoryAccount, disk: Path, draws: Random, epoch: int | None) -> None:
        missing: Any = None
        folder: Any = Checkpoints(str(disk), draws)  # in the place of a `CheckpointFolder`
        self.checkpoints: Checkpoints = folder
        store = Location.in_account(account, "box/store")
        backup = FillBackup(Location.in_account(account, "box/checkpoints"), folder, epoch)
        plan = StreamPlan(store, "", missing, missing, missing, folder, backup, StreamFillSettings())

        def start_query(opening: TakeoverPlan) -> str:
            number = opening.generation.number
            if opening.continues:
                backup.restore(number)
            plan.check(opening)
            self.checkpoints.plan(number)
            return self.checkpoints.state(number).query

        terms = FillRequirements("", 1, above=self.checkpoints.last_generation(), epoch=epoch)
        fill = open_fill(store, {}, terms, before_take_over=start_query)
        self.writer = Writer(store, fill, missing, missing, checkpoints=folder)
        self.writer.before_publish = partial(backup.back_up, fill.generation.number)

    def run_batch(self, stop: str = "") -> None:
        number, rows = self.writer.fill.generation.number, cast("Any", None)
        self.writer.stop = stop
        self.writer.run(rows, self.checkpoints.plan(number))
        if stop:
            raise Stopped
        done = self.checkpoints.state(number).planned
        write_files(Path(self.checkpoints.location(number)), {f"commits/{done}": "v1\n{}"})


@dataclass
class History:
    """Drivers of one fill, one after the other; some wake when another one has begun."""

    draws: Random
    folder: Path
    epochs: bool
    late: list[Callable[[], object]] = field(default_factory=list)
    older: list[Driver] = field(default_factory=list)
    published: dict[int, tuple[int, int]] = field(default_factory=dict)
    disks: int = 0

    def run(self) -> None:
        account, often = MemoryAccount(policy=POLICY), self.draws.choice([0.0, 0.03, 0.1])
        container = account.container("box")
        container.create()
        driver: Driver | None = None
        for turn in range(MOST_TURNS):
            if len(self.published) == BATCHES:
                return
            if self.late and self.draws.random() < 0.3:
                effect(self.late.pop(self.draws.randrange(len(self.late))))
            if self.older and self.draws.random() < 0.3:
                self._runs_on(self.draws.choice(self.older), "")
            if driver is None:
                faulty = Faulty(self.draws, often if turn < MOST_TURNS / 2 else 0.0, self.late, Counter())
                driver = self._started(account.restarted(faulty), turn if self.epochs else None)
            else:
                stop = self.draws.choice(STOPS) if self.draws.random() < 0.3 else ""
                if not self._runs_on(driver, stop):
                    self._leave_behind(driver, stop)
                    driver = None
            self._check(container)
        raise AssertionError("the fill does not get on")

    def _started(self, account: MemoryAccount, epoch: int | None) -> Driver | None:
        """A driver on the disk of the one before, or on another one. None if it dies; it is never refused."""
        self.disks += self.draws.random() < 0.3
        try:
            return Driver(account, self.folder / f"{self.disks}", self.draws, epoch)
        except (ProcessDied, TransientError):
            return None
        except AzureBlobError as refused:
            raise AssertionError("a driver is refused") from refused

    def _leave_behind(self, driver: Driver, stop: str) -> None:
        """One that was suspended may wake; the next one is on another disk then."""
        if stop and self.draws.random() < 0.3:
            self.older.append(driver)
            self.disks += 1

    @staticmethod
    def _runs_on(driver: Driver, stop: str) -> bool:
        try:
            driver.run_batch(stop)
        except (AzureBlobError, ProcessDied, Stopped):
            return False
        return True

    def _check(self, container: Any) -> None:
        """Note what is published; each batch begins where the one before it has ended."""
        manifest = read_manifest(container, "store")
        newest = None if manifest is None else manifest.newest
        if newest is None:
            return
        begin, end = map(int, newest.checkpoints[0].split("-"))
        assert self.published.setdefault(newest.batch, (begin, end)) == (begin, end)
        assert begin == (self.published[newest.batch - 1][1] if newest.batch else 0), "rows are lost, or come twice"


def run_histories(seeds: range) -> None:
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            History(Random(seed), Path(folder), epochs=seed % 2 == 1).run()


def test_each_batch_goes_on_where_the_one_before_has_ended_whatever_dies_or_wakes() -> None:
    run_histories(range(8))


@pytest.mark.long
def test_the_same_in_many_histories() -> None:
    run_histories(range(400))


MUTANTS: dict[str, Mutant] = {
    "a batch that is repeated is not backed up": edited(
        "adjunct_store.spark.filling.fill:VersionWriter.run", "self.before_publish(batch)", "pass"
    ),
    "nothing is restored": edited(
        "adjunct_store.spark.filling.fill_backup:FillBackup.restore",
        "restore_checkpoint(self._state(generation), self.folder.location(generation))",
        "return",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises(AssertionError):
        run_histories(range(14))
