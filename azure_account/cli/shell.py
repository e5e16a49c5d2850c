"""The environment of a command: account, environment variables, clock, standard output and error.

Storage holds text that others wrote: it is shown as it is, and commands nothing.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console

from azure_account.cli.json_lines import print_json
from azure_account.cli.texts import one_line, printable
from azure_account.connect import connect
from foundation.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import typer
    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment

    from azure_account.account import StorageAccount
    from azure_account.options.settings import AccountSettings


class PlainConsole(Console):
    """Prints square brackets as brackets, and control characters as escapes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, with the control characters that are left in texts escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


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

    def show(self, *parts: RenderableType) -> None:
        """Print lines and tables on standard output."""
        for part in parts:
            self.out.print(one_line(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))

    def say(self, *lines: str) -> None:
        """Print lines on standard error."""
        for line in lines:
            self.err.print(one_line(line))

    def answer(self, document: object, *parts: RenderableType, as_json: bool) -> None:
        """Print a result on standard output: the document as JSON, or lines and tables."""
        if as_json:
            print_json(document)
        else:
            self.show(*parts)


def shell_of(ctx: typer.Context) -> CommandContext:
    """The shell of a command."""
    return ctx.ensure_object(CommandContext)
