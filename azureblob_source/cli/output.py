"""The output of the command line: tables, plans in sentences, and JSON documents. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from azure_account.cli.json_lines import jsonable
from azure_account.cli.texts import (
    TableColumn,
    attributes,
    count_text,
    document,
    documents,
    facts,
    in_json,
    in_table,
    new_table,
    one_line,
    plural,
    plural_of,
    printable,
    size_text,
    time_text,
    verification_lines,
)
from azureblob_source.log import entry as log_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from azureblob_source.adoption.discovery import Discovery
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.log.relocating.compaction import CompactionPlan, CompactionResult
    from azureblob_source.maintenance.audit.findings import Audit, Finding, Pending
    from azureblob_source.maintenance.checkpoints import NewestCheckpoint, VerifiedCheckpoint
    from azureblob_source.maintenance.inventory import StreamSummary
    from azureblob_source.maintenance.repair import RepairPlan, RepairResult, UnpublishedEntry
    from azureblob_source.maintenance.restoring import RestorePlan
    from azureblob_source.maintenance.reverting import RevertPlan
    from azureblob_source.maintenance.vacuum import VacuumPlan, VacuumResult

_WIDEST_CELL = 40
_WIDEST_OPERATION = 11
_MISSING_SHOWN = 3
_UUID = re.compile(r"([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN_VERSIONS = 3
_FINDINGS_SHOWN = 100
_LONG_FIELDS = ("blobs", "writers", "transactions", "removed", "control")


def _stream_text(stream: StreamSummary) -> Text:
    name = one_line(stream.name) or "(top level)"
    return Text(name) if stream.version is not None else Text.assemble(name, (" (no log)", "dim"))


def _operation(entry: LogEntry) -> str:
    """What an entry does, and to which versions."""
    to = entry.reverts or tuple(each for each in (entry.replaces, entry.restores) if each is not None)
    shown = ", ".join(map(str, to[:_SHOWN_VERSIONS])) + (" …" if len(to) > _SHOWN_VERSIONS else "")
    name = entry.operation if len(entry.operation) <= _WIDEST_OPERATION else f"{entry.operation[:_WIDEST_OPERATION]}…"
    return f"{name} {shown}".strip()


def _writer(entry: LogEntry) -> str | None:
    by = entry.transaction
    return None if by is None else _UUID.sub(r"\1", by.id) + f":{by.version}"


STREAMS: list[TableColumn[StreamSummary]] = [
    in_table("stream", _stream_text, lambda name: name),
    *attributes("name", "strangers"),
    in_json("log", lambda each: each.version is not None),
    TableColumn("blobs>", "blobs", lambda each: each.blobs, count_text),
    TableColumn("rows>", "rows", lambda each: each.rows, count_text),
    TableColumn("size>", "bytes", lambda each: each.bytes, size_text),
    in_json("firstVersion", lambda each: each.first),
    TableColumn("version>", "version", lambda each: each.version, count_text),
    TableColumn("last commit (UTC)", "changed", lambda each: each.changed, time_text),
]
ENTRIES: list[TableColumn[LogEntry]] = [
    in_table("version>", lambda entry: entry.version),
    in_table("time (UTC)", lambda entry: entry.timestamp, time_text),
    in_table("operation", _operation),
    in_table("writer", _writer),
    TableColumn("blobs>", "blobs", lambda entry: len(entry.blobs), count_text),
    TableColumn("rows>", "rows", lambda entry: entry.rows, count_text),
    TableColumn("size>", "bytes", lambda entry: sum(blob.size for blob in entry.blobs), size_text),
    in_json("removed", lambda entry: len(entry.removed)),
    in_json("writers", lambda entry: len(entry.writers)),
]
_IF_ANY: list[TableColumn[LogEntry]] = [
    in_table("epoch>", lambda entry: entry.epoch),
    in_table("info", lambda entry: entry.commit_info),
]
"""Columns that are shown if an entry has a value."""
_LONG_TITLES = ("writer", "info")
_BLOBS: list[TableColumn[BlobEntry]] = [
    in_table("name", lambda blob: blob.name),
    in_table("partition", lambda blob: blob.partition),
    in_table("rows>", lambda blob: blob.rows, count_text),
    in_table("size>", lambda blob: blob.size, size_text),
    in_table("blocks>", lambda blob: blob.blocks, count_text),
    in_table("rolled by", lambda blob: blob.rolled_by),
]
_WRITERS: list[TableColumn[Mapping[str, Any]]] = [
    in_table("query", lambda writer: writer.get("query")),
    in_table("batch>", lambda writer: writer.get("batch"), count_text),
    in_table("task>", lambda writer: writer.get("task"), count_text),
    in_table("attempt>", lambda writer: writer.get("attempt"), count_text),
    in_table("seconds>", lambda writer: writer.get("durationMs"), lambda millis: f"{millis / 1000:.1f}"),
    in_table("rows>", lambda writer: writer.get("metrics", {}).get("messagesSent"), count_text),
    in_table("blocks>", lambda writer: writer.get("metrics", {}).get("blockUploads"), count_text),
    in_table("size>", lambda writer: writer.get("metrics", {}).get("bytesCompressed", 0), size_text),
]
_UNFINISHED: list[TableColumn[UnpublishedEntry]] = [
    *attributes("stream", "missing", "lost", "stillThere"),
    in_json("version", lambda each: each.entry.version),
    in_json("blobs", lambda each: len(each.entry.blobs)),
]
_FINDINGS: list[TableColumn[Finding]] = attributes("kind", "name", "version", "what", "advice")
_PENDING: list[TableColumn[Pending]] = attributes("version", "what", "age")
_AUDIT: list[TableColumn[Audit]] = [
    *attributes("stream", "sound", "first", "version", "published", "blobs", "rows", "bytes", "counts"),
    in_json("findings", lambda audit: documents(_FINDINGS, audit.findings)),
    in_json("pending", lambda audit: documents(_PENDING, audit.pending)),
    in_json("notLookedAt", lambda audit: dict(audit.more)),
    *attributes("renewed", "young", "kept", "listed", "read", "checkpoint"),
]
_VERIFIED: list[TableColumn[VerifiedCheckpoint]] = attributes("version", "blobs", "whole", "faults")
_REVERTED: list[TableColumn[Sequence[LogEntry]]] = [
    in_json("versions", lambda entries: [entry.version for entry in entries]),
    in_json("rows", lambda entries: sum(entry.rows for entry in entries)),
    in_json("blobs", lambda entries: sum(len(entry.blobs) for entry in entries)),
]


def entries_table(entries: Sequence[LogEntry], *, header: bool = True) -> Table:
    """The table of `log`. Of a query id, a UUID, only the first eight characters are shown."""
    some = [column for column in _IF_ANY if any(column.value(entry) is not None for entry in entries)]
    shown = [column for column in (*ENTRIES, *some) if column.title]
    table = new_table(
        shown, entries, shrinks=tuple(at for at, column in enumerate(shown) if column.title in _LONG_TITLES)
    )
    table.show_header = header
    return table


def entry_json(entry: LogEntry) -> dict[str, object]:
    """One line of `log`: the entry with its blobs and writers as numbers."""
    kept = (
        "version",
        "timestamp",
        "operation",
        "commitInfo",
        "transaction",
        "epoch",
        "replaces",
        "restores",
        "metrics",
    )
    found = {key: value for key, value in stored_json(entry).items() if key in kept}
    return {**found, **document(ENTRIES, entry)}


def stored_json(entry: LogEntry) -> dict[str, Any]:
    """The whole entry, as it is stored."""
    return json.loads(log_entry.to_json(entry))


def entry_tables(entry: LogEntry) -> list[Table]:
    """One entry in full: its fields, its writers, its blobs."""
    stored = stored_json(entry)
    left_out = ("formatVersion", *_LONG_FIELDS)
    short = {key: value for key, value in stored.items() if value not in (None, [], {}) and key not in left_out}
    fields = {key: value if isinstance(value, str) else _compact(value) for key, value in short.items()}
    counts = {key: count_text(len(stored[key])) for key in _LONG_FIELDS}
    tables = [new_table(_WRITERS, entry.writers, title="writers"), new_table(_BLOBS, entry.blobs, title="blobs")]
    return [facts({**fields, **counts}), *(table for table in tables if table.row_count)]


def rows_table(rows: Sequence[Mapping[str, Any]], width: int) -> tuple[Table, list[str]]:
    """As many columns of the rows as fit `width` characters, and the names of the others."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = {name: [_cell(row.get(name)) for row in rows] for name in names}
    shown: list[str] = []
    room = width
    for name in names:
        wide = min(max(len(cell) for cell in (name, *cells[name])), _WIDEST_CELL) + 2
        if shown and wide > room:
            break
        shown.append(name)
        room -= wide
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in shown:
        number = all(isinstance(row.get(name), int | float | Decimal | None) for row in rows)
        table.add_column(
            name, justify="right" if number else "left", no_wrap=True, overflow="ellipsis", max_width=_WIDEST_CELL
        )
    for place in range(len(rows)):
        table.add_row(*(Text(cells[name][place]) for name in shown))
    return table, names[len(shown) :]


