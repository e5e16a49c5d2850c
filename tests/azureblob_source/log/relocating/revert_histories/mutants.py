"""Mistakes in reverting that the histories must catch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.histories.mutants import edited, replaced

if TYPE_CHECKING:
    from tests.histories.mutants import Mutant

MUTANTS: dict[str, Mutant] = {
    "a stream that lacks its part of a batch is left as it is": replaced(
        "azureblob_source.log.relocating.revert:_refuses_parts", lambda *_: True
    ),
    "a part of a batch that was taken back is put": replaced(
        "azureblob_source.log.commit:_check_not_taken_back", lambda *_: None
    ),
    "a log forgets with the next batch which parts it refuses": edited(
        "azureblob_source.log.entry:Draft._transactions",
        "version, previous, self.batch_version)",
        'version, previous, self.batch_version if self.operation == "revert" else None)',
    ),
    "batches that follow one another without a gap are expected": edited(
        "azureblob_source.log.relocating.revert:_check_all_kept", "else newest.previous", "else newest.version - 1"
    ),
    "what a vacuum has removed is not looked at": replaced(
        "azureblob_source.log.relocating.revert:_check_all_kept", lambda *_: None
    ),
    "no epoch is opened in the batch log": edited(
        "azureblob_source.maintenance.reverting:carry_out", "log.refresh() is not None or", ""
    ),
    "opening an epoch in the batch log publishes what it names": edited(
        "azureblob_source.log.commit:append_epoch", "is_batch_log(log.stream)", "False"
    ),
    "the batch log is forgotten": edited(
        "azureblob_source.maintenance.reverting:plan_revert",
        "entries[of_batches.stream] = batches_among(of_batches, found, last)",
        "pass",
    ),
    "the batch log is first": edited(
        "azureblob_source.maintenance.reverting:carry_out",
        "for name, entries in plan.entries.items()",
        "for name, entries in reversed(plan.entries.items())",
    ),
    "a revert whose blobs are there still is taken for finished": replaced(
        "azureblob_source.maintenance.reverting:_is_unfinished", lambda _: False
    ),
    "a follower looks at the newest revert only": edited(
        "azureblob_source.read.deletions:DeletionFinder._deleting", "at = found[-1].last_deletion", "at = None"
    ),
    "a streaming read of a view shows what was taken back": replaced(
        "azureblob_source.read.following:Follower.taken_back", lambda *_: frozenset()
    ),
    "a stale head is believed for a batch that was taken back": edited(
        "azureblob_source.log.commit:_committed_before", "(newer := log.refresh()) != head", "False"
    ),
}
