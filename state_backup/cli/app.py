"""The command line: `python -m state_backup backup | keep | restore | ls | verify | sweep | lifecycle-policy`.

Arguments, questions and progress. Exit codes: 0 done; 1 error, one message on standard error, or a checkpoint that is
not whole; 2 wrong usage; 3 not confirmed, nothing was done; 130 ended by Ctrl-C.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from azure_account.cli.commands import (
    ERROR,
    CommonOptions,
    ConfirmationOptions,
    DryRunOptions,
    PlannedChange,
    age_of,
    carry_out,
    confirmed,
    end_unconfirmed,
    location_of,
    new_app,
)
from azure_account.cli.grouped import grouped
from azure_account.cli.progress import steps, transfer
from azure_account.cli.shell import shell_of
from azure_account.cli.texts import documents, new_table, one_line, plural
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from state_backup.backup.settings import (
    MayBeEmpty,
    TaskIdentity,
    WriterSettings,
    check_all_given,
    checked_stores,
    set_keep,
)
from state_backup.backup.writer import open_state
from state_backup.cli import output
from state_backup.cli.reading import blobs_with_ttl, checkpoint_sizes, find_states, read_record
from state_backup.record.names import StateNames
from state_backup.record.store import open_location
from state_backup.restoring.restore import checkpoints, restore
from state_backup.restoring.verifying import verify
from state_backup.sweeping.lifecycle import lifecycle_policy
from state_backup.sweeping.sweep import plan_sweep, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from azure_account.cli.shell import CommandContext
    from azure_account.location import Location
    from state_backup.cli.reading import CheckpointSize
    from state_backup.record.record import CheckpointRecord

app = new_app()

State = Annotated[str, Argument(metavar="CONTAINER/STATE", help="Container and state, or a URL.")]
Where = Annotated[
    str, Argument(metavar="CONTAINER[/PREFIX]", help="A container, a folder of states, or a state; or a URL.")
]
Stores = Annotated[list[str], Argument(metavar="STORE=DIR…", help="Each store, and its directory.")]
Checkpoint = Annotated[
    str | None, Option("--checkpoint", metavar="ID", help="This checkpoint, by its id.", show_default=False)
]


@app.callback()
def main() -> None:
    """Back up directories to Azure Blob Storage, incrementally, and restore them."""


@dataclass(frozen=True)
class BackupOptions:
    """Options of `backup`."""

    offset: Annotated[
        list[str] | None,
        Option(metavar="KEY=VALUE", help="Where an input was; is kept with the checkpoint. Repeatable."),
    ] = None
    keep: Annotated[
        int | None, Option(metavar="N", help="Number of checkpoints to keep, at least 2.", show_default="as before")
    ] = None
    may_be_empty: Annotated[
        list[str] | None, Option(metavar="STORE", help="All files of this store may be gone. Repeatable.")
    ] = None
    leave_out: Annotated[
        list[str] | None, Option(metavar="STORE", help="Go on without this store: it is dropped. Repeatable.")
    ] = None
    epoch: Annotated[
        int | None, Option(metavar="N", min=0, help="The writer's epoch.", show_default="one above that in the record")
    ] = None
    job: Annotated[str, Option(metavar="NAME", help="The job's name, for the snapshot index.")] = "state_backup"
    job_id: Annotated[str, Option(metavar="ID", help="The job's id.")] = "1"
    task: Annotated[str, Option(metavar="NAME", help="The task's name.")] = "0"


@app.command(name="backup")
@grouped
def backup_command(
    ctx: typer.Context, where: State, stores: Stores, given: BackupOptions, common: CommonOptions
) -> None:
    """Commit a checkpoint of directories: upload what is new, and delete what no kept checkpoint needs.

    Another writer of the state is replaced: its next backup fails. The directories must not change meanwhile.
    """
    shell = shell_of(ctx)
    state = _state(shell, where, common)
    empty, left_out = given.may_be_empty or (), given.leave_out or ()
    directories = checked_stores(_directories(stores), state.path)
    wrong = set(empty) - set(directories)
    if wrong:
        raise typer.BadParameter(f"{one_line(min(wrong))} is not one of the stores", param_hint="'--may-be-empty'")
    offsets = _pairs(given.offset or (), "--offset", "KEY=VALUE")
    for directory in directories.values():
        _check_directory(directory)
    check_all_given(directories, left_out, state.path, next(iter(checkpoints(state)), None))  # before one is replaced
    with _warnings(shell), transfer(shell, "uploading") as report:
        owner = TaskIdentity(given.job, given.job_id, given.task)
        writer = open_state(state, owner, WriterSettings(given.keep, given.epoch))
        backed_up = {
            store: MayBeEmpty(directory) if store in empty else directory for store, directory in directories.items()
        }
        checkpoint = writer.back_up(backed_up, offsets, report, leave_out=left_out)
    lines = output.backup_lines(checkpoint, writer.backed_up)
    shell.answer(output.backup_json(state.path, checkpoint, writer.backed_up), *lines, as_json=common.as_json)


@app.command(name="keep")
@grouped
def keep_command(
    ctx: typer.Context,
    where: State,
    number: Annotated[int, Argument(metavar="N", help="How many checkpoints are kept, at least 2.")],
    common: CommonOptions,
) -> None:
    """Set how many checkpoints of a state are kept. Its next backup deletes what only older ones need.

    The writer of the state goes on.
    """
    shell = shell_of(ctx)
    state = _state(shell, where, common)
    set_keep(state, number)
    line = f"{state.path} keeps {number} checkpoints from its next backup on."
    shell.answer({"state": state.path, "keep": number}, line, as_json=common.as_json)


@app.command(name="restore")
@grouped
def restore_command(
    ctx: typer.Context, where: State, stores: Stores, common: ConfirmationOptions, *, checkpoint: Checkpoint = None
) -> None:
    """Make directories what the stores were at a checkpoint: the newest that is whole, or --checkpoint.

    Asks before it replaces what is in a directory. Files that are there with the same content are not downloaded.
    Blobs that were deleted are undeleted first, if the account has soft delete.
    """
    shell = shell_of(ctx)
    state = _state(shell, where, common)
    directories = _directories(stores)
    full = [directory for directory in directories.values() if directory.is_dir() and any(directory.iterdir())]
    question = f"Replace what is in {', '.join(map(str, full))}?"
    if full and not confirmed(shell, one_line(question), common):
        lines = [] if shell.interactive else [f"Restoring replaces what is in {directory}." for directory in full]
        shell.answer(output.restore_json(state.path, None), *lines, as_json=common.as_json)
        end_unconfirmed(shell)
    with _warnings(shell), transfer(shell, "downloading") as report:
        restored = restore(state, directories, checkpoint_id=checkpoint, report=report)
    shell.answer(output.restore_json(state.path, restored), *output.restore_lines(restored), as_json=common.as_json)


@app.command()
@grouped
def ls(ctx: typer.Context, where: Where, common: CommonOptions) -> None:
    """List the checkpoints of a state, or the states of a container or folder."""
    shell = shell_of(ctx)
    place = _place(shell, where, common)
    container, prefix = place.open(), place.path
    record = None if not prefix else read_record(container, prefix)
    if record is not None:
        _print_state(shell, prefix, record, checkpoint_sizes(container, record), as_json=common.as_json)
        return
    states = find_states(container, prefix)
    if states or common.as_json:
        table = new_table(output.STATES, states, shrinks=3)
        shell.answer(output.states_json(container.name, states), table, as_json=common.as_json)
    else:
        shell.say(f"Container {container.name} has no state{f' in {prefix}' if prefix else ''}.")
    if not common.as_json:
        shell.say(*(f"{found.state}: {found.cause}" for found in states if found.cause))


def _print_state(
    shell: CommandContext, state: str, record: CheckpointRecord, sizes: Sequence[CheckpointSize], *, as_json: bool
) -> None:
    table = [new_table(output.SIZES, sizes, shrinks=5)] if sizes else []
    shell.answer(output.state_json(state, record, sizes), output.record_line(state, record), *table, as_json=as_json)
    if not as_json:
        shell.say(*(f"Checkpoint {each.checkpoint.id}: {each.cause}" for each in sizes if each.cause))


@app.command(name="verify")
@grouped
def verify_command(
    ctx: typer.Context,
    where: State,
    common: CommonOptions,
    *,
    checkpoint: Checkpoint = None,
    deep: Annotated[bool, Option("--deep", help="Download all files and compare their checksums.")] = False,
) -> None:
    """Verify that the blobs of all kept checkpoints are there, with the right sizes. Changes nothing.

    Ends with exit code 1 if a checkpoint is not whole.
    """
    shell = shell_of(ctx)
    state = _state(shell, where, common)
    with transfer(shell, "verifying") as report:
        verified = verify(state, checkpoint_id=checkpoint, deep=deep, report=report)
    lines = output.verify_lines(state.path, verified, deep=deep)
    shell.answer(output.verify_json(state.path, verified, deep=deep), *lines, as_json=common.as_json)
    if not all(each.whole or each.dropped for each in verified):
        raise typer.Exit(ERROR)


@app.command(name="sweep")
@grouped
def sweep_command(
    ctx: typer.Context,
    where: State,
    given: DryRunOptions,
    *,
    min_age: Annotated[
        str, Option(metavar="AGE", help="Least age of what is deleted: a backup at work need not repeat uploads.")
    ] = "1d",
    explain: Annotated[
        bool, Option("--explain", help="Show each blob: which checkpoints hold it, and when it goes.")
    ] = False,
) -> None:
    """Delete what no checkpoint needs, such as leftovers of a crashed backup. Shows the plan, then asks.

    It may run at any time, beside backups and restores.
    """
    shell = shell_of(ctx)
    state = _state(shell, where, given)
    plan = plan_sweep(state, min_age=age_of(min_age, "--min-age").total_seconds())
    explained: dict[str, object] = {}
    if explain:
        blobs = output.blobs_of_sweep(state.path, plan, shell.now, blobs_with_ttl(state.open(), plan.young))
        missing = sorted(set(plan.in_use) - set(plan.sizes))
        explained = {"blobs": documents(blobs, plan.sizes), "missing": missing}
        if not given.as_json:
            shell.show(new_table(blobs, plan.sizes))

    def act() -> int:
        with steps(shell, "deleting", len(plan.waste)) as advance:
            return sweep(state, plan, advance)

    lines, question = output.sweep_lines(state.path, plan), "Delete them permanently?"
    document = lambda done: output.sweep_json(state.path, plan, done) | explained  # noqa: E731
    report = lambda done: f"Deleted {plural(done, 'blob')}."  # noqa: E731
    done = carry_out(shell, given, PlannedChange(lines, question, bool(plan.waste), act, document, report))
    if done is not None and done < len(plan.waste):
        left = len(plan.waste) - done
        cause = f"{plural(left, 'blob')} could not be deleted: a lease or a policy protects them"
        raise ConflictError("sweep", f"state {state.path}", cause, "They stay condemned: run it again later.")


@app.command(name="lifecycle-policy")
def lifecycle_policy_command(
    ctx: typer.Context,
    places: Annotated[list[str], Argument(metavar="CONTAINER[/PREFIX]…", help="Where states are, or will be.")],
) -> None:
    """Print the lifecycle policy that deletes, after 30 days, blobs of backups that were never committed.

    `sweep` does the same without it. Makes no request.
    """
    shell = shell_of(ctx)
    typer.echo(json.dumps(lifecycle_policy(places), indent=2))
    shell.say(
        "Save it as policy.json, then: az storage account management-policy create --account-name ACCOUNT "
        "--resource-group GROUP --policy @policy.json",
        "This replaces the account's policy: if there is one (management-policy show), add the rules to it instead. "
        "Accounts with hierarchical namespace have no index tags, so no such rule: run `sweep` there.",
    )


def _place(shell: CommandContext, where: str, common: CommonOptions) -> Location:
    """A state or a folder of states; without a path if only a container is named."""
    place = location_of(shell, where, common.option)
    if place.path:
        StateNames(place.path)
    return place


def _state(shell: CommandContext, where: str, common: CommonOptions) -> Location:
    place = location_of(shell, where, common.option)
    open_location(place)
    return place


def _directories(stores: Sequence[str]) -> dict[str, Path]:
    return {name: Path(directory) for name, directory in _pairs(stores, "STORE=DIR", "STORE=DIR").items()}


def _pairs(given: Sequence[str], hint: str, form: str) -> dict[str, str]:
    """Pairs by name. Wrong usage for any other form, and for a name that is given twice."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name or not value:
            raise typer.BadParameter(f"{one_line(each)} must be {form}", param_hint=f"'{hint}'")
        if name in found:
            raise typer.BadParameter(f"{one_line(name)} is given twice", param_hint=f"'{hint}'")
        found[name] = value
    return found


def _check_directory(directory: Path) -> None:
    """Before another writer is replaced."""
    if not directory.exists():
        raise NotFoundError("back up directory", str(directory), "it does not exist", "Check the path.")
    if not directory.is_dir():
        raise ConfigurationError("back up directory", str(directory), "it is no directory", "Check the path.")


@contextmanager
def _warnings(shell: CommandContext) -> Iterator[None]:
    """Print the warnings of the block on standard error."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: shell.say(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("state_backup", "azure_account")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
