"""The command.

    python -m tools.foreign_avro [--verbose] FOLDER…

Counts stand by repository: the first folder below one of those named.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.foreign_avro.examination import Finding, Outcome, alone, examine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SUFFIXES = (".avro", ".avro.gz")
_WIDTH = 140


def avro_files(folders: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """All Avro files below some folders, each with the repository that it counts to."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name.endswith(_SUFFIXES):
                inner = path.relative_to(folder).parts
                yield (inner[0] if len(inner) > 1 else folder.resolve().name), path


def counts_table(findings: Iterable[tuple[str, Finding]]) -> Table:
    """Files by repository and outcome, and the rows that are the same."""
    counts: dict[str, Counter[Outcome]] = {}
    rows: Counter[str] = Counter()
    for repository, finding in findings:
        counts.setdefault(repository, Counter())[finding.outcome] += 1
        rows[repository] += finding.rows if finding.outcome is Outcome.SAME else 0
    table = Table(show_footer=True)
    total = sum(counts.values(), Counter())
    table.add_column("repository", f"{len(counts)} repositories", overflow="fold")
    table.add_column("files", str(total.total()), justify="right")
    for outcome in Outcome:
        table.add_column(outcome.value, str(total[outcome]), justify="right")
    table.add_column("rows the same", f"{rows.total():,}", justify="right")
    for repository, found in sorted(counts.items()):
        cells = (str(found[outcome] or "–") for outcome in Outcome)
        table.add_row(Text(repository), str(found.total()), *cells, f"{rows[repository]:,}")
    return table


def main(
    folders: Annotated[list[Path], typer.Argument(help="Each has a folder for every repository.", exists=True)],
    *,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every file.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Files that are read at once.")] = os.cpu_count() or 1,
) -> None:
    """Compare; the exit code is 1 if rows differ, or a file was refused without a sentence of this project's."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    files = list(avro_files(folders))
    with ThreadPoolExecutor(workers) as pool:
        findings: list[tuple[str, Finding]] = []
        for (repository, path), finding in zip(files, pool.map(_examined, files), strict=True):
            findings.append((repository, finding))
            if verbose:
                print(finding.outcome.value, finding.rows, path, finding.reason, sep="\t", flush=True)
    console.print(counts_table(findings))
    wrong = {Outcome.DIFFERENT, Outcome.FAULT} & {finding.outcome for _, finding in findings}
    raise typer.Exit(1 if wrong else 0)


def _examined(file: tuple[str, Path]) -> Finding:
    return alone(examine, file[1])


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()
