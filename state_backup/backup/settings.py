"""Whose state a writer has, how it writes it, and what it takes over from the writer before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foundation.arguments import Count, Epoch, Name, Natural, checked
from state_backup.backup.keeping import Kept
from state_backup.local.scan import ChecksumCache


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