def stranger_lines(by_stream: Mapping[str, Sequence[str]]) -> list[str]:
    """Blobs that others have put into streams, a sentence for each stream that has some."""
    return [
        f"{stream}: {plural(len(names), 'Avro blob')} of another program, which no version names: readers of the log "
        f"ignore such blobs. The first is {names[0]}."
        for stream, names in by_stream.items()
        if names
    ]


def compaction_lines(plan: CompactionPlan) -> list[str]:
    """What a compaction would do, in sentences."""
    if not plan.groups:
        return [f"{plan.stream}: no small blobs can become one."]
    made = plural(len(plan.groups), "blob")
    lines = [f"{plan.stream}: {plural(plan.blobs, 'blob')} of {size_text(plan.bytes)} in all will become {made}."]
    if plan.left:
        lines.append(f"The limit leaves {plural(plan.left, 'group')} of small blobs to the next run.")
    return lines


def compaction_json(plan: CompactionPlan, done: CompactionResult | None) -> dict[str, object]:
    """The document of `compact`."""
    planned = {"version": plan.version, "blobs": plan.blobs, "bytes": plan.bytes, "groups": len(plan.groups)}
    result = None if done is None else dataclasses.asdict(done)
    return {"stream": plan.stream, "plan": {**planned, "left": plan.left}, "done": result}


