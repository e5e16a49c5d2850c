"""The storage of a history, and what its processes do with the code under test."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account.memory.faults import Fault, LostAnswer, ProcessDied, Reset
from foundation.errors import ConflictError, FencedError, NotFoundError, TransientError
from state_backup.backup import writer as writer_module
from state_backup.backup.settings import MayBeEmpty, TaskIdentity, WriterSettings, set_keep
from state_backup.backup.writer import open_state
from state_backup.local import place
from state_backup.restoring.restore import RestoreSettings, restore
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.histories.world import Late, World
from tests.state_backup.histories.processes import StateProcess
from tests.state_backup.histories.truth import KEEP, RECORD, Truth
from tests.state_backup.states import state_in, write

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from azure_account.retrying.retry_loop import Request
    from state_backup.backup.writer import StateWriter
    from tests.state_backup.histories.truth import Stores
    from tests.state_backup.index.trees import Tree

OWNER = TaskIdentity("flights")
CONTENTS = (b"", b"1", b"2", b"one", b"two")
NAMES = ("a", "b", "c", "sub")
MIN_AGE = 0.0
"""The age (seconds) that sweeps spare. A mutant takes it for safety."""

INLINE_BYTES = (0, 0, 0, 0, 0, 4, 1000)
"""Up to which size bytes of files are in the index."""


@dataclass(kw_only=True)
class StateWorld(World[StateProcess]):
    """One history's storage and processes."""

    folder: Path
    epoch: int | None
    truth: Truth = field(default_factory=Truth)
    make: Callable[..., StateProcess] = StateProcess
    expected: tuple[type[Exception], ...] = (FencedError, TransientError, ConflictError)
    attempts: int = 0

    def note(self, process: StateProcess, request: Request, fault: Fault | None) -> None:
        """A process makes a request."""
        super().note(process, request, fault)
        aim, truth = process.aim_of(request), self.truth
        process.record_reads += aim == "read record"
        if aim == "write record":
            process.write_failed = fault is not None
        if aim == "delete" and fault is None:
            process.deleted.add(request.name)
        if process.writer and truth.record.writer != process.writer and aim in {"delete", "write record", "upload"}:
            truth.seen[f"a replaced writer wakes: {aim}"] += 1
        if aim == "write record" and isinstance(fault, LostAnswer | Reset):
            truth.seen[
                f"lost answer of the record's write: {'done' if isinstance(fault, LostAnswer) else 'not done'}"
            ] += 1

    def arrive(self, late: Late[StateProcess]) -> None:
        """A late request takes effect."""
        name, aim, seen = late.request.name, late.process.aim_of(late.request), self.truth.seen
        there = name in self.truth.blobs
        seen[f"late effect: {aim}"] += 1
        super().arrive(late)
        if aim == "upload" and name in self.truth.ever_condemned:
            seen["late upload after its blob was condemned"] += 1
            seen["late upload brings a deleted blob back"] += not there and name in self.truth.blobs

    # --- what processes do --------------------------------------------------------------------------------------------

    def write_state(self, process: StateProcess) -> None:
        """Open the state, back up a few times. An error that is not final is followed by the next backup."""
        process.ttl = process.draws.random() < 0.8
        writer = open_state(
            state_in(process.container),
            OWNER,
            WriterSettings(
                epoch=self.epoch,
                keep=process.draws.choice([None, KEEP]),
                threads=1,
                ttl=process.ttl,
                inline_bytes=process.draws.choice(INLINE_BYTES),
            ),
            clock=self.clock,
            new_id=process.new_id,
        )
        process.writer = writer._record.document.writer
        stores: Stores = {"s": {}}
        for _ in range(process.draws.choice([1, 2, 3, 5])):
            stores = edited(stores, process.draws)
            try:
                self.back_up(process, writer, stores)
            except FencedError:
                if self.truth.record.writer == process.writer:
                    self.truth.fail("a writer is fenced that nobody has replaced")
                raise
            except TransientError:
                self.truth.seen["a backup fails and the writer goes on"] += 1

    def back_up(self, process: StateProcess, writer: StateWriter, stores: Stores) -> None:
        """One backup, and what holds after it."""
        self.attempts += 1
        attempt = str(self.attempts)
        self.truth.attempts[attempt], self.truth.made_by[attempt] = stores, process.writer
        live = {name: self.folder / f"live-{process.number}-{name}" for name in stores}
        for name, folder in live.items():
            if not folder.exists() or read(folder) != stores[name]:  # else it keeps its times, and its index
                write(folder, stores[name])
        ids = [str(each.id) for each in writer._record.document.checkpoints]
        keep = frozenset(each for each in ids if process.draws.random() < 0.3)
        self.truth.kept[attempt] = keep
        given = {name: MayBeEmpty(folder) for name, folder in live.items()}
        left_out = {name for each in self.truth.attempts.values() for name in each} - set(stores)
        checkpoint = writer.back_up(given, {"attempt": attempt}, keep=keep, leave_out=left_out)
        self.trace(f"{process} has committed {attempt}")
        indexes = [writer._indexes[blob] for blob in checkpoint.indexes.values() if blob in writer._indexes]
        self.truth.seen["bytes of files are in an index"] += any(
            file.data for index in indexes for _, file in index.root.files()
        )
        if attempt not in self.truth.committed:
            self.truth.fail(f"{process.kind}: a checkpoint is reported and was not committed")
        if checkpoint.indexes and self.truth.record.writer == process.writer:
            self.check_own(process, writer)

    def check_own(self, process: StateProcess, writer: StateWriter) -> None:
        """What a writer has uploaded in vain is condemned by its next commit.

        Unless the list is full of blobs that the writer does not know to be gone (a delete has failed, or its answer
        was lost, or none was made after that), or the writer could not change the list once more.
        """
        record = self.truth.record
        full = len(record.condemned) >= vars(writer_module)["MOST_CONDEMNED"]
        if (full and not set(record.condemned) & process.deleted) or process.write_failed:
            return
        if record.write_id != writer._record.document.write_id:
            return
        own = {name for name in self.truth.blobs if name.split("/")[-1].removesuffix(".json") in process.names}
        left = own - self.truth.in_use - self.truth.ever_condemned
        if left:
            self.truth.fail(f"a backup is done and has left {len(left)} blobs that are not condemned")

    def order_keep(self, process: StateProcess) -> None:
        """Have the state keep another number of checkpoints."""
        try:
            set_keep(state_in(process.container), process.draws.choice([2, 3]))
        except NotFoundError:
            if self.truth.record.epoch:
                raise

    def sweep_state(self, process: StateProcess) -> None:
        """Plan and sweep."""
        try:
            plan = plan_sweep(state_in(process.container), min_age=MIN_AGE, threads=1)
        except NotFoundError:
            if self.truth.record.epoch:
                raise
            return
        sweep(state_in(process.container), plan, threads=1)

    def restore_state(self, process: StateProcess) -> None:
        """Restore into a directory that has something else, or nothing."""
        others = [each for each in self.processes if each.kind == "restore" and each is not process]
        folder = self.folder / "restored"
        if not all(each.ended for each in others):
            folder = self.folder / f"restored-{process.number}"
        if process.draws.random() < 0.5:
            write(folder, edited({"s": {"a": b"one"}}, process.draws)["s"])
        goes_on = any(place.restoring(folder).glob("*"))
        had = bool(self.truth.record.checkpoints)
        try:
            found = restore(state_in(process.container), {"s": folder}, settings=RestoreSettings(threads=1))
        except NotFoundError:
            if had:
                raise
            return
        tree = self.truth.attempts[found.checkpoint.offsets["attempt"]]["s"]
        if read(folder) != tree:
            self.truth.fail(f"checkpoint {found.checkpoint.id} is restored with other bytes")
        self.truth.seen["restored"] += 1
        self.truth.seen["a restore finds what one that was killed has left"] += goes_on
        self.truth.seen["a restore is overtaken"] += process.record_reads > 1

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(self, draws: Random) -> None:
        """All processes end, late requests arrive or not; another writer takes over, a sweep runs, all is restored."""
        for process in self.alive():
            process.kill()
        self.land_or_lose(draws)
        self._check_ttl()
        last = self.start("last", lambda _: None)
        writer = open_state(
            state_in(self.container),
            OWNER,
            WriterSettings(epoch=self.epoch, threads=1),
            clock=self.clock,
            new_id=last.new_id,
        )
        if any(self.container.tags(blob) for blob in self.truth.in_use):
            self.truth.fail("a writer has taken over, and committed blobs have a TTL")
        last.writer = writer._record.document.writer
        for stores in ({"s": {"a": b"1"}}, {"s": {"a": b"1", "b": b"one"}})[: draws.choice([0, 1, 2])]:
            self.back_up(last, writer, stores)
        if not self.truth.violation:
            sweep(
                state_in(self.container),
                plan_sweep(state_in(self.container), min_age=0, threads=1),
                threads=1,
            )
            self._check_rest()

    def _check_ttl(self) -> None:
        """What a crash has left has a TTL, in case that nobody sweeps."""
        without = {name for process in self.processes if not process.ttl for name in process.names}
        for blob in set(self.truth.blobs) - self.truth.ever_in_use - self.truth.ever_condemned - {RECORD}:
            if blob.rpartition("/")[2].removesuffix(".json") not in without and not self.container.tags(blob):
                self.truth.fail("a blob that no checkpoint has ever had has no TTL")

    def _check_rest(self) -> None:
        left = {blob.name for blob in self.container.list(uncommitted=True)} - self.truth.in_use - {RECORD}
        if left:
            self.truth.fail(f"after a sweep {len(left)} orphans are left")
        for checkpoint in self.truth.record.checkpoints:
            folder = self.folder / "last"
            restore(
                state_in(self.container),
                {"s": folder},
                checkpoint_id=str(checkpoint.id),
                settings=RestoreSettings(threads=1),
            )
            if read(folder) != self.truth.attempts[checkpoint.offsets["attempt"]]["s"]:
                self.truth.fail(f"checkpoint {checkpoint.id} is restored with other bytes at the end")


