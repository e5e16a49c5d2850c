"""What has truly happened in a history, in plain dicts, and what must hold of it at every step and at the end.

It watches the storage itself, not the protocol: which blobs are visible, which entries were put at or above the
boundary, what was acknowledged. The first violation is kept in `violation`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account.values import STAGED_SECONDS
from azureblob_source.log.entry import LogEntry, Transaction, from_json
from azureblob_source.log.naming import is_batch_log, log_stream, log_version
from tests.histories import world as histories

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Row = tuple[str, int, int]
"""Query, batch, number."""
Batch = tuple[str, int]
"""Query and batch."""
Place = tuple[str, int]
"""Stream and version of an entry."""

PARTITIONS = "overwrite-partitions"
_BOUNDARY = "/_log/_first.json"


def partition_of(row: Row) -> str | None:
    """The partition of a row, in histories with overwrites of partitions."""
    return (None, "x", "y")[(row[1] + row[2]) % 3]


@dataclass
class Truth(histories.Truth):
    """The storage as a reader of the listing sees it, and the promises made so far."""

    blob_rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    """Rows of every staged blob, by name."""
    sizes: dict[str, int] = field(default_factory=dict)
    visible: dict[str, int] = field(default_factory=dict)
    """Sizes of the data blobs that a listing shows."""
    count: Counter[Row] = field(default_factory=Counter)
    """How often a listing reader sees each row."""
    log: dict[str, dict[int, LogEntry]] = field(default_factory=lambda: defaultdict(dict))
    """Every entry that was ever put at or above the boundary, vacuumed ones too."""
    first: Counter[str] = field(default_factory=Counter)
    """Each log's boundary."""
    named: dict[str, Place] = field(default_factory=dict)
    """The last entry of its stream's log that names a blob."""
    whole: set[Place] = field(default_factory=set)
    """Entries whose blobs were all visible at one time."""
    acknowledged: set[Row] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    """Blobs of batches over many streams: a part that was whole is written again if another part was not."""
    gone: set[Row] = field(default_factory=set)
    """Rows that an overwrite or a vacuum has rightly removed for good."""
    by_hand: set[Batch] = field(default_factory=set)
    """Batches of which a blob was deleted by hand."""
    voided_by_repeat: set[str] = field(default_factory=set)
    """Blobs of entries that a driver of their own query has voided. Another process may delete them."""
    committed_at: dict[Place, float] = field(default_factory=dict)
    ever_visible: set[str] = field(default_factory=set)
    empty: set[str] = field(default_factory=set)
    """Batches that were acknowledged without an entry: nothing was to be written, and nothing of them is owed."""
    removed: set[str] = field(default_factory=set)
    """Blobs that a void or a replacement removes."""
    discarded: set[str] = field(default_factory=set)
    """Empty blobs that a repair has put in the place of staged blocks and not deleted yet."""
    protected: set[str] = field(default_factory=set)
    """Blobs that were committed when the running repair began: it must not touch them."""
    remembered: dict[str, dict[str, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))
    """Of each log and transaction id the last version, and the entry that holds it; -1 if that was voided."""
    clock: Callable[[], float] = lambda: 0.0
    writer: str = ""
    """The query whose driver makes the request that is under way."""
    hand: bool = False
    revoked: set[str] = field(default_factory=set)
    """Revoked blobs that are visible: a process that was paused before its Put Block List can make them so, if a Put
    Block took effect late. It reads the log again and deletes them, if it was paused for long and not killed; else a
    repair does."""
    tool: bool = False
    """Whether the request that is under way is another tool's."""
    foreign: dict[str, bytes] = field(default_factory=dict)
    """Blobs of another tool that have names of ours: nothing may touch them."""
    voids: int = 0
    puts: int = 0

    def fail(self, what: str) -> None:
        """Note a violation; the first one counts."""
        super().fail(what + (" (after a deletion by hand)" if self.by_hand else ""))

    # --- what the storage reports -------------------------------------------------------------------------------------

    def changed(self, name: str, data: bytes | None) -> None:
        """A blob was put or committed, or (None) deleted."""
        if data is None:
            self._deleted(name)
            return
        if self.tool:
            self.foreign[name] = data
            return
        if name in self.foreign:
            self.fail(f"another tool's blob {name} is written again")
            return
        if name.endswith(_BOUNDARY):
            first = json.loads(data)["first"]
            self.first[name[: -len(_BOUNDARY)]] = first
            return
        version = log_version(name)
        if version is not None:
            self._entry(log_stream(name) or "", version, from_json(data, name))
        elif name in self.blob_rows:
            self._published(name, len(data))

    def _deleted(self, name: str) -> None:
        if name in self.foreign:
            self.fail(f"another tool's blob {name} is deleted")
        self._look_at_lists(log_stream(name) or "", log_version(name))
        self.discarded.discard(name)
        self.revoked.discard(name)
        if self.visible.pop(name, None) is None:
            return
        for row in self.blob_rows[name]:
            self.count[row] -= 1
            if self.count[row] == 0:
                self._vanished(row, name)

    def _vanished(self, row: Row, name: str) -> None:
        place = self.named[name]
        excused = self.excused(row, place)
        done = row in self.acknowledged or (place in self.whole and name not in self.shared)
        if row[:2] in self.by_hand:
            if row in self.acknowledged and name not in self.voided_by_repeat and not self._may_be_voided(row, place):
                self.fail(f"acknowledged row {row} is deleted")
        elif excused and done:
            self.gone.add(row)
        elif row in self.acknowledged and not excused:
            self.fail(f"acknowledged row {row} is deleted")

    def delete_by_hand(self, name: str) -> None:
        """A blob is about to be deleted by hand."""
        self.seen["deleted by hand"] += 1
        self.by_hand.update(row[:2] for row in self.blob_rows[name])
        self.hand = True

    def _may_be_voided(self, row: Row, place: Place) -> bool:
        """Whether a batch that lacks a blob deleted by hand may be voided: by itself, or when it is old."""
        old = self.clock() >= self.committed_at[place] + STAGED_SECONDS
        return self.hand or old or self.writer == row[0] or self._is_past(row, place)

    def _published(self, name: str, size: int) -> None:
        if size == 0:
            self.discarded.add(name)
            if name in self.protected:
                self.fail(f"a repair drops the blocks of {name}, which was committed before it began")
            return
        self.discarded.discard(name)
        if size != self.sizes[name]:
            self.fail(f"{name} is published in part")
        if name in self.visible:
            self.fail(f"{name} is visible and is written again")
            return
        if name not in self.named:
            self.fail(f"{name} is published and no entry names it")
            return
        if name in self.removed or any(row in self.gone for row in self.blob_rows[name]):
            self.seen["visible for a moment after it was revoked"] += 1
            self.revoked.add(name)
            return
        self.visible[name] = size
        self.ever_visible.add(name)
        for row in self.blob_rows[name]:
            self.count[row] += 1
            if self.count[row] > 1:
                self.fail(f"row {row} is visible twice")
        self._look_whole(self.named[name])

    def _look_whole(self, place: Place) -> None:
        if all(blob.name in self.visible for blob in self.log[place[0]][place[1]].blobs):
            self.whole.add(place)

    def _entry(self, stream: str, version: int, entry: LogEntry) -> None:
        self.puts += 1
        if version < self.first[stream]:
            self.seen["entry put below the boundary"] += 1
            return
        there = self.log[stream].get(version)
        if there is not None:
            if there.write_id != entry.write_id:
                self.fail(f"version {version} of {stream} was committed twice")
            return
        self.log[stream][version] = entry
        self._remember(stream, entry)
        self.committed_at[stream, version] = self.clock()
        self._count_entry(stream, entry)
        if entry.operation in ("void", "replace", "restore"):
            self.removed.update(removal.name for removal in entry.removed)
        if is_batch_log(stream):
            self.shared.update(blob.name for blob in entry.blobs)
        else:
            self.named.update((blob.name, (stream, version)) for blob in entry.blobs)
            self._look_whole((stream, version))

    def _remember(self, stream: str, entry: LogEntry) -> None:
        """The entry and the one that lists transactions for it have what all entries before them have committed."""
        known, before = self.remembered[stream], self.log[stream].get(entry.version - 1)
        if entry.operation == "void":
            known |= {id_: (last, -1) for id_, (last, held_by) in known.items() if held_by == entry.replaces}
        if entry.transaction is not None:
            id_ = entry.transaction.id
            self.seen["id from a list"] += id_ in known and before is not None and id_ not in before.transactions
            known[id_] = (entry.transaction.version, entry.version)
        listing = self.log[stream].get(entry.list_version)
        found = {} if listing is None else {**listing.transactions, **entry.transactions}
        if known != {id_: (last.version, last.entry) for id_, last in found.items()}:
            self.fail(f"version {entry.version} of {stream} remembers {found}, committed are {known}")
        self.seen["list of ten ids"] += entry.lists and len(known) >= 10
        self.seen["list below the boundary"] += not entry.lists and entry.list_version < self.first[stream]

    def _look_at_lists(self, stream: str, version: int | None) -> None:
        """No entry is deleted that lists the transactions of one that counts."""
        first = self.log[stream].get(self.first[stream]) if version is not None else None
        if first is not None and version == first.list_version:
            self.fail(f"version {version} of {stream}, which lists transactions, is deleted")

    def _count_entry(self, stream: str, entry: LogEntry) -> None:
        if entry.operation == PARTITIONS:
            self._count_overwrite(stream, entry)
        replaced = None if entry.replaces is None else self.log[stream].get(entry.replaces)
        if replaced is None:
            return
        again = replaced.operation == "replace" or replaced.replaces is not None
        if entry.operation == "void":
            if self.writer in {row[0] for blob in replaced.blobs for row in self.blob_rows[blob.name]}:
                self.voided_by_repeat.update(removal.name for removal in entry.removed)
            self.voids += 1
            self.seen["void"] += 1
            self.seen["void beside another tool's blob"] += any(blob.name in self.foreign for blob in replaced.blobs)
            self.seen["voided overwrite"] += self._overwriting(stream, replaced) == "overwrite"
            self.seen["voided overwrite of partitions"] += self._overwriting(stream, replaced) == PARTITIONS
            self.seen["voided replacement"] += again
        elif is_batch_log(stream):
            self.seen["replaced batch entry"] += 1
            self.seen["replaced replacement of a batch entry"] += again
        else:
            self.seen["replacement"] += 1
            self.seen["replaced replacement"] += again
            self.seen["replaced part that a vacuum has deleted"] += replaced.version < self.first[stream]
        self.seen["second expiry"] += again

    def _count_overwrite(self, stream: str, entry: LogEntry) -> None:
        """An overwrite of partitions, before its blobs are named."""
        own = {blob.partition for blob in entry.blobs}
        before = {partition_of(self.blob_rows[name][0]) for name in self.visible if name.startswith(f"{stream}/")}
        self.seen["overwrite of partitions"] += 1
        self.seen["overwrite of partitions that others have rows beside"] += bool(own & before and before - own)
        self.seen["overwrite of rows without a partition"] += None in own & before
        self.seen["replaced overwrite of partitions"] += entry.replaces is not None

    def protect(self) -> None:
        """A repair begins: it must not touch what is committed and was not published yet."""
        self.protected = {
            blob.name
            for log, entries in self.log.items()
            for entry in entries.values()
            for blob in entry.blobs
            if entry.version >= self.first[log]
        } - (self.removed | self.ever_visible)

    # --- what was promised --------------------------------------------------------------------------------------------

    def _overwriting(self, stream: str, entry: LogEntry) -> str | None:
        """How the entry overwrites, or the one that it replaces; None if it does not."""
        while entry.operation not in ("overwrite", PARTITIONS):
            before = None if entry.replaces is None else self.log[stream].get(entry.replaces)
            if before is None or entry.operation == "void":
                return None
            entry = before
        return entry.operation

    def overwrites(self, row: Row, place: Place) -> Iterator[LogEntry]:
        """Overwrites after this entry that were whole, of all rows or of the row's partition."""
        stream, version = place
        for later in self.log[stream].values():
            if later.version > version and (stream, later.version) in self.whole:
                how = self._overwriting(stream, later)
                own = (blob.partition for blob in later.blobs)
                if how == "overwrite" or (how == PARTITIONS and partition_of(row) in own):
                    yield later

    def excused(self, row: Row, place: Place) -> bool:
        """Whether a row of this entry may rightly be gone."""
        return row[:2] in self.by_hand or self._is_past(row, place)

    def _is_past(self, row: Row, place: Place) -> bool:
        """Whether a row of an entry was vacuumed or overwritten, or has come after what was restored."""
        return place[1] < self.first[place[0]] or self._is_restored_away(place) or any(self.overwrites(row, place))

    def is_deleted(self, name: str) -> bool:
        """Whether a blob that was committed was overwritten, or has come after what was restored."""
        place = self.named[name]
        return self._is_restored_away(place) or any(any(self.overwrites(row, place)) for row in self.blob_rows[name])

    def _is_restored_away(self, place: Place) -> bool:
        """Whether a version before this one was restored after it."""
        return any(
            entry.restores is not None and entry.restores < place[1] < entry.version
            for entry in self.log[place[0]].values()
        )

    def must_be_gone(self, row: Row, place: Place) -> bool:
        """Whether a row of an entry must be gone: vacuumed, restored away, or older than an overwrite's first entry."""
        stream, version = place
        gone = version < self.first[stream] or self._is_restored_away(place)
        return gone or any(version < self._first_entry(stream, each) for each in self.overwrites(row, place))

    def _first_entry(self, stream: str, entry: LogEntry) -> int:
        same = [
            each.version
            for each in self.log[stream].values()
            if each.transaction == entry.transaction and each.transaction is not None
        ]
        return min([*same, entry.version])

    def in_effect(self, log: str, transaction: Transaction) -> LogEntry | None:
        """The last entry of a batch."""
        found = [entry for entry in self.log[log].values() if entry.transaction == transaction]
        return max(found, key=lambda entry: entry.version, default=None)

    def acknowledge(self, batch: str, entries: Iterable[LogEntry], staged: Iterable[Row]) -> None:
        """A batch was reported to be done. Its rows are those of the entries in effect for it."""
        entries, without = list(entries), "" if list(staged) else " by a repeat without rows"
        if not entries and not without and batch not in self.empty:
            self.fail(f"{batch} is acknowledged and was never committed")
        if not entries:
            self.empty.add(batch)
        for blob in (blob for entry in entries for blob in entry.blobs):
            for row in self.blob_rows[blob.name]:
                owed = batch not in self.empty and row not in self.gone
                if owed and not self.count[row] and not self._excused_blob(row, blob.name):
                    self.fail(f"{batch} is acknowledged{without} and row {row} is not visible")
                self.acknowledged.add(row)

    def _excused_blob(self, row: Row, name: str) -> bool:
        place = self.named.get(name)
        return row[:2] in self.by_hand or (place is not None and self.excused(row, place))

    def check_revoked(self) -> None:
        """At the end: no revoked blob is visible that a repair could have found in the log."""
        for name in self.revoked:
            stream, version = self.named[name]
            if version >= self.first[stream]:
                self.fail(f"{name} was revoked and is visible at the end")
            self.seen["visible at the end after a vacuum: known limit"] += 1

    def check_foreign(self, read: Callable[[str], bytes]) -> None:
        """At the end: another tool's blobs are as it has put them."""
        for name, data in self.foreign.items():
            if read(name) != data:
                self.fail(f"another tool's blob {name} has changed")

    def check_batch(self, batch: str, entry: LogEntry, allowed: Iterable[frozenset[Row]]) -> None:
        """At the end: the rows of a batch that was acknowledged are visible once, or rightly gone."""
        rows = [row for blob in entry.blobs for row in self.blob_rows[blob.name]]
        if frozenset(rows) not in set(allowed):
            self.fail(f"{batch} has other rows than its input")
        for blob in entry.blobs:
            place = self.named.get(blob.name)
            for row in self.blob_rows[blob.name]:
                count = self.count[row]
                if count > 1 or (place is not None and self.must_be_gone(row, place) and count):
                    self.fail(f"row {row} of {batch} is there, which should be gone")
                owed = batch not in self.empty and row not in self.gone
                if not count and owed and not self._excused_blob(row, blob.name):
                    self.fail(f"row {row} of {batch} is lost")
