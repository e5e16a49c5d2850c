"""Rows that compactions have moved: which parts of which blobs a read needs.

blobs of a version ─┬─ still there ────────────────────────────────────► as they are
                    └─ removed since ─► the published entries that moved their rows ─► parts of the blobs that have them
a blob with moved rows of which some are not read, or whose versions are ─► its parts
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.log.live_state import with_live_state
from azureblob_source.log.naming import of_replaced
from azureblob_source.log.publishing.keeping import keepers_after
from azureblob_source.log.relocating.relocation import compactions_after
from azureblob_source.log.times import spanned, times_of_rows
from azureblob_source.read.blobs import PLANNED, BlobPart, StreamBlob, stream_blob, stream_blobs
from azureblob_source.read.splits import SPLIT_BYTES
from azureblob_source.read.waiting import not_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from azureblob_source.log.checkpoint.tail import TailEffect
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, LogEntry, MovedRows
    from azureblob_source.log.live_state import LiveState
    from azureblob_source.read.blob_table import BlobTable
    from azureblob_source.read.blobs import BlobSelection

    Keeps: TypeAlias = Callable[[MovedRows], bool]
    """Which moved rows are read."""

_STEPS = 16
"""Compactions that are gone through one by one; where there are more, the newest checkpoint says which are needed."""


def every_row(_: MovedRows) -> bool:
    """All moved rows are read."""
    return True


def selected_rows(
    log: CommitLog,
    blobs: tuple[StreamBlob, ...] | BlobTable,
    at: int,
    selection: BlobSelection,
    kept: Container[str] = (),
) -> tuple[StreamBlob, ...] | BlobTable:
    """The blobs of a snapshot at version `at`, as what is read of them now. A table stays one, if it can.

    kept: names of blobs that are kept: it does not matter where their rows are.
    """
    finder, head = MovedRowsFinder(log), log.head()

    def keeps(rows: MovedRows) -> bool:
        return rows.version >= log.kept_from and selection.overlaps(*times_of_rows(rows.committed, rows))

    def is_cut(blob: StreamBlob) -> bool:
        return selection.by_version or first_version(blob) < log.kept_from or not selection.covers(blob)

    if head is not None and (head.newest_compaction or 0) > at:
        left = tuple(blob for blob in blobs if blob.name not in kept)
        blobs = (*(blob for blob in blobs if blob.name in kept), *finder.located(left, at, keeps))
    moved = blobs if isinstance(blobs, tuple) else blobs.with_moved_rows()
    if not any(blob.moved_in is not None and is_cut(blob) for blob in moved):
        return blobs
    return tuple(finder.parts(blobs, keeps, is_cut))


@dataclass
class MovedRowsFinder:
    """Finds where rows of a stream are now. It keeps the entries that it has read."""

    log: CommitLog
    _entries: dict[int, LogEntry] = field(default_factory=dict)

    def parts(
        self, blobs: Iterable[StreamBlob], keeps: Keeps, is_cut: Callable[[StreamBlob], bool]
    ) -> Iterator[StreamBlob]:
        """What is read of blobs: of those with moved rows that are cut, the parts with rows that are kept."""
        for blob in blobs:
            if blob.moved_in is None or blob.part is not None or not is_cut(blob):
                yield blob
            else:
                moved = self._moved(blob)
                yield from _parts(blob, moved, [place for place, rows in enumerate(moved) if keeps(rows)])

    def located(
        self, blobs: Sequence[StreamBlob], at: int, keeps: Keeps = every_row, live_at: int | None = None
    ) -> list[StreamBlob]:
        """Where rows of blobs that were live at version `at` are now, as far as the head is known.

        keeps: which of the moved rows are read. A blob whose rows are nowhere stays: its read says that it is gone.
        live_at: a version at which others have replaced rows; a blob whose rows are nowhere then is left out.
        """
        movers, is_replaced = self._movers(blobs, at, live_at)
        places = {rows.name: (entry, blob, place) for entry, blob, place, rows in _moved_rows(movers)}
        found: list[StreamBlob] = []
        needed: dict[tuple[int, str], tuple[LogEntry, BlobEntry, list[int]]] = {}
        for blob in blobs if places or live_at is not None else ():
            names = [blob.name]
            if blob.moved_in is not None:
                moved = _of_part(self._moved(blob), blob.part) if is_replaced(blob.name) else ()
                names = [rows.name for rows in moved if keeps(rows)]
            if not names or any(name not in places for name in names):
                if live_at is None or not is_replaced(blob.name):
                    found.append(blob)
                continue
            for entry, now, place in map(places.__getitem__, names):
                needed.setdefault((entry.version, now.name), (entry, now, []))[2].append(place)
        for entry, now, kept in needed.values():
            blob = stream_blob(entry, now)
            found += [blob] if len(kept) == len(now.moved) else _parts(blob, now.moved, sorted(kept))
        return found if places or live_at is not None else list(blobs)

    def from_row(self, blob: StreamBlob, row: int) -> tuple[list[StreamBlob], int]:
        """The rest of a blob with moved rows: the part with this row, and the one that follows it.

        Also how many rows the first one has before the row.
        """
        moved = _of_part(self._moved(blob), blob.part)
        starts = [0, *accumulate(rows.rows for rows in moved)]
        place = bisect_right(starts, row) - 1
        parts = [_part(blob, rows) for rows in (moved[place : place + 1], moved[place + 1 :]) if rows]
        return parts, row - starts[place]

    def _moved(self, blob: StreamBlob) -> Sequence[MovedRows]:
        """The moved rows that a blob has, or the copy of one that is kept."""
        entry = self._entry(blob.moved_in or 0)
        _, name = of_replaced(self.log.stream, blob.name) or (0, blob.name)
        return next(each.moved for each in entry.blobs if each.name == name)

    def _entry(self, version: int) -> LogEntry:
        if version not in self._entries:
            self._entries[version] = self.log.recent_entries(version, version)[0]
        return self._entries[version]

    def _movers(
        self, blobs: Sequence[StreamBlob], at: int, live_at: int | None
    ) -> tuple[list[LogEntry], Callable[[str], bool]]:
        """The entries after `at` that have moved rows of blobs, oldest first, and which blobs they have replaced."""
        steps = filter(self._is_published, compactions_after(self.log, at))
        found = list(islice(steps, _STEPS + 1))
        if len(found) > _STEPS:
            return self._live_movers(blobs, at, [*self._last_live(at), self._settled(live_at, found[0])])
        self._entries |= {entry.version: entry for entry in found}
        removed = {removal.name for entry in found for removal in entry.removed}
        return found[::-1], lambda name: name in removed

    def _is_published(self, entry: LogEntry) -> bool:
        """Whether the rows are where the entry has moved them; until it is published, they are where they were."""
        head = self.log.head()
        return (head is not None and entry.version <= head.published_up_to) or not not_visible(
            self.log.container, entry.blobs
        )

    def _settled(self, live_at: int | None, newest: LogEntry) -> int:
        """The newest version up to `live_at` before a mover that is not published. newest: the last one that is."""
        head = self.log.head()
        if head is None or head.newest_compaction is None:
            return newest.version
        last = head.version if head.newest_compaction == newest.version else head.newest_compaction - 1
        return last if live_at is None else min(live_at, last)

    def _last_live(self, at: int) -> list[int]:
        """The versions after `at`, rising, at which blobs were live for the last time that are kept now."""
        after = max(at + 1, self.log.kept_from)
        return sorted(entry.version - 1 for entry in keepers_after(self.log, after))

    def _live_movers(
        self, blobs: Sequence[StreamBlob], at: int, versions: Sequence[int]
    ) -> tuple[list[LogEntry], Callable[[str], bool]]:
        """As `_movers`, by what is live at some versions: entries whose blobs were replaced again are not needed."""
        last = max((blob.version or 0 for blob in blobs), default=-1)
        first = min((first_version(blob) for blob in blobs), default=0)

        asked = pa.array([blob.name for blob in blobs], pa.string())

        def live_blobs(state: LiveState, effect: TailEffect) -> list[StreamBlob]:
            table = state.base_table(PLANNED, lambda each: each.first <= last and first <= each.last)
            found = [stream_blob(entry, blob) for entry, blob in effect.added]
            if table is not None:
                left = state.left_of(table, effect)
                needed = pc.or_(pc.is_valid(left["moved_in"]), pc.is_in(left["name"], asked))
                found += stream_blobs(left.filter(needed))
            return found

        live = [with_live_state(self.log, version, live_blobs) for version in versions]
        there = {blob.name for blob in live[-1]}
        needed = {
            blob.moved_in
            for blob in chain.from_iterable(live)
            if blob.moved_in is not None
            and blob.moved_in > at
            and first_version(blob) <= last
            and first <= (blob.version or 0)
        }
        return [self._entry(version) for version in sorted(needed)], lambda name: name not in there


def first_version(blob: StreamBlob) -> int:
    """The oldest version of its rows."""
    return (blob.version if blob.first_version is None else blob.first_version) or 0


def _of_part(moved: Sequence[MovedRows], part: BlobPart | None) -> Sequence[MovedRows]:
    """The moved rows of a blob that are in a part of it."""
    if part is None:
        return moved
    first = next(place for place, rows in enumerate(moved) if (rows.start, rows.skip) == (part.start, part.skip))
    return moved[first : first + len(part.versions)]


def _moved_rows(movers: Iterable[LogEntry]) -> Iterator[tuple[LogEntry, BlobEntry, int, MovedRows]]:
    for entry in movers:
        for blob in entry.blobs:
            for place, rows in enumerate(blob.moved):
                yield entry, blob, place, rows


def _parts(blob: StreamBlob, moved: Sequence[MovedRows], kept: Sequence[int]) -> Iterator[StreamBlob]:
    """The parts of a blob with these of its moved rows: those side by side are one, as far as a split has room."""
    group: list[MovedRows] = []
    before = -1
    for place in kept:
        rows = moved[place]
        if group and (place != before + 1 or rows.end - group[0].start > SPLIT_BYTES):
            yield _part(blob, group)
            group = []
        group.append(rows)
        before = place
    if group:
        yield _part(blob, group)


def _part(blob: StreamBlob, rows: Sequence[MovedRows]) -> StreamBlob:
    """The part of a blob that has these moved rows, which are side by side."""
    earliest, latest = spanned(times_of_rows(each.committed, each) for each in rows)
    versions = tuple((each.version, each.rows) for each in rows)
    part = BlobPart(rows[0].start, rows[-1].end, rows[0].skip, sum(each.rows for each in rows), versions)
    numbers = [version for version, _ in versions]
    first, last = min(numbers), max(numbers)
    return replace(blob, version=last, first_version=first, earliest=earliest, latest=latest, part=part)
