"""Histories of a state's backup."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, Reset, Throttle
from state_backup.backup import upload, writer
from state_backup.index import packs
from tests.histories.history import Event, History, draw_events
from tests.state_backup.histories.processes import StateProcess
from tests.state_backup.histories.world import StateWorld, counted_warnings, killed_restores_clean_nothing_up

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
AIMS = ("write record", "write record", "upload", "upload", "delete", "set_tags", "get", "read record", "list")
FAULTS: tuple[tuple[str, Fault], ...] = (
    ("write record", LostAnswer()),
    ("write record", LateEffect()),
    ("write record", Reset()),
    ("write record", Crash()),
    ("write record", Crash(after_effect=True)),
    ("upload", LostAnswer()),
    ("upload", LateEffect()),
    ("upload", LateEffect()),
    ("upload", Crash(after_effect=True)),
    ("delete", LateEffect()),
    ("delete", LostAnswer()),
    ("delete", Crash()),
    ("set_tags", LateEffect()),
    ("set_tags", Crash()),
    ("any", Throttle(0.5)),
    ("any", Reset()),
)
LONG = (1.0, 600.0, 7200.0, 2 * 86400.0)
PACKS = ((0, 4 << 20, 16), (2, 4, 16), (4, 8, 1), (4, 8, 16), (4, 1000, 2))
"""Below which size files are packed (no content has more than three bytes), up to which size, and how many small."""


class BackupHistory(History):
    """A history of a state's backup."""

    world: StateWorld

    def draw(self, draws: Random) -> list[Event]:
        """The sizes that decide how files are packed, and what happens."""
        self.small, self.packs = draws.choice([2, 1 << 20]), draws.choice(PACKS)
        self.most_condemned = draws.choice([2, vars(writer)["MOST_CONDEMNED"]])
        self.world = StateWorld(seed=self.seed, folder=Path("not made yet"), epoch=draws.choice([None, None, 5]))
        weights = {
            "write": 5,
            "sweep": draws.choice([0, 3, 6]),
            "restore": draws.choice([0, 2, 4]),
            "go": 6,
            "until": 14,
            "run": 6,
            "kill": draws.choice([0, 1, 3]),
            "fault": draws.choice([0, 6, 14]),
            "land": draws.choice([1, 8]),
            "wait": 2,
            "beside": draws.choice([0, 1, 3]),
            "doubt": draws.choice([0, 1, 3]),
            "lost": draws.choice([0, 1, 2]),
            "keep": draws.choice([0, 1, 2]),
            "interrupted": draws.choice([0, 2]),
            "rival": draws.choice([0, 1, 2]),
            "replaced": draws.choice([0, 1, 2]),
        }
        return [Event("write", 0, 0), *draw_events(weights, draws.choice([15, 25, 40, 60]), draws)]

    @contextmanager
    def around(self) -> Iterator[None]:
        """The sizes and a folder of its own."""
        before = upload._SMALL, packs.SMALL_FILE, packs.PACK_BYTES, packs.MOST_SMALL_BLOBS
        most_condemned = vars(writer)["MOST_CONDEMNED"]
        upload._SMALL, vars(writer)["MOST_CONDEMNED"] = self.small, self.most_condemned
        packs.SMALL_FILE, packs.PACK_BYTES, packs.MOST_SMALL_BLOBS = self.packs
        self.world.folder = Path(tempfile.mkdtemp(prefix="history-", dir=MEMORY if MEMORY.is_dir() else None))
        try:
            with counted_warnings(self.world.truth), killed_restores_clean_nothing_up():
                yield
        finally:
            vars(writer)["MOST_CONDEMNED"] = most_condemned
            upload._SMALL, packs.SMALL_FILE, packs.PACK_BYTES, packs.MOST_SMALL_BLOBS = before
            shutil.rmtree(self.world.folder)

    def end(self) -> None:
        """Another writer takes over."""
        self.world.end(self.ends)
        self.seen["second take-over"] += len(self.world.truth.writers) > 3

    def happen(self, event: Event) -> None:
        """An event, if there is a process that it is of."""
        _event(self.world, event.draws, event.name)


