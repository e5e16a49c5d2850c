"""Histories of the commit protocol."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random

from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, Reset, Throttle
from azure_account.memory.service import ServiceAssumptions
from azure_account.values import BlobAttributes
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT
from azureblob_source.log.naming import log_stream
from azureblob_source.maintenance.repair import plan_repair
from azureblob_source.read.following import TriggerLimits
from tests.azureblob_source.log.commit_histories.processes import CommitProcess, one_clock
from tests.azureblob_source.log.commit_histories.truth import Row
from tests.azureblob_source.log.commit_histories.world import (
    BLOB_GONE,
    DAY,
    CommitWorld,
    Query,
    ReaderState,
    drive,
    follow_stream,
    forgive,
    leave_out_missing,
    read_snapshot,
    repair_stream,
    vacuum_log,
)
from tests.histories.history import Event, History, draw_events

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
    behaviour: ServiceAssumptions = field(default_factory=ServiceAssumptions)


SCENES: tuple[tuple[tuple[str, ...], int], ...] = (
    (("append",), 4),
    (("append", "append"), 4),
    (("overwrite", "append"), 4),
    (("overwrite",), 1),
    (("app", "append"), 3),
    (("app",), 2),
    (("apps",), 3),
    (("apps", "append"), 2),
    (("apps", "overwrite"), 1),
    (("many",), 5),
    (("many", "append"), 3),
    (("many", "overwrite"), 2),
    (("many", "app"), 1),
    (("plain", "append"), 1),
    (("overwrite", "app", "append"), 1),
    (("partitions", "append"), 4),
    (("partitions",), 1),
    (("partitions", "partitions"), 2),
    (("partitions", "overwrite"), 1),
    (("partitions", "app", "append"), 1),
    (("partitions", "many"), 1),
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
        "halve": 3 if kinds[0] == "many" and len(kinds) > 1 and swept and not create_only else 0,
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
        behaviour=ServiceAssumptions(draws.random() < 0.5, draws.random() < 0.5, draws.random() < 0.5, create_only),
    )


def draw_world(seed: int, setting: Setting) -> CommitWorld:
    """The world before anything has happened."""
    draws = Random(setting.seed)
    stream = "a"
    fickle = draws.random() < 0.1
    queries = [
        Query(
            id=f"q{place}{kind}",
            kind=kind,
            streams=("a", "b", "c")[: draws.choice([2, 2, 3])] if kind == "many" else (stream,),
            rows=[draws.choice([0, 1, 2, 2, 3]) for _ in range(9 if kind == "apps" else draws.choice([2, 3, 4]))],
            fickle=fickle,
            moving=draws.random() < 0.6,
            forgetful=draws.random() < 0.6,
            guarded=setting.guarded,
            suffixed=setting.suffixed,
            partitioned="partitions" in setting.kinds,
        )
        for place, kind in enumerate(setting.kinds)
    ]
    readers = [ReaderState(stream, draws.choice([TriggerLimits(), TriggerLimits(blobs=1), TriggerLimits(blobs=3)]))]
    return CommitWorld(seed=seed, behaviour=setting.behaviour, queries=queries, readers=readers)


repair_all = forgive(partial(repair_stream, stream=None, age=timedelta(0), leftovers=True))


class CommitHistory(History):
    """A history of the commit protocol."""

    world: CommitWorld

    def draw(self, draws: Random) -> list[Event]:
        """The queries, how often what happens, and what."""
        self.setting = draw_setting(draws)
        self.world = draw_world(self.seed, self.setting)
        return draw_events(dict(self.setting.weights), draws.choice([12, 20, 30, 45]), draws)

    def around(self) -> AbstractContextManager[None]:
        """No threads, the history's clock for every log, and lists of transactions in every few versions."""
        return one_clock(self.seed, self.world.clock, list_every=2 + self.seed % 4)

    # --- moving processes ---------------------------------------------------------------------------------------------

    def _kill_process(self, process: CommitProcess) -> None:
        if process.kind == "repair" and self.world.truth.discarded:
            self.world.seen["repair killed between its two steps"] += 1
        self.world.trace(f"  {process!r} is killed")
        process.kill()

    def _until_aim(self, process: CommitProcess, aim: str) -> bool:
        return process.is_at(aim) or process.move(60, aim)

    def _driver(self, where: int, how: int) -> CommitProcess | None:
        query = self.world.queries[where % len(self.world.queries)]
        if len(self.world.alive()) >= ALIVE:
            return None
        if any(each.query == query.id and each.born < self.world.expiries for each in self.world.alive()):
            self.world.seen["two drivers on a checkpoint after an expiry"] += 1
        process = self.world.start("driver", lambda process: drive(process, query), how)
        if self.setting.late:
            process.faults += [("stage", LateEffect())] * process.draws.choice([0, 1, 2])
        return process

    def _pick(self, where: int) -> CommitProcess | None:
        alive = self.world.alive()
        return alive[where % len(alive)] if alive else None

    # --- events -------------------------------------------------------------------------------------------------------

    def _start(self, where: int, how: int) -> None:
        process = self._driver(where, how)
        for _ in range(how % 16):
            if process is None or not process.step():
                return

    def _go(self, where: int, how: int) -> None:
        process = self._pick(where)
        for _ in range((1, 1, 2, 4, 15)[how % 5]):
            if process is None or not process.step():
                return

    def _until(self, where: int, how: int) -> None:
        """Run a process up to a point of interest, at times one request beyond it."""
        process = self._pick(where)
        if process is not None and self._until_aim(process, AIMS[how % len(AIMS)]) and how & 256:
            process.step()

    def _run(self, where: int, how: int) -> None:
        process = self._pick(where) if how % 3 else self._driver(where, how)
        if process is not None:
            process.finish()

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
            if (how >> 5) % 3 == 0 and not process.step():
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
        self.world.expiries += 1
        self.world.clock.advance(8 * DAY)
        self.world.trace("  eight days pass")

    def _wait(self, where: int, how: int) -> None:
        self.world.clock.advance((30.0, 700.0, 4000.0, DAY)[how % 4])

    def _fault(self, where: int, how: int) -> None:
        process = self._pick(where)
        if process is not None:
            process.faults.append(FAULTS[how % len(FAULTS)])

    def _land(self, where: int, how: int) -> None:
        if self.world.late:
            self.world.land(where)

    def _repair(self, where: int, how: int) -> None:
        if len(self.world.alive()) >= ALIVE:
            return
        streams: list[str | None] = [None, *self.world.streams]
        stream, age = streams[where % len(streams)], timedelta(seconds=AGES[how % len(AGES)])
        leftovers = bool(how & 16)
        act = forgive(lambda process: repair_stream(process, stream, age, leftovers=leftovers))
        process = self.world.start("repair", act, how)
        match (how >> 6) % 4:
            case 0:
                process.finish()
            case 1 | 3 if leftovers and self._until_aim(process, "publish") and process.step():
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
        repair = self.world.start("repair", act, how)
        if self._until_aim(repair, "batches") and process.step():
            repair.finish()

    def _vacuum(self, where: int, how: int) -> None:
        if len(self.world.alive()) >= ALIVE:
            return
        log, age = self.world.logs[where % len(self.world.logs)], timedelta(seconds=AGES[how % len(AGES)])
        process = self.world.start("vacuum", forgive(lambda process: vacuum_log(process, log, age)), how)
        if how & 64:
            process.finish()

    def _halve(self, where: int, how: int) -> None:
        """A driver dies between two streams; another goes on in the one that has its part, which is vacuumed."""
        process = self._driver(0, how)
        while process is not None and self._until_aim(process, "commit") and process.next is not None:
            if log_stream(process.next.name) in self.world.queries[0].streams[1:]:
                self._kill_process(process)
                break
            process.step()
        self._expire(0, how)
        other = self._driver(1, how)
        if other is not None:
            other.finish()
            act = forgive(partial(vacuum_log, log=self.world.streams[0], age=timedelta(0)))
            self.world.start("vacuum", act, how).finish()

    def _snapshot(self, where: int, how: int) -> None:
        if len(self.world.alive()) < ALIVE:
            stream = self.world.streams[where % len(self.world.streams)]
            act = forgive(partial(read_snapshot, stream=stream))
            process = self.world.start("snapshot", act, how)
            if how & 64:
                process.finish()

    def _follow(self, where: int, how: int) -> None:
        if len(self.world.alive()) < ALIVE:
            reader = self.world.readers[where % len(self.world.readers)]
            process = self.world.start("follower", lambda process: follow_stream(process, reader, 1 + how % 3), how)
            if how & 192:
                process.finish()

    def _foreign(self, where: int, how: int) -> None:
        """Another tool puts a blob under a name of ours: before the batch is committed, or before it is published.

        The stream has a log by then: none begins in a folder that has another tool's files.
        """
        process = self._driver(where, how)
        aim = "publish" if (how >> 4) % 4 else "stage"
        if process is None or not self._until_aim(process, aim) or process.next is None:
            return
        name, truth = process.next.name, self.world.truth
        if not truth.log[name.split("/")[0]]:
            return
        if process.aim_of(process.next) != aim or self.world.container.properties(name) is not None:
            return
        self.world.seen[f"another tool's blob before {aim}"] += 1
        self.world.trace(f"  another tool puts {name}")
        data, metadata = (b"x", {ATTEMPT: "another"}) if how & 1 else (b"another tool's", {})
        truth.tool = True
        self.world.container.put(name, data, BlobAttributes(metadata))
        truth.tool = False
        if (how >> 7) % 3 == 0:
            self._kill_process(process)

    def _delete(self, where: int, how: int) -> None:
        """Delete a visible blob by hand."""
        names = sorted(self.world.truth.visible)
        if names:
            name = names[where % len(names)]
            self.world.trace(f"  {name} is deleted by hand")
            self.world.truth.delete_by_hand(name)
            self.world.container.delete(name)
            self.world.truth.hand = False

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Zombies wake, fresh drivers finish, zombies wake again, one more batch each; then everything is looked at."""
        self._wake(0.5)
        self._finish_queries()
        self.world.trace("the end, again")
        self._wake(1.0)
        while self.world.late:
            self.world.land(0)
        for query in self.world.queries:
            query.rows.append(2)
        self._finish_queries()
        if self.world.truth.violation is None:
            self._clear_up()
        if self.world.truth.violation is None:
            self._check()

    def _wake(self, share: float) -> None:
        """Let this share of the processes go on to their end; at times eight days pass then, or a repair runs."""
        alive = self.world.alive()
        for process in self.ends.sample(alive, len(alive)):
            if self.ends.random() < share:
                process.finish()
                self._land(0, 0)
        if self.ends.random() < 0.3:
            self._expire(0, 0)
        if self.ends.random() < 0.3:
            self.world.start("repair", repair_all, 0).finish()
            self._check_void()

    def _clear_up(self) -> None:
        """What repairs and vacuums that died have left."""
        world = self.world
        plan = plan_repair(world.container, None, world.utc())
        if plan.unpublished or plan.revived:
            world.seen["repair deletes what came back"] += len(plan.revived)
            self.world.start("repair", repair_all, 2).finish()
            self._follow_advice()
        for _ in range(2 if any(world.truth.first.values()) else 0):
            for log in world.logs:
                act = forgive(partial(vacuum_log, log=log, age=timedelta(days=9999)))
                self.world.start("vacuum", act, 3).finish()

    def _follow_advice(self) -> None:
        """What a repair leaves because blobs were deleted by hand, and what its error says to do then."""
        world = self.world
        for found in plan_repair(world.container, None, world.utc()).unpublished:
            lost = {row[:2] for name in found.lost for row in world.truth.blob_rows[name]}
            if lost and lost <= world.truth.by_hand:
                self.world.start("repair", forgive(partial(leave_out_missing, stream=found.stream)), 3).finish()

    def _check_void(self) -> None:
        """A follower gets past a voided entry at the head, if all that is committed is published or voided."""
        world = self.world
        if plan_repair(world.container, None, world.utc()).unpublished:
            return
        for stream in world.streams:
            head = CommitLog(world.container, stream).refresh()
            if head is not None and head.operation == "void":
                world.seen["void at the head"] += 1
                self._check_follower(ReaderState(stream, TriggerLimits()), head.version, Counter())

    def _finish_queries(self) -> None:
        """Fresh drivers. One may have to wait for another, which finishes or gives up its entry, or for an expiry."""
        world = self.world
        left = self.ends.sample(world.queries, len(world.queries))
        for waited in range(2 * len(left) + 2):
            for query in left:
                act = partial(drive, query=query, final=True)
                self.world.start("driver", act, 1).finish()
            left = [query for query in left if query.stalled]
            if not left or world.truth.violation:
                return
            if waited == len(world.queries):
                world.seen["waits for an expiry"] += 1
                self._expire(0, 0)
        world.truth.fail(f"stalled: {left[0].stalled}")

    def _check(self) -> None:
        world, truth = self.world, self.world.truth
        plan = plan_repair(world.container, None, world.utc())
        for found in (*plan.unpublished, *plan.revived):
            truth.fail(f"a second repair finds {found}")
        for query in world.queries:
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
        truth.check_foreign(lambda name: world.container.get(name).data)
        for stream in world.streams:
            self._check_readers(stream)
        world.seen["history"] += 1

    def _check_readers(self, stream: str) -> None:
        world, truth = self.world, self.world.truth
        names = [name for name in truth.visible if name.startswith(f"{stream}/")]
        listed = Counter(row for name in names for row in truth.blob_rows[name])
        found: list[Counter[Row]] = []
        process = self.world.start(
            "snapshot", lambda each: found.append(read_snapshot(each, stream, timeout=0) or Counter()), 4
        )
        process.finish()
        if found != [listed] and truth.violation is None:
            truth.fail(f"{stream}: the log has {sorted(found[0])}, the listing {sorted(listed)}")
        log = CommitLog(world.container, stream)
        head = log.refresh()
        if head is None:
            return
        gone = self.seen[BLOB_GONE]
        self._check_follower(
            ReaderState(stream, self.ends.choice([TriggerLimits(), TriggerLimits(blobs=1)])), head.version, listed
        )
        kinds = {query.kind for query in world.queries}
        if self.seen[BLOB_GONE] > gone and not truth.by_hand and kinds.isdisjoint({"overwrite", "many"}):
            truth.fail(f"a new follower of {stream} looks for a blob that is deleted")
        for reader in world.readers:
            if reader.stream == stream and reader.after is not None:
                self._check_follower(reader, head.version, listed)

    def _check_follower(self, reader: ReaderState, head: int, listed: Counter[Row]) -> None:
        for _ in range(2):  # one that was overtaken by a vacuum begins anew
            self.world.start("follower", lambda each: follow_stream(each, reader, 200), 5).finish()
        if self.world.truth.violation is None and reader.after != head:
            self.world.truth.fail(f"a follower of {reader.stream} stalls at {reader.after}, the head is {head}")
        lacks = set(listed) - set(reader.delivered)
        if lacks:
            self.world.truth.fail(f"a follower of {reader.stream} never gets {min(lacks)}")
