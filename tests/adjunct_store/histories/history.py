"""Histories of a store."""

from __future__ import annotations

from random import Random

from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, Reset, Throttle
from tests.adjunct_store.histories.truth import COPY, PINS_EXPIRE, reader_of
from tests.adjunct_store.histories.world import FOLDER, StoreProcess, StoreWorld
from tests.histories.history import Event, History, draw_events
from tests.histories.process import MAX_STEPS

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
PAUSES = (0.02, 0.04, 0.04, 0.3, 0.45, 0.6, 0.9, 1.1, 2.5)
"""Parts of the time for which a pin is found."""
QUERIES = ("q", "r", "q" + COPY)
MANY_JOBS = 150


class StoreHistory(History):
    """A history of a store that is filled and read."""

    world: StoreWorld

    def draw(self, draws: Random) -> list[Event]:
        """The store, and what happens."""
        self.world = StoreWorld(seed=self.seed, keep=draws.choice([1, 1, 2]), bounded=draws.random() < 0.25)
        weights = {
            "fill": 5,
            "task": draws.choice([6, 12]),
            "next": draws.choice([1, 3]),
            "restart": draws.choice([0, 1]),
            "ahead": draws.choice([0, 2]),
            "job": draws.choice([0, 2]),
            "forget": 1,
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
            "replaced": draws.choice([0, 0, 1]),
        }
        return [Event("fill", 0, 0), *draw_events(weights, draws.choice([20, 40, 80]), draws)]

    def end(self) -> None:
        """Another fill takes over."""
        self.world.end(self.ends)
        self.seen["second take-over"] += len(self.world.truth.writers) > 3

    def happen(self, event: Event) -> None:
        """An event, if there is a process that it is of."""
        _event(self.world, event.draws, event.name)


def _event(world: StoreWorld, draws: Random, name: str) -> None:  # noqa: C901, PLR0912 - one case for each event
    alive, fills, tasks = world.alive(), world.alive("fill"), world.alive("task")
    match name:
        case "fill" if len(fills) < 3:
            world.start("fill", world.fill_store)
        case "task" if len(tasks) < 4:
            _start_task(world, draws.choice(QUERIES))
        case "next":
            _next_batch(world, draws.choice(QUERIES))
        case "restart":
            _restart(world, draws.choice(QUERIES))
        case "ahead":
            _ahead(world, draws)
        case "job":
            _jobs(world, draws, fills)
        case "forget" if world.jobs:
            world.forget_job(draws.choice(world.jobs))
        case "land" if world.late:
            world.land(draws.getrandbits(8))
        case "go" if alive:
            draws.choice(alive).move(draws.choice([1, 2, 5]))
        case "until" if alive:
            draws.choice(alive).move(aim=draws.choice(AIMS))
        case "run" if alive:
            draws.choice(alive).finish()
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
        case "replaced" if fills:
            _replace(world, draws.choice(fills))


def _start_task(world: StoreWorld, query: str) -> StoreProcess:
    """A task of the query's batch, perhaps of a second attempt of it."""
    current = world.truth.current_batch
    if query not in current:
        world.truth.seen["a checkpoint is copied"] += query.endswith(COPY)
        current[query] = current.get(reader_of(query), 0)
    batch, driver = current[query], world.drivers.setdefault(query, f"driver of {query}")

    def act(process: StoreProcess) -> None:
        process.query, process.driver, process.batch = query, driver, batch
        world.read_store(process)

    return world.start("task", act)


def _next_batch(world: StoreWorld, query: str) -> None:
    """The batch of a query is done if a task of it has read; tasks of it that are left are given up."""
    batch = world.truth.current_batch.get(query, 0)
    if (query, batch) in world.truth.used:
        world.truth.current_batch[query] = batch + 1


def _restart(world: StoreWorld, query: str) -> None:
    """Another process runs the query from its last batch; the one before has ended."""
    for process in world.alive("task"):
        if process.query == query:
            process.kill()
    world.drivers[query] = f"driver {len(world.processes)} of {query}"


