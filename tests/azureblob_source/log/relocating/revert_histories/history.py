"""Histories of `revert`, beside suspended drivers, vacuums, epochs, followers and reverts that are killed."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from functools import partial
from random import Random

from azure_account.memory.faults import LateEffect, LostAnswer
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.repair import plan_repair, repair
from azureblob_source.read.following import TriggerLimits
from tests.azureblob_source.log.commit_histories.processes import one_clock
from tests.azureblob_source.log.relocating.revert_histories.world import (
    Checkpoint,
    Reader,
    RevertProcess,
    RevertWorld,
    drive,
    follow,
    snapshot,
    take_back,
    vacuum_log,
    write_other,
)
from tests.histories.history import Event, History, draw_events

ALIVE = 6
AGES = (0.0, 0.0, 10.0, 60.0)
WEIGHTS = {
    "run": 8,
    "asleep": 8,
    "go": 4,
    "wake": 2,
    "kill": 2,
    "backup": 4,
    "restore": 5,
    "revert": 6,
    "dying": 5,
    "other": 2,
    "fault": 1,
    "land": 1,
    "wait": 2,
    "vacuum": 3,
    "snapshot": 2,
    "follow": 4,
}


class RevertHistory(History):
    """A history of a query that is set back."""

    world: RevertWorld

    def draw(self, draws: Random) -> list[Event]:
        """The query, and what happens."""
        many = draws.random() < 0.75
        streams = ("a", "b", "c")[: draws.choice([2, 3])] if many else ("a",)
        limits = [TriggerLimits(), TriggerLimits(blobs=1), TriggerLimits(blobs=3)]
        readers = [Reader(stream, draws.choice(limits)) for stream in streams for _ in range(2)]
        self.world = RevertWorld(
            seed=self.seed,
            many=many,
            epochs=draws.random() < 0.5,
            streams=streams,
            readers=readers,
            partitioned=Random(f"partitions {self.seed}").random() < 0.5,
        )
        weights = {**WEIGHTS, "vacuum": draws.choice([0, 2, 6])}
        if self.world.partitioned:
            weights["other"] *= 3
        return draw_events(weights, draws.choice([15, 25, 40]), draws)

    def around(self) -> AbstractContextManager[None]:
        """No threads, and the history's clock for every log."""
        return one_clock(self.seed, self.world.clock)

    def happen(self, event: Event) -> None:
        """An event, a second after the one before."""
        self.world.clock.advance(1.0)
        super().happen(event)

    # --- the query ----------------------------------------------------------------------------------------------------

    def _driver(self, batches: int, how: int) -> RevertProcess | None:
        """A new driver, unless the one on this disk runs; with epochs it takes over from one that is suspended."""
        world = self.world
        running = [each for each in world.alive("driver") if each.disk is world.disk]
        if world.recovering or (running and not world.epochs) or len(world.alive()) >= ALIVE:
            return None
        return world.start("driver", lambda process: drive(process, batches), how)

    def _run(self, where: int, how: int) -> None:
        process = self._driver(1 + where % 3, how)
        if process is not None:
            process.finish()

    def _asleep(self, where: int, how: int) -> None:
        """A driver is suspended: before it commits, between the parts of its batch, or before it publishes."""
        process = self._driver(1 + where % 3, how)
        for _ in range(1 + how % 4):
            if process is None or not process.move(80, ("commit", "commit", "publish")[how // 4 % 3]):
                return
        if process is not None and process.is_between_parts:
            self.seen["driver is suspended between the parts of its batch"] += 1
            if how & 16:
                self._restore(where >> 4, how >> 5)

    def _go(self, where: int, how: int) -> None:
        alive = self.world.alive()
        if alive:
            alive[where % len(alive)].move((1, 2, 4, 15)[how % 4])

    def _wake(self, where: int, how: int) -> None:
        """A process goes on to its end."""
        alive = self.world.alive()
        if alive:
            self._wake_up(alive[where % len(alive)])

    def _wake_up(self, process: RevertProcess) -> None:
        if process.disk is not None and process.disk.lost and process.is_between_parts:
            self.seen["driver of a lost disk wakes between the parts of its batch"] += 1
        process.finish()

    def _kill(self, where: int, how: int) -> None:
        alive = self.world.alive()
        if alive:
            self._kill_process(alive[where % len(alive)])

    def _kill_process(self, process: RevertProcess) -> None:
        if process.kind == "revert" and self.world.recovering:
            when = "before its first put" if not process.puts else "between its puts"
            self.seen[
                "revert is killed before it deletes" if process.is_at("remove") else f"revert is killed {when}"
            ] += 1
        self.world.trace(f"  {process!r} is killed")
        process.kill()

    def _other(self, where: int, how: int) -> None:
        world = self.world
        if not world.epochs and len(world.alive()) < ALIVE:
            process = world.start("other", write_other, how)
            if how % 3:
                process.finish()

    def _backup(self, where: int, how: int) -> None:
        if not self.world.recovering:
            self.world.backups.append(self.world.disk.copy())

    def _restore(self, where: int, how: int) -> None:
        """The disk is lost. The drivers are stopped, but for those that cannot be reached, and a backup is restored."""
        world = self.world
        if world.recovering or not world.backups:
            return
        place = max(0, len(world.backups) - 1 - where % 4)
        world.before, world.backups = world.disk, world.backups[: place + 1]
        world.before.lost = True
        world.disk = world.backups[-1].copy()
        world.after = world.disk.last if how % 3 else world.disk.committed
        world.recovering = True
        world.epoch += 1
        for process in world.alive("driver", "revert"):
            if process.kind == "revert" or (not process.is_between_parts and (not world.epochs or how % 2)):
                self._kill_process(process)
        world.clock.advance(60.0)
        world.trace(f"  the disk is lost; restored is {world.disk}, the last batch is {world.after}")
        self.seen["checkpoint is restored"] += 1
        self.seen["checkpoint is restored whose last batch is the newest"] += world.after == world.before.last

    def _reverting(self, how: int) -> RevertProcess | None:
        world = self.world
        if not world.recovering or world.alive("revert"):
            return None
        again = any(each.kind == "revert" and each.disk is world.disk for each in world.processes)
        self.seen["revert is run again"] += again
        disk = world.disk

        def act(process: RevertProcess) -> None:
            process.disk = disk
            take_back(process, how)

        return world.start("revert", act, how)

    def _revert(self, where: int, how: int) -> None:
        process = self._reverting(how)
        if process is not None and where % 3:
            process.finish()

    def _dying(self, where: int, how: int) -> None:
        """A revert is killed: at any request, or before one that puts or deletes."""
        process = self._reverting(how)
        if process is None:
            return
        aim = ("", "commit", "commit", "remove")[where % 4]
        for _ in range(1 + how % 3):
            if not process.move(1 + how // 4 % 40 if not aim else 80, aim or "none"):
                return
        if where & 64:
            process.step()
        if not process.ended:
            self._kill_process(process)

    def _fault(self, where: int, how: int) -> None:
        alive = self.world.alive("revert", "driver")
        if alive:
            fault = LateEffect() if how % 2 else LostAnswer()
            alive[where % len(alive)].faults.append(("commit", fault))

    def _land(self, where: int, how: int) -> None:
        if self.world.late:
            self.world.land(where)

    def _wait(self, where: int, how: int) -> None:
        self.world.clock.advance((1.0, 40.0, 700.0, 4000.0)[how % 4])

    # --- the others ---------------------------------------------------------------------------------------------------

    def _vacuum(self, where: int, how: int) -> None:
        """Of all logs or of one. While a revert is due, only what is older than the restored batch."""
        world = self.world
        before = world.clock.now() - AGES[how % len(AGES)]
        if world.recovering:
            before = min(before, world.disk.planned)
        for log in world.logs if where % 2 else [world.logs[where // 2 % len(world.logs)]]:
            world.start("vacuum", partial(vacuum_log, log=log, before=before), how).finish()

    def _snapshot(self, where: int, how: int) -> None:
        self._read(self.world.streams[where % len(self.world.streams)])

    def _read(self, stream: str) -> Counter[int]:
        """What a batch read finds. It has each row that is done, unless that was vacuumed."""
        world, found = self.world, list[Counter[int]]()
        world.start("snapshot", lambda process: found.append(snapshot(process, stream)), 0).finish()
        rows = found[0] if found else Counter[int]()
        vacuumed = world.truth.of_log(stream)[1]
        done = range(0 if world.disk.committed < 0 else world.disk.ends[world.disk.committed])
        owed = {*(row for row in done if world.stream_of(row) == stream)} if not world.recovering else set[int]()
        owed |= {row for row in world.acknowledged if stream == world.streams[0]}
        lost = owed - set(rows) - vacuumed
        if rows and lost:
            world.truth.fail(f"a snapshot of {stream} lacks row {min(lost)}")
        return rows

    def _follow(self, where: int, how: int) -> None:
        reader = self.world.readers[where % len(self.world.readers)]
        self.world.start("follower", partial(follow, reader=reader, batches=1 + how % 3), how).finish()

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Some wake; the query is recovered and goes on; the others wake; everything is compared."""
        self._wake_some(0.5)
        self._go_on()
        self._wake_some(1.0)
        while self.world.late:
            self.world.land(0)
        self._go_on()
        if self.world.truth.violation is None:
            self._repair()
        if self.world.truth.violation is None:
            self._check()

    def _wake_some(self, share: float) -> None:
        for process in self.ends.sample(self.world.alive(), len(self.world.alive())):
            if self.ends.random() < share:
                self._wake_up(process)

    def _go_on(self) -> None:
        """The revert ends, and a new driver writes two more batches."""
        world = self.world
        for _ in range(4):
            if not world.recovering:
                break
            for process in world.alive("revert"):
                process.finish()
            recovery = self._reverting(self.ends.getrandbits(8))
            if recovery is not None:
                recovery.finish()
        else:
            world.truth.fail("the recovery does not end")
        self._wake_some(0.5)
        if not world.epochs:
            for process in world.alive("driver"):
                if process.disk is world.disk:
                    process.finish()
        until = world.disk.committed + 2
        for _ in range(3):
            world.start("driver", lambda process: drive(process, until - world.disk.committed), 1).finish()
            if world.disk.committed == until or world.truth.violation is not None:
                return
        world.truth.fail("the query does not go on")

    def _repair(self) -> None:
        world = self.world

        def act(process: RevertProcess) -> None:
            plan = plan_repair(process.container, None, world.utc())
            repair(process.container, plan, world.draft, Publisher(process.container))

        world.epoch += 1
        world.start("repair", act, 0).finish()
        if world.truth.back:
            world.truth.fail(f"{min(world.truth.back)} was taken back and is visible after a repair")

    def _check(self) -> None:
        world, truth = self.world, self.world.truth
        by_log: Counter[int] = Counter()
        gone: set[int] = set()
        for stream in world.streams:
            rows = self._read(stream)
            kept, vacuumed = truth.of_log(stream)
            if rows != kept:
                truth.fail(f"a snapshot of {stream} has {sorted(rows)}, its log {sorted(kept)}")
            by_log.update(rows)
            gone |= vacuumed
        written = {*range(world.disk.ends[-1]), *world.acknowledged}
        if lost := written - set(by_log) - gone:
            truth.fail(f"row {min(lost)} is lost")
        if more := [row for row, count in by_log.items() if count > 1 or (row >= 0 and row not in written)]:
            truth.fail(f"row {more[0]} is there {by_log[more[0]]} times")
        listed = Counter({row: count for row, count in truth.count.items() if count})
        if listed != by_log:
            truth.fail(f"the listing has {sorted(listed.elements())}, the log {sorted(by_log.elements())}")
        for reader in world.readers:
            self._check_follower(reader)
        self.seen["history"] += 1

    def _check_follower(self, reader: Reader) -> None:
        world, log = self.world, self.world.truth.log[reader.stream]
        for _ in range(3):  # one that was overtaken by a vacuum begins anew
            world.start("follower", partial(follow, reader=reader, batches=500), 5).finish()
        kept, _ = world.truth.of_log(reader.stream)
        lacks = {row for row in kept if reader.delivered.get(row, ("", -1)) in world.truth.taken_back}
        lacks |= set(kept) - set(reader.delivered)
        if log and (lacks or reader.after != max(log)):
            at = f"stops at {reader.after}, the head is {max(log)}" if not lacks else f"lacks row {min(lacks)}"
            world.truth.fail(f"a follower of {reader.stream} {at}")


__all__ = ["Checkpoint", "RevertHistory"]
