"""One history: a function of its seed. Events are drawn first, as plain tuples, so that a failure can be shrunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random

from azure_account.account import BlobAttributes
from azure_account.errors import AzureBlobError
from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, Reset, Throttle
from azure_account.memory.service import UnverifiedBehaviour
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT
from azureblob_source.maintenance.repair import plan_repair
from azureblob_source.read.following import TriggerLimits
from tests.azureblob_source.log.commit_histories.processes import HistoryProcess, aim_of, effect, inline_pools
from tests.azureblob_source.log.commit_histories.simulation import (
    DAY,
    Query,
    ReaderState,
    Simulation,
    drive,
    follow_stream,
    forgive,
    leave_out_missing,
    read_snapshot,
    repair_stream,
    vacuum_log,
)
from tests.azureblob_source.log.commit_histories.truth import Row

Event = tuple[str, int, int]
"""What happens, and two numbers that say where and how; they are read modulo what there is."""

AIMS = ("commit", "commit", "publish", "publish", "publish", "remove", "stage", "boundary", "look", "other")
FAULTS: tuple[tuple[str, Fault], ...] = (
    ("commit", LostAnswer()),
    ("commit", LateEffect()),
    ("commit", Reset()),
    ("publish", LostAnswer()),
    ("publish", LateEffect()),
    ("publish", Reset()),
    ("publish", Crash()),
    ("publish", Crash(after_effect=True)),
    ("commit", Crash()),
    ("commit", Crash(after_effect=True)),
    ("remove", LostAnswer()),
    ("remove", Crash(after_effect=True)),
    ("remove", LateEffect()),
    ("stage", LateEffect()),
    ("stage", LostAnswer()),
    ("boundary", LostAnswer()),
    ("boundary", LateEffect()),
    ("boundary", Crash(after_effect=True)),
    ("any", Throttle(0.5)),
    ("any", Reset()),
)
AGES = (0.0, 0.0, 3600.0, DAY)
MAX_STEPS = 1500
ALIVE = 7


@dataclass(frozen=True)
class Setting:
    """What a history is made of."""

    kinds: tuple[str, ...]
    seed: int
    weights: tuple[tuple[str, int], ...]
    guarded: bool = False
    by_hand: bool = False
    late: bool = False
    suffixed: bool = True
    behaviour: UnverifiedBehaviour = field(default_factory=UnverifiedBehaviour)


SCENES: tuple[tuple[tuple[str, ...], int], ...] = (
    (("append",), 4),
    (("append", "append"), 4),
    (("overwrite", "append"), 4),
    (("overwrite",), 1),
    (("app", "append"), 3),
    (("app",), 2),
    (("many",), 5),
    (("many", "append"), 3),
    (("many", "overwrite"), 2),
    (("many", "app"), 1),
    (("plain", "append"), 1),
    (("overwrite", "app", "append"), 1),
)


def draw_setting(draws: Random) -> Setting:
    """The queries of a history, and how often what happens."""
    kinds = draws.choices([scene for scene, _ in SCENES], [weight for _, weight in SCENES])[0]
    maintained = draws.choice([0, 0, 1, 3])
    swept = draws.choice([0, 0, 1, 3])
    create_only = draws.random() < 0.05
    weights = {
        "start": 6,
        "go": 6,
        "until": 10,
        "run": 5,
        "kill": 3,
        "die": draws.choice([4, 8, 12]),
        "asleep": draws.choice([2, 5]),
        "expire": draws.choice([1, 3, 5]),
        "wait": 2,
        "fault": draws.choice([0, 3, 8]),
        "land": draws.choice([1, 3]),
        "repair": 2 * maintained,
        "overtake": maintained,
        "vacuum": 0 if create_only else 2 * swept,
        "snapshot": draws.choice([0, 2]),
        "follow": draws.choice([0, 0, 4]),
    }
    by_hand = draws.random() < 0.03
    if by_hand:
        weights["delete"] = 3
    seed = draws.getrandbits(32)
    suffixed = bool(seed % 10)
    if not suffixed:
        weights["foreign"] = 6
    return Setting(
        kinds,
        seed,
        tuple(weights.items()),
        guarded=len(kinds) == 1 and draws.random() < (0.7 if by_hand else 0.2),
        by_hand=by_hand,
        late=draws.random() < 0.15,
        suffixed=suffixed,
        behaviour=UnverifiedBehaviour(draws.random() < 0.5, draws.random() < 0.5, draws.random() < 0.5, create_only),
    )


def draw_events(setting: Setting, draws: Random) -> list[Event]:
    """What happens, without the end."""
    names, weights = zip(*setting.weights, strict=True)
    return [
        (name, draws.getrandbits(16), draws.getrandbits(16))
        for name in draws.choices(names, weights, k=draws.choice([12, 20, 30, 45]))
    ]


def draw_simulation(setting: Setting, trace: Callable[[str], object] | None) -> Simulation:
    """The simulation before anything has happened."""
    draws = Random(setting.seed)
    stream = "a"
    fickle = draws.random() < 0.1
    queries = [
        Query(
            id=f"q{place}{kind}",
            kind=kind,
            streams=("a", "b", "c")[: draws.choice([2, 2, 3])] if kind == "many" else (stream,),
            rows=[draws.choice([0, 1, 2, 2, 3]) for _ in range(draws.choice([2, 3, 4]))],
            fickle=fickle,
            moving=draws.random() < 0.6,
            forgetful=draws.random() < 0.6,
            guarded=setting.guarded,
            suffixed=setting.suffixed,
        )
        for place, kind in enumerate(setting.kinds)
    ]
    readers = [ReaderState(stream, draws.choice([TriggerLimits(), TriggerLimits(blobs=1), TriggerLimits(blobs=3)]))]
    return Simulation(setting.behaviour, queries, readers, trace)


repair_all = forgive(partial(repair_stream, stream=None, age=timedelta(0), leftovers=True))


class History:
    """Runs a history's events, then its end."""

    def __init__(self, seed: int, events: Sequence[Event] | None = None, *, trace: bool = False) -> None:
        draws = Random(seed)
        self.seed = seed
        self.setting = draw_setting(draws)
        self.ends = Random(draws.getrandbits(32))
        self.events = draw_events(self.setting, draws) if events is None else list(events)
        self.lines: list[str] = []
        self.simulation = draw_simulation(self.setting, self.lines.append if trace else None)
        self.processes: list[HistoryProcess] = []

    def run(self) -> str | None:
        """The violation that was found, None if all holds."""
        with inline_pools(self.simulation.clock, self.seed):
            try:
                for name, where, how in self.events:
                    self._say(f"{name} {where} {how}")
                    getattr(self, f"_{name}")(where, how)
                    if self.simulation.truth.violation:
                        break
                else:
                    self._end()
            finally:
                violation = self.simulation.truth.violation
                for process in self.processes:
                    process.kill()
        return violation

    def _say(self, line: str) -> None:
        if self.simulation.trace is not None:
            self.simulation.trace(line)

    # --- moving processes ---------------------------------------------------------------------------------------------

    def _begin(self, kind: str, act: Callable[[HistoryProcess], object], seed: int, query: str = "") -> HistoryProcess:
        process = HistoryProcess(self.simulation, kind, act, seed, query)
        self.processes.append(process)
        self._say(f"  {process!r} begins")
        self._look(process)
        return process

    def _step(self, process: HistoryProcess) -> bool:
        alive = process.step()
        self._look(process)
        return alive and self.simulation.truth.violation is None

    def _look(self, process: HistoryProcess) -> None:
        if process.error is not None:
            self.simulation.truth.fail(f"{process.kind} ends with {type(process.error).__name__}: {process.error}")
        if process.ended and process in self.processes:
            self.processes.remove(process)

    def _finish(self, process: HistoryProcess) -> None:
        for _ in range(MAX_STEPS):
            if not self._step(process):
                return
        self.simulation.truth.fail(f"{process!r} does not end")

    def _kill_process(self, process: HistoryProcess) -> None:
        if process.kind == "repair" and self.simulation.truth.discarded:
            self.simulation.seen["repair killed between its two steps"] += 1
        self._say(f"  {process!r} is killed")
        process.kill()
        self._look(process)

    def _until_aim(self, process: HistoryProcess, aim: str) -> bool:
        for _ in range(60):
            if process.next is not None and aim_of(process.next) == aim:
                return True
            if not self._step(process):
                return False
        return True

    def _driver(self, where: int, how: int) -> HistoryProcess | None:
        query = self.simulation.queries[where % len(self.simulation.queries)]
        if len(self.processes) >= ALIVE:
            return None
        if any(each.query == query.id and each.born < self.simulation.expiries for each in self.processes):
            self.simulation.seen["two drivers on a checkpoint after an expiry"] += 1
        process = self._begin("driver", lambda process: drive(process, query), how, query.id)
        if self.setting.late:
            process.faults += [("stage", LateEffect())] * process.draws.choice([0, 1, 2])
        return process

    def _pick(self, where: int) -> HistoryProcess | None:
        return self.processes[where % len(self.processes)] if self.processes else None

    # --- events -------------------------------------------------------------------------------------------------------

    def _start(self, where: int, how: int) -> None:
        process = self._driver(where, how)
        for _ in range(how % 16):
            if process is None or not self._step(process):
                return

    def _go(self, where: int, how: int) -> None:
        process = self._pick(where)
        for _ in range((1, 1, 2, 4, 15)[how % 5]):
            if process is None or not self._step(process):
                return

    def _until(self, where: int, how: int) -> None:
        """Run a process up to a point of interest, at times one request beyond it."""
        process = self._pick(where)
        if process is not None and self._until_aim(process, AIMS[how % len(AIMS)]) and how & 256:
            self._step(process)

    def _run(self, where: int, how: int) -> None:
        process = self._pick(where) if how % 3 else self._driver(where, how)
        if process is not None:
            self._finish(process)

    def _kill(self, where: int, how: int) -> None:
        process = self._pick(where)
        if process is not None:
            self._kill_process(process)

    def _die(self, where: int, how: int) -> None:
        """A driver commits and dies before or while it publishes; at times its blocks expire."""
        process = self._driver(where, how)
        if process is None:
            return
        for _ in range(1 + (how >> 4) % 2):
            if not self._until_aim(process, "publish"):
                return
            if (how >> 5) % 3 == 0 and not self._step(process):
                return
        self._kill_process(process)
        if (how >> 7) % 4:
            self._expire(0, how)

    def _asleep(self, where: int, how: int) -> None:
        """A driver falls asleep at a point of interest."""
        process = self._driver(where, how)
        if process is not None:
            self._until_aim(process, ("stage", "commit", "commit", "publish", "publish", "remove")[(how >> 4) % 6])

    def _expire(self, where: int, how: int) -> None:
        self.simulation.expiries += 1
        self.simulation.clock.advance(8 * DAY)
        self._say("  eight days pass")

    def _wait(self, where: int, how: int) -> None:
        self.simulation.clock.advance((30.0, 700.0, 4000.0, DAY)[how % 4])

    def _fault(self, where: int, how: int) -> None:
        process = self._pick(where)
        if process is not None:
            process.faults.append(FAULTS[how % len(FAULTS)])

    def _land(self, where: int, how: int) -> None:
        if self.simulation.late:
            request, send, expiries, voids = self.simulation.late.pop(where % len(self.simulation.late))
            if request.operation == "stage_block" and expiries < self.simulation.expiries:
                return  # no Put Block is under way for as long as staged blocks are kept
            self._say(f"  {request.operation} {request.name} takes effect late")
            self.simulation.seen["late effect after an expiry"] += expiries < self.simulation.expiries
            self.simulation.seen["late effect after a void"] += voids < self.simulation.truth.voids
            effect(send)

    def _repair(self, where: int, how: int) -> None:
        if len(self.processes) >= ALIVE:
            return
        streams: list[str | None] = [None, *self.simulation.streams]
        stream, age = streams[where % len(streams)], timedelta(seconds=AGES[how % len(AGES)])
        leftovers = bool(how & 16)
        act = forgive(lambda process: repair_stream(process, stream, age, leftovers=leftovers))
        process = self._begin("repair", act, how)
        match (how >> 6) % 4:
            case 0:
                self._finish(process)
            case 1 | 3 if leftovers and self._until_aim(process, "publish") and self._step(process):
                self._kill_process(process)
            case 2:
                self._until_aim(process, ("publish", "remove", "commit", "look")[(how >> 9) % 4])
            case _:
                return

    def _overtake(self, where: int, how: int) -> None:
        """A driver commits what a repair has just found to be a leftover."""
        process = self._driver(where, how)
        if process is None or not self._until_aim(process, "commit"):
            return
        act = forgive(partial(repair_stream, stream=None, age=timedelta(seconds=-1), leftovers=True))
        repair = self._begin("repair", act, how)
        if self._until_aim(repair, "batches") and self._step(process):
            self._finish(repair)

    def _vacuum(self, where: int, how: int) -> None:
        if len(self.processes) >= ALIVE:
            return
        log, age = self.simulation.logs[where % len(self.simulation.logs)], timedelta(seconds=AGES[how % len(AGES)])
        process = self._begin("vacuum", forgive(lambda process: vacuum_log(process, log, age)), how)
        if how & 64:
            self._finish(process)

    def _snapshot(self, where: int, how: int) -> None:
        if len(self.processes) < ALIVE:
            stream = self.simulation.streams[where % len(self.simulation.streams)]
            act = forgive(partial(read_snapshot, stream=stream))
            process = self._begin("snapshot", act, how)
            if how & 64:
                self._finish(process)

    def _follow(self, where: int, how: int) -> None:
        if len(self.processes) < ALIVE:
            reader = self.simulation.readers[where % len(self.simulation.readers)]
            process = self._begin("follower", lambda process: follow_stream(process, reader, 1 + how % 3), how)
            if how & 192:
                self._finish(process)

    def _foreign(self, where: int, how: int) -> None:
        """Another tool puts a blob under a name of ours: before the batch is committed, or before it is published."""
        process = self._driver(where, how)
        aim = "publish" if (how >> 4) % 4 else "stage"
        if process is None or not self._until_aim(process, aim) or process.next is None:
            return
        name, truth = process.next.name, self.simulation.truth
        if aim_of(process.next) != aim or self.simulation.container.properties(name) is not None:
            return
        self.simulation.seen[f"another tool's blob before {aim}"] += 1
        self._say(f"  another tool puts {name}")
        data, metadata = (b"x", {ATTEMPT: "another"}) if how & 1 else (b"another tool's", {})
        truth.tool = True
        self.simulation.container.put(name, data, BlobAttributes(metadata))
        truth.tool = False
        if (how >> 7) % 3 == 0:
            self._kill_process(process)

    def _delete(self, where: int, how: int) -> None:
        """Delete a visible blob by hand."""
        names = sorted(self.simulation.truth.visible)
        if names:
            name = names[where % len(names)]
            self._say(f"  {name} is deleted by hand")
            self.simulation.truth.delete_by_hand(name)
            self.simulation.container.delete(name)
            self.simulation.truth.hand = False

    # --- the end ------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Zombies wake, fresh drivers finish, zombies wake again, one more batch each; then everything is looked at."""
        self._say("the end")
        self._wake(0.5)
        self._finish_queries()
        self._say("the end, again")
        self._wake(1.0)
        while self.simulation.late:
            self._land(0, 0)
        for query in self.simulation.queries:
            query.rows.append(2)
        self._finish_queries()
        if self.simulation.truth.violation is None:
            self._clear_up()
        if self.simulation.truth.violation is None:
            self._check()

    def _wake(self, share: float) -> None:
        """Let this share of the processes go on to their end; at times eight days pass then, or a repair runs."""
        self.ends.shuffle(self.processes)
        for process in list(self.processes):
            if self.ends.random() < share:
                self._finish(process)
                self._land(0, 0)
        if self.ends.random() < 0.3:
            self._expire(0, 0)
        if self.ends.random() < 0.3:
            self._finish(self._begin("repair", repair_all, 0))
            self._check_void()

    def _clear_up(self) -> None:
        """What repairs and vacuums that died have left."""
        simulation = self.simulation
        plan = plan_repair(simulation.container, None, simulation.utc())
        if plan.unpublished or plan.revived:
            simulation.seen["repair deletes what came back"] += len(plan.revived)
            self._finish(self._begin("repair", repair_all, 2))
            self._follow_advice()
        for _ in range(2 if any(simulation.truth.first.values()) else 0):
            for log in simulation.logs:
                act = forgive(partial(vacuum_log, log=log, age=timedelta(days=9999)))
                self._finish(self._begin("vacuum", act, 3))

    def _follow_advice(self) -> None:
        """What a repair leaves because blobs were deleted by hand, and what its error says to do then."""
        simulation = self.simulation
        for found in plan_repair(simulation.container, None, simulation.utc()).unpublished:
            lost = {row[:2] for name in found.lost for row in simulation.truth.blob_rows[name]}
            if lost and lost <= simulation.truth.by_hand:
                self._finish(self._begin("repair", forgive(partial(leave_out_missing, stream=found.stream)), 3))

    def _check_void(self) -> None:
        """A follower gets past a voided entry at the head, if all that is committed is published or voided."""
        simulation = self.simulation
        if plan_repair(simulation.container, None, simulation.utc()).unpublished:
            return
        for stream in simulation.streams:
            head = CommitLog(simulation.container, stream).refresh()
            if head is not None and head.operation == "void":
                simulation.seen["void at the head"] += 1
                self._check_follower(ReaderState(stream, TriggerLimits()), head.version, Counter())

    def _finish_queries(self) -> None:
        """Fresh drivers. One may have to wait for another, which finishes or gives up its entry, or for an expiry."""
        simulation = self.simulation
        left = self.ends.sample(simulation.queries, len(simulation.queries))
        for waited in range(2 * len(left) + 2):
            for query in left:
                act = partial(drive, query=query, final=True)
                self._finish(self._begin("driver", act, 1, query.id))
            left = [query for query in left if query.stalled]
            if not left or simulation.truth.violation:
                return
            if waited == len(simulation.queries):
                simulation.seen["waits for an expiry"] += 1
                self._expire(0, 0)
        simulation.truth.fail(f"stalled: {left[0].stalled}")

    def _check(self) -> None:
        simulation, truth = self.simulation, self.simulation.truth
        plan = plan_repair(simulation.container, None, simulation.utc())
        for found in (*plan.unpublished, *plan.revived):
            truth.fail(f"a second repair finds {found}")
        for query in simulation.queries:
            for batch in range(query.committed + 1):
                transaction = query.transaction(batch)
                in_effect = None if transaction is None else truth.in_effect(query.log, transaction)
                allowed = {*query.allowed.get(batch, ())}
                if in_effect is not None:
                    truth.check_batch(f"batch {batch} of {query.id}", in_effect, allowed)
                elif transaction is not None and frozenset() not in allowed:
                    truth.fail(f"batch {batch} of {query.id} was never committed")
            for batch, entries in query.plain:
                for entry in entries:
                    truth.check_batch(f"batch {batch} of {query.id}", entry, query.allowed[batch])
        truth.check_revoked()
        truth.check_foreign(lambda name: simulation.container.get(name).data)
        for stream in simulation.streams:
            self._check_readers(stream)
        simulation.seen["history"] += 1

    def _check_readers(self, stream: str) -> None:
        simulation, truth = self.simulation, self.simulation.truth
        names = [name for name in truth.visible if name.startswith(f"{stream}/")]
        listed = Counter(row for name in names for row in truth.blob_rows[name])
        found: list[Counter[Row]] = []
        process = self._begin(
            "snapshot", lambda each: found.append(read_snapshot(each, stream, timeout=0) or Counter()), 4
        )
        self._finish(process)
        if found != [listed] and truth.violation is None:
            truth.fail(f"{stream}: the log has {sorted(found[0])}, the listing {sorted(listed)}")
        log = CommitLog(simulation.container, stream)
        head = log.refresh()
        if head is None:
            return
        self._check_follower(
            ReaderState(stream, self.ends.choice([TriggerLimits(), TriggerLimits(blobs=1)])), head.version, listed
        )
        for reader in simulation.readers:
            if reader.stream == stream and reader.after is not None:
                self._check_follower(reader, head.version, listed)

    def _check_follower(self, reader: ReaderState, head: int, listed: Counter[Row]) -> None:
        for _ in range(2):  # one that was overtaken by a vacuum begins anew
            self._finish(self._begin("follower", lambda each: follow_stream(each, reader, 200), 5))
        if self.simulation.truth.violation is None and reader.after != head:
            self.simulation.truth.fail(f"a follower of {reader.stream} stalls at {reader.after}, the head is {head}")
        lacks = set(listed) - set(reader.delivered)
        if lacks:
            self.simulation.truth.fail(f"a follower of {reader.stream} never gets {min(lacks)}")


def run_seed(seed: int) -> tuple[str | None, Counter[str]]:
    """One history: what was violated, and what happened."""
    history = History(seed)
    try:
        violation = history.run()
    except AzureBlobError as error:
        violation = f"{type(error).__name__}: {error}"
    return violation, history.simulation.seen


def shrink(seed: int, same: Callable[[str], bool]) -> list[Event]:
    """A shorter list of events that violates the same: events are left out as long as it does."""
    events = History(seed).events
    size = max(1, len(events) // 2)
    while size:
        at = 0
        while at < len(events):
            fewer = events[:at] + events[at + size :]
            violation = History(seed, fewer).run()
            if violation is not None and same(violation):
                events = fewer
            else:
                at += size
        size //= 2
    return events
