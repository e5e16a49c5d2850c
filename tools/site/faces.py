"""The modules from which users import, and the names of each: the reference has a page for each of them."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

FACES = (
    "azure_account",
    "pyspark_azureblob",
    "azureblob_source.audits",
    "azureblob_source.compactions",
    "azureblob_source.epochs",
    "azureblob_source.restores",
    "azureblob_source.reverts",
    "arrow_avro",
    "control_messages.spark",
    "coordination",
    "coordination.spark",
    "state_backup",
    "state_backup.spark",
    "adjunct_store.spark",
)
"""In the order of the reference. A name that several have is described at the first."""

BESIDE = {
    "azure_account": ("foundation.errors.RowCountError",),
    "azureblob_source.compactions": ("azureblob_source.log.relocating.compaction.CompactionResult",),
    "control_messages.spark": (
        "control_messages.spark.bounded.Transport",
        "control_messages.messages.Watermark",
        "control_messages.messages.EndOfStream",
        "control_messages.partition_tracker.PartitionTracker",
        "control_messages.holds.Hold",
        "control_messages.holds.NoControlMessages",
        "control_messages.errors.ControlMessageError",
        "control_messages.errors.BadEnvelopeError",
        "control_messages.errors.ContradictionError",
    ),
    "state_backup": ("state_backup.index.checkpoint_id.CheckpointId", "state_backup.restoring.verifying.Fault"),
    "state_backup.spark": ("state_backup.spark.checkpoints.Query", "state_backup.spark.position.QueryPosition"),
    "adjunct_store.spark": ("adjunct_store.view.View", "adjunct_store.versions.manifest.Version"),
}
"""What the functions of a face take, return and raise, and users do not import."""


def names_of(face: str) -> list[str]:
    """What a face has for users: its `__all__`, or the functions and classes that it defines."""
    module = import_module(face)
    listed: list[str] | None = getattr(module, "__all__", None)
    return _defined(module) if listed is None else listed


def _defined(module: ModuleType) -> list[str]:
    found = inspect.getmembers(module, lambda each: inspect.isclass(each) or inspect.isfunction(each))
    return [name for name, each in found if each.__module__ == module.__name__ and not name.startswith("_")]
