"""What must hold in a history of a store, checked at every change of the storage. The model is plain Python.

A batch of the source changes some partitions (`changes`); what a partition has is the list of the batches that have
changed it. A checkpoint is one blob with that list. The first batch of a generation may have many batches of the source
at once, as when a store that has grown is built again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adjunct_store.versions import manifest as manifest_json
from adjunct_store.versions import pin as pin_json
from adjunct_store.versions.manifest import Manifest, VersionState, VisibleFrom
from adjunct_store.versions.pin import SHARED
from foundation.clock import ManualClock
from foundation.errors import CorruptError
from tests.adjunct_store.stores import NAMES, PARTITIONS
from tests.histories import world as histories

if TYPE_CHECKING:
    from adjunct_store.versions.manifest import Version
    from adjunct_store.versions.pin import Pin
    from foundation.clock import Clock

COPY = "'"
PINS_EXPIRE = 28_000.0
FOLLOWED = PINS_EXPIRE / 28
"""How long a pin counts when its reader has pinned the batch after the next one."""


def reader_of(query: str) -> str:
    """The reader that a query is. One with a copied checkpoint, which has another name here, is the same one."""
    return query.removesuffix(COPY)


def changes(batch: int, partition: int) -> bool:
    """Whether a batch of the source changes a partition."""
    return (batch + partition) % 3 != 0


def content(batch: int, partition: int) -> list[int]:
    """What a partition has after a batch."""
    return [each for each in range(batch + 1) if changes(each, partition)]


def blob_of(generation: int, partition: int, checkpoint: str) -> str:
    """The blob of a checkpoint."""
    return f"{NAMES.state(generation, partition)}/files/{checkpoint}"


def blobs_of(version: Version) -> dict[str, int]:
    """The blobs that a version needs, with their partitions."""
    named = enumerate(version.checkpoints)
    return {blob_of(version.generation, partition, each): partition for partition, each in named if each}


@dataclass(frozen=True)
class Filler:
    """Who opens the store. source: its own. told: to replace what is there."""

    source: str
    told: bool


@dataclass(frozen=True)
class StoredPin:
    """A pin as it was written, and when."""

    pin: Pin
    at: float


@dataclass(frozen=True)
class Use:
    """A task uses a version from a time on. written: when its pin was."""

    query: str
    batch: int
    version: int
    at: float
    written: float


@dataclass(kw_only=True)
class Truth(histories.Truth):
    """What was published and pinned."""

    clock: Clock = field(default_factory=ManualClock)
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=Manifest)
    writers: list[str] = field(default_factory=list)
    fillers: dict[str, Filler] = field(default_factory=dict)
    """By the beginning of the ids that it makes."""
    joined: dict[int, int] = field(default_factory=dict)
    """By generation, the last batch of the source that its first batch has; 0 if it is not here."""
    pins: dict[str, StoredPin] = field(default_factory=dict)
    used: dict[tuple[str, int], Use] = field(default_factory=dict)
    """By query and batch, the last use."""
    at_work: dict[object, Use] = field(default_factory=dict)
    """By task, what it uses now."""
    current_batch: dict[str, int] = field(default_factory=dict)
    """By query: tasks of batches below it have been given up."""
    last_pinned: dict[str, int] = field(default_factory=dict)
    """By reader, its highest batch that was pinned."""

    def changed(self, name: str, data: bytes | None) -> None:
        """A blob was written, or (None) deleted."""
        needed = {blob for version in self.manifest.versions for blob in blobs_of(version)}
        if name in needed and data != self.blobs.get(name):
            self.fail(f"{name}, which a version needs, is {'deleted' if data is None else 'written again'}")
        if data is None:
            self.blobs.pop(name, None)
            self.pins.pop(name, None)
            return
        self.blobs[name] = data
        try:
            if name == NAMES.manifest:
                self._manifest(manifest_json.from_json(data, name))
            elif name.startswith(NAMES.all_pins):
                self._pin(name, pin_json.from_json(data, name))
        except CorruptError as error:
            self.fail(str(error))

    # --- the manifest -------------------------------------------------------------------------------------------------

    def _manifest(self, now: Manifest) -> None:
        before, self.manifest = self.manifest, now
        if now.epoch < before.epoch:
            self.fail(f"the epoch falls from {before.epoch} to {now.epoch}")
        if now.writer != before.writer:
            if now.writer in self.writers:
                self.fail(f"fill {now.writer} was replaced and writes the manifest")
            self.writers.append(now.writer)
            self._taken_over(now, before)
        self._versions(now, before)
        self._generations(now, before)
        for name, stored in self.pins.items():
            if stored.pin.confirmed and self._found(stored) and now.version(stored.pin.version) is None:
                self.fail(f"version {stored.pin.version} is gone, and {name} uses it")
        for use in self.at_work.values():
            if now.version(use.version) is None and not self.given_up(use.query, use.batch):
                self.fail(f"version {use.version} is gone, and a task uses it")

    def _taken_over(self, now: Manifest, before: Manifest) -> None:
        """Only a fill that is told to replaces a store; any other goes on with what its own source has filled."""
        filler, current = self.fillers[now.writer.partition("n")[0]], now.current
        if current is None or current.source != filler.source:
            self.fail(f"fill {now.writer} takes over a store of another source")
        old = None if current is None else before.generation(current.number)
        if old is not None and current is not None and old.query not in ("", current.query):
            self.fail(f"query {current.query} goes on with what query {old.query} has filled")
        if filler.told:
            return
        known = {each.number for each in before.generations}
        if known and not self._data_sets(before) and current is not None and current.number not in known:
            self.fail(f"fill {now.writer} builds the store again, and nobody has told it to")
        for generation in before.generations:
            if generation.source != filler.source and generation not in now.generations:
                self.seen["a fill drops what another source has begun"] += 1

    @staticmethod
    def _data_sets(manifest: Manifest) -> bool:
        return any(each.serves is VisibleFrom.SEALED for each in manifest.generations)

    def content(self, generation: int, batch: int, partition: int) -> list[int]:
        """What a partition has after a batch of a generation."""
        return content(self.joined.get(generation, 0) + batch, partition)

    def _versions(self, now: Manifest, before: Manifest) -> None:
        for version in now.versions:
            old = before.version(version.number)
            if old is None:
                self._published(version, before)
            elif old.state is VersionState.RETIRING and version.state is VersionState.SERVING:
                self.fail(f"version {version.number} serves again")
        gone = {each.number for each in before.versions} - {each.number for each in now.versions}
        self.seen["a version is dropped"] += len(gone)
        for number in gone:
            old = before.version(number)
            if old is not None and before.serves(old) and now.newest is None:
                self.fail("readers had a version, and have none")
        if before.newest is not None and now.newest is not None and now.newest.number < before.newest.number:
            self.fail("readers go back to an older version")

    def _published(self, version: Version, before: Manifest) -> None:
        if version.number < before.next_version:
            self.fail(f"version {version.number} is published again")
        base = before.newest_of(version.generation)
        if base is not None and version.batch != base.batch + 1:
            self.fail(f"batch {version.batch} is published after batch {base.batch}")
        wanted = [self.content(version.generation, version.batch, partition) for partition in range(PARTITIONS)]
        if len(blobs_of(version)) != sum(map(bool, wanted)):
            self.fail(f"version {version.number} lacks partitions")
        for blob, partition in blobs_of(version).items():
            if blob not in self.blobs:
                self.fail(f"version {version.number} is published without {blob}")
            elif json.loads(self.blobs[blob]) != wanted[partition]:
                self.fail(f"partition {partition} of version {version.number} has {self.blobs[blob]!r}")

    def _generations(self, now: Manifest, before: Manifest) -> None:
        named = {each.number for each in now.generations}
        if any(each < before.next_generation and before.generation(each) is None for each in named):
            self.fail("a generation comes back")
        for generation in before.generations:
            if generation.number not in named:
                self.seen["a generation is dropped"] += generation.visible
                self.seen["a generation is abandoned"] += not generation.visible
        for generation in now.generations:
            old = before.generation(generation.number)
            if old is not None and generation.visible and not old.visible:
                self.seen[f"a generation is {generation.serves.value}"] += 1

    # --- pins ---------------------------------------------------------------------------------------------------------

    def _found(self, stored: StoredPin) -> bool:
        """Whether a reader finds the pin."""
        return self.clock.now() - stored.at < PINS_EXPIRE

    def _pin(self, name: str, pin: Pin) -> None:
        before = self.pins.get(name)
        self.pins[name] = StoredPin(pin, self.clock.now())
        reader, batch = NAMES.reader_and_batch(name) or ("", 0)
        self.last_pinned[reader] = max(batch, self.last_pinned.get(reader, 0))
        self.seen["a pin is shared"] += pin.driver == SHARED
        version = self.manifest.version(pin.version)
        if before is not None and before.pin.confirmed:
            same = pin.confirmed and pin.version == before.pin.version
            if not same and self.clock.now() - before.at < PINS_EXPIRE:
                self.fail(f"{name} was confirmed with version {before.pin.version} and changes to {pin.version}")
            self.seen["a pin is renewed" if same else "an expired pin is replaced"] += 1
        elif before is not None and not pin.confirmed:
            self.seen["an unconfirmed pin is replaced"] += 1
        if pin.confirmed:
            self._confirmed(name, version)

    def _confirmed(self, name: str, version: Version | None) -> None:
        if version is None:
            self.fail(f"{name} is confirmed, and its version is gone")
            return
        generation = self.manifest.generation(version.generation)
        if generation is None or not generation.visible:
            self.fail(f"{name} is confirmed with version {version.number}, which readers may not see")
        self.seen["a pin is confirmed after its version retires"] += version.state is VersionState.RETIRING

    def given_up(self, query: str, batch: int) -> bool:
        """Whether Spark uses nothing of this batch's tasks any more."""
        return batch < self.current_batch.get(query, 0)

    def followed(self, reader: str, batch: int) -> bool:
        """Whether the reader has pinned the batch after the next one, which another query of its name may have done."""
        return batch < self.last_pinned.get(reader, 0) - 1

    def uses(self, task: object, query: str, batch: int, version: Version) -> None:
        """A task begins to use a version."""
        if self.given_up(query, batch):
            self.seen["a task that was given up pins"] += 1
            return
        stored = self.pins.get(NAMES.pin(reader_of(query), batch))
        found = self.manifest.version(version.number)
        if stored is None or not stored.pin.confirmed or stored.pin.version != version.number:
            self.fail(f"a task uses version {version.number} without a confirmed pin")
            return
        generation = self.manifest.generation(version.generation)
        if found is None or generation is None or not generation.visible:
            self.fail(f"a task uses version {version.number}, which is gone or not visible")
            return
        use = Use(query, batch, version.number, self.clock.now(), stored.at)
        last, self.used[query, batch], self.at_work[task] = self.used.get((query, batch)), use, use
        if last is not None:
            self._again(last, use, found.state)

    def _again(self, last: Use, use: Use, state: VersionState) -> None:
        """A batch that is run again, or another task of it, uses the same version unless its pin has expired."""
        self.seen["a batch is read again"] += 1
        followed = self.followed(reader_of(use.query), use.batch)
        expires = FOLLOWED if followed else PINS_EXPIRE
        running = use.at - last.at < expires / 2
        if last.version != use.version and (running or use.at - last.written < expires):
            self.fail(f"batch {use.batch} of {use.query} uses versions {last.version} and {use.version}")
        if last.version == use.version and state is VersionState.RETIRING:
            self.seen["a batch is read again after its version retires"] += 1
            self.seen["a batch is read again while a copy of its query is ahead"] += followed
