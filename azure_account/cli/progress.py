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
    ProgressColumn,
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


class _Transfer:
    """How far a transfer is. Thread-safe; `planned` adds to what is to be done."""

    def __init__(self, shell: CommandContext, verb: str, bar: Progress) -> None:
        self._shell, self._verb, self._bar = shell, verb, bar
        self._files = self._bytes = self._done = 0
        self._task = bar.add_task(f"{verb}: reading", total=None)
        self._said = shell.clock.monotonic()
        self._lock = threading.Lock()

    def planned(self, files: int, bytes_: int) -> None:
        """More is to be transferred."""
        self._files, self._bytes = self._files + files, self._bytes + bytes_
        self._bar.update(self._task, description=f"{self._verb} {plural(self._files, 'file')}", total=self._bytes)

    def progress(self, bytes_: int) -> None:
        """More has been transferred."""
        self._bar.advance(self._task, bytes_)
        with self._lock:
            self._done += bytes_
            now = self._shell.clock.monotonic()
            if not self._bar.disable or now - self._said < EVERY_SECONDS:
                return
            self._said = now
            of = f"{size_text(self._done)} of {size_text(self._bytes)}"
        self._shell.say(f"{self._verb} {plural(self._files, 'file')}: {of}")


@contextmanager
def transfer(shell: CommandContext, verb: str) -> Iterator[ProgressCallbacks]:
    """Show a transfer on standard error while the block runs."""
    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeElapsedColumn())
    with _progress(shell, *columns, shown=True) as bar:
        shown = _Transfer(shell, verb, bar)
        yield ProgressCallbacks(shown.planned, shown.progress)


@contextmanager
def steps(shell: CommandContext, what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """A bar of steps on a terminal, unless there are few. total: None if it is not known."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with _progress(shell, *columns, shown=total is None or total >= _LONG) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


def _progress(shell: CommandContext, *columns: ProgressColumn, shown: bool) -> Progress:
    err, text = shell.err, TextColumn("{task.description}")
    return Progress(text, *columns, console=err, transient=True, disable=not (shown and err.is_terminal))