def _ahead(world: StoreWorld, draws: Random) -> None:
    """One of two queries with the same checkpoint reads some batches while the other one is in its own."""
    slow, fast = draws.sample(["q", "q" + COPY], 2)
    _start_task(world, slow).finish()
    fills = world.alive("fill")
    for _ in range(draws.choice([1, 3, 4])):
        _start_task(world, fast).finish()
        _next_batch(world, fast)
        for fill in fills[:1]:
            fill.move(draws.choice([1, MAX_STEPS]), "put manifest")
    if draws.random() < 0.3:
        _wait_without_tasks(world, draws.choice(PAUSES[:2]))
    tasks = [_start_task(world, query) for query in (slow, fast)]
    for task in tasks:
        task.move(draws.choice([2, MAX_STEPS]))
    for fill in fills[:1]:
        fill.move(draws.choice([5, 20]), draws.choice(["delete pin", "put manifest"]))
    for task in tasks:
        task.finish()


def _jobs(world: StoreWorld, draws: Random, fills: list[StoreProcess]) -> None:
    """Batch jobs of a long-lived process, most of which are soon forgotten; sometimes very many of them."""
    many = draws.random() < 0.02
    for _ in range(MANY_JOBS if many else draws.choice([1, 2, 5])):
        job = f"batch-{len(world.processes)}"
        _start_task(world, job).finish()
        world.jobs.append(job)
        if fills and draws.random() < 0.3:
            fills[0].move(draws.choice([1, 5]), "put manifest")
        if draws.random() < 0.8:
            world.forget_job(draws.choice(world.jobs))
    world.truth.seen["hundreds of jobs in one process"] += many


def _beside(world: StoreWorld, draws: Random, fill: StoreProcess) -> None:
    """A task rests at one of its requests while a fill publishes and cleans up; then it goes on."""
    task = _start_task(world, draws.choice(QUERIES))
    task.move(aim=draws.choice(["put pin", "get manifest", "get pin", "put"]))
    task.move(draws.choice([0, 1, 2, 3]))
    for _ in range(draws.choice([1, 2, 3])):
        fill.move(aim="put manifest")
    fill.move(draws.choice([0, 1, 3, MAX_STEPS]), draws.choice(["list pin", "put manifest", "delete"]))
    task.move(draws.choice([1, 2, MAX_STEPS]))
    if draws.random() < 0.5:
        _start_task(world, task.query).finish()


def _doubt(world: StoreWorld, fill: StoreProcess, draws: Random) -> None:
    """A change of a fill gets no answer, however often it is made, and takes effect while the fill goes on."""
    late = len(world.late)
    fill.faults = [("put manifest", LateEffect()), *[("put manifest", Reset())] * 14]
    while fill.faults and not fill.ended:
        fill.step()
    fill.faults = []
    fill.move(draws.choice([2, 5, 20]), "put manifest")
    if len(world.late) > late:
        world.land(late)


def _replace(world: StoreWorld, fill: StoreProcess) -> None:
    """A fill is about to upload; another one takes the store over; the first wakes."""
    if fill.move(aim="put"):
        successor = world.start("fill", world.fill_store)
        while not (successor.writer or successor.ended):
            successor.step()
        fill.step()


def _wait_without_tasks(world: StoreWorld, part: float) -> None:
    for process in world.alive("task"):
        process.kill()
    world.clock.advance(part * PINS_EXPIRE)


def _pause(world: StoreWorld, draws: Random) -> None:
    """The readers' queries are stopped for a long time. Their batches run again, and a fill goes on while they do."""
    for _ in range(draws.choice([1, 1, 2])):
        _wait_without_tasks(world, draws.choice(PAUSES))
        fills = world.alive("fill")
        fill = draws.choice(fills) if fills else world.start("fill", world.fill_store)
        if draws.random() < 0.5:
            fill.move(aim=draws.choice(["delete pin", "put manifest"]))
        tasks = [_start_task(world, query) for query in QUERIES if draws.random() < 0.7]
        for task in tasks:
            task.move(aim="get")
        if draws.random() < 0.7:
            fill.move(draws.choice([10, 30, MAX_STEPS]))
        for task in tasks:
            task.finish()
