"""The command line: `python -m azureblob_source ls | log | tail | audit | repair | revert | restore | vacuum | …`.

Arguments, questions and progress; the work is done by `maintenance`. Exit codes: 0 done; 1 error, one message on
standard error; 2 wrong usage; 3 not confirmed, nothing was done; 4 an audit has found something; 130 ended by Ctrl-C.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from azure_account.cli.commands import (
    ERROR,
    FINDINGS,
    CommonOptions,
    DryRunOptions,
    PlannedChange,
    age_of,
    carry_out,
    key_values,
    new_app,
    size_of,
)
from azure_account.cli.grouped import grouped
from azure_account.cli.json_lines import print_json
from azure_account.cli.progress import steps
from azure_account.cli.shell import shell_of
from azure_account.cli.texts import documents, new_table, one_line, plural, size_text, time_text
from azure_account.options.option_table import instant
from azure_account.options.settings import account_settings
from azureblob_source.address import log_place, stream_address
from azureblob_source.adoption.adopter import Adopter, AdoptionSettings
from azureblob_source.cli import output
from azureblob_source.iceberg.paths import root
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.naming import BATCHES, log_stream
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out, void_version
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.iceberg import make_iceberg_table, refresh_table
from azureblob_source.maintenance.inventory import inventory
from azureblob_source.maintenance.repair import missing_blobs, plan_repair, repair
from azureblob_source.maintenance.restoring import plan_restore, restored_version
from azureblob_source.maintenance.reverting import carry_out as revert
from azureblob_source.maintenance.reverting import plan_revert
from azureblob_source.maintenance.tailing import Tail
from azureblob_source.maintenance.vacuum import check_retention, plan_vacuum, vacuum
from azureblob_source.options import EARLIEST, ICEBERG_SCHEMES, LATEST, TABLE
from foundation.errors import AzureBlobError, ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from azure_account.cli.shell import CommandContext
    from azure_account.container import BlobContainer
    from azureblob_source.log.entry import Draft, LogEntry
    from azureblob_source.log.relocating.compaction import CompactionResult
    from azureblob_source.maintenance.repair import RepairResult
    from azureblob_source.maintenance.tailing import Rows
    from azureblob_source.maintenance.vacuum import VacuumResult

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

    def draft(self, shell: CommandContext) -> Draft:
        """A new draft for the log."""
        return new_draft(shell.clock, self.epoch)

    def refresh_tables(self, shell: CommandContext, streams: Iterable[str]) -> None:
        """Bring the Iceberg tables of streams up to date, of which blobs were deleted. An error is only said."""
        for stream in streams:
            of = CommitLog(self.container, stream, clock=shell.clock)
            try:
                refresh_table(of, self.draft(shell), Publisher(self.container))
            except AzureBlobError as error:
                shell.say(f"The Iceberg table of {stream} is not up to date: {error}")


app = new_app()

Where = Annotated[str, Argument(metavar="CONTAINER[/STREAM]", help="Container and stream, or a URL.")]
Stream = Annotated[str, Argument(metavar="CONTAINER/STREAM", help="Container and stream, or a URL.")]


@app.callback()
def main() -> None:
    """Inspect streams in Azure Blob Storage, repair them, and delete old data."""


@app.command()
@grouped
def ls(ctx: typer.Context, where: Where, common: CommonOptions) -> None:
    """List streams, and folders of Avro without a log: blobs, rows, bytes, head version, time of the last commit."""
    shell = shell_of(ctx)
    place = _place(shell, where, common)
    with shell.err.status("listing") as status:
        streams = inventory(
            place.container, place.stream or "", lambda name: status.update(f"reading the log of {name}")
        )
    document = {"container": place.container.name, "streams": documents(output.STREAMS, streams)}
    strangers = output.stranger_lines({each.name: each.strangers for each in streams})
    if streams or common.as_json:
        shell.answer(document, new_table(output.STREAMS, streams), *strangers, as_json=common.as_json)
    else:
        below = f" below {place.stream}" if place.stream else ""
        shell.say(f"Container {place.container.name} has no stream and no Avro blob{below}.")


@app.command()
@grouped
def log(
    ctx: typer.Context,
    where: Stream,
    common: CommonOptions,
    *,
    count: Annotated[int, Option("-n", min=1, help="Number of entries.")] = 20,
    follow: Annotated[bool, Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    version: Annotated[int | None, Option(min=0, help="Show this entry in full.")] = None,
) -> None:
    """Show the newest entries of a stream's commit log, one line for each."""
    shell = shell_of(ctx)
    of = _place(shell, where, common).log(shell)
    if version is not None:
        entry = of.read(version)
        parts = [part for table in output.entry_tables(entry) for part in (table, "")]
        shell.answer(output.stored_json(entry), *parts, as_json=common.as_json)
        return
    entries = _newest(of, count)
    if common.as_json and not follow:
        print_json({"stream": of.stream, "entries": [output.entry_json(entry) for entry in entries]})
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
    count: Annotated[int, Option("-n", min=1, help="Number of rows.")] = 10,
    follow: Annotated[bool, Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    columns: Annotated[str | None, Option(metavar="A,B", help="Only these columns.")] = None,
) -> None:
    """Show a stream's newest rows; with --follow also the last rows of each new batch (all of them with --json)."""
    shell = shell_of(ctx)
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    of = Tail(_place(shell, where, common).log(shell), shell.clock, wanted)
    _print_rows(shell, of.last(count), count, as_json=common.as_json)
    if follow:
        for rows in of.following():
            _print_rows(shell, rows, count, as_json=common.as_json)


