"""The output of the command line: tables, sentences, and JSON documents. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from azure_account.cli.texts import (
    NONE,
    TableColumn,
    attributes,
    count_text,
    document,
    documents,
    files_text,
    in_json,
    in_table,
    plural,
    size_text,
    time_text,
    verification_lines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state_backup.backup.attempt import BackedUpStore
    from state_backup.cli.reading import CheckpointSize, FoundState
    from state_backup.index.checkpoint_id import CheckpointId
    from state_backup.record.record import Checkpoint, CheckpointRecord
    from state_backup.restoring.restore import RestoreResult
    from state_backup.restoring.verifying import Fault, VerificationResult
    from state_backup.sweeping.sweep import SweepPlan

_LATEST = 253_402_300_799_000
"""The last millisecond that has a date."""


def moment_text(id_: CheckpointId) -> str:
    """The time of a checkpoint id, in UTC; an id that is no time as it is."""
    if id_.millis > _LATEST:
        return str(id_.millis)
    return time_text(datetime.fromtimestamp(id_.millis / 1000, UTC))


def _offsets_text(offsets: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(offsets.items()))


STATES: list[TableColumn[FoundState]] = [
    in_table("state", lambda each: each.state),
    in_table("checkpoints>", lambda each: each.record and len(each.record.checkpoints), count_text),
    in_table("newest (UTC)", lambda each: each.newest and each.newest.id, moment_text),
    in_table("stores", lambda each: each.problem or (each.newest and ", ".join(sorted(each.newest.indexes)))),
    in_table("epoch>", lambda each: each.record and each.record.epoch),
    in_table("condemned>", lambda each: each.record and len(each.record.condemned), count_text),
]
_RECORD: list[TableColumn[CheckpointRecord]] = [
    *attributes("epoch", "keep"),
    in_json("condemned", lambda record: len(record.condemned)),
]
_CHECKPOINT: list[TableColumn[Checkpoint]] = [
    TableColumn("checkpoint", "checkpoint", lambda each: str(each.id)),
    in_table("time (UTC)", lambda each: each.id, moment_text),
    in_json("millis", lambda each: each.id.millis),  # the time of its id, since 1970
    TableColumn("stores", "stores", lambda each: sorted(each.indexes), ", ".join),
]
_OFFSETS: TableColumn[Checkpoint] = TableColumn("offsets", "offsets", lambda each: dict(each.offsets), _offsets_text)
SIZES: list[TableColumn[CheckpointSize]] = [
    *(column.of(lambda size: size.checkpoint) for column in _CHECKPOINT),
    TableColumn("files>", "files", lambda each: each.files, count_text),
    TableColumn("size>", "bytes", lambda each: each.bytes, size_text),
    _OFFSETS.of(lambda size: size.checkpoint),
]
_VERIFIED: list[TableColumn[VerificationResult]] = [
    *(column.of(lambda each: each.checkpoint) for column in (*_CHECKPOINT, _OFFSETS)),
    *attributes("files", "bytes", "whole", "dropped"),
    in_json("faults", lambda each: documents(_FAULTS, each.faults)),
]
_FAULTS: list[TableColumn[Fault]] = [
    *attributes("store", "blob", "cause"),
    in_json("path", lambda fault: fault.path or None),
]
_TRANSFERRED = attributes("uploadedFiles", "uploadedBytes", "retainedFiles", "retainedBytes")
_RESTORED: list[TableColumn[RestoreResult]] = [
    *(column.of(lambda done: done.checkpoint) for column in (*_CHECKPOINT, _OFFSETS)),
    *attributes("downloadedFiles", "downloadedBytes", "keptFiles", "keptBytes", "undeleted"),
    in_json("passedOver", lambda done: dict(done.passed_over)),
]


def states_json(container: str, states: Sequence[FoundState]) -> dict[str, object]:
    """The document of `ls` for states. A state whose record cannot be read has an `error`."""
    return {"container": container, "states": [_state_json(each) for each in states]}


def _state_json(found: FoundState) -> dict[str, object]:
    if found.record is None:
        return {"state": found.state, "error": found.cause}
    checkpoints = documents([*_CHECKPOINT, _OFFSETS], found.record.checkpoints)
    return {"state": found.state, **document(_RECORD, found.record), "checkpoints": checkpoints}


def state_json(state: str, record: CheckpointRecord, sizes: Sequence[CheckpointSize]) -> dict[str, object]:
    """The document of `ls` for one state, newest checkpoint first. One that cannot be read has an `error`."""
    errors = ({"error": each.cause} if each.cause else {} for each in sizes)
    checkpoints = [{**size, **error} for size, error in zip(documents(SIZES, sizes), errors, strict=True)]
    return {"state": state, **document(_RECORD, record), "checkpoints": checkpoints}


def record_line(state: str, record: CheckpointRecord) -> str:
    """What `ls` says of a state above its checkpoints."""
    condemned = f"; {plural(len(record.condemned), 'blob')} condemned" if record.condemned else ""
    return f"{state}: {plural(len(record.checkpoints), 'checkpoint')}, epoch {record.epoch}{condemned}"


def backup_lines(checkpoint: Checkpoint, stores: Mapping[str, BackedUpStore]) -> list[str]:
    """What `backup` has done."""
    lines = [
        f"{store}: uploaded {files_text(done.uploaded_files, done.uploaded_bytes)}, "
        f"retained {files_text(done.retained_files, done.retained_bytes)}."
        for store, done in stores.items()
    ]
    return [*lines, f"Committed checkpoint {checkpoint.id} ({moment_text(checkpoint.id)} UTC)."]


def backup_json(state: str, checkpoint: Checkpoint, stores: Mapping[str, BackedUpStore]) -> dict[str, object]:
    """The document of `backup`. `transferred`: what was done for each store."""
    done = dict(zip(stores, documents(_TRANSFERRED, stores.values()), strict=True))
    return {"state": state, **document([*_CHECKPOINT, _OFFSETS], checkpoint), "transferred": done}


def restore_lines(restored: RestoreResult) -> list[str]:
    """What `restore` has done."""
    checkpoint = restored.checkpoint
    offsets = _offsets_text(checkpoint.offsets)
    downloaded = files_text(restored.downloaded_files, restored.downloaded_bytes)
    kept = files_text(restored.kept_files, restored.kept_bytes)
    name = f"{checkpoint.id} ({moment_text(checkpoint.id)} UTC)"
    return [
        f"Restored checkpoint {name}: downloaded {downloaded}, kept {kept} that were there.",
        *([f"Its offsets: {offsets}"] if offsets else []),
        *(
            [f"Undeleted: {plural(len(restored.undeleted), 'blob')} that had been deleted."]
            if restored.undeleted
            else []
        ),
        *(f"Checkpoint {id_} was passed over: {why}" for id_, why in restored.passed_over.items()),
    ]


def restore_json(state: str, restored: RestoreResult | None) -> dict[str, object]:
    """The document of `restore`. Without a checkpoint nothing was done."""
    return {"state": state, **({"checkpoint": None} if restored is None else document(_RESTORED, restored))}


def verify_lines(state: str, verified: Sequence[VerificationResult], *, deep: bool) -> list[str]:
    """What `verify` has found: faults by checkpoint, then which are whole."""
    lines = []
    for each in verified:
        name = f"Checkpoint {each.checkpoint.id} ({moment_text(each.checkpoint.id)} UTC)"
        faults = [f"{at.store}{f'/{at.path}' if at.path else ' (index)'}: {at.blob}: {at.cause}" for at in each.faults]
        whole = f"{files_text(each.files, each.bytes)}, {'downloaded, all checksums match' if deep else 'all there'}"
        dropped = "was dropped by newer backups meanwhile" if each.dropped else ""
        lines += verification_lines(name, faults, whole, dropped=dropped)
    return lines or [f"State {state} has no checkpoint yet."]


def verify_json(state: str, verified: Sequence[VerificationResult], *, deep: bool) -> dict[str, object]:
    """The document of `verify`, newest checkpoint first."""
    return {"state": state, "deep": deep, "checkpoints": documents(_VERIFIED, verified)}


def sweep_lines(state: str, plan: SweepPlan) -> list[str]:
    """What a sweep would do, in sentences."""
    checkpoints = plural(len(plan.stored.document.checkpoints), "checkpoint")
    there = len(set(plan.in_use) & set(plan.sizes))
    lines = [f"{state}: {plural(there, 'blob')} of {checkpoints} stay."]
    if plan.waste:
        size = size_text(sum(plan.waste.values()))
        lines.append(f"No checkpoint needs {plural(len(plan.waste), 'blob')} ({size}): will be deleted.")
    else:
        lines.append("Nothing to delete.")
    if plan.young:
        lines.append(
            f"Younger than --min-age and left, because a backup may be at work: {plural(len(plan.young), 'blob')}."
        )
    missing = len(plan.in_use) - there
    if missing:
        lines.append(f"{plural(missing, 'blob')} that checkpoints need are gone; `verify` lists them.")
    return lines


def blobs_of_sweep(state: str, plan: SweepPlan, now: datetime, with_ttl: frozenset[str]) -> list[TableColumn[str]]:
    """What `sweep --explain` shows of each blob: which checkpoints hold it (or `all`), and when it goes."""
    checkpoints, condemned = plan.stored.document.checkpoints, frozenset(plan.stored.document.condemned)

    def held(ids: Sequence[str]) -> str:
        return "all" if len(ids) == len(checkpoints) > 1 else ", ".join(ids)

    return [
        TableColumn("blob", "blob", lambda blob: blob, lambda blob: blob.removeprefix(f"{state}/")),
        TableColumn("size>", "bytes", lambda blob: plan.sizes[blob], size_text),
        TableColumn("held by", "checkpoints", lambda blob: list(plan.in_use.get(blob, ())), held),
        in_table("goes", lambda blob: _goes(blob, plan, condemned, now, with_ttl)),
        in_json("condemned", lambda blob: blob in condemned),
        in_json("youngForSeconds", lambda blob: _finite(plan.young.get(blob))),
        in_json("ttl", lambda blob: blob in with_ttl),
        in_json("waste", lambda blob: blob in plan.waste),
    ]


def sweep_json(state: str, plan: SweepPlan, done: int | None) -> dict[str, object]:
    """The document of `sweep`."""
    return {
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


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _goes(blob: str, plan: SweepPlan, condemned: frozenset[str], now: datetime, with_ttl: frozenset[str]) -> str:
    if blob in plan.in_use:
        return NONE
    if blob in plan.young:
        left = plan.young[blob]
        if math.isinf(left):
            return "staged only; Azure drops it in 7 days"
        until = time_text(datetime.fromtimestamp(now.timestamp() + left, UTC))
        ttl = "; TTL 30 days" if blob in with_ttl else ""
        return f"young until {until}{ttl}"
    if blob not in plan.waste:
        return "with the next sweep"
    return "now (condemned)" if blob in condemned else "now"
