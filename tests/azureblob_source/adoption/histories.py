"""Random histories of a folder that other programs write, beside discoveries that are killed, asleep, side by side.

The programs write blobs of some partitions, some late, replace and delete some, leave some empty, of another format or
half written. Each history is a function of its seed: a discovery makes its requests in its turns, by the account's
clock. The truth knows the versions of every blob, and watches each entry as it is put.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from azure_account.memory.faults import Crash, LateEffect, LostAnswer, Throttle, TimeOut
from azure_account.memory.service import ServiceAssumptions
from azureblob_source.adoption.adopter import Adopter
from azureblob_source.adoption.discovery import LeftOut
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.naming import log_version
from azureblob_source.options import EARLIEST
from azureblob_source.read.following import Follower, TriggerLimits
from foundation.clock import utc
from foundation.errors import AzureBlobError
from tests.azureblob_source.adoption.folder_writer import AT_ONCE, FOLDER, avro, capture_name, numbers_of
from tests.histories.history import Event, History, draw_events
from tests.histories.pools import inline_pools
from tests.histories.process import MAX_STEPS, HistoryProcess
from tests.histories.world import Truth, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from azure_account.container import BlobContainer
    from azure_account.retrying.retry_loop import Request
    from azureblob_source.adoption.adopter import AdoptionSettings

PARTITIONS = 3
OTHERS = ("readme.txt", "0/2026/x.json", "_tmp/1.avro", "0/.part-1.avro")
AT_REST = 30.0


class Discoverer(HistoryProcess):
    """A process that discovers, round after round."""

    def aim_of(self, request: Request) -> str:
        """The operation, if it is on an entry of the log."""
        return str(request.operation) if log_version(request.name) is not None else "other"


@dataclass(kw_only=True)
class AdoptionTruth(Truth):
    """What the folder and the log have had. versions: of each blob, the ETag and rows of every version."""

    versions: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    adopted: dict[str, str] = field(default_factory=dict)
    entries: int = 0
    half: set[str] = field(default_factory=set)
    """ETags of blobs that are half written."""

    def changed(self, name: str, data: bytes | None) -> None:
        """An entry may have been put: it adopts blobs that no other has, in a version that they had."""
        if log_version(name) is None:
            return
        if data is None:
            self.fail(f"{name} is deleted")
            return
        document = json.loads(data)
        if document["operation"] != "adopt" or document["version"] != self.entries:
            self.fail(f"{name} is not the next entry that adopts")
        self.entries += 1
        for blob in document["blobs"]:
            if blob["name"] in self.adopted:
                self.fail(f"{blob['name']} is adopted twice")
            if blob["etag"] not in self.versions.get(blob["name"], {}):
                self.fail(f"{blob['name']} never had the ETag {blob['etag']}")
            if blob["etag"] in self.half:
                self.fail(f"{blob['name']} is adopted while it is half written")
            self.adopted[blob["name"]] = blob["etag"]


@dataclass(kw_only=True)
class AdoptionWorld(World[Discoverer]):
    """One history's folder, its discoveries, and a reader that follows the log."""

    truth: AdoptionTruth = field(default_factory=AdoptionTruth)
    make: Callable[..., Discoverer] = Discoverer
    settings: AdoptionSettings = AT_ONCE
    numbers: int = 0
    growing: set[str] = field(default_factory=set)
    at: int = -1
    read: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.follower = Follower(self._log(self.container), 30.0, self.clock)
        self.steady = Adopter(self._log(self.container), self.settings, self.clock)
        """A discovery that goes on through all of the history, seldom."""

    @property
    def seen(self) -> Counter[str]:
        """How often each event was seen."""
        return self.truth.seen

    def _log(self, container: BlobContainer) -> CommitLog:
        return CommitLog(container, FOLDER, readers=1, clock=self.clock)

    def put(self, name: str, rows: int, *, half: bool = False) -> None:
        """A program writes a blob, or a part of it: it has the other part within seconds."""
        numbers = [*range(self.numbers, self.numbers + rows)]
        self.numbers += rows
        self.container.put(name, avro(numbers)[: -5 if half else None])
        there = self.container.properties(name)
        assert there is not None
        self.truth.versions.setdefault(name, {})[there.etag] = numbers
        self.truth.half |= {there.etag} if half else set()
        self.trace(f"{name} is written: {there.etag}, rows {numbers}{', half' if half else ''}")

    def pass_time(self, seconds: float) -> None:
        """Time passes. Blobs that are half written are whole after some seconds."""
        if seconds and self.growing:
            self.clock.advance(5.0)
            for name in sorted(self.growing):
                self.put(name, 3)
            self.growing.clear()
        self.clock.advance(seconds)

    def discover(self, process: Discoverer, rounds: int) -> None:
        """One process: discoveries, some minutes apart. After an error it goes on."""
        adopter = Adopter(self._log(process.container), self.settings, self.clock)
        for _ in range(rounds):
            try:
                found = adopter.discover()
            except AzureBlobError as error:
                self.trace(f"{process}: {error}")
                self.seen[f"discovery fails: {type(error).__name__}"] += 1
                continue
            for reason in LeftOut:
                self.seen[f"left out: {reason.value}"] += bool(found.left_out.get(reason.value))
            self.seen["range listed"] += not found.is_whole
            self.seen["adopted by a range"] += not found.is_whole and found.adopted > 0

    def look(self, blobs: int) -> None:
        """The reader goes on: it gets each blob once."""
        try:
            if self.at < 0:
                self.at = self.follower.version_before(EARLIEST)
            until = self.follower.latest(self.at, TriggerLimits(blobs=blobs))
            found = self.follower.blobs(self.at, until)
        except AzureBlobError as error:
            self.truth.fail(f"the reader fails: {error}")
            return
        for blob, _ in found:
            versions = self.truth.versions[blob.name]
            if blob.etag != self.truth.adopted[blob.name]:
                self.truth.fail(f"{blob.name} is read as {blob.etag}")
            self.read.update(versions[blob.etag or ""])
        self.at = until

    def end(self) -> None:
        """A last discovery adopts what is left; each row of a blob that stayed is read once."""
        self.clock.advance(3601.0)
        self.steady.discover()
        if Adopter(self._log(self.container), self.settings, self.clock).discover().adopted:
            self.truth.fail("a whole listing has not found all")
        there = {blob.name: blob for blob in self.container.list(f"{FOLDER}/") if blob.name in self.truth.versions}
        missed = sorted(there.keys() - self.truth.adopted.keys())
        if missed:
            self.truth.fail(f"{missed[0]} is never adopted")
        while self.at < self.truth.entries - 1 and self.truth.violation is None:
            before = self.at
            self.look(100)
            if self.at == before:
                self.truth.fail("the reader stalls")
        if any(count > 1 for count in self.read.values()):
            self.truth.fail("a row is read twice")
        for name, blob in there.items():
            of = self.truth.adopted.get(name, "")
            rows = self.truth.versions[name].get(of, [])
            if blob.etag == of and numbers_of(self.container.get(name).data) != rows:
                self.truth.fail(f"{name} has other rows")
            if not set(rows) <= set(self.read):
                self.truth.fail(f"rows of {name} are not read")