@app.command(name="audit")
@grouped
def audit_command(
    ctx: typer.Context,
    where: Stream,
    common: CommonOptions,
    *,
    history: Annotated[bool, Option("--history", help="Read and check all entries, use no checkpoint.")] = False,
    older_than: Annotated[
        str, Option(metavar="AGE", help="Age from which on a blob that no entry names counts: longer than any batch.")
    ] = "24h",
) -> None:
    """Show whether each committed row is in exactly one visible blob, unaltered. Reads the log and names, no data.

    It ends with exit code 4 if something is not so. What writers have still to finish is shown, and is not counted.
    """
    shell = shell_of(ctx)
    of = _place(shell, where, common).log(shell)
    age = age_of(older_than, "--older-than")
    with steps(shell, "listing", None) as advance:
        found = audit(of, age, history=history, progress=advance)
    shell.answer(output.audit_json(found), *output.audit_lines(found), as_json=common.as_json)
    if not found.sound:
        raise typer.Exit(FINDINGS)


@dataclass(frozen=True)
class RepairOptions(DryRunOptions):
    """Options of `repair`."""

    leftovers: Annotated[bool, Option("--leftovers", help="Remove staged blocks that no entry names.")] = False
    older_than: Annotated[
        str, Option(metavar="AGE", help="With --leftovers: their least age. It must be longer than any batch takes.")
    ] = "24h"
    void: Annotated[
        int | None, Option(metavar="VERSION", min=0, help="Void this version, which cannot be published.")
    ] = None
    leave_blobs: Annotated[
        bool, Option("--leave-blobs", help="With --void: delete no blob, where a policy protects them.")
    ] = False
    leave_out_missing: Annotated[
        bool, Option("--leave-out-missing", help="Remove blobs that were deleted by hand from the log.")
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

    def act() -> RepairResult:
        publisher, draft = Publisher(place.container), lambda: place.draft(shell)
        with steps(shell, "repairing", work) as advance:
            done = repair(place.container, plan, draft, publisher, leftovers=given.leftovers, progress=advance)
        place.refresh_tables(shell, sorted({each.stream for each in plan.unpublished}))
        return done

    def report(done: RepairResult) -> str:
        return (
            f"Published {plural(done.published, 'version')}, voided {done.voided}, removed the leftovers of "
            f"{plural(done.removed, 'blob')}, deleted {plural(done.revived, 'revived blob')}."
        )

    lines = output.repair_lines(plan, leftovers=given.leftovers)
    document = lambda done: output.repair_json(plan, done)  # noqa: E731
    carry_out(shell, given, PlannedChange(lines, "Repair?", work > 0, act, document, report))


def _void_version(shell: CommandContext, place: CommandTarget, version: int, given: RepairOptions) -> None:
    of, leave = place.log(shell), given.leave_blobs
    change = PlannedChange(
        output.void_lines(of.read(version), leave_blobs=leave),
        "Void it?",
        True,
        lambda: void_version(of, version, place.draft(shell), Publisher(place.container), leave_blobs=leave),
        lambda done: {"stream": of.stream, "version": version, "voidedBy": None if done is None else done.version},
        lambda done: f"Version {version} is voided by version {done.version}.",
    )
    carry_out(shell, given, change)


def _leave_out(shell: CommandContext, place: CommandTarget, given: RepairOptions) -> None:
    of = place.log(shell)
    missing = missing_blobs(of)
    names = [blob.name for blob in missing]

    def act() -> LogEntry:
        done = leave_out(of, missing, place.draft(shell), Publisher(place.container))
        place.refresh_tables(shell, [of.stream])
        return done

    change = PlannedChange(
        output.missing_lines(missing),
        "Remove them from the log?",
        bool(missing),
        act,
        lambda done: {"stream": of.stream, "missing": names, "version": None if done is None else done.version},
        lambda done: f"Version {done.version} removes them from the log.",
    )
    carry_out(shell, given, change)


@app.command(name="revert")
@grouped
def revert_command(
    ctx: typer.Context,
    where: Stream,
    *,
    query: Annotated[str, Option(metavar="ID", help="The query, or the txnAppId, whose batches it is.")],
    after: Annotated[int, Option(metavar="N", min=-1, help="The batch that stays the last one; -1: none stays.")],
    given: DryRunOptions,
) -> None:
    """Take back the batches of a query that its restored checkpoint does not have. Shows the plan, then asks."""
    shell = shell_of(ctx)
    place = _place(shell, where, given)
    plan = plan_revert(place.container, place.named(), Transaction(query, after))

    def act() -> bool:
        revert(place.container, plan, lambda: place.draft(shell), Publisher(place.container))
        place.refresh_tables(shell, plan.streams)
        return True

    change = PlannedChange(
        output.revert_lines(plan),
        "Take them back?",
        plan.is_needed,
        act,
        lambda done: output.revert_json(plan, done=bool(done)),
        lambda _: f"Took back {plural(len(plan.batches), 'batch')}.",
    )
    carry_out(shell, given, change)


@dataclass(frozen=True)
class CompactOptions(DryRunOptions):
    """Options of `compact`."""

    smaller_than: Annotated[
        str, Option("--smaller-than", metavar="SIZE", help="Only blobs below this size become one.")
    ] = "32MB"
    up_to: Annotated[str, Option("--up-to", metavar="SIZE", help="Size that a new blob has at most.")] = "128MB"
    older_than: Annotated[str, Option(metavar="AGE", help="Only blobs that were committed this long ago.")] = "0s"
    partitions: Annotated[
        str | None, Option(metavar="A,B*", help="Only these partitions, as in the option of reads.")
    ] = None
    limit: Annotated[str | None, Option(metavar="SIZE", help="Read about so much, and leave the rest.")] = None


@app.command(name="compact")
@grouped
def compact_command(ctx: typer.Context, where: Stream, given: CompactOptions) -> None:
    """Make few large blobs of many small ones; rows keep their versions. Shows the plan, then asks."""
    shell = shell_of(ctx)
    place = _place(shell, where, given)
    of, publisher = place.log(shell), Publisher(place.container)
    rules = CompactionRules(
        shell.now - age_of(given.older_than, "--older-than"),
        size_of(given.smaller_than, "--smaller-than"),
        size_of(given.up_to, "--up-to"),
        None if given.partitions is None else TABLE.parse({"partitions": given.partitions})["partitions"],
        None if given.limit is None else size_of(given.limit, "--limit"),
    )
    plan = plan_compaction(of, rules, checkpoints.last_published(of).version)

    def act() -> CompactionResult:
        try:
            with steps(shell, "moving rows", plan.bytes) as advance:
                done = compact(of, plan, lambda: place.draft(shell), publisher, advance)
            if done.made:
                checkpoints.make(of)
        finally:
            place.refresh_tables(shell, [of.stream])
        return done

    def report(done: CompactionResult) -> str:
        of_others = f" {plural(done.outdated, 'group')} had changed meanwhile: run it again." if done.outdated else ""
        made = f"{plural(done.made, 'blob')}, {size_text(done.bytes)}"
        return f"Replaced {plural(done.replaced, 'blob')} by {made}.{of_others}"

    change = PlannedChange(
        output.compaction_lines(plan),
        "Move the rows?",
        bool(plan.groups),
        act,
        lambda done: output.compaction_json(plan, done),
        report,
    )
    carry_out(shell, given, change)


@app.command(name="restore")
@grouped
def restore_command(
    ctx: typer.Context,
    where: Stream,
    *,
    to_version: Annotated[int | None, Option(metavar="N", min=0, help="The version to restore.")] = None,
    to_time: Annotated[str | None, Option(metavar="TIME", help="Or the last one committed up to this time.")] = None,
    keep_replaced: Annotated[str | None, Option(metavar="AGE", help="Keep what is deleted for so long: 7d.")] = None,
    given: DryRunOptions,
) -> None:
    """Make live again what a stream had at an earlier version: later rows are deleted. Shows the plan, then asks."""
    shell = shell_of(ctx)
    place = _place(shell, where, given)
    of, moment = place.log(shell), None if to_time is None else _time_of(to_time)
    plan = plan_restore(of, restored_version(of, to_version, moment, shell.clock))
    to, head = plan.restoration.to.version, plan.restoration.head.version

    def act() -> list[LogEntry]:
        keep = None if keep_replaced is None else age_of(keep_replaced, "--keep-replaced")
        draft = replace(place.draft(shell), keep=keep)
        done = restore(of, to, draft, Publisher(place.container), head)
        place.refresh_tables(shell, [of.stream])
        return [] if done is None else [done]

    def report(done: list[LogEntry]) -> str:
        return f"Version {done[0].version} restores version {to}." if done else f"Version {to} is restored."

    document = lambda done: output.restore_json(plan, done)  # noqa: E731
    lines = output.restore_lines(plan)
    carry_out(shell, given, PlannedChange(lines, "Restore it?", plan.is_needed, act, document, report))


@app.command(name="vacuum")
@grouped
def vacuum_command(
    ctx: typer.Context,
    where: Stream,
    *,
    older_than: Annotated[str, Option(metavar="AGE", help="Least age of entries to remove: 30d, 12h, …")],
    force: Annotated[bool, Option("--force", help="Allow an age below an hour.")] = False,
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
            plans.append(plan_vacuum(of, before, advance, now=shell.now))
    lines = [line for plan in plans for line in output.vacuum_lines(plan)]

    def act() -> list[VacuumResult]:
        entries = sum(len(plan.outdated) + len(plan.interrupted) + len(plan.strays) for plan in plans)
        with steps(shell, "removing", entries) as advance:
            done = [vacuum(place.container, plan, lambda: uuid.uuid4().hex, advance) for plan in plans]
        place.refresh_tables(shell, [plan.stream for plan in plans if not plan.log_only])
        return done

    def document(done: list[VacuumResult] | None) -> object:
        logs = [output.vacuum_json(plan, done[at] if done else None) for at, plan in enumerate(plans)]
        return logs[0] if place.stream in [plan.stream for plan in plans] else {"logs": logs}

    def report(done: list[VacuumResult]) -> str:
        gone, blobs = sum(each.entries for each in done), sum(each.blobs for each in done)
        counts = {"of old checkpoints": sum(each.checkpoints for each in done)}
        counts["that were kept"] = sum(each.copies for each in done)
        also = "".join(f", and {plural(count, 'blob')} {which}" for which, count in counts.items() if count)
        return f"Removed {plural(gone, 'entry')} and {plural(blobs, 'blob')}{also}."

    change = PlannedChange(
        lines or [f"Container {place.container.name} has no batch log."],
        "Remove them permanently?",
        not all(plan.is_empty for plan in plans),
        act,
        document,
        report,
    )
    done = carry_out(shell, given, change)
    if not given.as_json:
        shell.say(
            *(f"Blob {name} belongs to another writer and was kept." for each in done or () for name in each.foreign)
        )


@app.command(name="adopt")
@grouped
def adopt_command(
    ctx: typer.Context,
    where: Stream,
    common: CommonOptions,
    *,
    begin: Annotated[
        str, Option("--from", metavar="TIME", help="Where a log that begins does: earliest, latest, or a time.")
    ] = EARLIEST,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on with blobs that come, until Ctrl-C.")] = False,
    every: Annotated[str, Option(metavar="DURATION", help="With --follow: time between two discoveries.")] = "10s",
) -> None:
    """Add the new blobs of a folder that other programs write to a log, so that it can be followed.

    `-o` sets `minBlobAgeMs`, `ignoreExtension` and `countRows`. Any number of processes may do it at once.
    """
    shell = shell_of(ctx)
    given = TABLE.parse({"path": where, **key_values(common.option)})
    settings = AdoptionSettings(
        start=begin if begin in (EARLIEST, LATEST) else _time_of(begin, "--from"),
        any_extension=given["ignoreExtension"],
        at_rest=given["minBlobAgeMs"] / 1000,
        count_rows=given["countRows"],
    )
    of, pause = _place(shell, where, common).log(shell), age_of(every, "--every").total_seconds()
    adopter = Adopter(of, settings, shell.clock)
    while True:
        found = adopter.discover()
        shell.answer(output.discovery_json(of.stream, found), output.discovery_line(found), as_json=common.as_json)
        if not follow:
            return
        shell.clock.sleep(pause)


@app.command(name="checkpoint")
@grouped
def checkpoint_command(
    ctx: typer.Context,
    where: Stream,
    common: CommonOptions,
    *,
    rebuild: Annotated[bool, Option("--rebuild", help="Make it from the entries alone, whatever is there.")] = False,
    verify: Annotated[bool, Option("--verify", help="Make none: compare the newest one with the entries.")] = False,
    every: Annotated[bool, Option("--all", help="With --verify: compare every one that a read can use.")] = False,
) -> None:
    """Make the checkpoint of the log at the last published version, from which reads begin.

    With --verify it ends with exit code 1 if a checkpoint differs from the entries.
    """
    if (rebuild and verify) or (every and not verify):
        raise typer.BadParameter("--all needs --verify" if every else "give --rebuild or --verify, not both")
    shell = shell_of(ctx)
    of = _place(shell, where, common).log(shell)
    if not verify:
        done = checkpoints.make(of, rebuild=rebuild)
        shell.answer(output.checkpoint_json(done), output.checkpoint_line(done), as_json=common.as_json)
        return
    with shell.err.status("reading the log"):
        verified = checkpoints.verify(of, every=every)
    document = output.verified_json(of.stream, verified)
    shell.answer(document, *output.verified_lines(of.stream, verified), as_json=common.as_json)
    if not all(each.whole for each in verified):
        raise typer.Exit(ERROR)


@app.command(name="iceberg")
@grouped
def iceberg_command(
    ctx: typer.Context,
    where: Stream,
    common: CommonOptions,
    *,
    paths: Annotated[
        str, Option(metavar="SCHEME", help=f"Scheme of its paths: {', '.join(ICEBERG_SCHEMES)}.")
    ] = ICEBERG_SCHEMES[0],
) -> None:
    """Make the Iceberg table of a stream, or bring it up to date. Publishes committed batches first."""
    shell = shell_of(ctx)
    if paths not in ICEBERG_SCHEMES:
        raise typer.BadParameter(
            f"{one_line(paths)} is not one of {', '.join(ICEBERG_SCHEMES)}", param_hint="'--paths'"
        )
    place = _place(shell, where, common)
    of = place.log(shell)
    table = make_iceberg_table(of, root(of.container.url, paths), place.draft(shell), Publisher(place.container))
    document = {"stream": of.stream, "table": table.location, "version": table.version}
    shell.answer(document, f"{table.location} is at version {table.version}.", as_json=common.as_json)


def _place(shell: CommandContext, where: str, common: CommonOptions) -> CommandTarget:
    """Parse address and options as the connector does. Batch logs are below a name that no stream may have."""
    path, batches, below = where.partition(f"/{BATCHES}")
    given = TABLE.parse({"path": path, **key_values(common.option)})
    address = stream_address(given["path"], given["container"], given["stream"])
    settings = account_settings(given, address, shell.env)
    stream = f"{BATCHES}{below}".rstrip("/") if batches else address.path
    container = shell.connect(settings).container(address.container).relocated(*log_place(given["logPath"], address))
    return CommandTarget(container, stream, given["epoch"])


def _time_of(given: str, option: str = "--to-time") -> datetime:
    try:
        return instant()(given.strip())
    except ValueError:
        text = "it must be a time such as 2013-01-31T12:00:00Z"
        raise typer.BadParameter(text, param_hint=f"'{option}'") from None


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
            print_json(output.entry_json(entry))
    else:
        shell.show(output.entries_table(entries, header=header))


def _print_rows(shell: CommandContext, found: Sequence[Rows], count: int, *, as_json: bool) -> None:
    if as_json:
        for each in found:
            for row in each.batch.to_pylist():
                print_json(row)
        return
    total = sum(each.batch.num_rows for each in found)
    rows = [row for each in found for row in each.batch.to_pylist()[-count:]][-count:]
    if not rows:
        shell.say("The stream has no rows yet.")
        return
    table, hidden = output.rows_table(rows, shell.out.width)
    shell.show(table)
    versions = sorted({each.entry.version for each in found})
    span = output.span_text(versions, "version")
    last = f"the last {len(rows):,} of {plural(total, 'row')}" if total > len(rows) else plural(total, "row")
    note = f"{last}, {span}, {time_text(found[-1].entry.timestamp)} UTC"
    if hidden:
        note += f"; {plural(len(hidden), 'more column')} (--columns {','.join(hidden[:3])}, or --json)"
    shell.err.print(note, style="dim")
