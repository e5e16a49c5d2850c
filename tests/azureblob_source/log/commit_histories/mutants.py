"""Mistakes in the protocol that the histories must catch."""

from __future__ import annotations

import importlib

from tests.mutating import Mutant, edited, replaced


def _open(*_: object) -> object:
    return importlib.import_module("azureblob_source.log.status").Unpublished()


MUTANTS: dict[str, Mutant] = {
    "a block list is committed without If-None-Match": edited(
        "azureblob_source.log.publish:Publisher.publish_blob", "own, condition=IF_ABSENT", "own"
    ),
    "what later entries say of an entry is not looked at": replaced(
        "azureblob_source.log.roll_forward:status_of", _open
    ),
    "a repair does not look again at what is committed": replaced(
        "azureblob_source.maintenance.repair:_committed_now", lambda *_: set()
    ),
    "a follower does not skip a voided entry": replaced("azureblob_source.log.published:entries_in_effect", list),
    "the head is taken for published": replaced("azureblob_source.log.commit:publish_earlier", lambda *_: True),
    "a batch entry that was replaced is taken to be in effect": replaced(
        "azureblob_source.write.batch:_newest_of", lambda _, entry: entry
    ),
    "a repeat without rows finishes nothing": replaced(
        "azureblob_source.write.batch:commit_if_repeated", lambda *_: None
    ),
}
