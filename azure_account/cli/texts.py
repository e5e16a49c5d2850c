"""Numbers, times and tables for people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from rich import box
from rich.table import Table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
NONE = "–"
"""An empty cell."""


def count_text(count: int | None) -> str:
    """An integer in groups of three."""
    return NONE if count is None else f"{count:,}"


def plural(count: int, noun: str) -> str:
    """`1 blob`, `2,000 blobs`."""
    return f"{count:,} {noun if count == 1 else plural_of(noun)}"


def plural_of(noun: str) -> str:
    """`blobs`, `entries`, `batches`."""
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def size_text(count: int) -> str:
    """Bytes with three significant digits: `999 B`, `1.21 MiB`, `34.5 GiB`."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - it would need a fourth digit
        size, unit = size / 1024, unit + 1
    digits = 0 if unit == 0 or size >= 99.95 else 1 if size >= 9.995 else 2  # noqa: PLR2004 - three digits
    return f"{size:.{digits}f} {_UNITS[unit]}"


def time_text(moment: datetime) -> str:
    """UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def new_table(*columns: str, title: str | None = None) -> Table:
    """A table of these columns. `>` after a name aligns it to the right. Only the first column wraps its lines."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="bold")
    table.title = title
    for place, name in enumerate(columns):
        right = name.endswith(">")
        table.add_column(
            name.rstrip(">"),
            justify="right" if right else "left",
            no_wrap=place > 0,
            overflow="ellipsis" if place else "fold",
        )
    return table


def shrinking(table: Table, place: int) -> Table:
    """The table, in which only the column `place` is shortened when there is no room for all."""
    for at, column in enumerate(table.columns):
        if at != place:
            column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
    return table