def vacuum_lines(plan: VacuumPlan) -> list[str]:
    """What a vacuum would do, in sentences."""
    if plan.is_empty:
        return [f"{plan.stream}: nothing to remove, {_stay(plan)}. The newest version always stays."]
    lines = []
    if plan.outdated:
        first, last = plan.outdated[0], plan.outdated[-1]
        span = f"committed {time_text(first.written)} to {time_text(last.written)} UTC"
        lines += [
            f"{plan.stream}: versions {first.version} to {last.version} will be removed ({span});",
            f"{_stay(plan)}. If one of those lists transactions, it stays without its rows.",
            "Their blobs belong to other streams and stay."
            if plan.log_only
            else f"Also removed: {plural(plan.blobs, 'blob')}, {plural(plan.rows, 'row')}, {size_text(plan.bytes)}.",
        ]
    if plan.interrupted or plan.boundary.removing:
        lines.append(
            f"{plan.stream}: an interrupted vacuum will be completed: {plural(len(plan.interrupted), 'entry')}."
        )
    if plan.copies:
        size = sum(blob.size for blob in plan.copies)
        lines.append(
            f"{plan.stream}: what overwrites and restores have kept long enough will be deleted: "
            f"{plural(len(plan.copies), 'blob')}, {size_text(size)}."
        )
    if plan.checkpoints:
        lines.append(
            f"{plan.stream}: old checkpoints of the log will be deleted: {plural(len(plan.checkpoints), 'blob')}, "
            f"{size_text(_checkpoint_bytes(plan))}."
        )
    if plan.strays:
        lines.append(
            f"{plan.stream}: {plural(len(plan.strays), 'entry')} below the retention boundary, put there by a stale "
            "writer, will be removed."
        )
    return lines


