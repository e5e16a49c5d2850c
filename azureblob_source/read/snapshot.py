"""What a read of a stream covers: its blobs as of one version, and the schemas to read them with.

If the stream has a commit log, the log names the blobs, and a batch is seen whole or not at all. If it has none (a
folder of Avro files that Samza, Event Hubs Capture or another program wrote), the blobs are listed and the schemas read
from their headers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from arrow_avro import arrow_schema, header_schema, read_header, superset
from azureblob_source.log.folder import METADATA_IGNORED, SPARK_METADATA, is_avro
from azureblob_source.log.live import entries_in_effect, first_unpublished
from azureblob_source.log.live_state import (
    UNUSABLE,
    LiveState,
    by_entries,
    check_version,
    live_state,
    no_log,
    warn_unusable,
    whole,
)
from azureblob_source.metrics import skip_damaged
from azureblob_source.read.blob_bytes import BlobBytes, RangeReader, without_gzip
from azureblob_source.read.blobs import (
    ALL_BLOBS,
    PLANNED,
    StreamBlob,
    in_copies,
    listed_blobs,
    stream_blob,
    stream_blobs,
)
from azureblob_source.read.waiting import PublicationWait, not_visible
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.parallel import both, concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from arrow_avro import AvroSchema
    from azure_account.container import BlobContainer
    from azureblob_source.log.checkpoint.tail import TailEffect
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry
    from azureblob_source.read.blob_table import BlobTable
    from azureblob_source.read.blobs import BlobSelection
    from azureblob_source.read.bounds_pruning import BoundsPruning
    from foundation.clock import Clock

logger = logging.getLogger("azureblob_source")

_AT_ONCE = 16
_READ_ALL = "Option `ignoreExtension` = true reads blobs whatever their names end in."
_PUBLISH_POLL = 0.5
MANY_BLOBS = 10_000
"""Blobs that are planned as a table."""


@dataclass(frozen=True)
class Snapshot:
    """The blobs of a stream as of `version` (None without a log), and their writer schemas.

    blobs: a table if there are many. Without a log `examples` names a blob of each schema. left_out: blobs that are not
    selected, or damaged.
    """

    version: int | None
    blobs: tuple[StreamBlob, ...] | BlobTable
    schemas: tuple[AvroSchema, ...]
    examples: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def reader_schema(self) -> AvroSchema:
        """The schema that every blob's rows resolve to. Errors as of `reader_schema_of`."""
        return self.reader_schema_of(None)

    def reader_schema_of(self, columns: Collection[str] | None, depth: int = 0) -> AvroSchema:
        """The reader schema of these columns, None for all, with `depth` levels of records that contain themselves.

        `ConfigurationError` names a blob that has no columns.
        """
        for schema, name in zip(self.schemas, self.examples, strict=False):
            try:
                arrow_schema(superset([schema], columns, depth))
            except ConfigurationError as cause:
                raise ConfigurationError("read", f"blob {name}", cause.failure, cause.next_step) from cause
        return superset(self.schemas, columns, depth)


@dataclass(frozen=True)
class ListingRules:
    """What is read of a stream without a log.

    ignore_corrupt: skip blobs with a damaged header, with a warning and a counter for each. any_extension: read blobs
    whatever their names end in; else those that have not the extension of Avro are left out with a warning.
    """

    ignore_corrupt: bool = False
    any_extension: bool = False


def take_snapshot(
    log: CommitLog,
    version: int | None,
    clock: Clock = SYSTEM_CLOCK,
    *,
    selection: BlobSelection = ALL_BLOBS,
    publish_timeout: float = 60.0,
    listing: ListingRules | None = None,
) -> Snapshot:
    """The stream as of `version`, by default its head, in the blobs of the selection.

    With a log, the schemas are those of all live blobs; without one, those of the selection.
    A batch that is being published is waited for, `publish_timeout` seconds in all. `listing` is for a stream without a
    log.

    `NotFoundError` if there is neither a log nor a blob, or no such version; `TransientError` after the timeout.
    """
    if version is None and not log.looked:
        log.read_ahead()
    if log.head() is None and version is None:
        there = _listed(log, selection)
        if log.refresh() is None:  # blobs become visible after their entry, so none of these is of a log that begins
            rules = listing or ListingRules()
            chosen = there if rules.any_extension else _with_extension(log, there)
            return _from_listing(log, chosen, selection, ignore_corrupt=rules.ignore_corrupt)
    return _from_log(log, version, selection, PublicationWait(publish_timeout, clock))