def _event(world: StateWorld, draws: Random, name: str) -> None:  # noqa: C901, PLR0912 - one case for each event
    alive, writers = world.alive(), world.alive("writer")
    match name:
        case "write" if len(writers) < 3:
            world.start("writer", world.write_state)
        case "sweep" if len(world.alive("sweep")) < 3:
            world.start("sweep", world.sweep_state)
        case "restore" if len(world.alive("restore")) < 2:
            world.start("restore", world.restore_state)
        case "keep" if len(world.alive("keep")) < 2:
            world.start("keep", world.order_keep)
        case "land" if world.late:
            world.land(draws.getrandbits(8))
        case "wait":
            world.clock.advance(draws.choice(LONG))
        case "go" if alive:
            draws.choice(alive).move(draws.choice([1, 2, 5]))
        case "until" if alive:
            draws.choice(alive).move(aim=draws.choice(AIMS))
        case "run" if alive:
            draws.choice(alive).finish()
        case "beside" if writers:
            draws.choice(writers).move(aim="write record")
            world.clock.advance(draws.choice(LONG))
            world.start("sweep", world.sweep_state).move(aim=draws.choice(["", "", "write record", "delete"]))
        case "doubt" if writers:
            _doubt(world, draws.choice(writers), draws)
        case "lost" if writers:
            _lose_answer(world, draws.choice(writers))
        case "rival" if world.epoch is not None and writers:
            _open_again(world, draws.choice(writers), draws)
        case "replaced" if writers:
            _replace(world, draws.choice(writers))
        case "interrupted" if not world.alive("restore"):
            world.start("restore", world.restore_state).move(draws.choice([1, 2, 3, 4]))
            world.processes[-1].kill()
        case "kill" if alive:
            draws.choice(alive).kill()
        case "fault" if alive:
            draws.choice(alive).faults.extend([draws.choice(FAULTS)] * draws.choice([1, 1, 1, 6]))


def _doubt(world: StateWorld, writer: StateProcess, draws: Random) -> None:
    """A commit of a writer gets no answer, however often it is made, and takes effect while the next backup is made."""
    late = len(world.late)
    writer.faults = [("write record", LateEffect()), *[("write record", Reset())] * 4]
    while writer.faults and not writer.ended:
        writer.step()
    writer.move(draws.choice([2, 5, 9]), "write record")
    if len(world.late) > late:
        world.land(late)


def _lose_answer(world: StateWorld, writer: StateProcess) -> None:
    """A commit is done and its answer lost; a sweep changes the record before the writer reads it."""
    writer.move(aim="write record")
    writer.faults = [("write record", LostAnswer())]
    before = len(world.truth.committed)
    writer.step()
    world.start("sweep", world.sweep_state).finish()
    world.truth.seen["a sweep follows a commit without an answer"] += len(world.truth.committed) > before


def _open_again(world: StateWorld, writer: StateProcess, draws: Random) -> None:
    """A writer is about to commit; a second one opens the state with the same epoch, and both back up."""
    writer.move(aim="write record")
    rival = world.start("writer", world.write_state)
    while not (rival.writer or rival.ended):
        rival.step()
    rival.move(aim=draws.choice(["upload", "write record"]))
    both = writer.writer and rival.writer and not (writer.ended or rival.ended)
    world.truth.seen["two writers of one epoch back up"] += bool(both)
    writer.move(aim=draws.choice(["", "delete"]))


def _replace(world: StateWorld, writer: StateProcess) -> None:
    """A writer is about to delete; another one takes the state over; the first wakes."""
    if writer.move(aim="delete"):
        successor = world.start("writer", world.write_state)
        while not (successor.writer or successor.ended):
            successor.step()
        writer.step()
