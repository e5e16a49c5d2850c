"""Whose state a writer has, how it writes it, and what it takes over from the writer before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account.parallel import check_threads
from state_backup.backup.arguments import check_label, checked_number
from state_backup.backup.keeping import checked_keep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state_backup.local.scan import ChecksumCache


@dataclass(frozen=True)
class TaskIdentity:
    """Whose state it is: goes into each snapshot index, as Samza has it."""

    job_name: str
    job_id: str = "1"
    task_name: str = "0"

    def __post_init__(self) -> None:
        """`ConfigurationError` unless all are texts that are not blank."""
        for name, value in (("job_name", self.job_name), ("job_id", self.job_id), ("task_name", self.task_name)):
            check_label(value, name, "as this owner")


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
    inline_bytes: files that have no blob yet are in the snapshot index, if together they are no larger. By default none
    is: an index with such files has a format version that earlier releases refuse.
    """

    keep: int | None = None
    epoch: int | None = None
    threads: int = 16
    opening: str | None = None
    ttl: bool = True
    inline_bytes: int = 0

    def __post_init__(self) -> None:
        """Validate: before an opening fences another writer."""
        if self.keep is not None:
            object.__setattr__(self, "keep", checked_keep(self.keep))
        if self.epoch is not None:
            object.__setattr__(self, "epoch", checked_number(self.epoch, "epoch", 0))
        check_threads(self.threads)


@dataclass(frozen=True)
class WriterHandover:
    """What the writer before has left on this host, so that this one does not do it again.

    settled: its newest checkpoint, if that writer was `settled` then. Needed only where this identity may not list
    tags.
    read_files: its `read_files`.
    """

    settled: str = ""
    read_files: Mapping[str, ChecksumCache] = field(default_factory=dict)