def _from_log(log: CommitLog, version: int | None, selection: BlobSelection, wait: PublicationWait) -> Snapshot:
    """The stream by its log: what is live once it is published, by the newest checkpoint that can be read."""
    state = live_state(log, version)
    (settled, effect), (found, schemas) = both(
        lambda: _when_published(log, version, state, wait),
        lambda: both(
            lambda: _read_base(state, selection), lambda: writer_schemas(log, state.last.schemas), log.readers
        ),
        log.readers,
    )
    if settled.base != state.base:
        found = _read_base(settled, selection)
    table = None if found is None else settled.table_of(found)
    if settled.base is not None and table is None:
        settled, effect = _when_published(log, version, by_entries(log, settled.last.version), wait)
    if settled.last != state.last:
        schemas = writer_schemas(log, settled.last.schemas)
    count = len(effect.added)
    if selection.pruning is not None:
        effect = _pruned(log, effect, selection.pruning)
    if settled.base is None or table is None:
        held: tuple[StreamBlob, ...] | BlobTable = _selected(effect, selection)
    else:
        live = settled.left_of(table, effect, PLANNED)
        count += live.num_rows + max(0, settled.blobs_of_base() - table.num_rows)
        held = _selected_with(live, effect, selection)
    left_out = count - len(held)
    return Snapshot(
        settled.last.version,
        _where_they_are(log, held, settled.last.version, selection),
        tuple(schemas),
        left_out=left_out,
    )


def _where_they_are(
    log: CommitLog, held: tuple[StreamBlob, ...] | BlobTable, version: int, selection: BlobSelection
) -> tuple[StreamBlob, ...] | BlobTable:
    """The blobs of a version as what is read of them now: others may have moved their rows, or keep them."""
    head = log.head()
    if head is None:
        return held
    kept: Mapping[str, str] = {}
    if (head.newest_kept or 0) > version:
        from azureblob_source.log.publishing.keeping import kept_after  # noqa: PLC0415 - few reads meet a kept blob

        kept = kept_after(log, version)
    if head.newest_compaction is not None:
        from azureblob_source.read.moved import selected_rows  # noqa: PLC0415 - few streams were compacted

        held = selected_rows(log, held, version, selection, kept)
    return in_copies(held, kept) if kept else held


def _read_base(state: LiveState, selection: BlobSelection) -> tuple[pa.Table, bool] | None:
    """The blobs of the checkpoint that may be in the selection. None without one, or if it cannot be read."""
    pruning, chosen = selection.pruning, whole
    if pruning is not None:
        from azureblob_source.log.checkpointing import columns_of  # noqa: PLC0415 - few reads push filters

        chosen = partial(pruning.left_of, columns=columns_of(state.log, state.base))
    needed = PLANNED if pruning is None else (*PLANNED, *pruning.needed)
    try:
        return state.read_base(needed, lambda each: selection.overlaps(each.earliest, each.latest), chosen)
    except UNUSABLE as error:
        if state.base is not None:
            warn_unusable(state.base, error)
        return None


def _pruned(log: CommitLog, effect: TailEffect, pruning: BoundsPruning) -> TailEffect:
    """The effect with those blobs that `pruning` leaves of the added ones."""
    from azureblob_source.log.checkpoint.live_table import live_table  # noqa: PLC0415 - few reads push filters
    from azureblob_source.log.checkpointing import columns_of  # noqa: PLC0415 - few reads push filters

    columns = columns_of(log, None)
    keep = pruning.may_hold(live_table(effect.added, columns), columns)
    return replace(effect, added=tuple(compress(effect.added, keep)))


def _selected(effect: TailEffect, selection: BlobSelection) -> tuple[StreamBlob, ...]:
    """The blobs that entries have added, and that are in the selection."""
    added = (stream_blob(entry, blob) for entry, blob in effect.added)
    return tuple(filter(selection.keeps, added))


