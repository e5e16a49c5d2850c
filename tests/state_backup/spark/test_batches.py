"""A checkpoint that is backed up within the commit of each batch; the query is a stand-in that writes such files."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import (
    Crash,
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    ProcessDied,
    Reset,
    effect,
    fail,
)
from azure_account.retrying.policy import RetryPolicy
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.errors import ConfigurationError, ConflictError, CorruptError, FencedError, TransientError
from state_backup.backup.settings import WriterSettings
from state_backup.record.names import StateNames
from state_backup.spark import back_up_batch, restore_checkpoint
from state_backup.spark.writers import resumed_writer
from tests.histories.history import check_events
from tests.histories.mutants import Mutant, edited
from tests.state_backup.spark.checkpoint_files import batch_files, write_files
from tests.state_backup.states import STATE, check_no_orphans, new_account, state_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer

T = TypeVar("T")
FAULTS: tuple[Fault, ...] = (LostAnswer(), LateEffect(), Reset(), Crash(), Crash(after_effect=True))
STOPS = ("before the backup", "before the commit", "after the commit")
BATCHES, MOST_TURNS = 12, 400
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
POLICY = RetryPolicy(max_attempts=2, first_delay=0.01, max_delay=0.1, deadline=1e9)


@dataclass
class Faulty(Intercept):
    """Each request of a process meets a fault with some probability; `late` gets the requests that come later."""

    draws: Random
    often: float
    late: list[Callable[[], object]]
    seen: Counter[str]
    died: bool = False

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if self.died:
            raise ProcessDied
        if self.draws.random() >= self.often:
            return send()
        fault = self.draws.choice(FAULTS)
        self.seen[f"{type(fault).__name__}: {request.operation}"] += 1
        self.died = isinstance(fault, Crash)
        if isinstance(fault, LateEffect):
            self.late.append(send)
        return fail(fault, send)


@dataclass
class Sink:
    """Remembers the batches of a query that it has committed, each with its offsets, in the order of its commits."""

    offsets: list[str] = field(default_factory=list)

    def commit(self, batch: int, offsets: str) -> None:
        if batch < len(self.offsets):
            assert self.offsets[batch] == offsets, f"batch {batch} is repeated with other offsets"
            return
        assert len(self.offsets) == batch, f"batch {batch} is committed before {len(self.offsets)}"
        self.offsets.append(offsets)


@dataclass
class Driver:
    """A query that runs from a checkpoint, as Spark does. draws: makes the offsets of new batches."""

    location: Path
    sink: Sink
    draws: Random = field(default_factory=Random)
    suspended: int | None = None
    """The batch that it has backed up, and commits when it wakes."""

    def next_batch(self) -> int:
        """Plan the next batch, unless it is planned already."""
        done = [int(path.name) for path in self.location.glob("commits/*")]
        batch = max(done, default=-1) + 1
        if not (self.location / f"offsets/{batch}").exists():
            files = batch_files(batch)
            del files[f"commits/{batch}"], files[f"state/0/0/{batch + 1}.changelog"]
            files[f"offsets/{batch}"] += "\n" + json.dumps({"drawn": self.draws.getrandbits(32)})
            if batch:
                files.pop("metadata")
            else:
                files["metadata"] = json.dumps({"id": f"query-{self.draws.getrandbits(64):x}"})
            write_files(self.location, files)
        before = self.location / f"state/0/0/{batch}.changelog"
        assert not batch or before.exists(), "the state of the batch before is gone"
        return batch

    def run_batch(self, container: BlobContainer, *, stops: str = "") -> None:
        """Run a batch. stops: the driver is killed at that moment."""
        batch = self.next_batch()
        write_files(self.location, {f"state/0/0/{batch + 1}.changelog": f"state of batch {batch}"})
        if stops == "before the backup":
            return
        back_up_batch(state_in(container), self.location, batch)
        if stops == "before the commit":
            self.suspended = batch
            return
        self.commit(batch)
        if stops == "after the commit":
            return
        write_files(self.location, {f"commits/{batch}": "v1\n{}"})

    def commit(self, batch: int) -> None:
        self.sink.commit(batch, (self.location / f"offsets/{batch}").read_text())


def test_a_query_that_has_lost_its_disk_repeats_the_last_batch_with_its_offsets(tmp_path: Path) -> None:
    container, sink = new_account().container("box"), Sink()
    driver = Driver(tmp_path / "one/ck", sink)
    for stops in ("", "", "after the commit"):
        driver.run_batch(container, stops=stops)
    shutil.rmtree(tmp_path / "one")

    restored = restore_checkpoint(state_in(container), tmp_path / "two/ck")
    assert 1 == restored.batch
    other = Driver(tmp_path / "two/ck", sink)
    assert 2 == other.next_batch()
    for _ in range(3):
        other.run_batch(container)
    assert 5 == len(sink.offsets)
    check_no_orphans(container)


def test_the_first_batch_is_repeated_too(tmp_path: Path) -> None:
    container, sink = new_account().container("box"), Sink()
    Driver(tmp_path / "one/ck", sink).run_batch(container, stops="after the commit")
    assert -1 == restore_checkpoint(state_in(container), tmp_path / "two/ck").batch
    other = Driver(tmp_path / "two/ck", sink)
    assert 0 == other.next_batch()
    other.run_batch(container)
    assert 1 == len(sink.offsets)


def test_a_process_for_each_batch_does_not_open_the_state_again(tmp_path: Path) -> None:
    account = new_account()
    driver, sizes = Driver(tmp_path / "ck", Sink()), []
    for _ in range(12):
        requests = FaultInjector()
        driver.run_batch(account.restarted(requests).container("box"))
        sizes.append(Counter(each.operation for each in requests.attempts))
    assert sizes[-1].keys() <= {"put", "delete"}, sizes
    assert 3 >= sum(sizes[-1].values()), sizes


def test_what_the_error_of_a_deleted_record_advises_helps(tmp_path: Path) -> None:
    container = new_account().container("box")
    driver = Driver(tmp_path / "ck", Sink())
    for _ in range(2):
        driver.run_batch(container)
    container.delete(StateNames(STATE).record)
    for message in ("its record was deleted", "Bring that blob back, or delete the folder"):
        with pytest.raises(ConflictError, match=message):
            driver.run_batch(container)
    for blob in list(container.list(f"{STATE}/")):
        container.delete(blob.name)
    assert restore_checkpoint(state_in(container), driver.location).restored is None
    for _ in range(2):
        driver.run_batch(container)
    check_no_orphans(container)


def test_the_first_batch_after_a_restore_is_refused_if_the_checkpoint_was_not_restored(tmp_path: Path) -> None:
    container, sink = new_account().container("box"), Sink()
    driver = Driver(tmp_path / "one/ck", sink)
    for _ in range(2):
        driver.run_batch(container)
    shutil.copytree(tmp_path / "one", tmp_path / "old")
    for _ in range(2):
        driver.run_batch(container)

    with pytest.raises(ConfigurationError, match=r"backup of query .*Restore that checkpoint before the query starts"):
        Driver(tmp_path / "new/ck", sink).run_batch(container)
    (tmp_path / "old/ck.writer.json").unlink()
    with pytest.raises(ConflictError, match=r"it has batch 2, and the query runs batch 2 only.*Restore the checkpoint"):
        Driver(tmp_path / "old/ck", sink).run_batch(container)
    assert 4 == len(sink.offsets)
    restore_checkpoint(state_in(container), tmp_path / "new/ck", discard_newer=True)
    Driver(tmp_path / "new/ck", sink).run_batch(container)
    Driver(tmp_path / "new/ck", sink).run_batch(container)
    assert 5 == len(sink.offsets)
    with pytest.raises(FencedError):
        driver.run_batch(container)


def go_away_and_come_back(folder: Path) -> None:
    container, sink = new_account().container("box"), Sink()
    for machine in ("one", "two", "one"):
        driver = Driver(folder / machine / "ck", sink)
        restore_checkpoint(state_in(container), driver.location)
        for _ in range(2):
            driver.run_batch(container)
    assert 4 == len(sink.offsets), "each machine repeats the last batch of the one before"


def test_a_query_that_comes_back_to_a_machine_opens_the_state_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_away_and_come_back(tmp_path / "right")
    edited("state_backup.spark.writers:resumed_writer", "record.writer not in openings_of(location)[-1:] or", "")(
        monkeypatch
    )
    with pytest.raises(FencedError):
        go_away_and_come_back(tmp_path / "wrong")


@pytest.mark.parametrize("notes", ["", "{}", "[1]", '{"digest": 7}'])
def test_a_writer_whose_notes_are_damaged_opens_the_state_again(tmp_path: Path, notes: str) -> None:
    container, sink = new_account().container("box"), Sink()
    driver = Driver(tmp_path / "ck", sink)
    driver.run_batch(container)
    (tmp_path / "ck.writer.json").write_text(notes)
    driver.run_batch(container)
    assert 0 == restore_checkpoint(state_in(container), tmp_path / "other/ck").batch


def test_a_checkpoint_may_have_a_file_whose_name_is_any_bytes(tmp_path: Path) -> None:
    container = new_account().container("box")
    driver = Driver(tmp_path / "ck", Sink())
    driver.next_batch()
    (driver.location / os.fsdecode(b"\xff")).write_bytes(b"any")
    for _ in range(2):
        driver.run_batch(container)
    writer = resumed_writer(state_in(container), driver.location, WriterSettings())
    assert writer is not None
    restore_checkpoint(state_in(container), tmp_path / "other/ck")
    assert b"any" == (tmp_path / "other/ck" / os.fsdecode(b"\xff")).read_bytes()


def test_an_epoch_above_that_of_the_notes_opens_the_state_again(tmp_path: Path) -> None:
    container = new_account().container("box")
    driver = Driver(tmp_path / "ck", Sink())
    for batch, epoch in ((0, 4), (1, 4), (2, 6)):
        assert batch == driver.next_batch()
        back_up_batch(state_in(container), driver.location, batch, epoch=epoch)
        write_files(driver.location, {f"commits/{batch}": "v1\n{}", **batch_files(batch)})
    with pytest.raises(FencedError, match="epoch 6"):
        back_up_batch(state_in(container), driver.location, 3, epoch=4)


def metadata(partitions: int) -> str:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}
    return 'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},"stateStoreInfo":[' + (
        json.dumps(store) + "]}"
    )


def test_state_on_other_machines_is_refused(tmp_path: Path) -> None:
    container = new_account().container("box")
    driver = Driver(tmp_path / "ck", Sink())
    driver.next_batch()
    write_files(driver.location, {"state/0/_metadata/metadata": metadata(2), "state/0/0/1.changelog": "state"})
    with pytest.raises(
        ConfigurationError, match=r"partition 1 of the state of operator 0 is on another machine.*abfss"
    ):
        back_up_batch(state_in(container), driver.location, 0)
    assert [] == list(container.list())
    write_files(driver.location, {"state/0/1/1.changelog": "state"})
    assert -1 == back_up_batch(state_in(container), driver.location, 0).batch


def test_a_directory_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    container = new_account().container("box")
    for location, cause in ((tmp_path, "no checkpoint of a query"), ("abfss://box@a/ck", "not on a local disk")):
        with pytest.raises(ConfigurationError, match=cause):
            back_up_batch(state_in(container), location, 0)


@dataclass
class History:
    """Drivers of one query, one after the other, on disks that are lost; some go on after their successor has begun."""

    draws: Random
    folder: Path
    seen: Counter[str]

    def __post_init__(self) -> None:
        self.account = MemoryAccount(policy=POLICY)
        self.account.container("box").create()
        self.sink = Sink()
        self.late: list[Callable[[], object]] = []
        self.older: list[Driver] = []
        self.often = self.draws.choice([0.0, 0.05, 0.2])
        self.driver = self._on_another_disk()

    def run(self) -> None:
        turns = 0
        while len(self.sink.offsets) < BATCHES:
            turns += 1
            assert turns < MOST_TURNS, "the query does not get on"
            self.often = 0.0 if turns > MOST_TURNS // 2 else self.often
            self._turn()
        assert len(self.sink.offsets) == BATCHES

    def _turn(self) -> None:
        stops = self.draws.choice(STOPS) if self.draws.random() < 0.3 else ""
        alive = self._run(self.driver, stops)
        if self.late and self.draws.random() < 0.3:
            effect(self.late.pop(self.draws.randrange(len(self.late))))
        if self.older and self.draws.random() < 0.3:
            self._zombie(self.draws.choice(self.older))
        if not alive and self.draws.random() < 0.5:
            shutil.rmtree(self.driver.location.parent, ignore_errors=True)
            self.seen["a disk is lost"] += 1
            self.driver = self._on_another_disk()
        elif self.draws.random() < 0.15:
            if self.draws.random() < 0.5:
                self._run(self.driver, "before the commit")
            self.older.append(self.driver)
            self.driver = self._on_another_disk()
        elif not alive:
            self._start(self.driver)

    def _container(self) -> BlobContainer:
        faulty = Faulty(self.draws, self.often, self.late, self.seen)
        return self.account.restarted(faulty).container("box")

    def _run(self, driver: Driver, stops: str) -> bool:
        """Run a batch. False if the driver ends there: it is killed, or the query fails."""
        try:
            driver.run_batch(self._container(), stops=stops)
        except (ProcessDied, TransientError):
            self.seen["a commit dies or fails"] += 1
            return False
        except (FencedError, ConflictError):  # an older driver has opened the state
            self.seen["a driver is replaced by an older one"] += 1
            return False
        except ConfigurationError:  # an older driver has made the first backup
            self.seen["another query has the state"] += 1
            shutil.rmtree(driver.location.parent)
            return False
        self.seen[f"killed {stops}"] += bool(stops)
        return not stops

    def _zombie(self, driver: Driver) -> None:
        """A driver that was replaced goes on. It is refused, unless it opens the state, which has no later batch."""
        before = len(self.sink.offsets)
        if driver.suspended is not None:
            self.seen["a driver that was suspended before its commit wakes"] += 1
            driver.commit(driver.suspended)
            driver.suspended = None
        try:
            driver.run_batch(self._container())
        except (FencedError, ConflictError, ConfigurationError):
            self.seen["a replaced driver is refused"] += 1
        except (ProcessDied, TransientError):
            self.seen["a replaced driver dies or fails"] += 1
        self.seen["a replaced driver commits a batch"] += len(self.sink.offsets) > before

    def _on_another_disk(self) -> Driver:
        driver = Driver(self.folder / f"{self.draws.getrandbits(64):x}/ck", self.sink, self.draws)
        self._start(driver)
        return driver

    def _start(self, driver: Driver) -> None:
        """Restore as a driver does that starts. If its directory is of another query, as the guide says: delete it."""
        state = state_in(self.account.container("box"))
        try:
            restored = restore_checkpoint(state, driver.location)
        except ConflictError as error:
            if "it is of query" not in str(error):
                raise
            self.seen["another query has the state"] += 1
            shutil.rmtree(driver.location.parent)
            restored = restore_checkpoint(state, driver.location)
        self.seen["restored"] += restored.restored is not None
        self.seen["nothing was backed up"] += restored.batch is None
        if restored.batch is None:
            assert not self.sink.offsets, "batches are committed, and there is no backup"


EVENTS = (
    "a disk is lost",
    "a commit dies or fails",
    "a replaced driver is refused",
    *(f"killed {each}" for each in STOPS),
    "a driver that was suspended before its commit wakes",
    "restored",
    "Crash: put",
    "LateEffect: put",
    "LostAnswer: put",
    "Crash: delete",
)


def run_histories(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            History(Random(seed), Path(folder), seen).run()
    return seen


def test_each_batch_is_committed_once_with_its_offsets_whatever_is_killed_or_lost() -> None:
    run_histories(range(5))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    check_events(run_histories(range(400)), EVENTS, 20)


MUTANTS: dict[str, Mutant] = {
    "the snapshot has no offsets of the batch": edited(
        "state_backup.spark.snapshot:take_snapshot", "_between(first, batch + 1, path)", "_between(first, batch, path)"
    ),
    "the snapshot says that the batch is done": edited(
        "state_backup.spark.batches:back_up_batch", "QueryPosition(batch - 1, query)", "QueryPosition(batch, query)"
    ),
    "a state of later batches is taken over": edited(
        "state_backup.spark.writers:_check_same", "backup.batch >= planned", "backup.batch >= planned + 100"
    ),
    "the state before the batch is left out": edited(
        "state_backup.spark.snapshot:_belongs", "<= batch + 1", "<= batch"
    ),
    "a backup that fails is passed over": edited(
        "state_backup.spark.batches:back_up_batch",
        "note_writer(location, writer)  # what it has uploaded is waste for the next one\n        raise",
        "return position",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises((AssertionError, ConflictError, ConfigurationError, CorruptError)):
        run_histories(range(100))
