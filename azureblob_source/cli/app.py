"""The command line: `python -m azureblob_source ls | log | tail | repair | revert | vacuum`.

Arguments, questions and progress; the work is done by `maintenance`. Exit codes: 0 done; 1 error, one message on
standard error; 2 wrong usage; 3 not confirmed, nothing was done; 130 ended by Ctrl-C.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from azure_account.cli.commands import (
    CommonOptions,
    DryRunOptions,
    age_of,
    confirmed,
    end_unconfirmed,
    key_values,
    new_app,
)
from azure_account.cli.grouped import grouped
from azure_account.cli.json_lines import print_json
from azure_account.cli.progress import steps
from azure_account.cli.shell import shell_of
from azure_account.cli.texts import plural, time_text
from azure_account.options.settings import account_settings
from azureblob_source.address import stream_address
from azureblob_source.cli import as_text as text
from azureblob_source.cli.as_json import (
    entry_json,
    repair_json,
    revert_json,
    stored_json,
    streams_json,
    vacuum_json,
)
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, LogEntry, Transaction
from azureblob_source.log.naming import BATCHES, log_stream
from azureblob_source.log.publish import Publisher
from azureblob_source.log.void import leave_out, void_version
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.inventory import inventory
from azureblob_source.maintenance.repair import missing_blobs, plan_repair, repair
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.tailing import Tail
from azureblob_source.maintenance.vacuum import check_retention, plan_vacuum, vacuum
from azureblob_source.options import TABLE
from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from azure_account.cli.shell import CommandContext
    from azure_account.container import BlobContainer
    from azureblob_source.maintenance.tailing import Rows

_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class CommandTarget:
    """The container and stream of a command's location, and the epoch of its options."""

    container: BlobContainer
    stream: str | None
    epoch: int | None

    def named(self) -> str:
        """The stream. `ConfigurationError` if the location names only a container."""
        if self.stream is None:
            raise ConfigurationError(f"No stream is named in container {self.container.name}. Use `container/stream`.")
        return self.stream

    def log(self, shell: CommandContext) -> CommitLog:
        """The log of the stream."""
        return CommitLog(self.container, self.named(), clock=shell.clock)


app = new_app()

Where = Annotated[str, typer.Argument(metavar="CONTAINER[/STREAM]", help="Container and stream, or a URL.")]
Stream = Annotated[str, typer.Argument(metavar="CONTAINER/STREAM", help="Container and stream, or a URL.")]


@app.callback()
def main() -> None:
    """Inspect streams in Azure Blob Storage, repair them, and delete old data."""


@app.command()
@grouped
def ls(ctx: typer.Context, where: Where, common: CommonOptions) -> None:
    """List streams, and folders of Avro without a log: blobs, rows, bytes, head version, time of the last commit."""
    shell = shell_of(ctx)
    place = _place(shell, where, common)
    with shell.err.status("listing") if shell.err.is_terminal else _silence() as status:
        streams = inventory(
            place.container, place.stream or "", lambda name: status.update(f"reading the log of {name}")
        )
    if common.as_json:
        print_json(streams_json(place.container.name, streams))
    elif streams:
        shell.out.print(text.streams_table(streams))
        for line in text.stranger_lines({each.name: each.strangers for each in streams}):
            shell.out.print(line, soft_wrap=True)
    else:
        below = f" below {place.stream}" if place.stream else ""
        shell.err.print(f"Container {place.container.name} has no stream and no Avro blob{below}.")


