"""What an audit knows of a log at one time: what is live, what is published, which entries were read for it.

Either by the newest checkpoint and the entries after it, or by all entries, which then are checked one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from azureblob_source.log.checkpoint.live_table import live_table
from azureblob_source.log.checkpoint.manifest import without
from azureblob_source.log.live import entries_in_effect, first_unpublished
from azureblob_source.log.live_state import no_log, with_live_state
from azureblob_source.log.stored_entries import find_entry
from azureblob_source.maintenance.audit.entry_facts import EntryFacts
from azureblob_source.maintenance.audit.live_index import AUDITED
from azureblob_source.maintenance.audit.log_faults import Chain
from foundation.errors import ConflictError, CorruptError, NotFoundError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azureblob_source.log.boundary import Boundary
    from azureblob_source.log.checkpoint.tail import TailEffect
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry
    from azureblob_source.log.live_state import LiveState

AT_ONCE = 500
"""Entries that are held as objects."""
READERS = 64


@dataclass(frozen=True)
class LogView:
    """A log at one time.

    published: the version up to which all is known to be published. checkpoint: the version of the one that was used.
    entries: those that were read, or the last of them. unpublished: those after `published` that are in effect.
    live: the live table at the head, in the columns `AUDITED`.
    """

    head: LogEntry
    boundary: Boundary
    published: int
    checkpoint: int | None
    entries: tuple[LogEntry, ...]
    unpublished: tuple[LogEntry, ...]
    live: pa.Table


def stored(log: CommitLog, versions: Sequence[int]) -> list[LogEntry | CorruptError | None]:
    """What is stored as these versions; None where nothing is."""

    def find(version: int) -> LogEntry | CorruptError | None:
        try:
            return find_entry(log.container, log.stream, version)
        except CorruptError as error:
            return error

    return concurrent_map(find, versions, READERS, after_error="abandon")


def view_of(log: CommitLog) -> LogView:
    """The log as of now, by its newest checkpoint. `NotFoundError` without a log; others as of `with_live_state`."""
    while True:
        head, boundary = _newest(log)
        try:
            view = _by_checkpoint(log, head, boundary)
        except NotFoundError:
            if log.refresh_boundary() == boundary:  # else a vacuum has removed what was to be read
                raise
            continue
        if log.refresh_boundary() == boundary:
            return view


def _by_checkpoint(log: CommitLog, head: LogEntry, boundary: Boundary) -> LogView:
    def use(state: LiveState, effect: TailEffect) -> tuple[int | None, tuple[LogEntry, ...], pa.Table]:
        base, added = state.base_table(AUDITED), live_table(effect.added).select(AUDITED)
        if base is None or state.base is None:
            return None, state.entries, added
        return state.base.version, state.entries, pa.concat_tables([state.left_of(base, effect, AUDITED), added])

    checkpoint, entries, live = with_live_state(log, head.version, use)
    return _view(log, head, boundary, checkpoint, entries, live)


def _view(
    log: CommitLog,
    head: LogEntry,
    boundary: Boundary,
    checkpoint: int | None,
    entries: Sequence[LogEntry],
    live: pa.Table,
) -> LogView:
    known = -1 if checkpoint is None else checkpoint
    first = first_unpublished(head, known=known, kept_from=log.kept_from)
    unpublished = log.entries(first, head.version) if first <= head.version else []
    return LogView(head, boundary, first - 1, checkpoint, tuple(entries), tuple(entries_in_effect(unpublished)), live)


def _newest(log: CommitLog) -> tuple[LogEntry, Boundary]:
    """The head and the boundary as of now."""
    boundary = log.refresh_boundary()
    head = log.refresh()
    if head is None:
        raise no_log(log)
    return head, boundary


class WholeLog:
    """All entries of a log, read a part at a time: checked, and kept as facts."""

    def __init__(self, log: CommitLog, place: str, progress: Callable[[int], object]) -> None:
        self.log: CommitLog = log
        self._place, self._progress = place, progress
        self.facts: EntryFacts = EntryFacts()
        self.chain: Chain | None = None
        self._next = -1
        self._tail: list[LogEntry] = []
        self.put_for: dict[int, int] = {}
        """By version: up to which one its entry says that all is published."""

    def view(self) -> LogView:
        """The log as of now, by its entries alone. As of `view_of`, if entries are missing or damaged."""
        while True:
            head, boundary = _newest(self.log)
            first = self.log.first()
            if self.chain is None:
                self.chain = Chain(self.log.stream, self._place, head.log_id)
                self._next = head.version if first is None else first
            self._read(head)
            if not self.facts.whole:
                return view_of(self.log)
            if self.log.refresh_boundary() == boundary:
                live = without(self.facts.live(), kept_from=self.log.kept_from)
                return _view(self.log, head, boundary, None, self._tail, live)

    def _read(self, head: LogEntry) -> None:
        if self.chain is not None and self.chain.log_id != head.log_id:
            raise ConflictError("audit", self._place, "the stream was deleted and begun again", "Run it again.")
        for start in range(self._next, head.version + 1, AT_ONCE):
            versions = range(start, min(start + AT_ONCE, head.version + 1))
            entries = self._checked(versions)
            self.facts.add(entries)
            self.put_for |= {entry.version: entry.published_up_to for entry in entries}
            self._tail = [*self._tail[-AT_ONCE:], *entries]
            self._progress(len(versions))
        self._next = head.version + 1

    def _checked(self, versions: Sequence[int]) -> list[LogEntry]:
        found = stored(self.log, versions)
        boundary = self.log.refresh_boundary().first
        entries = []
        for version, each in zip(versions, found, strict=True):
            if version < boundary or self.chain is None:  # a vacuum has removed it, now or before
                continue
            entry = None if each is None else self.chain.add(version, each)
            self.facts.whole = self.facts.whole and entry is not None
            entries += [] if entry is None else [entry]
        return entries
