"""Histories of compaction, beside writers, vacuums, reverts, repairs, epochs and readers, all of which are killed."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, Reset, Throttle
from azure_account.memory.service import ServiceAssumptions
from azureblob_source.log import live_state
from azureblob_source.log.checkpoint import building
from azureblob_source.log.naming import log_stream
from azureblob_source.log.relocating import compaction
from azureblob_source.read import following, moved, relocating
from azureblob_source.read.following import TriggerLimits
from tests.azureblob_source.log.commit_histories.processes import one_clock
from tests.azureblob_source.log.relocating.compaction_histories.audits import AGES as AUDIT_AGES
from tests.azureblob_source.log.relocating.compaction_histories.audits import audits
from tests.azureblob_source.log.relocating.compaction_histories.world import (
    DAY,
    HOUR,
    CompactionProcess,
    CompactionWorld,
    Reader,
    checkpoints,
    compacts,
    drive,
    drive_other,
    follows,
    reads,
    reads_range,
    repairs,
    restores,
    takes_back,
    vacuums,
    write_once,
)
from tests.histories.history import Event, History, draw_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

ALIVE = 7
LARGE = (1_500, 5_000, 10**7)
AGES = (0.0, HOUR, 10 * HOUR, 30 * HOUR)
AIMS = ("commit", "commit", "publish", "publish", "remove", "remove", "read", "stage", "look", "other")
FAULTS: tuple[tuple[str, Fault], ...] = (
    ("commit", LostAnswer()),
    ("commit", LateEffect()),
    ("commit", Crash(after_effect=True)),
    ("publish", LostAnswer()),
    ("publish", LateEffect()),
    ("publish", Crash(after_effect=True)),
    ("remove", LostAnswer()),
    ("remove", LateEffect()),
    ("remove", Crash(after_effect=True)),
    ("boundary", LostAnswer()),
    ("boundary", Crash(after_effect=True)),
    ("stage", LostAnswer()),
    ("any", Throttle(0.5)),
    ("any", Reset()),
)
WEIGHTS = {
    "run": 14,
    "drive": 3,
    "other": 4,
    "once": 3,
    "overwrite": 1,
    "compact": 9,
    "compact_dying": 5,
    "compact_slowly": 4,
    "lose": 2,
    "go": 4,
    "wake": 3,
    "kill": 2,
    "expire": 1,
    "wait": 6,
    "fault": 2,
    "land": 1,
    "vacuum": 2,
    "restore": 2,
    "revert": 3,
    "repair": 1,
    "leave_out": 1,
    "checkpoint": 2,
    "read": 2,
    "read_version": 4,
    "read_slowly": 4,
    "follow": 5,
    "read_range": 4,
    "audit": 4,
}


class CompactionHistory(History):
    """A history of streams whose blobs are compacted."""

    world: CompactionWorld
    is_aged = False
    """Whether a vacuum at the end has kept a day."""

    def draw(self, draws: Random) -> list[Event]:
        """The streams, how often what happens, and what."""
        streams = ("a", "b") if draws.random() < 0.3 else ("a",)
        limits = [TriggerLimits(), TriggerLimits(blobs=1), TriggerLimits(blobs=5)]
        readers = [Reader(stream, draws.choice(limits)) for stream in streams for _ in range(2)]
        behaviour = ServiceAssumptions(draws.random() < 0.5, draws.random() < 0.5, draws.random() < 0.5)
        self.world = CompactionWorld(
            seed=self.seed, streams=streams, readers=readers, epochs=draws.random() < 0.3, behaviour=behaviour
        )
        self.world.checkpoint_interval = draws.choice([2, 5, 64, 64])
        self.world.auto_compact = draws.random() < 0.3
        calm, steady = draws.random() < 0.2, draws.random() < 0.3
        weights = {
            **WEIGHTS,
            "vacuum": draws.choice([0, 2, 5]),
            "overtake": draws.choice([0, 0, 2]),
            "overwrite": draws.choice([0, 0, 2]),
            "back": draws.choice([0, 0, 2]),
            "expire": draws.choice([0, 1, 3]),
            "halve": 4 if len(streams) > 1 else 0,
        }
        if calm:
            weights |= dict.fromkeys(("kill", "compact_dying", "lose", "fault", "expire", "overwrite"), 0)
        if steady:
            weights |= {"restore": 0}
        return draw_events(weights, draws.choice([15, 30, 50]), draws)

    @contextmanager
    def _small(self) -> Iterator[None]:
        """No log is too short for a checkpoint in half of the histories, and limits are low."""
        with one_clock(self.seed, self.world.clock), pytest.MonkeyPatch.context() as patch:
            patch.setattr(compaction, "MOST_BLOBS", 12)
            patch.setattr(compaction, "MOST_VERSIONS", 60)
            patch.setattr(moved, "_STEPS", 1 + self.seed % 3)
            patch.setattr(following, "_MANY", (20, 200)[self.seed % 2])
            if self.seed % 2:
                patch.setattr(live_state, "FEW_ENTRIES", 0)
                patch.setattr(live_state, "MANY_ENTRIES", 0)
            for name, value in {"OPEN_BLOBS": 2, "MANIFEST_BLOBS": 8, "MERGED": 2}.items():
                patch.setattr(building, name, value)
            located: Any = relocating._located

            def counted(*given: Any, **named: Any) -> Any:
                self.seen["task finds its rows elsewhere"] += 1
                return located(*given, **named)

            patch.setattr(relocating, "_located", counted)
            yield

    def around(self) -> AbstractContextManager[None]:
        """No threads, the history's clock for every log, and low limits."""
        return self._small()

    def happen(self, event: Event) -> None:
        """An event, a minute after the one before."""
        self.world.clock.advance(60.0)
        super().happen(event)

    # --- moving processes ---------------------------------------------------------------------------------------------

    def _start(self, kind: str, act: Callable[[CompactionProcess], object], how: int) -> CompactionProcess | None:
        if len(self.world.alive()) >= ALIVE:
            return None
        return self.world.start(kind, act, how)

    def _finish(self, kind: str, act: Callable[[CompactionProcess], object], how: int) -> None:
        process = self._start(kind, act, how)
        if process is not None:
            process.finish()

    def _mostly(self, kind: str, act: Callable[[CompactionProcess], object], how: int) -> None:
        """Run it to its end; at times it rests, or is killed, at a point of interest."""
        process = self._start(kind, act, how)
        if process is None:
            return
        if how % 4:
            process.finish()
            return
        for _ in range(1 + (how >> 8) % 3):
            if not process.is_at(AIMS[(how >> 2) % len(AIMS)]) and not process.move(80, AIMS[(how >> 2) % len(AIMS)]):
                return
            if how >> 10 & 1 and not process.step():
                return
        if how >> 11 & 1:
            self._kill_process(process)

    def _kill_process(self, process: CompactionProcess) -> None:
        self.world.trace(f"  {process!r} is killed")
        if process.next is not None:
            self.seen[f"{process.kind} is killed before a request to {process.aim_of(process.next)}"] += 1
        process.kill()

    def _pick(self, where: int) -> CompactionProcess | None:
        alive = self.world.alive()
        return alive[where % len(alive)] if alive else None

    def _go(self, where: int, how: int) -> None:
        process = self._pick(where)
        if process is not None:
            process.move((1, 2, 4, 15)[how % 4])

    def _wake(self, where: int, how: int) -> None:
        process = self._pick(where)
        if process is not None:
            process.finish()

    def _kill(self, where: int, how: int) -> None:
        process = self._pick(where)
        if process is not None:
            self._kill_process(process)

    def _fault(self, where: int, how: int) -> None:
        process = self._pick(where)
        if process is not None:
            process.faults.append(FAULTS[how % len(FAULTS)])

    def _land(self, where: int, how: int) -> None:
        if self.world.late:
            self.world.land(where)

    def _expire(self, where: int, how: int) -> None:
        self.world.clock.advance(8 * DAY)
        self.world.late = [late for late in self.world.late if late.request.operation != "stage_block"]
        self.world.trace("  eight days pass")

    def _wait(self, where: int, how: int) -> None:
        self.world.clock.advance((30.0, HOUR, 3 * HOUR, 9 * HOUR)[how % 4])

    # --- writers ------------------------------------------------------------------------------------------------------

    def _run(self, where: int, how: int) -> None:
        """A driver of the query writes some batches; at times those before it still run."""
        if not self.world.recovering:
            self._finish("driver", partial(drive, batches=1 + where % 4), how)

    def _drive(self, where: int, how: int) -> None:
        if not self.world.recovering:
            self._mostly("driver", partial(drive, batches=1 + where % 2), how & ~3)

    def _other(self, where: int, how: int) -> None:
        if not self.world.epochs:
            self._mostly("other", partial(drive_other, batches=1 + where % 3), how)

    def _once(self, where: int, how: int) -> None:
        self._mostly("writer", write_once, how)

    def _overwrite(self, where: int, how: int) -> None:
        self._mostly("writer", partial(write_once, overwrite=("all", "partitions")[where % 2]), how)

    def _halve(self, where: int, how: int) -> None:
        """A driver dies between its streams; what it has written to the first is compacted; its blocks expire."""
        if self.world.recovering:
            return
        process = self._start("driver", partial(drive, batches=6), how)
        while process is not None and (process.is_at("commit") or process.move(200, "commit")):
            if process.next is not None and log_stream(process.next.name) == "b":
                break
            if not process.step():
                return
        if process is None or process.ended:
            return
        self._kill_process(process)
        self.seen["driver dies between its streams"] += 1
        for _ in range(how % 3):
            self._finish("writer", write_once, how)
        self._finish("compaction", compacts("a"), how)
        if how & 16:
            self._expire(0, 0)

    # --- maintenance --------------------------------------------------------------------------------------------------

    def _compacts(self, where: int, how: int) -> Callable[[CompactionProcess], None]:
        stream = self.world.streams[where % len(self.world.streams)]
        return compacts(stream, large=LARGE[(how >> 4) % 3], fresh=(0.0, 0.0, HOUR)[(where >> 3) % 3])

    def _compact(self, where: int, how: int) -> None:
        self._finish("compaction", self._compacts(where, how), how)

    def _compact_dying(self, where: int, how: int) -> None:
        """It is killed before or after a request that matters."""
        process = self._start("compaction", self._compacts(where, how), how)
        aim = ("commit", "publish", "remove", "remove", "stage")[how % 5]
        for _ in range(1 + (how >> 8) % 3):
            if process is None or not process.move(200, aim):
                return
            if (how >> 10) % 2 and not process.step():
                return
        if process is not None and not process.ended:
            self._kill_process(process)
            if (how >> 11) % 4 == 0:
                self._expire(0, 0)

    def _compact_slowly(self, where: int, how: int) -> None:
        """It rests before or after a request that matters; at times another one begins beside it."""
        for number in range(1 + where % 2):
            process = self._start("compaction", self._compacts(0, how), how + number)
            aim = ("read", "stage", "commit", "commit", "publish", "remove")[(how >> number) % 6]
            if process is not None and process.move(200, aim) and (how >> 10) % 2:
                process.step()
            self.seen["two compactions at once"] += number and process is not None and not process.ended

    def _lose(self, where: int, how: int) -> None:
        """A compaction is killed once it is committed; its blocks may expire, and others come before a reader."""
        process = self._start("compaction", self._compacts(0, how), how)
        if process is None or not process.move(200, "commit") or not process.step() or process.ended:
            return
        self._kill_process(process)
        if how & 1:
            self._read_version(0, how)
        if how & 2:
            self._expire(0, 0)
            if how & 4:
                self._finish("repair", repairs(leave_out_missing=True), how)
        if how & 8:
            self._finish("writer", write_once, how)
        self._audit(where, how)
        self._read_version(0, how >> 4)
        self._read_range(0, how >> 5)

    def _overtake(self, where: int, how: int) -> None:
        """Rows are moved together when a vacuum is about to move the boundary between them."""
        process = self._start("vacuum", vacuums("a", AGES[how % 3]), how)
        if process is not None and process.move(200, "boundary"):
            self._finish("compaction", compacts("a"), how)
            process.finish()
            self._read(0, how)
            self._read_version(0, how)

    def _vacuum(self, where: int, how: int) -> None:
        log = self.world.logs[where % len(self.world.logs)]
        if not self.world.recovering:
            self._mostly("vacuum", vacuums(log, AGES[(how >> 4) % len(AGES)]), how)

    def _back(self, where: int, how: int) -> None:
        """A version is restored, by its epoch if the query has one."""
        stream = self.world.streams[where % len(self.world.streams)]
        head, first = self.world.truth.head(stream), self.world.truth.first[stream]
        if head >= 0 and not self.world.recovering:
            self._mostly("restore", restores(stream, max(first, head - (where >> 4) % 8)), how)

    def _restore(self, where: int, how: int) -> None:
        """The disk of the query is lost; an earlier checkpoint is restored, and what it does not have is due back."""
        world = self.world
        if world.recovering or world.source.committed < 0:
            return
        source = world.before = world.source
        for process in world.alive("driver"):
            if not world.epochs or how % 2:
                self._kill_process(process)
        source.lost = True
        world.source = source.restored(max(-1, source.committed - where % 5))
        world.recovering = True
        world.epoch += 1
        self._revert(where >> 4, how >> 4)

    def _revert(self, where: int, how: int) -> None:
        if self.world.recovering and not self.world.alive("revert"):
            self._mostly("revert", takes_back(self.world.source), how)

    def _repair(self, where: int, how: int) -> None:
        self._mostly("repair", repairs(), how)

    def _leave_out(self, where: int, how: int) -> None:
        self._mostly("repair", repairs(leave_out_missing=True), how)

    def _checkpoint(self, where: int, how: int) -> None:
        stream = self.world.streams[where % len(self.world.streams)]
        self._mostly("checkpoint", checkpoints(stream, rebuild=not how % 8), how >> 3)

    # --- readers ------------------------------------------------------------------------------------------------------

    def _read(self, where: int, how: int) -> None:
        """A read while nobody else works has just what the log says; so has the listing, but for a while."""
        stream = self.world.streams[where % len(self.world.streams)]
        self._finish("reader", reads(stream, by_version=bool(how & 1)), how)

    def _read_version(self, where: int, how: int) -> None:
        stream = self.world.streams[where % len(self.world.streams)]
        head = self.world.truth.head(stream)
        if head >= 0:
            version = self.world.truth.first[stream] + (where >> 4) % (head + 1)
            self._finish("reader", reads(stream, min(version, head), by_version=bool(how & 1)), how)

    def _read_slowly(self, where: int, how: int) -> None:
        """A reader rests amid its blobs, which are compacted then, once or several times."""
        world = self.world
        stream = world.streams[where % len(world.streams)]
        head = world.truth.head(stream)
        version = None if how & 1 or head < 0 else max(head - how // 32 % 8, world.truth.first[stream])
        act = reads(stream, version, by_version=bool(how & 2))
        if how & 4 and version is not None:
            act = reads_range(stream, max(version - 5, world.truth.first[stream] - 1), version)
        process = self._start("reader", act, how)
        for _ in range(1 + how // 8 % 4):
            if process is None or not process.move(200, "read"):
                return
        for number in range(1 + how // 512 % 2):
            self._finish("compaction", self._compacts(where, how >> number), how)
            if how & 1024:
                self._once(where, how & ~3 | 1)
        if process is not None and how & 2048:
            process.finish()

    def _follow(self, where: int, how: int) -> None:
        reader = self.world.readers[where % len(self.world.readers)]
        self._mostly("follower", follows(reader, 1 + how % 3), how >> 2)

    def _read_range(self, where: int, how: int) -> None:
        stream = self.world.streams[where % len(self.world.streams)]
        head, first = self.world.truth.head(stream), self.world.truth.first[stream]
        if head >= first:
            after = first - 1 + (where >> 4) % (head - first + 1)
            until = after + 1 + (how >> 4) % min(12, head - after)
            for version, entry in sorted(self.world.truth.log[stream].items()):
                if entry.replaces is not None and after < entry.replaces <= until:
                    until = max(until, version)  # no range ends before what voids one of its versions
            self._finish("reader", reads_range(stream, after, until), how)

    def _audit(self, where: int, how: int) -> None:
        stream = self.world.streams[where % len(self.world.streams)]
        age = AUDIT_AGES[(where >> 4) % len(AUDIT_AGES)]
        self._mostly("audit", audits(stream, age, history=bool(where & 2)), how)

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Some wake; the query is recovered and goes on; the others wake; everything is compacted and compared."""
        self._wake_some(0.5)
        self._go_on()
        self._wake_some(1.0)
        while self.world.late:
            self.world.land(0)
        self._go_on()
        for step in (self._compact_all, self._check, self._age, self._check):
            if self.world.truth.violation is None:
                step()

    def _wake_some(self, share: float) -> None:
        alive = self.world.alive()
        for process in self.ends.sample(alive, len(alive)):
            if self.ends.random() < share:
                process.finish()

    def _go_on(self) -> None:
        """The revert ends, a repair runs, and a new driver writes two more batches; it may have to wait a week."""
        world = self.world
        for waited in range(4):
            if world.recovering:
                for process in world.alive("revert"):
                    process.finish()
                if world.recovering:
                    world.start("revert", takes_back(world.source), 1).finish()
            until = world.source.committed + 2
            if not world.recovering:
                act = partial(drive, batches=until - world.source.committed)
                world.start("driver", act, waited).finish()
                if world.source.committed >= until or world.truth.violation is not None:
                    world.start("repair", repairs(), 1).finish()
                    return
            self._expire(0, 0)
        world.truth.fail("the query does not go on")

    def _compact_all(self) -> None:
        """Compactions come to an end, and leave few blobs."""
        world = self.world
        for stream in world.streams:
            for _ in range(12):
                made = self.seen["compaction"]
                world.start("compaction", compacts(stream), 1).finish()
                if self.seen["compaction"] == made:
                    break
            else:
                world.truth.fail(f"compactions of {stream} do not come to an end")
            self._check_few(stream)
        world.start("writer", write_once, 1).finish()
        world.start("repair", repairs(), 1).finish()

    def _check_few(self, stream: str) -> None:
        """Of each partition and day few blobs are left: in a group each is larger than all smaller ones together."""
        truth, by_key = self.world.truth, defaultdict[Any, list[tuple[int, int]]](list)
        for entry in truth.in_effect(stream):
            for blob in entry.blobs:
                if blob.name in truth.visible and truth.is_live(stream, blob) and not truth.is_waiting(stream, entry):
                    newest = max(rows.committed for rows in blob.moved) if blob.moved else entry.timestamp
                    span = blob.versions[1] - blob.versions[0] + 1 if blob.moved else 1
                    by_key[blob.partition, newest[:10]].append((blob.size, span))
        for key, found in by_key.items():
            sizes = [size for size, _ in found]
            groups = 1 + 2 * sum(span for _, span in found) // compaction.MOST_VERSIONS
            if len(sizes) > groups * ((max(sizes) // min(sizes)).bit_length() + 1):
                truth.fail(f"{len(sizes)} blobs of {key} of {stream} are left: {sorted(sizes)}")

    def _age(self) -> None:
        """Two days pass; a vacuum keeps a day. No row lives a day longer than asked."""
        world = self.world
        world.clock.advance(2 * DAY)
        self.is_aged = True
        for _ in range(2):
            world.start("writer", write_once, 1).finish()
            for log in world.logs:
                world.start("vacuum", vacuums(log, DAY), 1).finish()

    def _check(self) -> None:
        world, truth = self.world, self.world.truth
        for stream in world.streams:
            live = truth.live(stream)
            self._check_listing(stream, Counter(row for _, row in live))
            for history in (False, True):
                act = audits(stream, timedelta(0), history=history, is_sound=self.is_aged)
                world.start("audit", act, 1).finish()
            head = truth.head(stream)
            for version in {
                None,
                *(self.ends.randint(truth.first[stream], head) for _ in range(2 if head >= 0 else 0)),
            }:
                world.start("reader", reads(stream, version), 1).finish()
            for reader in [*(each for each in world.readers if each.stream == stream), Reader(stream, TriggerLimits())]:
                self._check_follower(reader, head)
        self.seen["history"] += 1

    def _check_listing(self, stream: str, live: Counter[int]) -> None:
        """The listing has what the log has; beside it only rows below the boundary, whose day is not over."""
        world, truth = self.world, self.world.truth
        more, less = truth.count[stream] - live, live - truth.count[stream]
        oldest = world.clock.now() - 2 * DAY
        wrong = [row for row, count in more.items() if count > 1 or truth.newest(stream, row) >= truth.first[stream]]
        old = [row for row in more if self.is_aged and truth.committed_at(stream, row) < oldest]
        if less or wrong or old:
            truth.fail(f"the listing of {stream} has more: {wrong}, older than asked: {old}, less: {sorted(less)}")

    def _check_follower(self, reader: Reader, head: int) -> None:
        truth = self.world.truth
        for _ in range(40):
            self.world.start("follower", follows(reader, 15), 1).finish()
            if reader.after == head or truth.violation is not None:
                break
        live = truth.rows(reader.stream, reader.began, head)
        lacks = {row for version, row in live if reader.delivered.get(row) != version}
        if truth.violation is None and (reader.after != head or lacks):
            truth.fail(f"a follower of {reader.stream} stops at {reader.after} of {head}, lacks {sorted(lacks)}")
