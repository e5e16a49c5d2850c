"""What is true of streams whose blobs are compacted: which rows each log has committed, and which the listing shows.

A compaction changes nothing here: rows are those of the entries that writers have put, whatever blob has them. Blobs
are decoded when they become visible, so that a blob with moved rows has just those of the blobs that it replaces.
"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import fastavro

from azureblob_source.log.entry import LogEntry, from_json
from azureblob_source.log.naming import is_batch_log, is_data, log_stream, log_version
from tests.histories import world as histories

if TYPE_CHECKING:
    from azureblob_source.log.entry import BlobEntry

BOUNDARY = "/_log/_first.json"
Place = tuple[str, int]
"""Log and version of an entry."""


def partition_of(row: int) -> str:
    """The partition of a row."""
    return "xy"[row % 2]


def rows_of(data: bytes) -> tuple[int, ...]:
    """The rows of a blob: their numbers."""
    return tuple(cast("dict[str, Any]", row)["n"] for row in fastavro.reader(io.BytesIO(data)))


@dataclass
class Truth(histories.Truth):
    """The storage as a reader of the listing sees it, and what every log has had.

    staged: rows of each blob that a writer has staged; visible: of each blob that is visible. shown: blobs that are or
    were visible. count: how often a reader of the listing sees a row. whole: entries all of whose blobs were visible at
    once. destroyed: how often rows were taken away, other than by a compaction. acknowledged: stream and row.
    """

    staged: dict[str, tuple[int, ...]] = field(default_factory=dict)
    visible: dict[str, tuple[int, ...]] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    count: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    log: dict[str, dict[int, LogEntry]] = field(default_factory=lambda: defaultdict(dict))
    named: dict[str, Place] = field(default_factory=dict)
    places: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    first: Counter[str] = field(default_factory=Counter)
    whole: set[Place] = field(default_factory=set)
    destroyed: int = 0
    acknowledged: set[tuple[str, int]] = field(default_factory=set)
    dropped: set[Place] = field(default_factory=set)
    """Parts of batch entries that were replaced: their blobs are deleted before the streams say so."""
    put: Callable[[str, LogEntry], object] = lambda *_: None
    """Called with each new entry and its log."""

    # --- what happens in the storage ----------------------------------------------------------------------------------

    def changed(self, name: str, data: bytes | None) -> None:
        """A blob was put or committed, or (None) deleted."""
        version = log_version(name)
        if name.endswith(BOUNDARY):
            if data is not None:
                self._boundary(name[: -len(BOUNDARY)], json.loads(data)["first"])
        elif version is not None:
            if data is not None:
                self._entry(log_stream(name) or "", from_json(data, name))
        elif is_data(name):
            if data is None:
                self._gone(name)
            elif data:
                self._published(name, rows_of(data))

    def _boundary(self, log: str, first: int) -> None:
        self.destroyed += first > self.first[log]
        for entry in self.log[log].values():
            for blob in entry.blobs if entry.version >= first else ():
                newer = {rows.version >= first for rows in blob.moved}
                self.seen["boundary is amid moved rows"] += len(newer) > 1 and self.is_live(log, blob)
        self.first[log] = max(self.first[log], first)

    def _entry(self, log: str, entry: LogEntry) -> None:
        if entry.version < self.first[log]:
            return
        there = self.log[log].setdefault(entry.version, entry)
        if there.write_id != entry.write_id:
            self.fail(f"version {entry.version} of {log} was committed twice")
        if there is not entry:
            return
        if not is_batch_log(log):
            self.named.update((blob.name, (log, entry.version)) for blob in entry.blobs)
            for blob in entry.blobs:
                if not blob.moved:
                    for row in self.staged[blob.name]:
                        self.places[log, row].add(entry.version)
            self._look_whole((log, entry.version))
        elif entry.operation == "replace":
            replaced = self.log[log].get(entry.replaces or 0)
            names = () if replaced is None else [blob.name for blob in replaced.blobs]
            self.dropped.update(self.named[name] for name in names if name in self.named)
        self.destroyed += entry.operation not in ("append", "epoch", "compact")
        self.put(log, entry)

    def _look_whole(self, place: Place) -> None:
        if all(blob.name in self.visible for blob in self.log[place[0]][place[1]].blobs):
            self.whole.add(place)

    def _published(self, name: str, rows: tuple[int, ...]) -> None:
        place = self.named.get(name)
        if place is None:
            self.fail(f"{name} is published and no entry names it")
            return
        if name in self.visible:
            self.fail(f"{name} is visible and is written again")
            return
        self._check_content(name, rows, place)
        self.visible[name] = rows
        self.shown.add(name)
        count = self.count[place[0]]
        for row in rows:
            count[row] += 1
            if count[row] > 1 and not self._may_be_twice(place[0], row):
                self.fail(f"row {row} of {place[0]} is visible {count[row]} times, as {name} is published")
        self._look_whole(place)

    def _check_content(self, name: str, rows: tuple[int, ...], place: Place) -> None:
        """A blob has the rows that its entry says."""
        blob = next(each for each in self.log[place[0]][place[1]].blobs if each.name == name)
        expected = self.staged.get(name, ())
        for moved in blob.moved:
            expected += self.staged[moved.name]
            if self.named[moved.name] != (place[0], moved.version):
                self.fail(f"{name} says that rows of version {self.named[moved.name]} are of {moved.version}")
        if rows != expected or blob.rows != len(rows):
            self.fail(f"{name} has the rows {rows}, by its entry {expected}")

    def _may_be_twice(self, stream: str, row: int) -> bool:
        """Whether all but one of the blobs with a row are about to be deleted, since the others have their rows."""
        blobs = [name for name, rows in self.visible.items() if row in rows and self.named[name][0] == stream]
        entries = {self.named[name][1]: name for name in blobs}
        newest = self.log[stream][max(entries)]
        if not any(blob.moved for blob in newest.blobs):
            return False
        removed = {removal.name for removal in newest.removed}
        self.seen["row is twice in the listing while the old blobs are deleted"] += 1
        return len(blobs) == 2 and set(blobs) - removed == {entries[newest.version]}

    def _gone(self, name: str) -> None:
        rows = self.visible.pop(name, ())
        if rows:
            stream = self.named[name][0]
            for row in rows:
                self.count[stream][row] -= 1
                if not self.count[stream][row] and self.is_owed(stream, row):
                    self.fail(f"row {row} of {stream} is deleted with {name}")

    # --- what was promised --------------------------------------------------------------------------------------------

    def revoked(self, log: str) -> set[int]:
        """The versions of a log whose rows others have taken back, or are about to."""
        dropped = {version for of, version in self.dropped if of == log}
        return _taken_back(self.log[log].values()) | dropped

    def in_effect(self, log: str) -> list[LogEntry]:
        """The entries of a log in effect, vacuumed ones too."""
        revoked = self.revoked(log)
        return [entry for version, entry in sorted(self.log[log].items()) if version not in revoked]

    def head(self, log: str) -> int:
        """The newest version, -1 if there is none."""
        return max(self.log[log], default=-1)

    def rows(self, stream: str, after: int, until: int) -> Counter[tuple[int, int]]:
        """Version and number of each row that the versions after `after` have at version `until`, as of now."""
        entries = [entry for entry in self.in_effect(stream) if entry.version <= until]
        found = self._not_replaced(entries)
        least = max(after + 1, self.first[stream])
        return Counter({each: count for each, count in found.items() if each[0] >= least})

    def followed(self, stream: str, after: int, until: int) -> tuple[Counter[tuple[int, int]], set[tuple[int, int]]]:
        """What a streaming read has in a range of versions, and rows that it may have or lack.

        Rows that a later overwrite of partitions replaces are not looked for, once that is published. Of those that an
        overwrite of all replaces the read says that they are gone, or it leaves them out.
        """
        found, limbo = self.rows(stream, after, until), self.limbo(stream)
        for entry in self.in_effect(stream):
            if entry.version > until and entry.overwrites:
                partitions = {blob.partition for blob in entry.blobs}
                of_all = entry.operation == "overwrite"
                replaced = {each for each in found if of_all or partition_of(each[1]) in partitions}
                limbo |= replaced if of_all or (stream, entry.version) not in self.whole else set()
                found = Counter({each: count for each, count in found.items() if each not in replaced})
        return found, limbo

    def rows_at(self, stream: str, until: int, after: int = -1) -> Counter[tuple[int, int]]:
        """The same as the versions up to `until` alone say, whatever has become of the rows since."""
        entries = [entry for version, entry in self.log[stream].items() if version <= until]
        revoked = _taken_back(entries)
        found = self._not_replaced([entry for entry in entries if entry.version not in revoked])
        return Counter({each: count for each, count in found.items() if each[0] > after})

    def _not_replaced(self, entries: Sequence[LogEntry]) -> Counter[tuple[int, int]]:
        """The rows that entries in effect have added and not overwritten."""
        least = _overwritten(entries)
        return Counter(
            (entry.version, row)
            for entry in entries
            for blob in entry.blobs
            if not blob.moved
            for row in self.staged[blob.name]
            if entry.version >= max(least.get(None, 0), least.get(partition_of(row), 0))
        )

    def ever(self, stream: str) -> set[tuple[int, int]]:
        """Version and number of each row that was ever committed."""
        return {(version, row) for (of, row), versions in self.places.items() if of == stream for version in versions}

    def limbo(self, stream: str) -> set[tuple[int, int]]:
        """Rows that readers may see or not."""
        dropped = {version for of, version in self.dropped if of == stream}
        return {each for each in self.ever(stream) if each[0] in dropped}

    def check_read(self, what: str, found: Counter[tuple[int, int]], known: set[tuple[int, int]], first: int) -> None:
        """What a read has found was committed, is there once, and was not below the boundary when it began."""
        wrong = [each for each, count in found.items() if count > 1 or each not in known or each[0] < first]
        if wrong:
            self.fail(f"{what} has {wrong[0]} {found[wrong[0]]} times")

    def live(self, stream: str, at: int | None = None) -> Counter[tuple[int, int]]:
        """The rows that are live at a version, by default now."""
        return self.rows(stream, -1, self.head(stream) if at is None else at)

    def is_owed(self, stream: str, row: int) -> bool:
        """Whether a reader of the listing must see a row: a version that has it was published as a whole."""
        revoked, whole = self.revoked(stream), {version for log, version in self.whole if log == stream}
        found = _overwritten([self.log[stream][version] for version in whole - revoked])
        least = max(found.get(None, 0), found.get(partition_of(row), 0), self.first[stream])
        return any(each >= least for each in (self.places[stream, row] & whole) - revoked)

    def is_live(self, log: str, blob: BlobEntry) -> bool:
        """Whether no entry in effect has removed a blob, and it has rows above the boundary."""
        entries = self.in_effect(log)
        if (blob.versions[1] if blob.moved else self.named[blob.name][1]) < self.first[log]:
            return False
        here = self.named[blob.name][1] in {entry.version for entry in entries}
        return here and not any(blob.name == removal.name for entry in entries for removal in entry.removed)

    def has_live(self, log: str, name: str) -> bool:
        """The same of a blob that some entry has named."""
        entry = self.log[log][self.named[name][1]]
        return any(self.is_live(log, blob) for blob in entry.blobs if blob.name == name)

    def is_waiting(self, stream: str, entry: LogEntry) -> bool:
        """Whether it is the last part of a batch over many streams that its stream has."""
        later = [each for version, each in self.log[stream].items() if version > entry.version]
        return entry.batch_version is not None and all(each.batch_version is None for each in later)

    def newest(self, stream: str, row: int) -> int:
        """The newest version in effect that has a row."""
        return max(self.places[stream, row] - self.revoked(stream), default=self.head(stream))

    def committed_at(self, stream: str, row: int) -> float:
        """When that was committed."""
        return datetime.fromisoformat(self.log[stream][self.newest(stream, row)].timestamp).timestamp()

    def acknowledge(self, stream: str, rows: tuple[int, ...]) -> None:
        """A writer was told that its rows are committed."""
        for row in rows:
            self.acknowledged.add((stream, row))
            places = self.places[stream, row] - self.revoked(stream)
            excused = not places and self.places[stream, row]  # taken back meanwhile
            if not self.count[stream][row] and not excused and not self._is_past(stream, row):
                self.fail(f"row {row} of {stream} is acknowledged and is not visible")

    def _is_past(self, stream: str, row: int) -> bool:
        """Whether a row may be gone by now."""
        return bool(self.places[stream, row]) and not self.is_owed(stream, row)


def _taken_back(entries: Collection[LogEntry]) -> set[int]:
    """The versions that others of the entries have revoked, or removed by a restore."""
    revoked = {version for entry in entries for version in entry.revoked}
    restores = [entry for entry in entries if entry.operation == "restore" and entry.version not in revoked]
    return revoked | {version for entry in restores for version in range((entry.restores or 0) + 1, entry.version)}


def _overwritten(entries: Iterable[LogEntry]) -> dict[str | None, int]:
    """The last version that has overwritten a partition, or (None) all of them."""
    found: dict[str | None, int] = {}
    for entry in sorted(entries, key=lambda each: each.version):
        if entry.operation == "overwrite":
            found[None] = entry.version
        elif entry.operation == "overwrite-partitions":
            found |= {blob.partition: entry.version for blob in entry.blobs}
    return found