def vacuum_json(plan: VacuumPlan, done: VacuumResult | None) -> dict[str, object]:
    """The document of `vacuum`."""
    blobs, rows, bytes_ = (0, 0, 0) if plan.log_only else (plan.blobs, plan.rows, plan.bytes)
    return {
        "stream": plan.stream,
        "plan": {
            "entries": len(plan.outdated),
            "firstVersion": plan.boundary.first,
            "newFirstVersion": plan.first,
            "version": plan.last,
            "blobs": blobs,
            "rows": rows,
            "bytes": bytes_,
            "leftovers": len(plan.interrupted),
            "strays": len(plan.strays),
            "copies": len(plan.copies),
            "checkpoints": len(plan.checkpoints),
            "checkpointBytes": _checkpoint_bytes(plan),
        },
        "done": None if done is None else dataclasses.asdict(done),
    }


def _checkpoint_bytes(plan: VacuumPlan) -> int:
    return sum(blob.size for blob in plan.checkpoints)


def checkpoint_line(done: NewestCheckpoint) -> str:
    """What `checkpoint` has made, or found."""
    of = done.checkpoint
    what = "made at" if done.made else "the newest is there already, at"
    size = f"{plural(of.blobs, 'live blob')} in {plural(len(of.manifests), 'manifest')}"
    return f"{done.stream}: {what} version {of.version}, {size}."


def checkpoint_json(done: NewestCheckpoint) -> dict[str, object]:
    """The document of `checkpoint`."""
    of = done.checkpoint
    facts = {"version": of.version, "blobs": of.blobs, "manifests": len(of.manifests)}
    return {"stream": done.stream, **facts, "made": done.made}


def verified_lines(stream: str, verified: Sequence[VerifiedCheckpoint]) -> list[str]:
    """What `checkpoint --verify` has found, newest first."""
    if not verified:
        return [f"{stream}: there is no checkpoint, reads go by the entries alone."]
    return [
        line
        for each in verified
        for line in verification_lines(
            f"{stream}: the checkpoint at version {each.version}",
            each.faults,
            f"{plural(each.blobs, 'blob')}, as the entries say",
            dropped="",
        )
    ]


def verified_json(stream: str, verified: Sequence[VerifiedCheckpoint]) -> dict[str, object]:
    """The document of `checkpoint --verify`, newest first."""
    return {"stream": stream, "checkpoints": documents(_VERIFIED, verified)}


def audit_lines(audit: Audit) -> list[str]:
    """What `audit` has found: a line for each finding, what to do about them, what is pending, what was looked at."""
    found = audit.findings[:_FINDINGS_SHOWN]
    lines = [f"{each.kind}: {each.name}{_of_version(each.version)}: {each.what}." for each in found]
    hidden = len(audit.findings) - len(found)
    lines += [f"… and {plural(hidden, 'more finding')} (--json has all)."] if hidden else []
    lines += [f"… and {count:,} more {kind}, not looked at again." for kind, count in audit.more.items()]
    advice = dict.fromkeys((each.kind, each.advice) for each in audit.findings)
    lines += [f"What to do if {kind}: {what}" for kind, what in advice]
    lines += [f"Pending{_of_version(each.version)}: {each.what}{_since(each.age)}." for each in audit.pending]
    if audit.young:
        lines.append(f"Pending: {plural(audit.young, 'blob')} that no entry names yet.")
    if audit.kept:
        lines.append(f"Kept by overwrites and restores: {plural(audit.kept, 'blob')}.")
    if audit.renewed:
        lines.append(f"Only metadata were changed: {plural(audit.renewed, 'blob')}, with the blocks of their entries.")
    return [*lines, _audited_line(audit), _verdict(audit)]


def _of_version(version: int | None) -> str:
    return "" if version is None else f" (version {version})"


def _since(age: float | None) -> str:
    return "" if age is None else f", for {timedelta(seconds=int(age))} now"


def _audited_line(audit: Audit) -> str:
    """What was looked at."""
    by = "by entries alone" if audit.checkpoint is None else f"by the checkpoint at version {audit.checkpoint}"
    live = "what is live is not known"
    if audit.blobs is not None and audit.rows is not None and audit.bytes is not None:
        live = f"{plural(audit.blobs, 'live blob')} {by}, {plural(audit.rows, 'row')}, {size_text(audit.bytes)}"
    looked = f"{plural(audit.listed, 'name')} and {plural(audit.read, 'entry')}"
    span = f"versions {audit.first} to {audit.version}, published up to {audit.published}"
    return f"Looked at: {looked}, no data. {span[0].upper()}{span[1:]}; {live}."


