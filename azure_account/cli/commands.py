"""A group of commands, and the options that all of them have.

Exit codes: 0 done; 1 error, one message on standard error; 2 wrong usage; 3 not confirmed, nothing was done; 4 an audit
has found something; 130 ended by Ctrl-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Generic, NoReturn, TypeVar

import typer
from typer.core import TyperGroup

from azure_account.address import parse_address
from azure_account.cli.shell import PlainConsole
from azure_account.location import Location
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.option_table import byte_size, seconds
from azure_account.options.settings import account_settings
from foundation.errors import AzureBlobError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account.cli.shell import CommandContext
    from azure_account.options.settings import AccountSettings

_Done = TypeVar("_Done")
ERROR, UNCONFIRMED, FINDINGS, INTERRUPTED = 1, 3, 4, 130

Options = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="Option of the connector, such as accountName; repeatable. Set secrets as AZURE_STORAGE_* variables.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, and nothing else there.")]


@dataclass(frozen=True)
class CommonOptions:
    """What all commands take."""

    option: Options = None
    as_json: AsJson = False


@dataclass(frozen=True)
class ConfirmationOptions(CommonOptions):
    """What commands take that ask before they change something."""

    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False


@dataclass(frozen=True)
class DryRunOptions(ConfirmationOptions):
    """What commands take that show a plan, ask, and then change something."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")] = False


class Commands(TyperGroup):
    """Turns the project's errors, and Ctrl-C, into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except AzureBlobError as error:
            PlainConsole(stderr=True, soft_wrap=True).print(str(error))
            raise typer.Exit(ERROR) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


def new_app() -> typer.Typer:
    """A program without commands."""
    return typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def key_values(options: Sequence[str] | None) -> dict[str, str]:
    """The options of `-o` by key. Wrong usage if one is not `KEY=VALUE`."""
    found = {}
    for option in options or ():
        key, equals, value = option.partition("=")
        if not equals:
            raise typer.BadParameter("it must be KEY=VALUE", param_hint="'-o'")
        found[key.strip()] = value
    return found


def location_of(
    shell: CommandContext,
    where: str,
    options: Sequence[str] | None,
    change: Callable[[AccountSettings], AccountSettings] = lambda settings: settings,
) -> Location:
    """The location that a command names.

    where: `container/path`, or a URL, which also names the account.
    options: those of `-o`.
    change: of the account's settings, such as shorter timeouts.

    `ConfigurationError` as `parse_address`, and for an unknown or wrong option.
    """
    address = parse_address(where)
    settings = account_settings(ACCOUNT_OPTIONS.parse(key_values(options)), address, shell.env)
    return Location.in_account(shell.connect(change(settings)), str(address))


def age_of(given: str, option: str) -> timedelta:
    """An age such as `30d`. Wrong usage if it is another text."""
    try:
        return timedelta(seconds=seconds()(given.strip()))
    except ValueError:
        raise typer.BadParameter(
            "it must be an age such as 30d, 12h or 90m, up to 36500d", param_hint=f"'{option}'"
        ) from None


def size_of(given: str, option: str) -> int:
    """A number of bytes such as `32MB`. Wrong usage if it is another text."""
    try:
        return byte_size()(given.strip())
    except ValueError:
        raise typer.BadParameter("it must be a size such as 32MB or 1GB", param_hint=f"'{option}'") from None


def confirmed(shell: CommandContext, question: str, given: ConfirmationOptions) -> bool:
    """Whether to do it: by `--yes`, or by an answer on a terminal."""
    return given.yes or (shell.interactive and not given.as_json and typer.confirm(question, err=True))


def end_unconfirmed(shell: CommandContext) -> NoReturn:
    """End a command that was not confirmed."""
    why = "" if shell.interactive else ": confirm with --yes, or run it on a terminal"
    shell.say(f"Nothing was done{why}.")
    raise typer.Exit(UNCONFIRMED)


@dataclass(frozen=True)
class PlannedChange(Generic[_Done]):
    """What a command is going to do.

    plan: lines. act: does it. document, report: what is printed then, as JSON (of None if nothing was done) and a line.
    """

    plan: Sequence[str]
    question: str
    is_needed: bool
    act: Callable[[], _Done]
    document: Callable[[_Done | None], object]
    report: Callable[[_Done], str]


def carry_out(shell: CommandContext, given: DryRunOptions, change: PlannedChange[_Done]) -> _Done | None:
    """Show the plan, ask, act, and print the result. None in a dry run, or if there is nothing to do."""
    (shell.say if given.as_json else shell.show)(*change.plan)
    wanted = change.is_needed and not given.dry_run
    done = change.act() if wanted and confirmed(shell, change.question, given) else None
    shell.answer(change.document(done), *([] if done is None else [change.report(done)]), as_json=given.as_json)
    if wanted and done is None:
        end_unconfirmed(shell)
    return done
