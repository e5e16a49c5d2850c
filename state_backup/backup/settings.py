"""Whose state a writer has, which directories it backs up and how, and how many checkpoints it keeps.

The number of checkpoints is the state's, not that of a run: it is in the record (`keep`). A run without a number goes
on with it, a higher one replaces it, a lower one is ignored with a warning. `set_keep` is the order to keep fewer; it
fences nobody, and a writer follows the record that it reads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from azure_account.location import Location
from foundation.arguments import Count, Epoch, Name, Natural, Range, checked
from foundation.errors import ConfigurationError, NotFoundError
from state_backup.local.scan import ChecksumCache
from state_backup.record.record import LEAST_KEPT
from state_backup.record.store import open_location, record_store

if TYPE_CHECKING:
    from collections.abc import Collection

    from state_backup.record.record import Checkpoint, CheckpointRecord

logger = logging.getLogger("state_backup")

Kept = Annotated[int, Range(LEAST_KEPT)]
"""How many checkpoints stay."""


@checked
@dataclass(frozen=True)
class TaskIdentity:
    """Whose state it is: goes into each snapshot index, as Samza has it."""

    job_name: Name
    job_id: Name = "1"
    task_name: Name = "0"


@checked
@dataclass(frozen=True)
class WriterSettings:
    """How a state is written. `ConfigurationError` for a number that is too low.

    keep: how many checkpoints can be restored, at least 2, so that a restore is not overtaken by the next backup. By
    default as many as the state has kept so far, 2 for a new one. The state keeps the number: a lower one is ignored,
    with a warning (`set_keep` changes it).
    epoch: of this writer, such as that of the task in `coordination`. By default one above that in the record.
    threads: requests at a time.
    opening: an id of this opening, which goes into the record. By default random.
    ttl: new blobs have a TTL until a checkpoint is committed that needs them. Without it a backup makes a request less
    for each new blob; what a killed process has uploaded then stays until the state is opened again or swept.
    inline_bytes: files that have no blob yet are in the snapshot index, if together they are no larger.
    """

    keep: Kept | None = None
    epoch: Epoch | None = None
    threads: Count = 16
    opening: str | None = None
    ttl: bool = True
    inline_bytes: Natural = 0


@checked
@dataclass(frozen=True)
class WriterHandover:
    """What the writer before has left on this host, so that this one does not do it again.

    settled: its newest checkpoint, if that writer was `settled` then. Needed only where this identity may not list
    tags.
    read_files: its `read_files`.
    """

    settled: str = ""
    read_files: Mapping[str, ChecksumCache] = field(default_factory=dict)


@checked
@dataclass(frozen=True)
class MayBeEmpty:
    """A directory to back up that may have lost all of its files since the checkpoint before. Else that is an error."""

    directory: Path | str


def checked_stores(stores: Mapping[str, Path | str | MayBeEmpty], state: str) -> dict[str, Path]:
    """The directories by store. `ConfigurationError` unless there is one, and all have names."""
    if not stores or not all(name.strip() for name in stores):
        cause = "a name of a store is blank" if stores else "no store is given"
        step = "Give the directories of all stores of the state, by names."
        raise ConfigurationError("back up", f"state {state}", cause, step)
    return {name: Path(each.directory if isinstance(each, MayBeEmpty) else each) for name, each in stores.items()}


def may_be_empty(stores: Mapping[str, object]) -> frozenset[str]:
    """The stores of which that was said."""
    return frozenset(store for store, directory in stores.items() if isinstance(directory, MayBeEmpty))


def check_all_given(given: Collection[str], left_out: Collection[str], state: str, newest: Checkpoint | None) -> None:
    """`ConfigurationError` for a store of the newest checkpoint that is neither given nor left out by name."""
    what = f"state {state}"
    both = sorted(set(given) & set(left_out))
    if both:
        cause = f"store {both[0]} is given, and is to be left out"
        raise ConfigurationError("back up", what, cause, "Give the directory of the store, or leave it out.")
    missing = () if newest is None else sorted(set(newest.indexes) - set(given) - set(left_out))
    if newest is not None and missing:
        cause = f"checkpoint {newest.id} has store {', '.join(missing)}, which is not given"
        step = f"Give its directory; to go on without it, so that it is dropped, give leave_out=[{missing[0]!r}]"
        raise ConfigurationError("back up", what, cause, f"{step}, or --leave-out {missing[0]}.")


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
