"""Mistakes in moving rows, and in finding them again, that the histories must catch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.histories.mutants import both, edited, replaced

if TYPE_CHECKING:
    from tests.histories.mutants import Mutant

MUTANTS: dict[str, Mutant] = {
    "the old blobs are deleted before the new one is visible": edited(
        "azureblob_source.log.publishing.publish:Publisher.publish",
        '("replace", "void")',
        '("replace", "void", "compact")',
    ),
    "the old blobs are not deleted": edited(
        "azureblob_source.log.publishing.publish:Publisher.publish", '("compact", "revert"', '("revert"'
    ),
    "a compaction does not look at what others have removed since its plan": replaced(
        "azureblob_source.log.relocating.relocation:is_outdated", lambda *_: False
    ),
    "a compaction publishes nothing of others": replaced(
        "azureblob_source.log.relocating.relocation:publish_earlier", lambda *_: True
    ),
    "the last part of a batch over many streams is moved": edited(
        "azureblob_source.log.relocating.compaction:plan_compaction", "each.batch_version is not None", "False"
    ),
    "rows that are moved again have the version of the entry that has moved them": edited(
        "azureblob_source.log.relocating.moving:moved_rows", "if blob.moved:", "if False:"
    ),
    "rows are looked for where an unpublished entry moves them": replaced(
        "azureblob_source.read.moved:MovedRowsFinder._is_published", lambda *_: True
    ),
    "rows are looked for where a voided entry has moved them": edited(
        "azureblob_source.log.commit_log:CommitLog.next_entry", "entry.last_compaction == voided.version", "False"
    ),
    "rows are looked for where the first entry has moved them": edited(
        "azureblob_source.read.moved:MovedRowsFinder._movers", "return found[::-1]", "return found"
    ),
    "a task reads the first rows of a blob again": edited(
        "azureblob_source.read.relocating:read_moving_splits", "left[0], skip + at", "left[0], 0"
    ),
    "a read of an earlier version has all rows of a blob": edited(
        "azureblob_source.read.moved:MovedRowsFinder.located",
        "if len(kept) == len(now.moved)",
        "if kept",
    ),
    "a reader of the log sees rows below the boundary": edited(
        "azureblob_source.read.moved:selected_rows", "rows.version >= log.kept_from and ", ""
    ),
    "a follower sees rows of versions that it has read": edited(
        "azureblob_source.read.following:Follower._with_moved", "after < rows.version and ", ""
    ),
    "a vacuum leaves moved rows": replaced("azureblob_source.maintenance.vacuum:_outdated_moved", lambda *_: ((), ())),
    "a vacuum leaves moved rows of a stream that nobody writes to": replaced(
        "azureblob_source.maintenance.vacuum:_Work.remove_newest_moved", lambda *_: None
    ),
    "moved rows are not reverted": replaced("azureblob_source.log.relocating.revert:_moved", lambda *_: []),
    "rows go that are beside those reverted": replaced(
        "azureblob_source.log.relocating.revert:_divide", lambda *_: False
    ),
    "missing blobs of a compaction are left out that is not published": both(
        edited("azureblob_source.log.publishing.void:_stuck", "not entry.moves", "True"),
        edited("azureblob_source.log.publishing.void:leave_out", "not stuck.entry.moves", "True"),
    ),
    "an audit does not wait for what is about to be deleted": replaced(
        "azureblob_source.maintenance.audit.looking:AuditContext.is_old", lambda *_: True
    ),
    "a blob whose rows are below the boundary is live": both(
        replaced("azureblob_source.log.checkpoint.tail:is_kept", lambda *_: True),
        replaced("azureblob_source.log.live_state:is_kept", lambda *_: True),
    ),
}
