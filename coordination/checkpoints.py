"""Offsets in Table storage: for each task, how far it has read each stream-partition. Fenced by the task's epoch.

All offsets of a task are one entity, so they change together, however many they are; and the entity has the epoch of
its writer, so a processor that has lost the task cannot move them. PartitionKey is `task`, RowKey the task's name, or
one made of it if the name cannot be a key. `azure_account.documents` is for blobs whose owner
has a writer id; here each epoch belongs to one processor, so a write is read back by its content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account.documents.form import check_version
from azure_account.readback import request_and_read_back
from azure_account.values import IF_ABSENT, Condition, Conflict, Done, Entity, Missing, Unknown
from coordination.names import checkpoint_key
from foundation.arguments import Epoch, checked
from foundation.errors import ConfigurationError, CorruptError, FencedError, TransientError

if TYPE_CHECKING:
    from azure_account.readback import Doubtful
    from azure_account.table import Table
    from foundation.errors import AzureBlobError

FORMAT_VERSION = 1
_PARTITION = "task"
_PROPERTY_CHARACTERS = 30_000
"""A string property has at most 32,768 UTF-16 units."""
_MOST_CHARACTERS = 450_000
"""An entity has at most 1 MiB, in UTF-16."""


@dataclass(frozen=True)
class TaskCheckpoint:
    """The offsets of a task by stream-partition (any text), and the epoch of the processor that wrote them or -1."""

    epoch: int = -1
    offsets: Mapping[str, str] = field(default_factory=dict)


class CheckpointStore:
    """The checkpoints of a job. A task is what `JobCoordinator` takes for one: any text that is not empty."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self) -> None:
        """Create the table if it is absent."""
        self._table.create()

    @checked
    def read(self, task: str) -> TaskCheckpoint:
        """The last checkpoint of a task; an empty one if there is none. Errors of storage are raised, not empty."""
        found = self._table.get(_PARTITION, checkpoint_key(task))
        return TaskCheckpoint() if found is None else _checkpoint(task, found)

    @checked
    def begin(self, task: str, epoch: Epoch) -> TaskCheckpoint:
        """Take a task over, and read its offsets: from now on writers of lower epochs are refused. Idempotent.

        `FencedError` if a processor with a higher epoch has it.
        """
        return self._change(task, epoch, None)

    @checked
    def write(self, task: str, epoch: Epoch, offsets: Mapping[str, str]) -> None:
        """Replace all offsets of a task. `FencedError` if another processor has the task now.

        epoch: of the task. offsets: texts by key.

        `ConfigurationError` for more offsets than an entity holds (about 450,000 characters).
        """
        self._change(task, epoch, offsets)

    def _change(self, task: str, epoch: int, offsets: Mapping[str, str] | None) -> TaskCheckpoint:
        """Replace the offsets, or only the epoch if they are None. Returns what is stored then."""
        key, written = checkpoint_key(task), TaskCheckpoint()

        def request() -> Done | Conflict | Missing | Unknown:
            nonlocal written
            found = self._table.get(_PARTITION, key)
            before = TaskCheckpoint() if found is None else _checkpoint(task, found)
            if before.epoch > epoch:
                cause = f"epoch {before.epoch} has taken it over from epoch {epoch}"
                raise FencedError("write the checkpoint of", f"task {task}", cause, "Stop this task.")
            written = TaskCheckpoint(epoch, before.offsets if offsets is None else dict(offsets))
            condition = IF_ABSENT if found is None else Condition(if_match=found.etag)
            return self._table.replace(_entity(task, written), condition=condition)

        def read_back(answer: Doubtful) -> Done | None:  # noqa: ARG001 - what is stored decides
            return Done() if self.read(task) == written else None

        def unresolved(answer: Doubtful) -> AzureBlobError:
            cause = f"it stays unknown whether it was written ({answer})"
            return TransientError("write the checkpoint of", f"task {task}", cause, "Try again later.")

        request_and_read_back(request, read_back, unresolved)
        return written


def _entity(task: str, checkpoint: TaskCheckpoint) -> Entity:
    text = json.dumps(dict(checkpoint.offsets), separators=(",", ":"), sort_keys=True)
    if len(text) > _MOST_CHARACTERS:
        reason = (
            f"The {len(checkpoint.offsets)} offsets of task {task} are {len(text):,} characters; an entity of a table "
            f"holds {_MOST_CHARACTERS:,}. Divide the task."
        )
        raise ConfigurationError(reason)
    pieces = [text[start : start + _PROPERTY_CHARACTERS] for start in range(0, len(text), _PROPERTY_CHARACTERS)]
    named = {f"offsets{number}": piece for number, piece in enumerate(pieces)}
    own = {"formatVersion": FORMAT_VERSION, "epoch": checkpoint.epoch, "pieces": len(pieces)}
    return Entity(_PARTITION, checkpoint_key(task), {**own, **named})


def _checkpoint(task: str, entity: Entity) -> TaskCheckpoint:
    properties = entity.properties
    try:
        check_version(properties["formatVersion"], FORMAT_VERSION, f"The checkpoint of task {task}")
        text = "".join(str(properties[f"offsets{number}"]) for number in range(int(properties["pieces"])))
        return TaskCheckpoint(int(properties["epoch"]), dict(json.loads(text)))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        reason = f"The checkpoint of task {task} is damaged ({error!r}). Restore it, or delete the entity."
        raise CorruptError(reason) from error