def _verdict(audit: Audit) -> str:
    if audit.sound:
        return f"{audit.stream} is sound: each live blob is visible, unaltered, and no other data."
    counts = ", ".join(f"{count:,} {kind}" for kind, count in audit.counts.items())
    return f"{audit.stream} is not sound: {counts}."


def audit_json(audit: Audit) -> dict[str, object]:
    """The document of `audit`."""
    return document(_AUDIT, audit)


def discovery_json(stream: str, found: Discovery) -> dict[str, object]:
    """The document of one discovery."""
    return {"stream": stream, **found.document}


def discovery_line(found: Discovery) -> str:
    """What one discovery has found."""
    left_out = "".join(f"; {count:,} {reason}" for reason, count in found.left_out.items())
    done = f"{plural(found.adopted, 'blob')} adopted in {plural(found.entries, 'version')}"
    return f"{done}, of {plural(found.listed, 'name')} listed{left_out}."


def repair_lines(plan: RepairPlan, *, leftovers: bool) -> list[str]:
    """What a repair would do, in sentences."""
    lines = []
    for each in plan.unpublished:
        what = f"{each.stream}: version {each.entry.version} is committed and not published: "
        if each.lost:
            what += (
                f"the staged blocks of {plural(len(each.lost), 'blob')} are gone. It will be voided if they have "
                f"expired; --void {each.entry.version} voids it in any case."
            )
        elif each.missing:
            what += f"{len(each.missing)} of its {plural(len(each.entry.blobs), 'blob')} will be published."
        else:
            what += f"{plural(len(each.still_there), 'blob')} that it removes will be deleted."
        lines.append(what)
    if not plan.unpublished:
        lines.append(f"{plural(len(plan.streams), 'stream')}: everything that is committed is published.")
    if plan.revived:
        lines.append(
            f"{plural(len(plan.revived), 'blob')}, voided or overwritten before, visible again: will be deleted."
        )
    if plan.leftovers:
        fate = "will be removed" if leftovers else "expire within seven days (--leftovers removes them)"
        oldest = time_text(min(each.since for each in plan.leftovers))
        lines.append(
            f"Leftovers of {plural(len(plan.leftovers), 'blob')}, staged and never committed, {fate}; the oldest are "
            f"of {oldest} UTC."
        )
    lines += stranger_lines(plan.strangers)
    lines += [
        f"{stream}: it cannot be read as a whole, which no repair changes ({cause.rstrip('.')}). Reads succeed that "
        "leave the column out, by option `columns` or `avroSchema`; an overwrite mends it."
        for stream, cause in plan.unreadable.items()
    ]
    if plan.recent:
        lines.append(
            f"Staged lately and kept, because their batch may still be committed: {plural(len(plan.recent), 'blob')}."
        )
    return lines


def repair_json(plan: RepairPlan, done: RepairResult | None) -> dict[str, object]:
    """The document of `repair`."""
    staged = attributes("name", "since")
    return {
        "streams": list(plan.streams),
        "unfinished": documents(_UNFINISHED, plan.unpublished),
        "leftovers": documents(staged, plan.leftovers),
        "recent": documents(staged, plan.recent),
        "revived": [each.name for each in plan.revived],
        "strangers": {stream: list(names) for stream, names in plan.strangers.items()},
        "unreadable": dict(plan.unreadable),
        "done": None if done is None else dataclasses.asdict(done),
    }


def void_lines(entry: LogEntry, *, leave_blobs: bool) -> list[str]:
    """What voiding an entry would do, in sentences."""
    blobs = plural(len(entry.blobs), "blob")
    what = (
        f"Version {entry.version} ({entry.operation}, {plural(entry.rows, 'row')} in {blobs}) will be voided: "
        "readers of the log ignore it, and its visible blobs "
    )
    if leave_blobs:
        what += "stay visible to readers of the listing."
    else:
        what += "are deleted."
    lines = [what]
    if entry.transaction is not None:
        lines.append(
            f"If its writer (transaction {entry.transaction.id}) runs the batch again, its rows are written again."
        )
    return lines


