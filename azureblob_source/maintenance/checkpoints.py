"""Checkpoints of a log: makes them, compares them with the entries, and names those that nothing needs any more.

The entries are the truth: a checkpoint only saves reads of them. So none of this changes what a read finds.

What is not needed (each clause is a test):
  * a checkpoint below the retention boundary, as no read begins there; but the newest stays, for its ids of columns
  * a manifest that no other checkpoint names, if a checkpoint below the boundary has put it: all its blobs are below
    the boundary too. A manifest of a later version may be of a writer that is about to put its checkpoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.log.checkpoint.live_table import LIVE, live_table
from azureblob_source.log.checkpoint.manifest import without
from azureblob_source.log.checkpoint.manifest_list import ManifestFile, read_list
from azureblob_source.log.checkpoint.tail import added_by, removers_from
from azureblob_source.log.checkpointing import columns_of, make_checkpoint
from azureblob_source.log.hint import put_hint
from azureblob_source.log.live_state import UNUSABLE, no_log
from azureblob_source.log.naming import (
    checkpoint_name,
    checkpoint_prefix,
    checkpoint_version,
    manifest_version,
    metadata_prefix,
)
from azureblob_source.read.following import Follower, TriggerLimits
from foundation.errors import NotFoundError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from azure_account.values import BlobProperties
    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry

_COMPARED_AT_ONCE = 1000


@dataclass(frozen=True)
class NewestCheckpoint:
    """The checkpoint at the last published version. made: now, it was not there before."""

    stream: str
    checkpoint: LogCheckpoint
    made: bool


@dataclass(frozen=True)
class VerifiedCheckpoint:
    """A checkpoint, compared with the entries. blobs: that it has; faults: what differs."""

    version: int
    blobs: int
    faults: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether it says what the entries say."""
        return not self.faults


def make(log: CommitLog, *, rebuild: bool = False) -> NewestCheckpoint:
    """Make the checkpoint at the last published version, if there is none that can be read.

    rebuild: make it from the entries alone, whatever is there. `NotFoundError` if no version is published.
    """
    versions, last = _versions(log), last_published(log)
    usable = (version for version in reversed(versions) if version <= last.version and _is_usable(log, version, last))
    log.notes.checkpoint = newest = next(usable, -1)  # the hint may name an older one
    before = log.checkpoints.find(newest)
    made = make_checkpoint(log, last, rebuild=rebuild)
    if made is None:  # a vacuum has passed the version
        return make(log, rebuild=rebuild)
    put_hint(log.container, log.stream, made.version)
    return NewestCheckpoint(log.stream, made, rebuild or made != before)


def unneeded(log: CommitLog, first: int) -> list[BlobProperties]:
    """The blobs of checkpoints that nothing needs once version `first` is the retention boundary.

    No manifests as long as one of the other checkpoints cannot be read, as it may name them.
    """
    listed, head = list(log.container.list(metadata_prefix(log.stream))), log.head()
    versions = {version: blob for blob in listed if (version := checkpoint_version(blob.name)) is not None}
    manifests = [blob for blob in listed if (put := manifest_version(blob.name)) is not None and put < first]
    if head is None or not (manifests or any(version < first for version in versions)):
        return []
    newest = next((each for each in sorted(versions, reverse=True) if _is_usable(log, each, head)), -1)
    kept = [version for version in versions if version >= min(newest, first)]
    found = concurrent_map(log.checkpoints.find, kept, log.readers, after_error="abandon")
    named = {manifest.name for each in found if each is not None for manifest in each.manifests}
    gone = [blob for version, blob in versions.items() if version not in kept]
    return gone if None in found else [*gone, *(blob for blob in manifests if blob.name not in named)]


def _versions(log: CommitLog) -> list[int]:
    """The versions of all checkpoints that are there, rising."""
    names = (blob.name for blob in log.container.list(checkpoint_prefix(log.stream)))
    return [version for name in names if (version := checkpoint_version(name)) is not None]


def _is_usable(log: CommitLog, version: int, last: LogEntry) -> bool:
    found = log.checkpoints.find(version)
    return found is not None and found.log_id == last.log_id


def last_published(log: CommitLog) -> LogEntry:
    """The newest entry up to which every batch is published, or revoked by one that is."""
    if log.refresh() is None:
        raise no_log(log)
    last = Follower(log, math.inf).latest(None, TriggerLimits())
    if last < log.kept_from:
        step = "Wait for the writer, or run `python -m azureblob_source repair`."
        raise NotFoundError("read what is published of", log.place, "no version is published yet", step)
    return log.read(last)