def _selected_with(table: pa.Table, effect: TailEffect, selection: BlobSelection) -> tuple[StreamBlob, ...] | BlobTable:
    """The selected blobs of a checkpoint's table and of entries; as a table if there are many."""
    if table.num_rows + len(effect.added) <= MANY_BLOBS:
        return (*filter(selection.keeps, stream_blobs(table)), *_selected(effect, selection))
    from azureblob_source.log.checkpoint.live_table import live_table  # noqa: PLC0415 - few streams have as many
    from azureblob_source.read.blob_table import BlobTable  # noqa: PLC0415

    return BlobTable(pa.concat_tables([table, live_table(effect.added).select(PLANNED)])).selected(selection)


def kept_history(log: CommitLog, version: int | None) -> list[LogEntry]:
    """The log's entries up to `version`, by default its head. `NotFoundError` if there are none, or no such version."""
    check_version(log, version)
    history = log.history(version)
    if not history:
        raise no_log(log)
    return history


def newest_generation(log: CommitLog) -> list[LogEntry]:
    """The entries from the first control message of the newest generation on, and perhaps some before.

    It goes back from the head to an end of a lower generation, which that message follows. `NotFoundError` without
    entries.
    """
    head, first = log.head(), log.first()
    if head is None or first is None:
        raise no_log(log)
    history: list[LogEntry] = []
    last = head.version
    while last >= first and not _has_earlier_end(history):
        start = max(first, last + 1 - _AT_ONCE)
        history = [*log.entries(start, last), *history]
        last = start - 1
    return history


def _has_earlier_end(entries: Sequence[LogEntry]) -> bool:
    """Whether a generation has ended before the first message of a higher one, by the control messages of entries."""
    control = [message for entry in entries_in_effect(entries) for message in entry.control]
    generations = [(message.get("generation") or 0, message.get("type") == "endOfStream") for message in control]
    newest = max((generation for generation, _ in generations), default=0)
    before = takewhile(lambda each: each[0] < newest, generations)
    return any(is_end for _, is_end in before)


def writer_schemas(log: CommitLog, fingerprints: Iterable[str]) -> list[AvroSchema]:
    """Several writer schemas of the stream, in order."""
    return concurrent_map(log.writer_schema, list(fingerprints), _AT_ONCE, after_error="abandon")


def _when_published(
    log: CommitLog, version: int | None, state: LiveState, wait: PublicationWait
) -> tuple[LiveState, TailEffect]:
    """What is live at `version`, by default at the head, once all batches are published or revoked; and by its entries.

    An entry that cannot be published is revoked by a later one. Only entries that open an epoch can stand between the
    two, as nothing else is appended before all earlier entries are published or revoked. A read of the head then covers
    these entries too. A compaction is not waited for. `TransientError` after the timeout.
    """
    visible: set[str] = set()
    while True:
        revoking = _revoking(log, state.last)
        if revoking and version is None:
            state = live_state(log, revoking[-1].version)
            continue
        if revoking and revoking[-1].since < state.last.since:
            state = _before_overwrite(log, state.last, revoking[-1])
            continue
        effect = state.effect(revoking)
        if effect is None:
            state = by_entries(log, state.last.version)
            continue
        first = first_unpublished(log.head())
        asked = [blob for entry, blob in effect.added if entry.version >= first and blob.name not in visible]
        missing = [blob.name for blob in not_visible(log.container, asked)]
        if not missing:
            return state, effect
        moving = [
            entry.version for entry, blob in effect.added if entry.operation == "compact" and blob.name in missing
        ]
        if moving:  # until it is published, the rows are where they were
            state = live_state(log, min(moving) - 1)
            continue
        visible.update(blob.name for blob in asked if blob.name not in missing)
        wait.go_on(f"blob {missing[0]} in {log.container.url}", otherwise=", or read an earlier `versionAsOf`")
        wait.clock.sleep(_PUBLISH_POLL)
        log.refresh()


def _before_overwrite(log: CommitLog, overwrite: LogEntry, void: LogEntry) -> LiveState:
    """What is live at the version of an overwrite that `void` revokes: what was live before."""
    before = by_entries(log, void.version).entries
    last = replace(overwrite, since=void.since, schemas=void.schemas)
    return LiveState(log, None, (*(entry for entry in before if entry.version < last.version), last))


