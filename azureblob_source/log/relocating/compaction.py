"""Compaction: many small blobs become few large ones, without a row decoded, while others read and write.

    plan: live blobs ─► small ones, by partition, schema and day ─► groups
    for each group: read its blobs ─► join their Avro blocks ─► stage as one blob ─► entry `compact` (`relocation`)

Each group is one entry. So a run that dies has done what its entries say, and the next plan finds the rest.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from azure_account.values import NO_ATTRIBUTES
from azureblob_source.log.checkpoint.live_table import live_table
from azureblob_source.log.commit_log import adoption_error
from azureblob_source.log.entry import Removal
from azureblob_source.log.live_state import with_live_state
from azureblob_source.log.naming import partition_value
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.moving import moved_together
from azureblob_source.log.relocating.relocation import commit_relocation, is_outdated
from azureblob_source.log.times import microseconds
from foundation.errors import AzureBlobError, NotFoundError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Iterator, Sequence

    from azureblob_source.log.checkpoint.tail import TailEffect
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import Draft, LogEntry
    from azureblob_source.log.live_state import LiveState
    from azureblob_source.log.relocating.moving import JoinedBlob

logger = logging.getLogger("azureblob_source")

_Key: TypeAlias = "tuple[str | None, str, int]"

SMALL = 32 << 20
LARGE = 128 << 20
MOST_BLOBS = 256
"""Blobs that one entry replaces: as long as they are deleted, readers of the listing see their rows twice."""
MOST_VERSIONS = 5_000
"""Versions whose rows are in one blob, which its entry lists."""
_DAY = 86_400_000
_COLUMNS = (
    "name",
    "attempt",
    "rows",
    "size",
    "schema",
    "partition",
    "version",
    "first_version",
    "moved_in",
    "committed",
)


@dataclass(frozen=True)
class CompactionRules:
    """Which blobs are compacted.

    small: bytes; a blob with fewer is small. large: bytes that a new blob has at most. before: only what was committed
    before this time. partitions: only levels whose values match. most_bytes, most_blobs: that one run reads, None for
    no limit; the first group is always read.
    """

    before: datetime
    small: int = SMALL
    large: int = LARGE
    partitions: re.Pattern[str] | None = None
    most_bytes: int | None = None
    most_blobs: int | None = None

    def allow(self, size: int, blobs: int) -> bool:
        """Whether one run may read these bytes of these blobs."""
        some = ((size, self.most_bytes), (blobs, self.most_blobs))
        return all(most is None or count <= most for count, most in some)

    def has(self, level: str | None) -> bool:
        """Whether blobs of a partition are compacted."""
        return self.partitions is None or (
            level is not None and self.partitions.fullmatch(partition_value(level)) is not None
        )


IN_COMMIT = CompactionRules(
    datetime.max.replace(tzinfo=UTC), small=8 << 20, large=32 << 20, most_bytes=32 << 20, most_blobs=2 * MOST_BLOBS
)
"""Those of a step within a commit, which is bounded."""


@dataclass(frozen=True)
class SmallBlob:
    """A live blob that is small. version: of the newest of its rows; entry: the version of the entry that names it."""

    name: str
    attempt: str
    rows: int
    size: int
    version: int
    first_version: int
    entry: int


@dataclass(frozen=True)
class CompactionGroup:
    """Blobs that become one."""

    partition: str | None
    schema: str
    blobs: tuple[SmallBlob, ...]

    @property
    def bytes(self) -> int:
        """The bytes of its blobs, as they are stored."""
        return sum(blob.size for blob in self.blobs)


@dataclass(frozen=True)
class CompactionPlan:
    """What a compaction would do. version: at which its blobs are live. left: groups beyond the limit of a run."""

    stream: str
    version: int
    groups: tuple[CompactionGroup, ...]
    left: int = 0

    @property
    def blobs(self) -> int:
        """Small blobs that are replaced."""
        return sum(len(group.blobs) for group in self.groups)

    @property
    def bytes(self) -> int:
        """The bytes of small blobs that are replaced."""
        return sum(group.bytes for group in self.groups)


@dataclass(frozen=True)
class CompactionResult:
    """What a compaction has done: `replaced` blobs by those that it `made`, which have `bytes`.

    outdated: groups that others had changed since they were planned.
    """

    replaced: int = 0
    made: int = 0
    bytes: int = 0
    outdated: int = 0

    def with_group(self, made: LogEntry | None) -> CompactionResult:
        """The result with one group more, by the entry that has replaced it, if any has."""
        if made is None:
            return replace(self, outdated=self.outdated + 1)
        size = sum(blob.size for blob in made.blobs)
        return replace(self, replaced=self.replaced + len(made.removed), made=self.made + 1, bytes=self.bytes + size)

    def plus(self, other: CompactionResult) -> CompactionResult:
        """The sums of both results."""
        return CompactionResult(*(sum(pair) for pair in zip(astuple(self), astuple(other), strict=True)))


def plan_compaction(log: CommitLog, rules: CompactionRules, last: int) -> CompactionPlan:
    """Plan the compaction of what is live at version `last`, up to which all is published. Changes nothing.

    The last part of a batch over many streams waits: if the other parts cannot be published, all of them are replaced.
    `ConfigurationError` if the blobs are of another program.
    """
    head = log.head()
    if head is not None and head.adopts:
        raise adoption_error(log, "compact", head)
    waiting = {each.entry for each in log.transactions().values() if each.batch_version is not None}
    try:
        found = with_live_state(log, last, partial(_small_blobs, rules=rules, waiting=waiting))
    except NotFoundError:
        if last >= log.kept_from:
            raise
        found = {}  # a vacuum has passed them
    groups = [group for key, blobs in found.items() for group in _groups(key, blobs, rules)]
    sizes, counts = accumulate(group.bytes for group in groups), accumulate(len(group.blobs) for group in groups)
    within = max(1, sum(map(rules.allow, sizes, counts)))
    return CompactionPlan(log.stream, last, tuple(groups[:within]), max(0, len(groups) - within))


def _small_blobs(
    state: LiveState, effect: TailEffect, rules: CompactionRules, waiting: Collection[int]
) -> dict[_Key, list[SmallBlob]]:
    """The small blobs by partition, schema and day, each in order of versions; none of versions that are waiting."""
    tables = [live_table(effect.added).select(_COLUMNS)]
    if (base := state.base_table(_COLUMNS)) is not None:
        tables.insert(0, state.left_of(base, effect, _COLUMNS))
    table = pa.concat_tables(tables)
    before = microseconds(rules.before) // 1000
    small = pc.and_(pc.less(table["size"], rules.small), pc.less(table["committed"], before))
    found: dict[_Key, list[SmallBlob]] = defaultdict(list)
    for row in table.filter(small).sort_by("version").to_pylist():
        level, version = row["partition"], row["version"]
        if row["name"].endswith(".gz") or not rules.has(level) or version in waiting:
            continue
        first = version if row["first_version"] is None else row["first_version"]
        entry = version if row["moved_in"] is None else row["moved_in"]
        blob = SmallBlob(row["name"], row["attempt"], row["rows"], row["size"], version, first, entry)
        found[level, row["schema"], row["committed"] // _DAY].append(blob)
    return found


def _groups(key: _Key, blobs: Sequence[SmallBlob], rules: CompactionRules) -> Iterator[CompactionGroup]:
    """Blobs of one partition, schema and day, divided by the limits of a new blob."""
    partition, schema, _ = key
    group: list[SmallBlob] = []
    for blob in (*blobs, None):
        if blob is None or not _has_room(group, blob, rules):
            worth = _worth(group)
            if len(worth) > 1:
                yield CompactionGroup(partition, schema, tuple(worth))
            group = []
        if blob is not None:
            group.append(blob)


def _has_room(group: Sequence[SmallBlob], blob: SmallBlob, rules: CompactionRules) -> bool:
    several = [*group, blob]
    versions = sum(each.version - each.first_version + 1 for each in several)
    size = sum(each.size for each in several)
    return len(group) < MOST_BLOBS and versions <= MOST_VERSIONS and size <= rules.large


def _worth(group: Sequence[SmallBlob]) -> list[SmallBlob]:
    """The group without blobs that are larger than all others together: they wait until there is more beside them.

    So a row is moved as often as its blob can double, not each time that a few rows have come.
    """
    left = list(group)
    while left:
        largest = max(left, key=lambda blob: blob.size)
        if 2 * largest.size <= sum(blob.size for blob in left):
            break
        left.remove(largest)
    return left


@dataclass(frozen=True)
class Staging:
    """What is staged for a group. Picklable. blobs, write_id: as of `moved_together`."""

    stream: str
    blobs: tuple[tuple[str, int], ...]
    write_id: str


Staged: TypeAlias = "JoinedBlob | None"
"""What was staged; None if a blob of the group is gone."""


def staged_here(log: CommitLog, groups: Sequence[Staging]) -> Iterator[Staged]:
    """Stage groups one after the other in this process, each when it is asked for."""
    for group in groups:
        try:
            yield moved_together(log, group.blobs, group.write_id)
        except NotFoundError:
            yield None


def compact(
    log: CommitLog,
    plan: CompactionPlan,
    draft: Callable[[], Draft],
    publisher: Publisher,
    progress: Callable[[int], object] = lambda _: None,
    stage: Callable[[Sequence[Staging]], Iterator[Staged]] | None = None,
) -> CompactionResult:
    """Carry out a plan. draft: gives a fresh write id and time. progress: called with the bytes read since then.

    Whether blobs may be deleted is tried first: an entry whose blobs nobody may delete would stop later writers.

    stage: as of `staged_here`, which is the default; gives what was staged for each group, in order.

    Safe beside writers, readers, a vacuum, a revert and another compaction: a group that they have changed is left for
    the next plan. `NotFoundError` at the end if a blob was deleted by hand; other errors as of `moved_together` and
    `commit_relocation`.
    """
    done, gone = CompactionResult(), False
    if plan.groups:
        publisher.probe_once(log.stream, log.notes, NO_ATTRIBUTES, deletes=True)
    drafts = [
        replace(draft(), operation="compact", removed=tuple(Removal(blob.name, blob.attempt) for blob in group.blobs))
        for group in plan.groups
    ]
    groups = [
        Staging(log.stream, tuple((blob.name, blob.entry) for blob in group.blobs), new.write_id)
        for group, new in zip(plan.groups, drafts, strict=True)
    ]
    staging = staged_here(log, groups) if stage is None else stage(groups)
    for group, new, staged in zip(plan.groups, drafts, staging, strict=True):
        made = None
        if staged is not None:
            new_blob = replace(new, epoch=None, blobs=(staged.blob,), attributes=staged.attributes)
            made = commit_relocation(log, new_blob, replace(publisher, etags=staged.etags), plan.version)
        else:
            gone = gone or not _is_outdated(log, group, new, plan.version)
        done = done.with_group(made)
        progress(group.bytes)
    if gone:
        step = "`audit` names it: restore it (soft delete), or leave it out by `repair … --leave-out-missing`."
        raise NotFoundError("compact", log.place, "one of its blobs is gone; the others were compacted", step)
    return done


def compact_in_commit(log: CommitLog, last: LogEntry, draft: Callable[[], Draft]) -> LogEntry:
    """Compact some of what is live at `last`, which was committed and published now; returns the last entry published.

    draft: as of `compact`. A failure is logged, not raised: some blobs may have been joined before.
    """
    try:
        plan = plan_compaction(log, IN_COMMIT, last.version)
        done = compact(log, plan, draft, Publisher(log.container))
        if done.made:
            logger.info("%s: %d blobs became %d", log.stream, done.replaced, done.made)
    except Exception as error:  # the batch is committed, and must not fail any more
        known = isinstance(error, AzureBlobError)
        text = "%s: small blobs stay at version %d: %s"
        logger.warning(text, log.stream, last.version, error if known else repr(error), exc_info=not known)
    head = log.head()
    return last if head is None or not last.version < head.version <= log.notes.published_up_to else head


def _is_outdated(log: CommitLog, group: CompactionGroup, draft: Draft, planned_at: int) -> bool:
    """Whether blobs that a plan has found are missing since others have changed the stream."""
    log.refresh()
    first = log.refresh_boundary().first
    return any(blob.version < first for blob in group.blobs) or is_outdated(log, draft, planned_at)