@app.command()
@grouped
def log(
    ctx: typer.Context,
    where: Stream,
    common: CommonOptions,
    *,
    count: Annotated[int, typer.Option("-n", min=1, help="Number of entries.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    version: Annotated[int | None, typer.Option(min=0, help="Show this entry in full.")] = None,
) -> None:
    """Show the newest entries of a stream's commit log, one line for each."""
    shell = shell_of(ctx)
    of = _place(shell, where, common).log(shell)
    if version is not None:
        entry = of.read(version)
        if common.as_json:
            print_json(stored_json(entry))
        else:
            for table in text.entry_tables(entry):
                shell.out.print(table, "")
        return
    entries = _newest(of, count)
    if common.as_json and not follow:
        print_json({"stream": of.stream, "entries": [entry_json(entry) for entry in entries]})
        return
    _print_entries(shell, entries, as_json=common.as_json, header=True)
    at = entries[-1].version
    while follow:
        head = of.refresh()
        if head is not None and head.version > at:
            _print_entries(shell, of.entries(at + 1, head.version), as_json=common.as_json, header=False)
            at = head.version
        shell.clock.sleep(_POLL_SECONDS)


@app.command()
@grouped
def tail(
    ctx: typer.Context,
    where: Stream,
    common: CommonOptions,
    *,
    count: Annotated[int, typer.Option("-n", min=1, help="Number of rows.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns.")] = None,
) -> None:
    """Show a stream's newest rows; with --follow also the last rows of each new batch (all of them with --json)."""
    shell = shell_of(ctx)
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    of = Tail(_place(shell, where, common).log(shell), shell.clock, wanted)
    _print_rows(shell, of.last(count), count, as_json=common.as_json)
    if follow:
        for rows in of.following():
            _print_rows(shell, rows, count, as_json=common.as_json)


@dataclass(frozen=True)
class RepairOptions(DryRunOptions):
    """Options of `repair`."""

    leftovers: Annotated[
        bool, typer.Option("--leftovers", help="Remove leftovers: staged blocks that no entry names.")
    ] = False
    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="With --leftovers: their least age. It must be longer than any batch takes."),
    ] = "24h"
    void: Annotated[
        int | None, typer.Option(metavar="VERSION", min=0, help="Void this version, which cannot be published.")
    ] = None
    leave_blobs: Annotated[
        bool, typer.Option("--leave-blobs", help="With --void: delete no blob, where a policy protects them.")
    ] = False
    leave_out_missing: Annotated[
        bool, typer.Option("--leave-out-missing", help="Remove blobs that were deleted by hand from the log.")
    ] = False


@app.command(name="repair")
@grouped
def repair_command(ctx: typer.Context, where: Where, given: RepairOptions) -> None:
    """Publish committed batches that are not published yet; void those that cannot be. Shows the plan, then asks."""
    shell = shell_of(ctx)
    place = _place(shell, where, given)
    if given.leave_out_missing:
        _leave_out(shell, place, given)
        return
    if given.void is not None:
        _void_version(shell, place, given.void, given)
        return
    plan = plan_repair(place.container, place.stream, shell.now - age_of(given.older_than, "--older-than"))
    work = len(plan.unpublished) + len(plan.revived) + (len(plan.leftovers) if given.leftovers else 0)
    for line in text.repair_lines(plan, leftovers=given.leftovers):
        (shell.err if given.as_json else shell.out).print(line, soft_wrap=True)
    done = None
    if work and not given.dry_run and confirmed(shell, "Repair?", given):
        with steps(shell, "repairing", work) as advance:
            done = repair(
                place.container,
                plan,
                lambda: _draft(shell, place),
                Publisher(place.container),
                leftovers=given.leftovers,
                progress=advance,
            )
    if given.as_json:
        print_json(repair_json(plan, done))
    elif done is not None:
        shell.out.print(
            f"Published {plural(done.published, 'version')}, voided {done.voided}, removed the leftovers of "
            f"{plural(done.removed, 'blob')}, deleted {plural(done.revived, 'revived blob')}.",
            soft_wrap=True,
        )
    _end(shell, work, done, dry_run=given.dry_run)