def _revoking(log: CommitLog, last: LogEntry) -> list[LogEntry]:
    """The entries after the last one up to one that revokes that or an earlier one; none if there is no such."""
    head, later = log.head(), [last]
    while head is not None and later[-1].version < head.version:
        later.append(log.read(later[-1].version + 1))
        if later[-1].replaces is not None:
            return later[1:]
        if later[-1].published_up_to >= last.version:
            break
    return []


def _listed(log: CommitLog, selection: BlobSelection) -> list[StreamBlob]:
    """The blobs of a folder; those of days before the selection only if there are no others, for their schema."""
    from azureblob_source.read.listing import listed  # noqa: PLC0415 - a folder with a log is not listed

    start, _ = selection.between
    there = list(listed(log.container, log.stream, start))
    if any(SPARK_METADATA in blob.name for blob in there):
        logger.warning(METADATA_IGNORED, f"{log.container.url}/{log.stream}")
    found = listed_blobs(log.stream, there)
    return found if found or start is None else listed_blobs(log.stream, list(listed(log.container, log.stream, None)))


def _with_extension(log: CommitLog, listed: list[StreamBlob]) -> list[StreamBlob]:
    """The blobs that are Avro files by their names. Of others, a warning: their rows are missing."""
    found = [blob for blob in listed if is_avro(blob.name)]
    others = next((blob.name for blob in listed if not is_avro(blob.name)), None)
    if others is not None:
        logger.warning(
            "%d of %d blobs of %s/%s are left out, such as %s: their names do not end in .avro or .avro.gz. %s",
            len(listed) - len(found),
            len(listed),
            log.container.url,
            log.stream,
            others,
            _READ_ALL,
        )
    return found


def _from_listing(
    log: CommitLog, listed: list[StreamBlob], selection: BlobSelection, *, ignore_corrupt: bool
) -> Snapshot:
    if not listed:
        raise NotFoundError(
            "read",
            f"{log.container.url}/{log.stream}",
            "there is no commit log, and no blob with bytes in it whose name ends in .avro or .avro.gz",
            f"Check container and stream; `az storage blob list --prefix` shows what is there. {_READ_ALL} If only "
            "DataFrames without rows were written so far, write one with rows: a first write of none leaves nothing to "
            "read.",
        )
    blobs = list(filter(selection.keeps, listed))
    schema_of = partial(_schema_of, RangeReader(log.container), log.container if ignore_corrupt else None)
    read = concurrent_map(schema_of, blobs, _AT_ONCE, after_error="abandon")
    kept = [(blob, schema) for blob, schema in zip(blobs, read, strict=True) if schema is not None]
    used: dict[AvroSchema, str] = {}
    for blob, schema in kept:
        used.setdefault(schema, blob.name)
    schemas = tuple(used) or (_newest_schema(log, listed, schema_of),)
    return Snapshot(None, tuple(blob for blob, _ in kept), schemas, tuple(used.values()), len(listed) - len(kept))


def _schema_of(ranges: RangeReader, skipped_in: BlobContainer | None, blob: StreamBlob) -> AvroSchema | None:
    """The writer schema in a blob's header. None if it is damaged, and damaged blobs of a container are skipped."""
    try:
        header = read_header(without_gzip(BlobBytes(ranges, blob)), blob=blob.name)
        return header_schema(header.schema_json, blob=blob.name)
    except CorruptError as damage:
        if skipped_in is None:
            raise
        skip_damaged(skipped_in, damage)
        return None


def _newest_schema(
    log: CommitLog, blobs: Iterable[StreamBlob], schema_of: Callable[[StreamBlob], AvroSchema | None]
) -> AvroSchema:
    """The schema of the newest blob with a whole header, for a read that covers no blob."""
    for blob in sorted(blobs, key=lambda each: (each.latest or 0, each.name), reverse=True):
        found = schema_of(blob)
        if found is not None:
            return found
    step = "Restore a blob; without option ignoreCorruptBlobs the first damaged one is named."
    raise NotFoundError("read", f"{log.container.url}/{log.stream}", "no blob has a whole header", step)
