"""One history: a function of its seed."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, Reset, Throttle
from state_backup.backup import upload, writer
from state_backup.index import packs
from tests.state_backup.histories.processes import StateProcess, aim_of
from tests.state_backup.histories.world import World, counted_warnings, killed_restores_clean_nothing_up

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
MAX_STEPS = 3000
PACKS = ((0, 4 << 20, 16), (2, 4, 16), (4, 8, 1), (4, 8, 16), (4, 1000, 2))
"""Below which size files are packed (no content has more than three bytes), up to which size, and how many small."""


def run_seed(seed: int, trace: list[str] | None = None) -> tuple[str | None, Counter[str]]:
    """What is violated, and the events that were seen."""
    draws = Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="history-", dir=MEMORY if MEMORY.is_dir() else None))
    before = upload._SMALL, packs.SMALL_FILE, packs.PACK_BYTES, packs.MOST_SMALL_BLOBS
    upload._SMALL = draws.choice([2, 1 << 20])
    packs.SMALL_FILE, packs.PACK_BYTES, packs.MOST_SMALL_BLOBS = draws.choice(PACKS)
    most_condemned = vars(writer)["MOST_CONDEMNED"]
    vars(writer)["MOST_CONDEMNED"] = draws.choice([2, most_condemned])
    world = World(seed, folder, draws.choice([None, None, 5]))
    if trace is not None:
        world.trace = trace.append
    try:
        with counted_warnings(world.truth), killed_restores_clean_nothing_up():
            _events(world, draws)
            if world.truth.violation is None:
                world.end(draws)
            world.check_errors()
    finally:
        vars(writer)["MOST_CONDEMNED"] = most_condemned
        upload._SMALL, packs.SMALL_FILE, packs.PACK_BYTES, packs.MOST_SMALL_BLOBS = before
        for process in world.processes:
            process.kill()
        shutil.rmtree(folder)
    world.truth.seen["second take-over"] += len(world.truth.writers) > 3
    return world.truth.violation, world.truth.seen


def _events(world: World, draws: Random) -> None:
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
    }
    names = draws.choices(list(weights), list(weights.values()), k=draws.choice([15, 25, 40, 60]))
    for name in ["write", *names]:
        if world.truth.violation is not None:
            return
        _event(world, draws, name)


def _event(world: World, draws: Random, name: str) -> None:  # noqa: C901, PLR0912 - one case for each event
    alive = [process for process in world.processes if not process.ended]
    writers = [process for process in alive if process.kind == "writer"]
    match name:
        case "write" if len(writers) < 3:
            world.start("writer", world.write_state)
        case "sweep" if sum(process.kind == "sweep" for process in alive) < 3:
            world.start("sweep", world.sweep_state)
        case "restore" if sum(process.kind == "restore" for process in alive) < 2:
            world.start("restore", world.restore_state)
        case "keep" if sum(process.kind == "keep" for process in alive) < 2:
            world.start("keep", world.order_keep)
        case "land" if world.late:
            world.land(draws.getrandbits(8))
        case "wait":
            world.clock.advance(draws.choice(LONG))
        case "go" if alive:
            _move(draws.choice(alive), draws.choice([1, 2, 5]))
        case "until" if alive:
            _move(draws.choice(alive), MAX_STEPS, draws.choice(AIMS))
        case "run" if alive:
            _move(draws.choice(alive), MAX_STEPS)
        case "beside" if writers:
            _move(draws.choice(writers), MAX_STEPS, "write record")
            world.clock.advance(draws.choice(LONG))
            _move(world.start("sweep", world.sweep_state), MAX_STEPS, draws.choice(["", "", "write record", "delete"]))
        case "doubt" if writers:
            _doubt(world, draws.choice(writers), draws)
        case "lost" if writers:
            _lose_answer(world, draws.choice(writers))
        case "rival" if world.epoch is not None and writers:
            _open_again(world, draws.choice(writers), draws)
        case "interrupted" if not any(process.kind == "restore" for process in alive):
            _move(world.start("restore", world.restore_state), draws.choice([1, 2, 3, 4]))
            world.processes[-1].kill()
        case "kill" if alive:
            draws.choice(alive).kill()
        case "fault" if alive:
            draws.choice(alive).faults.extend([draws.choice(FAULTS)] * draws.choice([1, 1, 1, 6]))


def _doubt(world: World, writer: StateProcess, draws: Random) -> None:
    """A commit of a writer gets no answer, however often it is made, and takes effect while the next backup is made."""
    late = len(world.late)
    writer.faults = [("write record", LateEffect()), *[("write record", Reset())] * 4]
    while writer.faults and not writer.ended:
        writer.step()
    _move(writer, draws.choice([2, 5, 9]), "write record")
    if len(world.late) > late:
        world.land(late)


def _lose_answer(world: World, writer: StateProcess) -> None:
    """A commit is done and its answer lost; a sweep changes the record before the writer reads it."""
    _move(writer, MAX_STEPS, "write record")
    writer.faults = [("write record", LostAnswer())]
    before = len(world.truth.committed)
    writer.step()
    _move(world.start("sweep", world.sweep_state), MAX_STEPS)
    world.truth.seen["a sweep follows a commit without an answer"] += len(world.truth.committed) > before


def _open_again(world: World, writer: StateProcess, draws: Random) -> None:
    """A writer is about to commit; a second one opens the state with the same epoch, and both back up."""
    _move(writer, MAX_STEPS, "write record")
    rival = world.start("writer", world.write_state)
    while not (rival.writer or rival.ended):
        rival.step()
    _move(rival, MAX_STEPS, draws.choice(["upload", "write record"]))
    both = writer.writer and rival.writer and not (writer.ended or rival.ended)
    world.truth.seen["two writers of one epoch back up"] += bool(both)
    _move(writer, MAX_STEPS, draws.choice(["", "delete"]))


def _move(process: StateProcess, steps: int, aim: str = "") -> None:
    """So many requests of a process, or up to one that is for `aim`."""
    for number in range(steps):
        if process.ended or (number and aim and process.next is not None and aim_of(process.next) == aim):
            return
        process.step()
