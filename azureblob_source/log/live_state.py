"""What is live at a version: the checkpoint before it, and the entries since then.

    checkpoint ─► manifests that the selection needs ─┐
    entries after it ─► what they add, remove, revoke ─┴─► live table

Without a checkpoint that can be used, the entries since the last overwrite give the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from azureblob_source.log.checkpoint.tail import TailEffect, added_by, is_kept, tail_effect
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.parallel import both

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint, ManifestFile
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from foundation.errors import AzureBlobError

Found = TypeVar("Found")

logger = logging.getLogger("azureblob_source")

UNUSABLE = (NotFoundError, CorruptError, ConfigurationError)
"""The errors by which a checkpoint shows that it cannot be used."""
FEW_ENTRIES = 16
"""Entries that one round of concurrent requests reads: a checkpoint saves nothing."""
MANY_ENTRIES = 1000
"""Entries for which a checkpoint is looked for in a listing, where no hint says that there is one."""
_MOST_TRIED = 8
"""Checkpoints before a version that are tried, from the newest back."""


def every(_: ManifestFile) -> bool:
    """A selection of all manifests."""
    return True


def whole(table: pa.Table) -> pa.Table:
    """A selection of all blobs."""
    return table


@dataclass(frozen=True)
class LiveState:
    """What is live at version `last`, by the entries from `base` up to it, or all since the last overwrite.

    entries: these, in order; one at least, `last` as the last one.
    """

    log: CommitLog
    base: LogCheckpoint | None
    entries: tuple[LogEntry, ...]

    @property
    def last(self) -> LogEntry:
        """The entry that has the version."""
        return self.entries[-1]

    def effect(self, later: Sequence[LogEntry] = ()) -> TailEffect | None:
        """What the entries change in the checkpoint, if `later` ones have revoked some. None if it is no base then."""
        if self.base is None:
            return self.effect_of_entries(later)
        found = tail_effect(self.base, [*self.entries, *later])
        if found is None:
            return None
        own = tuple(each for each in self._kept(found.added) if each[0].version <= self.last.version)
        return replace(found, added=own)

    def effect_of_entries(self, later: Sequence[LogEntry] = ()) -> TailEffect:
        """What the entries add, where there is no checkpoint."""
        return TailEffect(frozenset(), frozenset(), tuple(self._kept(added_by(self.entries, later))))

    def _kept(self, added: Iterable[tuple[LogEntry, BlobEntry]]) -> Iterator[tuple[LogEntry, BlobEntry]]:
        return (each for each in added if is_kept(each[1], self.log.kept_from))

    def of_base(self, effect: TailEffect, needed: Callable[[ManifestFile], bool] = every) -> pa.Table | None:
        """The live blobs of the checkpoint, with all columns. None without one. `needed`, errors: of `base_table`."""
        table = self.base_table(needed=needed)
        return None if table is None else self.left_of(table, effect)

    def base_table(
        self, columns: Sequence[str] | None = None, needed: Callable[[ManifestFile], bool] = every
    ) -> pa.Table | None:
        """The blobs that the checkpoint has, with these columns, `name` and `version`. None without a checkpoint.

        Those of manifests that are not `needed` are left out. One of `UNUSABLE` if a manifest cannot be read.
        """
        found = self.read_base(columns, needed)
        return None if found is None else self.table_of(found)

    def read_base(
        self,
        columns: Sequence[str] | None,
        needed: Callable[[ManifestFile], bool],
        chosen: Callable[[pa.Table], pa.Table] = whole,
    ) -> tuple[pa.Table, bool] | None:
        """What `table_of` makes the `base_table` of. Another thread may use the log meanwhile.

        chosen: leaves out blobs, and perhaps columns, of the table of a manifest.
        """
        base, log = self.base, self.log
        if base is None:
            return None
        oldest, manifests = max(base.since, log.kept_from), [each for each in self._manifests() if needed(each)]
        return both(
            lambda: log.checkpoints.table(manifests, columns, chosen), lambda: log.has_oldest(oldest), log.readers
        )

    def table_of(self, found: tuple[pa.Table, bool]) -> pa.Table:
        """The `base_table` of what was read: the log knows then where the oldest entry is."""
        table, is_whole = found
        if not is_whole:  # the oldest entries were deleted by hand, or by a vacuum since the boundary was read
            self.log.first()
        return table

    def blobs_of_base(self) -> int:
        """How many blobs `base_table` has if all manifests are needed."""
        return sum(manifest.blobs for manifest in self._manifests())

    def _manifests(self) -> list[ManifestFile]:
        """The manifests of the checkpoint that are not below the retention boundary."""
        base = self.base
        return [] if base is None else [each for each in base.manifests if each.last >= self.log.kept_from]

    def left_of(self, table: pa.Table, effect: TailEffect, columns: Sequence[str] | None = None) -> pa.Table:
        """The blobs of `base_table` that are live, with these columns, None for all."""
        return self.log.checkpoints.left_of(table, effect, self.log.kept_from).select(columns or table.schema.names)


def live_state(log: CommitLog, version: int | None = None) -> LiveState:
    """What is live at `version`, by default at the head as far as the log knows it.

    `NotFoundError` if there is no such version, or no log.
    """
    head = check_version(log, version)
    last = head if version is None else log.read(version)
    return by_checkpoint(log, last) or by_entries(log, last.version)


def by_checkpoint(log: CommitLog, last: LogEntry, oldest: int = 0) -> LiveState | None:
    """The state at `last` by the newest checkpoint from version `oldest` on. None if there is none, or no need."""
    base = _base(log, last, oldest)
    if base is None:
        return None
    try:
        entries = log.entries(base.version, last.version)
    except NotFoundError:  # the oldest were deleted, perhaps by a vacuum while they were read
        return None
    if entries[0].write_id != base.write_id:  # the newest were deleted by hand, and others put in their place
        return None
    return LiveState(log, base, tuple(entries))


def check_version(log: CommitLog, version: int | None) -> LogEntry:
    """The head, as far as the log knows it. `NotFoundError` if there is none, or `version` is above it."""
    head = log.head()
    if head is None:
        raise no_log(log)
    if version is not None and version > head.version:
        place = f"{log.container.url}/{log.stream}"
        step = "Ask for one that exists: the view `commits` lists them."
        raise NotFoundError(f"read version {version} of", place, f"the newest is {head.version}", step)
    return head


def with_live_state(log: CommitLog, version: int, use: Callable[[LiveState, TailEffect], Found]) -> Found:
    """What `use` finds in the live state at a version: by a checkpoint, else by the entries alone."""
    state = live_state(log, version)
    if state.base is not None:
        try:
            if (effect := state.effect()) is not None:
                return use(state, effect)
        except UNUSABLE as error:
            warn_unusable(state.base, error)
        state = by_entries(log, version)
    return use(state, state.effect_of_entries())


def blobs_live_at(log: CommitLog, version: int, partitions: Collection[str | None] | None = None) -> list[BlobEntry]:
    """The blobs that are live at a version; only those of some partitions, if these are given.

    Errors as of `live_state`.
    """
    if partitions is None:
        return [blob for _, _, blob in added_at(log, version)]
    found = added_at(log, version, lambda manifest: any(map(manifest.may_have, partitions)))
    return [blob for _, _, blob in found if blob.partition in partitions]


def added_at(
    log: CommitLog, version: int, needed: Callable[[ManifestFile], bool] = every
) -> list[tuple[int, str, BlobEntry]]:
    """As `blobs_live_at`, with version and timestamp of each one's entry, in that order. needed: of `base_table`."""

    def added(state: LiveState, effect: TailEffect) -> list[tuple[int, str, BlobEntry]]:
        table = state.of_base(effect, needed)
        found = [(entry.version, entry.timestamp, blob) for entry, blob in effect.added]
        if table is None:
            return found
        from azureblob_source.log.checkpoint.live_table import blobs_of  # noqa: PLC0415 - loads Arrow

        return [*blobs_of(table.sort_by("version"), log.stream), *found]

    return with_live_state(log, version, added)