def _void_version(shell: CommandContext, place: CommandTarget, version: int, given: RepairOptions) -> None:
    of = place.log(shell)
    for line in text.void_lines(of.read(version), leave_blobs=given.leave_blobs):
        (shell.err if given.as_json else shell.out).print(line, soft_wrap=True)
    done = None
    if not given.dry_run and confirmed(shell, "Void it?", given):
        done = void_version(
            of, version, _draft(shell, place), Publisher(place.container), leave_blobs=given.leave_blobs
        )
    if given.as_json:
        print_json({"stream": of.stream, "version": version, "voidedBy": None if done is None else done.version})
    elif done is not None:
        shell.out.print(f"Version {version} is voided by version {done.version}.")
    _end(shell, 1, done, dry_run=given.dry_run)


def _leave_out(shell: CommandContext, place: CommandTarget, given: RepairOptions) -> None:
    of = place.log(shell)
    missing = missing_blobs(of)
    for line in text.missing_lines(missing):
        (shell.err if given.as_json else shell.out).print(line, soft_wrap=True)
    done = None
    if missing and not given.dry_run and confirmed(shell, "Remove them from the log?", given):
        done = leave_out(of, missing, _draft(shell, place), Publisher(place.container))
    if given.as_json:
        names = [blob.name for blob in missing]
        print_json({"stream": of.stream, "missing": names, "version": None if done is None else done.version})
    elif done is not None:
        shell.out.print(f"Version {done.version} removes them from the log.")
    _end(shell, len(missing), done, dry_run=given.dry_run)


@app.command(name="revert")
@grouped
def revert_command(
    ctx: typer.Context,
    where: Stream,
    *,
    query: Annotated[str, typer.Option(metavar="ID", help="The query, or the txnAppId, whose batches it is.")],
    after: Annotated[int, typer.Option(metavar="N", min=-1, help="The batch that stays the last one; -1: none stays.")],
    given: DryRunOptions,
) -> None:
    """Take back the batches of a query that its restored checkpoint does not have. Shows the plan, then asks."""
    shell = shell_of(ctx)
    place = _place(shell, where, given)
    plan = plan_revert(place.container, place.named(), Transaction(query, after))
    for line in text.revert_lines(plan):
        (shell.err if given.as_json else shell.out).print(line, soft_wrap=True)
    done = None
    if plan.is_needed and not given.dry_run and confirmed(shell, "Take them back?", given):
        carry_out(place.container, plan, lambda: _draft(shell, place), Publisher(place.container))
        done = plan
    if given.as_json:
        print_json(revert_json(plan, done=done is not None))
    elif done is not None:
        shell.out.print(f"Took back {plural(len(plan.batches), 'batch')}.")
    _end(shell, plan.is_needed, done, dry_run=given.dry_run)


@app.command(name="vacuum")
@grouped
def vacuum_command(
    ctx: typer.Context,
    where: Stream,
    *,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Least age of entries to remove: 30d, 12h, …")],
    force: Annotated[bool, typer.Option("--force", help="Allow an age below an hour.")] = False,
    given: DryRunOptions,
) -> None:
    """Remove old log entries and their blobs; the newest entry stays. Shows the plan, then asks.

    CONTAINER/_batches removes old entries of all batch logs, of batches whose rows go to several streams.
    """
    shell = shell_of(ctx)
    place = _place(shell, where, given)
    before = shell.now - check_retention(age_of(older_than, "--older-than"), forced=force)
    plans = []
    with steps(shell, "reading the log", None) as advance:
        for stream in _logs(place):
            of = CommitLog(place.container, stream, clock=shell.clock)
            plans.append(plan_vacuum(of, before, advance))
    lines = [line for plan in plans for line in text.vacuum_lines(plan)]
    for line in lines or [f"Container {place.container.name} has no batch log."]:
        (shell.err if given.as_json else shell.out).print(line, soft_wrap=True)
    work = sum(not plan.is_empty for plan in plans)
    done = None
    if work and not given.dry_run and confirmed(shell, "Remove them permanently?", given):
        entries = sum(len(plan.outdated) + len(plan.interrupted) + len(plan.strays) for plan in plans)
        with steps(shell, "removing", entries) as advance:
            done = [vacuum(place.container, plan, lambda: uuid.uuid4().hex, advance) for plan in plans]
    documents = [vacuum_json(plan, done[at] if done else None) for at, plan in enumerate(plans)]
    if given.as_json:
        print_json(documents[0] if place.stream in [plan.stream for plan in plans] else {"logs": documents})
    elif done is not None:
        gone, blobs = sum(each.entries for each in done), sum(each.blobs for each in done)
        shell.out.print(f"Removed {plural(gone, 'entry')} and {plural(blobs, 'blob')}.")
        for name in [name for each in done for name in each.foreign]:
            shell.err.print(f"Blob {name} belongs to another writer and was kept.")
    _end(shell, work, done, dry_run=given.dry_run)


