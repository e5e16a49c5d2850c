"""The output of the command line for programs: JSON documents. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state_backup.backup.attempt import BackedUpStore
    from state_backup.cli.reading import CheckpointSize, FoundState
    from state_backup.record.record import Checkpoint, CheckpointRecord
    from state_backup.restoring.restore import RestoreResult
    from state_backup.restoring.verifying import VerificationResult
    from state_backup.sweeping.sweep import SweepPlan


def states_json(container: str, states: Sequence[FoundState]) -> dict[str, object]:
    """The document of `ls` for states. A state whose record cannot be read has an `error`."""
    return {"container": container, "states": [_state(each) for each in states]}


def state_json(state: str, record: CheckpointRecord, sizes: Sequence[CheckpointSize]) -> dict[str, object]:
    """The document of `ls` for one state, newest checkpoint first."""
    return {
        "state": state,
        "epoch": record.epoch,
        "keep": record.keep,
        "condemned": len(record.condemned),
        "checkpoints": [
            {
                **checkpoint_json(each.checkpoint),
                "files": each.files,
                "bytes": each.bytes,
                **({"error": each.cause} if each.cause else {}),
            }
            for each in sizes
        ],
    }


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, object]:
    """One checkpoint. `millis` is the time of its id, since 1970."""
    return {
        "checkpoint": str(checkpoint.id),
        "millis": checkpoint.id.millis,
        "stores": sorted(checkpoint.indexes),
        "offsets": dict(checkpoint.offsets),
    }


def backup_json(state: str, checkpoint: Checkpoint, stores: Mapping[str, BackedUpStore]) -> dict[str, object]:
    """The document of `backup`. `transferred`: what was done for each store."""
    done = {
        store: {
            "uploadedFiles": each.uploaded_files,
            "uploadedBytes": each.uploaded_bytes,
            "retainedFiles": each.retained_files,
            "retainedBytes": each.retained_bytes,
        }
        for store, each in stores.items()
    }
    return {"state": state, **checkpoint_json(checkpoint), "transferred": done}


def restore_json(state: str, restored: RestoreResult | None) -> dict[str, object]:
    """The document of `restore`. Without a checkpoint nothing was done."""
    if restored is None:
        return {"state": state, "checkpoint": None}
    return {
        "state": state,
        **checkpoint_json(restored.checkpoint),
        "downloadedFiles": restored.downloaded_files,
        "downloadedBytes": restored.downloaded_bytes,
        "keptFiles": restored.kept_files,
        "keptBytes": restored.kept_bytes,
        "undeleted": list(restored.undeleted),
        "passedOver": dict(restored.passed_over),
    }


def verify_json(state: str, verified: Sequence[VerificationResult], *, deep: bool) -> dict[str, object]:
    """The document of `verify`, newest checkpoint first."""
    return {
        "state": state,
        "deep": deep,
        "checkpoints": [
            {
                **checkpoint_json(each.checkpoint),
                "files": each.files,
                "bytes": each.bytes,
                "whole": each.whole,
                "dropped": each.dropped,
                "faults": [
                    {"store": fault.store, "path": fault.path or None, "blob": fault.blob, "cause": fault.cause}
                    for fault in each.faults
                ],
            }
            for each in verified
        ],
    }


def sweep_json(
    state: str, plan: SweepPlan, done: int | None, *, explain: bool, with_ttl: frozenset[str]
) -> dict[str, object]:
    """The document of `sweep`; with `explain` all blobs."""
    document: dict[str, object] = {
        "state": state,
        "plan": {
            "inUse": len(plan.in_use),
            "waste": len(plan.waste),
            "wasteBytes": sum(plan.waste.values()),
            "young": len(plan.young),
            "condemned": len(plan.stored.document.condemned),
        },
        "done": None if done is None else {"deleted": done},
    }
    if explain:
        condemned = set(plan.stored.document.condemned)
        document["blobs"] = [
            {
                "blob": blob,
                "bytes": size,
                "checkpoints": list(plan.in_use.get(blob, ())),
                "condemned": blob in condemned,
                "youngForSeconds": _finite(plan.young.get(blob)),
                "ttl": blob in with_ttl,
                "waste": blob in plan.waste,
            }
            for blob, size in plan.sizes.items()
        ]
        document["missing"] = sorted(set(plan.in_use) - set(plan.sizes))
    return document


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _state(found: FoundState) -> dict[str, object]:
    record = found.record
    if record is None:
        return {"state": found.state, "error": found.cause}
    return {
        "state": found.state,
        "epoch": record.epoch,
        "keep": record.keep,
        "condemned": len(record.condemned),
        "checkpoints": [checkpoint_json(each) for each in record.checkpoints],
    }