def edited(stores: Stores, draws: Random) -> Stores:
    """The stores after some work: files written, removed, a directory in a file's place."""
    tree: dict[str, bytes | Tree] = dict(stores["s"])
    for _ in range(draws.choice([0, 1, 1, 2, 3])):
        name = draws.choice(NAMES)
        match draws.choice(["write", "write", "write", "remove", "dir"]):
            case "write":
                tree[name] = draws.choice(CONTENTS)
            case "remove":
                tree.pop(name, None)
            case _:
                tree[name] = {"x": draws.choice(CONTENTS)}
    return {"s": tree} if draws.random() < 0.8 else {"s": tree, "t": {"n": draws.choice(CONTENTS)}}


def read(folder: Path) -> Tree:
    """A directory as a dict."""
    return {each.name: each.read_bytes() if each.is_file() else read(each) for each in folder.iterdir()}


@contextmanager
def killed_restores_clean_nothing_up() -> Iterator[None]:
    """A process that was killed deletes nothing, which a death that is an exception would do."""
    names = ("undo", "forget_downloaded")
    before = {name: vars(place)[name] for name in names}

    def unless_dead(act: Callable[[Path], None]) -> Callable[[Path], None]:
        return lambda directory: None if isinstance(sys.exc_info()[1], ProcessDied) else act(directory)

    vars(place).update({name: unless_dead(act) for name, act in before.items()})
    try:
        yield
    finally:
        vars(place).update(before)


@contextmanager
def counted_warnings(truth: Truth) -> Iterator[None]:
    """Count how often the writer says that a backup is repeated."""
    logger = logging.getLogger("state_backup")

    class Counts(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "it is repeated" in record.getMessage():
                truth.seen[record.getMessage().split(" of a backup")[0]] += 1

    handler = Counts()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
