"""One history of a store: a function of its seed."""

from __future__ import annotations

from collections import Counter
from random import Random

from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, Reset, Throttle
from tests.adjunct_store.histories.truth import PINS_EXPIRE
from tests.adjunct_store.histories.world import FOLDER, StoreProcess, World

AIMS = (
    "put manifest",
    "put manifest",
    "put pin",
    "put pin",
    "list pin",
    "get manifest",
    "get pin",
    "delete",
    "delete pin",
    "put",
)
FAULTS: tuple[tuple[str, Fault], ...] = (
    ("put manifest", LostAnswer()),
    ("put manifest", LateEffect()),
    ("put manifest", Reset()),
    ("put manifest", Crash()),
    ("put manifest", Crash(after_effect=True)),
    ("put pin", LostAnswer()),
    ("put pin", LateEffect()),
    ("put pin", Reset()),
    ("put pin", Crash(after_effect=True)),
    ("list pin", Crash()),
    ("list pin", Reset()),
    ("delete", LateEffect()),
    ("delete", Crash()),
    ("delete pin", LateEffect()),
    ("delete pin", Crash()),
    ("any", Throttle(0.5)),
    ("any", Reset()),
)
PAUSES = (0.3, 0.45, 0.6, 0.9, 1.1, 2.5)
"""Parts of the time for which a pin is found."""
MAX_STEPS = 2000
READERS = ("q", "r")


def run_seed(seed: int, trace: list[str] | None = None) -> tuple[str | None, Counter[str]]:
    """What is violated, and the events that were seen."""
    draws = Random(seed)
    world = World(seed, draws.choice([1, 1, 2]), draws.random() < 0.25)
    if trace is not None:
        world.trace = trace.append
    try:
        _events(world, draws)
        if world.truth.violation is None:
            world.end(draws)
        world.check_errors()
    finally:
        for process in world.processes:
            process.kill()
    world.truth.seen["second take-over"] += len(world.truth.writers) > 3
    return world.truth.violation, world.truth.seen


def _events(world: World, draws: Random) -> None:
    weights = {
        "fill": 5,
        "task": draws.choice([6, 12]),
        "next": draws.choice([1, 3]),
        "go": 6,
        "until": 14,
        "run": 8,
        "beside": draws.choice([0, 3, 6]),
        "kill": draws.choice([0, 1, 3]),
        "fault": draws.choice([0, 5, 10]),
        "doubt": draws.choice([0, 1, 3]),
        "land": draws.choice([1, 8]),
        "pause": draws.choice([0, 0, 2]),
        "lose": draws.choice([0, 0, 0, 1]),
    }
    names = draws.choices(list(weights), list(weights.values()), k=draws.choice([20, 40, 80]))
    for name in ["fill", *names]:
        if world.truth.violation is not None:
            return
        _event(world, draws, name)


def _event(world: World, draws: Random, name: str) -> None:  # noqa: C901, PLR0912 - one case for each event
    alive = [process for process in world.processes if not process.ended]
    fills = [process for process in alive if process.kind == "fill"]
    tasks = [process for process in alive if process.kind == "task"]
    match name:
        case "fill" if len(fills) < 3:
            world.start("fill", world.fill_store)
        case "task" if len(tasks) < 4:
            _start_task(world, draws.choice(READERS))
        case "next":
            _next_batch(world, draws.choice(READERS))
        case "land" if world.late:
            world.land(draws.getrandbits(8))
        case "go" if alive:
            _move(draws.choice(alive), draws.choice([1, 2, 5]))
        case "until" if alive:
            _move(draws.choice(alive), MAX_STEPS, draws.choice(AIMS))
        case "run" if alive:
            _move(draws.choice(alive), MAX_STEPS)
        case "beside" if fills:
            _beside(world, draws, draws.choice(fills))
        case "kill" if alive:
            draws.choice(alive).kill()
        case "fault" if alive:
            draws.choice(alive).faults.extend([draws.choice(FAULTS)] * draws.choice([1, 1, 1, 15]))
        case "doubt" if fills:
            _doubt(world, draws.choice(fills), draws)
        case "lose":
            world.lose_checkpoint(FOLDER)
        case "pause":
            _pause(world, draws)


def _start_task(world: World, reader: str) -> StoreProcess:
    """A task of the reader's batch, perhaps of a second attempt of it."""
    batch = world.truth.current_batch.setdefault(reader, 0)

    def act(process: StoreProcess) -> None:
        process.reader, process.batch = reader, batch
        world.read_store(process)

    return world.start("task", act)


def _next_batch(world: World, reader: str) -> None:
    """The batch of a reader is done if a task of it has read; tasks of it that are left are given up."""
    batch = world.truth.current_batch.setdefault(reader, 0)
    if (reader, batch) in world.truth.used:
        world.truth.current_batch[reader] = batch + 1


def _beside(world: World, draws: Random, fill: StoreProcess) -> None:
    """A task rests at one of its requests while a fill publishes and cleans up; then it goes on."""
    task = _start_task(world, draws.choice(READERS))
    _move(task, MAX_STEPS, draws.choice(["put pin", "get manifest", "get pin", "put"]))
    _move(task, draws.choice([0, 1, 2, 3]))
    for _ in range(draws.choice([1, 2, 3])):
        _move(fill, MAX_STEPS, "put manifest")
    _move(fill, draws.choice([0, 1, 3, MAX_STEPS]), draws.choice(["list pin", "put manifest", "delete"]))
    _move(task, draws.choice([1, 2, MAX_STEPS]))
    if draws.random() < 0.5:
        _move(_start_task(world, task.reader), MAX_STEPS)


def _doubt(world: World, fill: StoreProcess, draws: Random) -> None:
    """A change of a fill gets no answer, however often it is made, and takes effect while the fill goes on."""
    late = len(world.late)
    fill.faults = [("put manifest", LateEffect()), *[("put manifest", Reset())] * 14]
    while fill.faults and not fill.ended:
        fill.step()
    fill.faults = []
    _move(fill, draws.choice([2, 5, 20]), "put manifest")
    if len(world.late) > late:
        world.land(late)


def _pause(world: World, draws: Random) -> None:
    """The readers' queries are stopped for a long time. Their batches run again, and a fill goes on while they do."""
    for _ in range(draws.choice([1, 1, 2])):
        for process in world.processes:
            if process.kind == "task":
                process.kill()
        world.clock.advance(draws.choice(PAUSES) * PINS_EXPIRE)
        fills = [process for process in world.processes if process.kind == "fill" and not process.ended]
        fill = draws.choice(fills) if fills else world.start("fill", world.fill_store)
        if draws.random() < 0.5:
            _move(fill, MAX_STEPS, draws.choice(["delete pin", "put manifest"]))
        tasks = [_start_task(world, reader) for reader in READERS if draws.random() < 0.7]
        for task in tasks:
            _move(task, MAX_STEPS, "get")
        if draws.random() < 0.7:
            _move(fill, draws.choice([10, 30, MAX_STEPS]))
        for task in tasks:
            _move(task, MAX_STEPS)


def _move(process: StoreProcess, steps: int, aim: str = "") -> None:
    """So many requests of a process, or up to one that is for `aim`."""
    for number in range(steps):
        if process.ended or (number and aim and process.next is not None and process.aim_of(process.next) == aim):
            return
        process.step()
