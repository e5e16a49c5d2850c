"""The output of the command line for people: tables and sentences. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from azure_account.cli.console import printable
from azure_account.cli.texts import NONE, count_text, new_table, plural, shrinking, size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from state_backup.backup.attempt import BackedUpStore
    from state_backup.cli.reading import CheckpointSize, FoundState
    from state_backup.index.checkpoint_id import CheckpointId
    from state_backup.record.record import Checkpoint, CheckpointRecord
    from state_backup.restoring.restore import RestoreResult
    from state_backup.restoring.verifying import VerificationResult
    from state_backup.sweeping.sweep import SweepPlan

_LATEST = 253_402_300_799_000
"""The last millisecond that has a date."""
_FAULTS_SHOWN = 100


def states_table(states: Sequence[FoundState]) -> Table:
    """The table of `ls` for states."""
    table = new_table("state", "checkpoints>", "newest (UTC)", "stores", "epoch>", "condemned>")
    for each in states:
        record = each.record
        if record is None:
            table.add_row(one_line(each.state), NONE, NONE, "record is gone" if each.gone else "unreadable", NONE, NONE)
            continue
        newest = record.newest
        table.add_row(
            one_line(each.state),
            count_text(len(record.checkpoints)),
            NONE if newest is None else moment_text(newest.id),
            NONE if newest is None else _stores(newest),
            str(record.epoch),
            count_text(len(record.condemned)),
        )
    return shrinking(table, 3)


def checkpoints_table(sizes: Sequence[CheckpointSize]) -> Table:
    """The table of `ls` for one state. Of the columns only the offsets are shortened."""
    table = new_table("checkpoint", "time (UTC)", "stores", "files>", "size>", "offsets")
    for each in sizes:
        table.add_row(
            str(each.checkpoint.id),
            moment_text(each.checkpoint.id),
            _stores(each.checkpoint),
            count_text(each.files),
            NONE if each.bytes is None else size_text(each.bytes),
            one_line(", ".join(f"{key}={value}" for key, value in sorted(each.checkpoint.offsets.items()))) or NONE,
        )
    return shrinking(table, 5)


def record_line(state: str, record: CheckpointRecord) -> str:
    """What `ls` says of a state above its checkpoints."""
    condemned = f"; {plural(len(record.condemned), 'blob')} condemned" if record.condemned else ""
    return one_line(f"{state}: {plural(len(record.checkpoints), 'checkpoint')}, epoch {record.epoch}{condemned}")


def backup_lines(checkpoint: Checkpoint, stores: Mapping[str, BackedUpStore]) -> list[str]:
    """What `backup` has done."""
    lines = [
        f"{one_line(store)}: uploaded {_files(done.uploaded_files, done.uploaded_bytes)}, "
        f"retained {_files(done.retained_files, done.retained_bytes)}."
        for store, done in stores.items()
    ]
    return [*lines, f"Committed checkpoint {checkpoint.id} ({moment_text(checkpoint.id)} UTC)."]


def restore_lines(restored: RestoreResult) -> list[str]:
    """What `restore` has done."""
    checkpoint = restored.checkpoint
    offsets = ", ".join(f"{key}={value}" for key, value in sorted(checkpoint.offsets.items()))
    downloaded = _files(restored.downloaded_files, restored.downloaded_bytes)
    kept = _files(restored.kept_files, restored.kept_bytes)
    name = f"{checkpoint.id} ({moment_text(checkpoint.id)} UTC)"
    return [
        f"Restored checkpoint {name}: downloaded {downloaded}, kept {kept} that were there.",
        *([one_line(f"Its offsets: {offsets}")] if offsets else []),
        *(
            [f"Undeleted: {plural(len(restored.undeleted), 'blob')} that had been deleted."]
            if restored.undeleted
            else []
        ),
        *(one_line(f"Checkpoint {id_} was passed over: {why}") for id_, why in restored.passed_over.items()),
    ]


def verify_lines(state: str, verified: Sequence[VerificationResult], *, deep: bool) -> list[str]:
    """What `verify` has found: faults by checkpoint, then which are whole."""
    lines = []
    for each in verified:
        name = f"Checkpoint {each.checkpoint.id} ({moment_text(each.checkpoint.id)} UTC)"
        if each.dropped:
            lines.append(f"{name} was dropped by newer backups meanwhile.")
        elif each.whole:
            looked = "downloaded, all checksums match" if deep else "all there"
            lines.append(f"{name} is whole: {_files(each.files, each.bytes)}, {looked}.")
        else:
            lines.append(f"{name} is not whole: {plural(len(each.faults), 'fault')}.")
            lines += [
                one_line(
                    f"  {fault.store}{f'/{fault.path}' if fault.path else ' (index)'}: {fault.blob}: {fault.cause}"
                )
                for fault in each.faults[:_FAULTS_SHOWN]
            ]
            if len(each.faults) > _FAULTS_SHOWN:
                lines.append(f"  … and {len(each.faults) - _FAULTS_SHOWN:,} more (--json has all)")
    return lines or [one_line(f"State {state} has no checkpoint yet.")]


def sweep_lines(state: str, plan: SweepPlan) -> list[str]:
    """What a sweep would do, in sentences."""
    checkpoints = plural(len(plan.stored.document.checkpoints), "checkpoint")
    there = len(set(plan.in_use) & set(plan.sizes))
    lines = [one_line(f"{state}: {plural(there, 'blob')} of {checkpoints} stay.")]
    if plan.waste:
        lines.append(f"No checkpoint needs {_blobs(len(plan.waste), sum(plan.waste.values()))}: will be deleted.")
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


def explain_table(state: str, plan: SweepPlan, now: datetime, with_ttl: frozenset[str]) -> Table:
    """The table of `sweep --explain`: each blob of the state, which checkpoints hold it (or `all`), when it goes."""
    checkpoints = plan.stored.document.checkpoints
    table = new_table("blob", "size>", "held by", "goes")
    condemned = frozenset(plan.stored.document.condemned)
    for blob, size in plan.sizes.items():
        ids = plan.in_use.get(blob, ())
        held = "all" if len(ids) == len(checkpoints) > 1 else ", ".join(ids) or NONE
        name = one_line(blob.removeprefix(f"{state}/"))
        table.add_row(name, size_text(size), held, _goes(blob, plan, condemned, now, with_ttl))
    return table


def one_line(text: str) -> str:
    """The text on one line, without control characters."""
    return printable(text.replace("\n", "⏎").replace("\t", " "))


def moment_text(id_: CheckpointId) -> str:
    """The time of a checkpoint id, in UTC; an id that is no time as it is."""
    if id_.millis > _LATEST:
        return str(id_.millis)
    return time_text(datetime.fromtimestamp(id_.millis / 1000, UTC))


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


def _stores(checkpoint: Checkpoint) -> str:
    return one_line(", ".join(sorted(checkpoint.indexes)))


def _files(count: int, bytes_: int) -> str:
    return f"{plural(count, 'file')} ({size_text(bytes_)})"


def _blobs(count: int, bytes_: int) -> str:
    return f"{plural(count, 'blob')} ({size_text(bytes_)})"
