"""The checkpoint record: which checkpoints of a task are kept, who writes them, what is to be deleted. Pure.

    {"format-version":1, "epoch":3, "writer":"4b…", "write-id":"9f…", "keep":2, "checkpoints":[
       {"checkpoint-id":"1700000000000-123456", "input-offsets":{"kafka.flights.0":"1042"},
        "state-checkpoint-markers":{"state_backup":{"aggregates":"flights/task-3/index/7c….json"}}}, …],
     "condemned":["flights/task-3/files/2a…"], "digest":"…"}

A checkpoint has the names of Samza's `CheckpointV2`; the newest is the first. The record is changed by conditional
writes only (`docs/internals/decisions/0015-state-backup.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from azure_account.documents.form import DocumentFormat, sealed
from state_backup.index.checkpoint_id import CheckpointId
from state_backup.record.names import RECORD, StateNames

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORM = DocumentFormat("Record", 1, "Restore the blob, from a soft-deleted or earlier version if there is one.")
BACKEND = "state_backup"
"""The name under which a checkpoint has the snapshot indexes of this package, beside those of other backends."""
MOST_CONDEMNED = 20_000
"""Names that the list of condemned blobs should have; what else is to be deleted is condemned later."""
LEAST_KEPT = 2
"""Checkpoints that a state keeps at least: with fewer, a restore would be overtaken by the next backup."""


@dataclass(frozen=True)
class Checkpoint:
    """What belongs together. offsets: where the inputs were. indexes: by store, the blob of its snapshot index."""

    id: CheckpointId
    indexes: Mapping[str, str]
    offsets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointRecord:
    """checkpoints: newest first. epoch: of the writer. write_id: of the last write. condemned: blobs to be deleted.

    writer: who has the state. Each opening has an id of its own: two processes may have been given one epoch.
    keep: how many checkpoints can be restored.
    """

    epoch: int
    write_id: str
    checkpoints: tuple[Checkpoint, ...] = ()
    condemned: tuple[str, ...] = ()
    writer: str = ""
    keep: int = LEAST_KEPT

    @property
    def newest(self) -> Checkpoint | None:
        """The last checkpoint; None before the first."""
        return self.checkpoints[0] if self.checkpoints else None


def to_json(record: CheckpointRecord) -> bytes:
    """As it is stored."""
    fields = {
        "format-version": _FORM.format_version,
        "epoch": record.epoch,
        "writer": record.writer,
        "write-id": record.write_id,
        "keep": record.keep,
        "checkpoints": [_checkpoint_fields(checkpoint) for checkpoint in record.checkpoints],
        "condemned": list(record.condemned),
    }
    return sealed(fields)


def from_json(data: bytes, blob: str) -> CheckpointRecord:
    """The inverse. `ConfigurationError` for a record of a newer release, `CorruptError` if the record is damaged."""
    record = _FORM.read(data, blob, _record)
    _check_names(record, blob)
    return record


def _check_names(record: CheckpointRecord, blob: str) -> None:
    """`CorruptError` if the record names a blob of another state: condemned blobs are deleted."""
    state = StateNames(blob.removesuffix(f"/{RECORD}"))
    indexes = (index for checkpoint in record.checkpoints for index in checkpoint.indexes.values())
    foreign = next((name for name in (*record.condemned, *indexes) if not state.owns(name)), None)
    if foreign is not None:
        raise _FORM.damaged(blob, f"it names {foreign[:80]!r}, which is no blob of its state")


def _record(fields: Mapping[str, Any]) -> CheckpointRecord:
    return CheckpointRecord(
        int(fields["epoch"]),
        str(fields["write-id"]),
        tuple(_checkpoint(each) for each in fields["checkpoints"]),
        tuple(map(str, fields["condemned"])),
        str(fields["writer"]),
        int(fields["keep"]),
    )


def _checkpoint(fields: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(
        CheckpointId.parse(fields["checkpoint-id"]),
        {str(store): str(blob) for store, blob in fields["state-checkpoint-markers"][BACKEND].items()},
        {str(name): str(offset) for name, offset in fields["input-offsets"].items()},
    )


def _checkpoint_fields(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "checkpoint-id": str(checkpoint.id),
        "input-offsets": dict(checkpoint.offsets),
        "state-checkpoint-markers": {BACKEND: dict(checkpoint.indexes)},
    }