def verify(log: CommitLog, *, every: bool = False) -> list[VerifiedCheckpoint]:
    """Compare the newest checkpoint with the entries, or `every` one that a read can use; newest first.

    None if there is no such checkpoint. `NotFoundError` if there is no log.
    """
    versions, head = _versions(log), log.refresh()
    if head is None:
        raise no_log(log)
    first = log.refresh_boundary().first
    chosen = [version for version in reversed(versions) if version >= first][: None if every else 1]
    if not chosen:
        return []
    newest = min(chosen[0], head.version)
    entries = log.history(newest) if every else log.live_entries(newest)
    verified = [_verified(log, version, entries) for version in chosen]
    first = log.refresh_boundary().first  # a vacuum may have deleted what was compared
    return [each for each in verified if each.version >= first]


def _verified(log: CommitLog, version: int, entries: Sequence[LogEntry]) -> VerifiedCheckpoint:
    name = checkpoint_name(log.stream, version)
    last = next((entry for entry in entries if entry.version == version), None)
    if last is None:
        return VerifiedCheckpoint(version, 0, ("the log has no such version: the checkpoint is of another log",))
    try:
        found = read_list(log.container.get(name).data, name, log.stream)
    except UNUSABLE as error:
        return VerifiedCheckpoint(version, 0, (error.failure,))
    live = [entry for entry in entries if last.since <= entry.version <= version]
    return VerifiedCheckpoint(version, found.blobs, tuple(_faults(log, found, last, live)))


def _faults(log: CommitLog, found: LogCheckpoint, last: LogEntry, live: Sequence[LogEntry]) -> Iterator[str]:
    """What a checkpoint says of the log and its manifests, and what these say of blobs, as far as it is not so.

    live: the entries since the last overwrite, up to `last`.
    """
    for field in ("version", "log_id", "write_id", "timestamp", "since"):
        yield from _unequal(field, getattr(last, field), getattr(found, field))
    oldest = live[0].version
    removers = list(removers_from(oldest, live))
    yield from _unequal("removers", removers, [each for each in found.removers if each >= oldest])
    tables, unread = [LIVE.empty_table()], False
    for manifest in found.manifests:
        try:
            table = log.checkpoints.read(manifest)
        except UNUSABLE as error:
            yield error.failure
            unread = True
            continue
        if manifest != ManifestFile.of(manifest.name, manifest.length, manifest.added, table):
            yield f"{manifest.name} has other blobs than the checkpoint says"
        tables.append(table)
    oldest = max(oldest, log.kept_from)
    expected = without(live_table(added_by(live), columns_of(log, found)), kept_from=oldest)
    there = without(pa.concat_tables(tables), kept_from=oldest)
    if unread:  # which of the blobs it has is not known
        expected = expected.filter(pc.is_in(expected["name"], value_set=there["name"].combine_chunks()))
    yield from _differences(expected, there)


def _differences(expected: pa.Table, found: pa.Table) -> Iterator[str]:
    """The blobs in which two live tables differ."""
    expected, found = (table.combine_chunks().sort_by("name") for table in (expected, found))
    for there, other, fault in (
        (expected, found, "is live, and the checkpoint has not got it"),
        (found, expected, "is not live, and the checkpoint has it"),
    ):
        alone = pc.invert(pc.is_in(there["name"], value_set=other["name"].combine_chunks()))
        yield from (f"{name} {fault}" for name in there["name"].filter(alone).to_pylist())
    counts = pc.value_counts(found["name"])
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    yield from (f"{name} is there twice" for name in twice.to_pylist())
    if len(twice):
        return
    expected, found = (
        table.filter(pc.is_in(table["name"], value_set=other["name"].combine_chunks()))
        for table, other in ((expected, found), (found, expected))
    )
    for start in range(0, expected.num_rows, _COMPARED_AT_ONCE):
        these, those = (table.slice(start, _COMPARED_AT_ONCE) for table in (expected, found))
        if not these.equals(those):
            for row, other in zip(these.to_pylist(), those.to_pylist(), strict=True):
                for column in row:
                    yield from _unequal(f"{column} of {row['name']}", row[column], other[column])


def _unequal(what: str, expected: object, found: object) -> Iterator[str]:
    if expected != found:
        yield f"{what} is {found!r}, by the entries {expected!r}"
