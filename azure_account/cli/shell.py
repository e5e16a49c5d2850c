"""The environment of a command: account, environment variables, clock, standard output and error."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from azure_account.cli.console import PlainConsole
from azure_account.connect import connect
from foundation.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import typer

    from azure_account.account import StorageAccount
    from azure_account.options.settings import AccountSettings


@dataclass(frozen=True)
class CommandContext:
    """The environment of a command. `interactive`: questions can be asked."""

    connect: Callable[[AccountSettings], StorageAccount] = connect
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    clock: Clock = SYSTEM_CLOCK
    interactive: bool = field(default_factory=lambda: sys.stdin.isatty() and sys.stdout.isatty())

    @property
    def out(self) -> PlainConsole:
        """Standard output: as wide as the terminal, or 1,000 characters if it is not a terminal."""
        console = PlainConsole(soft_wrap=False)
        return console if console.is_terminal or "COLUMNS" in os.environ else PlainConsole(width=1000)

    @property
    def err(self) -> PlainConsole:
        """Standard error."""
        return PlainConsole(stderr=True, soft_wrap=True)

    @property
    def now(self) -> datetime:
        """The machine's time."""
        return datetime.fromtimestamp(self.clock.now(), UTC)


def shell_of(ctx: typer.Context) -> CommandContext:
    """The shell of a command."""
    return ctx.ensure_object(CommandContext)
