"""Compares all Avro files below some folders, and counts the results by repository.

    python -m tools.foreign_avro [--verbose] FOLDER…

The repository of a file is the first folder below the one given.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foundation.parallel import concurrent_map
from tools.foreign_avro.examination import Finding, Verdict, examine, in_own_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SUFFIXES = (".avro", ".avro.gz")
_WIDTH = 140


def avro_files(folders: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """All Avro files below some folders, each with its repository."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name.endswith(_SUFFIXES):
                inner = path.relative_to(folder).parts
                yield (inner[0] if len(inner) > 1 else folder.resolve().name), path


def counts_table(findings: Iterable[tuple[str, Finding]]) -> Table:
    """The number of files by repository and verdict, and of rows that are the same."""
    counts: dict[str, Counter[Verdict]] = {}
    rows: Counter[str] = Counter()
    for repository, finding in findings:
        counts.setdefault(repository, Counter())[finding.verdict] += 1
        rows[repository] += finding.rows if finding.verdict is Verdict.SAME else 0
    table = Table(show_footer=True)
    total = sum(counts.values(), Counter())
    table.add_column("repository", f"{len(counts)} repositories", overflow="fold")
    table.add_column("files", str(total.total()), justify="right")
    for verdict in Verdict:
        table.add_column(verdict.value, str(total[verdict]), justify="right")
    table.add_column("rows the same", f"{rows.total():,}", justify="right")
    for repository, found in sorted(counts.items()):
        cells = (str(found[verdict] or "–") for verdict in Verdict)
        table.add_row(Text(repository), str(found.total()), *cells, f"{rows[repository]:,}")
    return table


def main(
    folders: Annotated[list[Path], typer.Argument(help="Each has a folder for every repository.", exists=True)],
    *,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print a line for every file when it has been read.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Files that are read concurrently.")] = os.cpu_count() or 1,
) -> None:
    """Compare. The exit code is 1 if rows differ, or if a file fails with an error that is not this project's own."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    files = list(avro_files(folders))

    def examined(file: tuple[str, Path]) -> tuple[str, Finding]:
        repository, path = file
        finding = in_own_process(examine, path)
        if verbose:
            print(
                "\t".join(map(str, (finding.verdict.value, finding.rows, path, finding.reason))) + "\n",
                end="",
                flush=True,
            )
        return repository, finding

    findings = concurrent_map(examined, files, workers, after_error="wait")
    console.print(counts_table(findings))
    wrong = {Verdict.DIFFERENT, Verdict.FAULT} & {finding.verdict for _, finding in findings}
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()
