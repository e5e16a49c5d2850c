"""How many checkpoints a state keeps. The number is the state's, not that of a run: it is in the record (`keep`).

A run without a number goes on with it, a higher one replaces it, a lower one is ignored with a warning. `set_keep` is
the order to keep fewer; it fences nobody, and a writer follows the record that it reads.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from azure_account.location import Location
from foundation.arguments import Range, checked
from foundation.errors import NotFoundError
from state_backup.record.record import LEAST_KEPT
from state_backup.record.store import open_location, record_store

if TYPE_CHECKING:
    from state_backup.record.record import CheckpointRecord

logger = logging.getLogger("state_backup")


Kept = Annotated[int, Range(LEAST_KEPT)]
"""How many checkpoints stay."""


@checked
def set_keep(where: Location, keep: Kept) -> None:
    """Set how many checkpoints of a state are kept. Its next backup drops the older ones.

    where: the state. Its writer goes on.

    `NotFoundError` without a record; `TransientError` if others change the record all the time.
    """
    container, names = open_location(where)

    def changed(record: CheckpointRecord | None) -> CheckpointRecord:
        if record is None:
            step = "Check the name; `ls` shows the states."
            raise NotFoundError("keep", f"checkpoints of state {names.state}", "it has no checkpoint record", step)
        return replace(record, keep=keep)

    record_store(container, names).amend(changed)


def kept(state: str, record: CheckpointRecord, wanted: int | None) -> int:
    """How many checkpoints a run keeps. wanted: its own number, None without one. A run may keep more, not fewer."""
    if wanted is not None and wanted < record.keep:
        text = "%s keeps %d checkpoints, also in this run, which asks for %d. To keep fewer: set_keep(…, %d), or `keep`"
        logger.warning(text, state, record.keep, wanted, wanted)
    return max(record.keep, wanted or 0)