def _place(shell: CommandContext, where: str, common: CommonOptions) -> CommandTarget:
    """Parse address and options as the connector does. Batch logs are below a name that no stream may have."""
    path, batches, below = where.partition(f"/{BATCHES}")
    given = TABLE.parse({"path": path, **key_values(common.option)})
    address = stream_address(given["path"], given["container"], given["stream"])
    settings = account_settings(given, address, shell.env)
    stream = f"{BATCHES}{below}".rstrip("/") if batches else address.path
    return CommandTarget(shell.connect(settings).container(address.container), stream, given["epoch"])


def _logs(place: CommandTarget) -> list[str]:
    """The logs to vacuum: the stream's, or all batch logs."""
    stream = place.named()
    if stream != BATCHES:
        return [stream]
    return sorted({of for blob in place.container.list(f"{BATCHES}/") if (of := log_stream(blob.name)) is not None})


def _newest(of: CommitLog, count: int) -> list[LogEntry]:
    head, first = of.refresh(), of.first()
    if head is None or first is None:
        step = "Check container and stream; `ls` shows what is there."
        raise NotFoundError("read the commit log of", f"{of.container.url}/{of.stream}", "there is none", step)
    return of.entries(max(first, head.version - count + 1), head.version)


def _print_entries(shell: CommandContext, entries: Sequence[LogEntry], *, as_json: bool, header: bool) -> None:
    if as_json:
        for entry in entries:
            print_json(entry_json(entry))
    else:
        shell.out.print(text.entries_table(entries, header=header))


def _print_rows(shell: CommandContext, found: Sequence[Rows], count: int, *, as_json: bool) -> None:
    if as_json:
        for each in found:
            for row in each.batch.to_pylist():
                print_json(row)
        return
    total = sum(each.batch.num_rows for each in found)
    rows = [row for each in found for row in each.batch.to_pylist()[-count:]][-count:]
    if not rows:
        shell.err.print("The stream has no rows yet.")
        return
    out = shell.out
    table, hidden = text.rows_table(rows, out.width)
    out.print(table)
    versions = sorted({each.entry.version for each in found})
    span = f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"
    moment = time_text(datetime.fromisoformat(found[-1].entry.timestamp))
    last = f"the last {len(rows):,} of {plural(total, 'row')}" if total > len(rows) else plural(total, "row")
    note = f"{last}, {span}, {moment} UTC"
    if hidden:
        note += f"; {plural(len(hidden), 'more column')} (--columns {','.join(hidden[:3])}, or --json)"
    shell.err.print(note, style="dim")


def _draft(shell: CommandContext, place: CommandTarget) -> Draft:
    return new_draft(shell.clock, place.epoch)


def _end(shell: CommandContext, work: int, done: object, *, dry_run: bool) -> None:
    if work and done is None and not dry_run:
        end_unconfirmed(shell)


class _Silent:
    def update(self, message: str) -> None:
        """Show nothing."""


@contextmanager
def _silence() -> Iterator[_Silent]:
    yield _Silent()
