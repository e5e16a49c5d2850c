"""What a transfer shows while it runs: a bar of bytes on a terminal, else a line every ten seconds."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from azure_account.cli.texts import plural, size_text
from foundation.report import ProgressCallbacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azure_account.cli.shell import CommandContext

EVERY_SECONDS = 10.0
_LONG = 60
"""Steps from which on a bar is shown."""


class Lines:
    """Lines of how far a transfer is. Thread-safe; `planned` adds to what is to be done."""

    def __init__(self, shell: CommandContext, verb: str) -> None:
        self._shell, self._verb = shell, verb
        self._files = self._bytes = self._done = 0
        self._said = shell.clock.monotonic()
        self._lock = threading.Lock()

    def planned(self, files: int, bytes_: int) -> None:
        """More is to be transferred."""
        self._files, self._bytes = self._files + files, self._bytes + bytes_

    def progress(self, bytes_: int) -> None:
        """More has been transferred."""
        with self._lock:
            self._done += bytes_
            now = self._shell.clock.monotonic()
            if now - self._said < EVERY_SECONDS:
                return
            self._said = now
            of = f"{size_text(self._done)} of {size_text(self._bytes)}"
        self._shell.err.print(f"{self._verb} {plural(self._files, 'file')}: {of}")


class Bar:
    """A progress bar of a transfer. `planned` adds to what is to be done."""

    def __init__(self, bar: Progress, verb: str) -> None:
        self._bar, self._verb = bar, verb
        self._files = self._bytes = 0
        self._task = bar.add_task(f"{verb}: reading", total=None)

    def planned(self, files: int, bytes_: int) -> None:
        """More is to be transferred."""
        self._files, self._bytes = self._files + files, self._bytes + bytes_
        text = f"{self._verb} {plural(self._files, 'file')}"
        self._bar.update(self._task, description=text, total=self._bytes)

    def progress(self, bytes_: int) -> None:
        """More has been transferred."""
        self._bar.advance(self._task, bytes_)


@contextmanager
def transfer(shell: CommandContext, verb: str) -> Iterator[ProgressCallbacks]:
    """Show a transfer on standard error while the block runs."""
    if not shell.err.is_terminal:
        lines = Lines(shell, verb)
        yield ProgressCallbacks(lines.planned, lines.progress)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=shell.err, transient=True) as progress:
        bar = Bar(progress, verb)
        yield ProgressCallbacks(bar.planned, bar.progress)


@contextmanager
def steps(shell: CommandContext, what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """A bar of steps on a terminal, unless there are few. total: None if it is not known."""
    if not shell.err.is_terminal or (total is not None and total < _LONG):
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=shell.err, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)
