"""Tables for people on standard output, and the same figures as JSON in `benchmarks/results`, which git ignores."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

RESULTS = Path(__file__).resolve().with_name("results")
_PACKAGES = ("pyspark", "pyarrow", "numpy", "fastavro", "azure-storage-blob")


@dataclass(frozen=True)
class Report:
    """One table. All lines have the same keys, in the order of the columns; numbers are not rounded."""

    title: str
    lines: Sequence[dict[str, str | float]]
    note: str = ""


def show(report: Report, console: Console) -> None:
    """Print one table."""
    table = Table(title=report.title, title_justify="left", caption=report.note or None, caption_justify="left")
    for name, value in report.lines[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for line in report.lines:
        table.add_row(*(shown(value) for value in line.values()))
    console.print(table)


def shown(value: str | float) -> str:
    """A number with three digits that matter, or all those before the point."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def save(section: str, reports: Sequence[Report], folder: Path = RESULTS) -> Path:
    """Write the figures of one section beside those of earlier runs; returns the file."""
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="ascii")
    now = datetime.now(UTC)
    file = folder / f"{now:%Y%m%dT%H%M%SZ}-{section}.json"
    document = {"section": section, "time": now.isoformat(timespec="seconds"), "machine": machine()}
    tables = [asdict(report) for report in reports]
    file.write_text(json.dumps({**document, "tables": tables}, indent=1) + "\n", encoding="utf-8")
    return file


def machine() -> dict[str, str | float]:
    """What the figures depend on beside the code."""
    return {
        "system": platform.platform(),
        "cores": os.cpu_count() or 0,
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }
