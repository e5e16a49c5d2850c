"""The command line: `python -m coordination status | run`.

Exit codes: 0 done; 1 error, one message on standard error; 2 wrong usage; 130 ended by Ctrl-C. `run` ends with the exit
code of its command, with 128 + the signal that ended either of them, with 127 if the command is not found, and with 126
if it cannot be started.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text
from typer import Argument, Option

from azure_account.cli.commands import CommonOptions, Options, location_of, new_app
from azure_account.cli.grouped import grouped
from azure_account.cli.shell import shell_of
from azure_account.cli.texts import time_text
from azure_account.location import Location
from coordination.cli.output import changes, status_json, status_text
from coordination.cli.reading import read_job, read_leader
from coordination.cli.runner import ProgramRunner
from coordination.connect import brief_settings
from coordination.names import check_processor, leader_blob
from coordination.timing import CoordinatorTiming, LeaseTiming
from foundation.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azure_account.cli.shell import CommandContext
    from coordination.cli.report import JobReport, LeaderReport

    Report: TypeAlias = JobReport | LeaderReport

_REQUEST_SECONDS = 20.0
_HOLDER_CHARACTERS = 150
_LEASE = LeaseTiming()

app = new_app()


@app.callback()
def main() -> None:
    """Show processes that share work through Azure storage, and run a program in one of several processes."""


@dataclass(frozen=True)
class StatusOptions:
    """Options of `status`."""

    blob: Annotated[
        bool, Option("--blob", help="Instead of a job, CONTAINER/BLOB is that of an election, a lock or `run`.")
    ] = False
    watch: Annotated[bool, Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False
    every: Annotated[float, Option(metavar="SECONDS", min=0.1, max=3600, help="With --watch: how often.")] = 2.0
    death: Annotated[
        float, Option(metavar="SECONDS", min=0.1, help="A processor without a heartbeat for so long is called silent.")
    ] = CoordinatorTiming().death


@app.command()
@grouped
def status(
    ctx: typer.Context,
    where: Annotated[str, Argument(metavar="CONTAINER/JOB", help="Container and job, or a URL.")],
    common: CommonOptions,
    given: StatusOptions,
) -> None:
    """Show who leads, who runs which task, and what waits for what. Changes nothing.

    Ages are of the clock of the storage service. --watch shows the present state on a terminal, and else a line for
    each change; with --json a document for each look.
    """
    shell = shell_of(ctx)
    place = location_of(shell, where, common.option, lambda settings: brief_settings(settings, _REQUEST_SECONDS))
    if not place.path:
        raise typer.BadParameter("name a job: CONTAINER/JOB", param_hint="'CONTAINER/JOB'")
    account, container = place.account(), place.container

    def read() -> Report:
        if given.blob:
            return read_leader(account, container, place.path)
        return read_job(account, container, place.path, given.death)

    if given.watch:
        _watch(shell, read, given.every, as_json=common.as_json)
    else:
        report = read()
        shell.answer(status_json(report), status_text(report), as_json=common.as_json)


@dataclass(frozen=True)
class RunOptions:
    """Options of `run`."""

    option: Options = None
    lease: Annotated[
        int, Option(metavar="SECONDS", help="Duration of the lease, 15 to 60: another process leads after it.")
    ] = _LEASE.duration
    poll: Annotated[float, Option(metavar="SECONDS", min=0.1, max=3600, help="How often a stand-by tries.")] = (
        _LEASE.poll_every
    )
    grace: Annotated[float, Option(metavar="SECONDS", min=0, max=3600, help="From a signal to SIGKILL.")] = 10.0
    holder: Annotated[
        str | None, Option(metavar="TEXT", help="This process, for people.", show_default="host:process id")
    ] = None


@app.command()
@grouped
def run(
    ctx: typer.Context,
    where: Annotated[
        str, Argument(metavar="CONTAINER/NAME", help="Processes that give the same container and name take turns.")
    ],
    command: Annotated[list[str], Argument(metavar="COMMAND", help="After --: the program and its arguments.")],
    given: RunOptions,
) -> None:
    """Run COMMAND in one of the processes that give this CONTAINER/NAME; the others stand by, and take over.

    COMMAND has COORDINATION_EPOCH in its environment, a number as text: convert it, and present it in every write that
    a predecessor must not repeat.
    When leadership ends, COMMAND and its process group get SIGTERM, and SIGKILL before the lease can expire.
    SIGINT, SIGTERM and SIGHUP are passed on to it.
    """
    timing = LeaseTiming.of_duration(given.lease, given.poll)
    if os.name != "posix":
        raise typer.BadParameter("it needs process groups, which this system does not have", param_hint="'run'")
    if shutil.which(command[0]) is None:
        raise typer.BadParameter(f"there is no program {command[0]} here", param_hint="'COMMAND'")
    who = given.holder if given.holder is not None else f"{socket.gethostname()[:_HOLDER_CHARACTERS]}:{os.getpid()}"
    check_processor(who)
    shell = shell_of(ctx)
    place = location_of(shell, where, given.option, lambda settings: brief_settings(settings, timing.request))
    if not place.path:
        raise typer.BadParameter("name the program: CONTAINER/NAME", param_hint="'CONTAINER/NAME'")
    blob = Location.in_account(place.account(), f"{place.container}/{leader_blob(place.path)}")
    logging.getLogger("coordination").addHandler(logging.NullHandler())  # the lines below say it
    runner = ProgramRunner(
        place.path, blob, who, command, shell.env, timing, given.grace, lambda line: _say(shell, line)
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as by `nohup`
            signal.signal(number, lambda number, _: runner.receive(number))
    raise typer.Exit(runner.run())


def _watch(shell: CommandContext, read: Callable[[], Report], every: float, *, as_json: bool) -> None:
    out, report = shell.out, read()
    if out.is_terminal and not as_json:
        with Live(status_text(report), console=out, auto_refresh=False, screen=True) as live:
            for found in _following(shell, read, every):
                report = report if isinstance(found, TransientError) else found
                above = Text(f"{found}\n" if isinstance(found, TransientError) else "", style="red", end="")
                live.update(Group(above, status_text(report)), refresh=True)
    _print_news(shell, None, report, as_json=as_json)
    for found in _following(shell, read, every):
        if isinstance(found, TransientError):
            _say(shell, str(found))
        else:
            _print_news(shell, report, found, as_json=as_json)
            report = found


def _following(shell: CommandContext, read: Callable[[], Report], every: float) -> Iterator[Report | TransientError]:
    """A report every so often, for ever. Storage that gives no answer does not end it."""
    while True:
        shell.clock.sleep(every)
        try:
            yield read()
        except TransientError as error:
            yield error


def _print_news(shell: CommandContext, before: Report | None, report: Report, *, as_json: bool) -> None:
    lines = (f"{time_text(shell.now)} {line}" for line in changes(before, report))
    shell.answer(status_json(report), *lines, as_json=as_json)


def _say(shell: CommandContext, line: str) -> None:
    shell.say(f"{time_text(shell.now)} {line}")