class AdoptionHistory(History):
    """A history of a folder."""

    world: AdoptionWorld

    def draw(self, draws: Random) -> list[Event]:
        """What happens."""
        settings = replace(
            AT_ONCE,
            at_rest=draws.choice([0.0, AT_REST]),
            entry_blobs=draws.choice([1, 2, 5]),
            checkpoint_interval=draws.choice([2, 4, 64]),
            most_names=draws.choice([2, 6, 1000]),
            whole_every=draws.choice([600.0, 3600.0]),
        )
        behaviour = ServiceAssumptions(lists_from_name=draws.random() < 0.5)
        self.world = AdoptionWorld(seed=self.seed, settings=settings, behaviour=behaviour)
        weights = {"write": 8, "late": 3, "replace": 2, "delete": 1, "odd": 2, "grow": 2, "start": 4, "go": 20}
        weights |= {"kill": 2, "fault": 3, "look": 3, "land": 1, "steady": 1}
        return draw_events(weights, draws.choice([30, 60, 90]), draws)

    def around(self) -> AbstractContextManager[object]:
        """No threads."""
        return inline_pools(self.seed)

    def happen(self, event: Event) -> None:
        """An event."""
        world, draws, alive = self.world, event.draws, self.world.alive()
        match event.name:
            case "write" | "late" | "replace" | "delete" | "odd" | "grow":
                self._program(event.name, draws)
                world.pass_time(draws.choice([0.0, 5.0, 61.0, 61.0, 601.0]))
            case "start" if len(alive) < 4:
                world.start("discoverer", lambda process: world.discover(process, draws.choice([1, 4, 9])))
            case "go" if alive:
                process = draws.choice(alive)
                if draws.random() < 0.3:
                    process.move(200, "put")
                    self.seen["rests before it puts"] += process.is_at("put")
                else:
                    process.move(draws.choice([1, 3, 10, 40]))
            case "kill" | "fault" if alive:
                self._disturb(event.name, draws.choice(alive), draws)
            case "land" if world.late:
                world.land(event.where)
            case "steady":
                world.steady.discover()
            case "look":
                world.look(draws.choice([1, 3, 100]))

    def _disturb(self, how: str, process: Discoverer, draws: Random) -> None:
        """A process is killed, or will meet faults."""
        if how == "kill":
            if draws.random() < 0.6:
                process.move(200, "put")
                self.seen["killed before it puts"] += process.is_at("put")
            process.kill()
            return
        kinds = (LostAnswer(), LateEffect(), Throttle(), TimeOut(), Crash(after_effect=draws.random() < 0.5))
        process.faults.extend([(draws.choice(["put", "any"]), draws.choice(kinds))] * draws.choice([1, 1, 9]))

    def _program(self, what: str, draws: Random) -> None:
        """A program writes to the folder, or deletes."""
        world, now = self.world, utc(self.world.clock)
        partition, there = draws.randrange(PARTITIONS), [*self.world.truth.versions]
        match what:
            case "write":
                world.put(capture_name(partition, now), draws.choice([1, 3]))
            case "late":
                moment = now - timedelta(seconds=draws.choice([30, 90, 1200, 4000, 9000, 90_000]))
                name = capture_name(partition, moment)
                if name not in world.truth.versions:
                    self.seen["late blob"] += 1
                    world.put(name, 1)
            case "replace" if there:
                name = draws.choice(there)
                self.seen["replaced after it was adopted"] += name in world.truth.adopted
                world.put(name, 2)
            case "delete" if there:
                name = draws.choice(there)
                self.seen["deleted"] += 1
                self.seen["deleted before it was adopted"] += name not in world.truth.adopted
                world.container.delete(name)
            case "odd":
                world.container.put(f"{FOLDER}/{draws.choice(OTHERS)}", b"other")
                world.container.put(capture_name(partition, now - timedelta(seconds=7)), b"")
            case "grow" if world.settings.at_rest and (name := capture_name(partition, now)) not in there:
                self.seen["half written"] += 1
                world.put(name, 3, half=True)
                world.growing.add(name)

    def end(self) -> None:
        """Everybody ends, and everything is compared."""
        world = self.world
        for process in world.alive():
            process.move(MAX_STEPS)
        world.land_or_lose(self.ends)
        world.pass_time(1.0)
        world.end()
