"""Mistakes in the protocol that the histories must catch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.histories.mutants import Mutant, edited, replaced

if TYPE_CHECKING:
    import pytest

    from azure_account.container import BlobContainer
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, Draft, LogEntry


def _open(*_: object) -> object:
    return importlib.import_module("azureblob_source.log.publishing.status").Unpublished()


def _not_there(container: BlobContainer, blobs: Sequence[BlobEntry]) -> list[BlobEntry]:
    there = {blob.name for blob in blobs if (found := container.properties(blob.name)) is not None and found.size}
    return [blob for blob in blobs if blob.name not in there]


def _at_first_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = importlib.import_module("azureblob_source.log.commit")
    usual, found = commit._overwritten, dict[int, Any]()

    def overwritten(log: CommitLog, head: LogEntry, draft: Draft) -> Any:
        return found.setdefault(id(draft), (draft, usual(log, head, draft)))[1]

    monkeypatch.setattr(commit, "_overwritten", overwritten)


MUTANTS: dict[str, Mutant] = {
    "a list of transactions is taken for that of every entry": edited(
        "azureblob_source.log.commit_log:CommitLog._listed_for",
        "(listing.version, listing.log_id) != (at.list_version, at.log_id)",
        "listing.log_id != at.log_id",
    ),
    "a list of transactions forgets those used since the last one": edited(
        "azureblob_source.log.commit_log:CommitLog.next_entry", " | dict(head.transactions)", ""
    ),
    "an entry names itself as the one that lists transactions": edited(
        "azureblob_source.log.entry:Draft.succeeding", "else head.list_version", "else version"
    ),
    "a transaction that the head does not name was never committed": edited(
        "azureblob_source.log.commit_log:CommitLog.last_committed", " or self._listed_for(at).get(id_)", ""
    ),
    "a vacuum removes the entry that lists transactions": edited(
        "azureblob_source.maintenance.vacuum:_Work.clear", "entry for entry in entries if entry != kept", "*entries"
    ),
    "a writer withdraws the entry that lists transactions": edited(
        "azureblob_source.log.commit_log:CommitLog._accept_or_withdraw", ", boundary.list_version)", ",)"
    ),
    "a vacuum takes the entry that lists transactions for a stray": edited(
        "azureblob_source.maintenance.vacuum:plan_from_listing", " and entry != list_entry", ""
    ),
    "a block list is committed without If-None-Match": edited(
        "azureblob_source.log.publishing.publish:Publisher.publish_blob", "own, condition=IF_ABSENT", "own"
    ),
    "what later entries say of an entry is not looked at": replaced(
        "azureblob_source.log.publishing.roll_forward:status_of", _open
    ),
    "a repair does not look again at what is committed": replaced(
        "azureblob_source.maintenance.repair:_committed_now", lambda *_: set()
    ),
    "a follower does not skip a voided entry": replaced("azureblob_source.log.live:entries_in_effect", list),
    "the head is taken for published": replaced("azureblob_source.log.commit:publish_earlier", lambda *_: True),
    "a batch entry that was replaced is taken to be in effect": replaced(
        "azureblob_source.write.batch:_newest_of", lambda _, entry: entry
    ),
    "a part that a vacuum has deleted is taken for that of every batch entry": edited(
        "azureblob_source.log.commit:_commit_and_publish_once",
        "entry.batch_version",
        "entry.batch_version if isinstance(entry, LogEntry) else None",
    ),
    "a blob is deleted whatever attempt it carries": edited(
        "azureblob_source.log.publishing.publish:still_there", "attempt == removal.attempt", "attempt is not None"
    ),
    "a follower takes any blob of the name for published": replaced(
        "azureblob_source.read.following:not_visible", _not_there
    ),
    "a snapshot takes any blob of the name for published": replaced(
        "azureblob_source.read.snapshot:not_visible", _not_there
    ),
    "an epoch is opened only when earlier batches are published": edited(
        "azureblob_source.log.commit:append_epoch",
        "head = log.refresh()\n    if head is None",
        "head = publish_committed(log, draft, publisher)\n    if head is None",
    ),
    "an overwrite of partitions removes all rows": edited(
        "azureblob_source.log.commit:_overwritten", 'draft.operation == "overwrite"', "draft.overwrites"
    ),
    "an overwrite of partitions removes what was live at its first attempt": _at_first_attempt,
    "an overwrite of partitions leaves rows without a partition": edited(
        "azureblob_source.log.commit:_overwritten",
        "for blob in draft.blobs}",
        "for blob in draft.blobs if blob.partition is not None}",
    ),
    "nothing before an overwrite of partitions is live": edited(
        "azureblob_source.log.entry:Draft._live_from",
        'since = version if self.operation == "overwrite"',
        "since = version if self.overwrites",
    ),
    "an overwrite of partitions deletes before its blobs are visible": edited(
        "azureblob_source.log.publishing.publish:Publisher.publish",
        'in ("replace",',
        'in ("overwrite-partitions", "replace",',
    ),
    "an overwrite of partitions deletes nothing": edited(
        "azureblob_source.log.publishing.publish:Publisher.publish",
        "entry.overwrites",
        'entry.operation == "overwrite"',
    ),
    "the void of an overwrite removes what that would have removed": edited(
        "azureblob_source.log.publishing.void:void", "publisher.deleted_by(entry)", "set(entry.removed)"
    ),
    "a follower looks for blobs of partitions that were overwritten": edited(
        "azureblob_source.read.deletions:Deleted.left_of", "if names else", "if () else"
    ),
    "a follower leaves out what a voided overwrite would have removed": edited(
        "azureblob_source.read.deletions:DeletionFinder.after",
        "entries_in_effect(self._deleting(version, head))",
        "self._deleting(version, head)",
    ),
    "a follower leaves out what an unpublished overwrite removes": edited(
        "azureblob_source.read.deletions:Deleted.published", "entry.version <= until", "True"
    ),
    "a repeat without rows finishes nothing": replaced(
        "azureblob_source.write.batch:commit_if_repeated", lambda *_: None
    ),
}