def revert_lines(plan: RevertPlan) -> list[str]:
    """What a revert would do, in sentences."""
    batches = plan.batches
    if not plan.is_needed:
        return [f"The log knows no batch after {plan.last.version} of {plan.last.id}: nothing is to be taken back."]
    if not batches:
        return ["No rows are to be taken back. What an interrupted revert has left will be deleted."]
    lines = [f"{plural(len(batches), 'batch')} of {plan.last.id} will be taken back, {span_text(batches)}:"]
    for stream, entries in plan.of_streams().items():
        versions = [entry.version for entry in entries]
        rows, blobs = sum(entry.rows for entry in entries), sum(len(entry.blobs) for entry in entries)
        lines.append(
            f"{stream}: {span_text(versions, 'version')}, {plural(rows, 'row')} in {plural(blobs, 'blob')}, committed "
            f"up to {time_text(entries[-1].timestamp)} UTC. The blobs are deleted."
        )
    lines.append("The query must not run now. When it starts, it writes these batches again.")
    lines.append("A streaming read that has read these versions has their rows, and reads them a second time then.")
    return lines


def revert_json(plan: RevertPlan, *, done: bool) -> dict[str, object]:
    """The document of `revert`."""
    streams = {name: document(_REVERTED, entries) for name, entries in plan.of_streams().items()}
    return {
        "query": plan.last.id,
        "after": plan.last.version,
        "batches": plan.batches,
        "streams": streams,
        "done": done,
    }


def restore_lines(plan: RestorePlan) -> list[str]:
    """What a restore would do, in sentences."""
    found, stream = plan.restoration, plan.stream
    to, time = found.to.version, time_text(found.to.timestamp)
    if not found.changes:
        left = " What an interrupted restore has left will be deleted." if plan.is_needed else ""
        return [f"{stream}: all that is live was live at version {to} too, committed {time} UTC.{left}"]
    back = f", {plural(found.rows_back, 'row')} that were kept are copied back" if found.back else ""
    return [
        f"{stream}: version {to}, committed {time} UTC, will be restored: {plural(found.rows_kept, 'row')} stay{back}.",
        f"{plural(found.rows_removed, 'row')} that have come since will be deleted.",
        "Queries go on after their last batch: what is deleted is not written again.",
        "A streaming read that has read these rows keeps them.",
    ]


def restore_json(plan: RestorePlan, done: Sequence[LogEntry] | None) -> dict[str, object]:
    """The document of `restore`."""
    found = plan.restoration
    return {
        "stream": plan.stream,
        "restores": found.to.version,
        "rowsKept": found.rows_kept,
        "rowsCopiedBack": found.rows_back,
        "rowsRemoved": found.rows_removed,
        "blobsRemoved": len(found.removed),
        "version": done[0].version if done else None,
        "done": done is not None,
    }


def missing_lines(missing: Sequence[BlobEntry]) -> list[str]:
    """What removing missing blobs from the log would do, in sentences."""
    if not missing:
        return ["No blob of the stream is missing."]
    rows = plural(sum(blob.rows for blob in missing), "row")
    shown = ", ".join(blob.name for blob in missing[:_MISSING_SHOWN])
    more = "" if len(missing) <= _MISSING_SHOWN else f" and {len(missing) - _MISSING_SHOWN} more"
    return [
        f"Missing from the stream: {plural(len(missing), 'blob')} with {rows}: {shown}{more}.",
        "If they can be restored (soft delete, versioning), do that. Else they will be removed from the log.",
    ]


def _stay(plan: VacuumPlan) -> str:
    return f"version {plan.last} stays" if plan.first == plan.last else f"versions {plan.first} to {plan.last} stay"


def span_text(numbers: Sequence[int], what: str = "batch") -> str:
    """`batch 7`, `versions 3 to 5`."""
    first, last = numbers[0], numbers[-1]
    return f"{what} {first}" if first == last else f"{plural_of(what)} {first} to {last}"


def _cell(value: object) -> str:
    match value:
        case None:
            return "null"
        case str():
            return printable(value.replace("\n", "⏎"))
        case datetime():
            return value.isoformat(sep=" ")
        case dict() | list() | tuple():
            return _compact(value)
        case bytes():
            return f"0x{value[:_WIDEST_CELL].hex()}"
    return str(value)


def _compact(value: object) -> str:
    return printable(json.dumps(jsonable(value), ensure_ascii=False))
