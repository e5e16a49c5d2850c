"""The command line's output for people: sizes, times, tables, and plans in sentences."""

from __future__ import annotations

import json
import re
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from azure_account.cli.console import printable
from azure_account.cli.json_lines import jsonable
from azure_account.cli.texts import NONE, count_text, new_table, plural, plural_of, shrinking, size_text, time_text
from azureblob_source.cli.as_json import stored_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.maintenance.inventory import StreamSummary
    from azureblob_source.maintenance.repair import RepairPlan
    from azureblob_source.maintenance.reverting import RevertPlan
    from azureblob_source.maintenance.vacuum import VacuumPlan

_WIDEST_CELL = 40
_MISSING_SHOWN = 3
_UUID = re.compile(r"([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN_VERSIONS = 3


def streams_table(streams: Iterable[StreamSummary]) -> Table:
    """The table of `ls`."""
    table = new_table("stream", "blobs>", "rows>", "size>", "version>", "last commit (UTC)")
    for each in streams:
        name = each.name or "(top level)"
        stream = Text(name) if each.version is not None else Text.assemble(name, (" (no log)", "dim"))
        cells = (count_text(each.blobs), count_text(each.rows), size_text(each.bytes), count_text(each.version))
        table.add_row(stream, *cells, time_text(each.changed))
    return shrinking(table, 0)


def stranger_lines(by_stream: Mapping[str, Sequence[str]]) -> list[str]:
    """Blobs that others have put into streams, a sentence for each stream that has some."""
    return [
        f"{stream}: {plural(len(names), 'Avro blob')} of another program, which no version names: readers of the log "
        f"ignore such blobs. The first is {names[0]}."
        for stream, names in by_stream.items()
        if names
    ]


def entries_table(entries: Sequence[LogEntry], *, header: bool = True) -> Table:
    """The table of `log`. Of a query id, a UUID, only the first eight characters are shown."""
    epochs = any(entry.epoch is not None for entry in entries)
    names = ("version>", "time (UTC)", "operation", "writer", "blobs>", "rows>", "size>")
    table = new_table(*names, *(["epoch>"] if epochs else []))
    table.show_header = header
    for entry in entries:
        who = entry.transaction
        table.add_row(
            str(entry.version),
            time_text(datetime.fromisoformat(entry.timestamp)),
            _operation(entry),
            NONE if who is None else printable(_UUID.sub(r"\1", who.id)) + f":{who.version}",
            count_text(len(entry.blobs)),
            count_text(entry.rows),
            size_text(sum(blob.size for blob in entry.blobs)),
            *([NONE if entry.epoch is None else str(entry.epoch)] if epochs else []),
        )
    return shrinking(table, 3)


def _operation(entry: LogEntry) -> str:
    """What an entry does, and to which versions."""
    to = entry.reverts if entry.replaces is None else (entry.replaces,)
    shown = ", ".join(map(str, to[:_SHOWN_VERSIONS])) + (" …" if len(to) > _SHOWN_VERSIONS else "")
    return f"{entry.operation} {shown}".strip()


def entry_tables(entry: LogEntry) -> list[Table]:
    """One entry in full: its fields, its writers, its blobs."""
    stored, counted = stored_json(entry), ("blobs", "writers", "transactions", "removed", "control")
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for key, value in stored.items():
        if value not in (None, [], {}) and key not in ("formatVersion", *counted):
            facts.add_row(key, value if isinstance(value, str) else _compact(value))
    for key in counted:
        facts.add_row(key, count_text(len(stored[key])))
    writers = new_table(
        "query", "batch>", "task>", "attempt>", "seconds>", "rows>", "blocks>", "size>", title="writers"
    )
    for writer in entry.writers:
        writers.add_row(*_writer_cells(writer))
    blobs = new_table("name", "partition", "rows>", "size>", "blocks>", "rolled by", title="blobs")
    for blob in entry.blobs:
        partition = NONE if blob.partition is None else blob.partition
        cells = (count_text(blob.rows), size_text(blob.size), count_text(blob.blocks), blob.rolled_by)
        blobs.add_row(blob.name, partition, *cells)
    return [facts, *(shrinking(table, 0) for table in (writers, blobs) if table.row_count)]


def _writer_cells(writer: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = writer.get("metrics", {})
    return (
        str(writer.get("query", NONE)),
        count_text(writer.get("batch")),
        count_text(writer.get("task")),
        count_text(writer.get("attempt")),
        f"{writer['durationMs'] / 1000:.1f}" if "durationMs" in writer else NONE,
        count_text(metrics.get("messagesSent")),
        count_text(metrics.get("blockUploads")),
        size_text(metrics.get("bytesCompressed", 0)),
    )


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
            f"{_stay(plan)}.",
            "Their blobs belong to other streams and stay."
            if plan.log_only
            else f"Also removed: {plural(plan.blobs, 'blob')}, {plural(plan.rows, 'row')}, {size_text(plan.bytes)}.",
        ]
    if plan.interrupted or plan.boundary.removing:
        lines.append(
            f"{plan.stream}: an interrupted vacuum will be completed: {plural(len(plan.interrupted), 'entry')}."
        )
    if plan.strays:
        lines.append(
            f"{plan.stream}: {plural(len(plan.strays), 'entry')} below the retention boundary, put there by a stale "
            "writer, will be removed."
        )
    return lines


def _stay(plan: VacuumPlan) -> str:
    return f"version {plan.last} stays" if plan.first == plan.last else f"versions {plan.first} to {plan.last} stay"


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
    lines = [f"{plural(len(batches), 'batch')} of {plan.last.id} will be taken back, {_span(batches)}:"]
    for stream, entries in plan.of_streams().items():
        versions = [entry.version for entry in entries]
        rows, blobs = sum(entry.rows for entry in entries), sum(len(entry.blobs) for entry in entries)
        lines.append(
            f"{stream}: {_span(versions, 'version')}, {plural(rows, 'row')} in {plural(blobs, 'blob')}, committed up "
            f"to {time_text(datetime.fromisoformat(entries[-1].timestamp))} UTC. The blobs are deleted."
        )
    lines.append("The query must not run now. When it starts, it writes these batches again.")
    lines.append("A streaming read that has read these versions has their rows, and reads them a second time then.")
    return lines


def _span(numbers: Sequence[int], what: str = "batch") -> str:
    first, last = numbers[0], numbers[-1]
    return f"{what} {first}" if first == last else f"{plural_of(what)} {first} to {last}"


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