def warn_unusable(base: LogCheckpoint, error: AzureBlobError) -> None:
    """Say that entries are read because a checkpoint cannot be."""
    logger.warning("the checkpoint of version %d is ignored, the log is read instead: %s", base.version, error.failure)


def by_entries(log: CommitLog, version: int) -> LiveState:
    """The state at a version without a checkpoint."""
    return LiveState(log, None, tuple(log.live_entries(version)))


def no_log(log: CommitLog) -> NotFoundError:
    """The error for a stream without a log, or a read of versions of one."""
    step = "Check container and stream; one that this project has not written has no versions."
    place = f"{log.container.url}/{log.stream}"
    return NotFoundError("read the commit log of", place, "there is none", step)


def _base(log: CommitLog, last: LogEntry, oldest: int) -> LogCheckpoint | None:
    """The newest checkpoint that can be the base of the entries up to `last`; None if there is none, or no need."""
    oldest = max(last.since, log.kept_from, oldest)
    if last.version - oldest < FEW_ENTRIES:
        return None
    return next((found for found in checkpoints_before(log, last, oldest) if found.since == last.since), None)


def checkpoints_before(log: CommitLog, last: LogEntry, oldest: int = 0) -> Iterator[LogCheckpoint]:
    """Checkpoints of the log from version `oldest` up to that of `last`, from the newest back: a few of them.

    They are not listed for few entries, if no hint says that there is one.
    """
    hint = log.checkpoint_hint()
    if hint < 0 and last.version - oldest < MANY_ENTRIES:
        return
    for tried, version in enumerate(_candidates(log, last.version, hint)):
        if tried == _MOST_TRIED or version < oldest:
            return
        found = log.checkpoints.find(version)
        if found is not None and found.log_id == last.log_id:
            yield found


def _candidates(log: CommitLog, version: int, hint: int) -> Iterator[int]:
    if 0 <= hint <= version:
        yield hint
    yield from (each for each in log.checkpoints.up_to(version) if each != hint)
