"""Numbers, times, and the columns of tables, for people and as JSON. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Row = TypeVar("Row")
Whole = TypeVar("Whole")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CAPITAL = re.compile("[A-Z]")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FAULTS_SHOWN = 100
_SHORTENED = 10
"""Characters that a column keeps."""
NONE = "–"
"""An empty cell."""


@dataclass(frozen=True)
class TableColumn(Generic[Row]):
    """A column of a table, and a key of the JSON documents of its rows.

    title: `>` at its end aligns it to the right; empty: it is in JSON only. key: of JSON; empty: it is in the table
    only. text: how the table shows a value; None and an empty text are a dash.
    """

    title: str
    key: str
    value: Callable[[Row], Any]
    text: Callable[[Any], str | Text] = str

    def of(self, part: Callable[[Whole], Row]) -> TableColumn[Whole]:
        """The column of what has such a row as a part."""
        return TableColumn(self.title, self.key, lambda whole: self.value(part(whole)), self.text)


def in_json(key: str, value: Callable[[Row], Any]) -> TableColumn[Row]:
    """A key of the documents that is no column of the table."""
    return TableColumn("", key, value)


def attributes(*keys: str) -> list[TableColumn[Any]]:
    """Keys of the documents that are attributes of a row: `uploadedFiles` is its `uploaded_files`."""
    return [in_json(key, attrgetter(_CAPITAL.sub(r"_\g<0>", key).lower())) for key in keys]


def in_table(title: str, value: Callable[[Row], Any], text: Callable[[Any], str | Text] = str) -> TableColumn[Row]:
    """A column of the table that is no key of the documents."""
    return TableColumn(title, "", value, text)


def new_table(
    columns: Iterable[TableColumn[Row]],
    rows: Iterable[Row],
    *,
    shrinks: int | tuple[int, ...] = 0,
    title: str | None = None,
    style: Callable[[Row], str] = lambda _: "",
) -> Table:
    """A table in which only the columns `shrinks` are shortened when there is no room for all. style: of a row."""
    shown, listed = [column for column in columns if column.title], list(rows)
    shrinking = (shrinks,) if isinstance(shrinks, int) else shrinks
    cells = [[_cell(column, row) for column in shown] for row in listed]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), title=title)
    table.title_justify, table.title_style = "left", "bold"
    for place, column in enumerate(shown):
        name = column.title.rstrip(">")
        widest = max(len(name), *(len(each[place]) for each in cells), 0)
        table.add_column(
            name,
            justify="right" if column.title.endswith(">") else "left",
            no_wrap=place > 0,
            overflow="ellipsis" if place else "fold",
            min_width=min(widest, _SHORTENED) if place in shrinking else widest,
        )
    for row, texts in zip(listed, cells, strict=True):
        table.add_row(*texts, style=style(row))
    return table


def document(columns: Iterable[TableColumn[Row]], row: Row) -> dict[str, object]:
    """A row as a JSON document."""
    return {column.key: column.value(row) for column in columns if column.key}


def documents(columns: Sequence[TableColumn[Row]], rows: Iterable[Row]) -> list[dict[str, object]]:
    """The rows as JSON documents."""
    return [document(columns, row) for row in rows]


def facts(of: Mapping[str, str]) -> Table:
    """Names and values, a line for each."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in of.items():
        table.add_row(name, Text(value))
    return table


def verification_lines(name: str, faults: Sequence[str], whole: str, *, dropped: str) -> list[str]:
    """What `verify` has found of a checkpoint or version. dropped: why it is gone, if it is."""
    if dropped:
        return [f"{name} {dropped}."]
    if not faults:
        return [f"{name} is whole: {whole}."]
    more = len(faults) - _FAULTS_SHOWN
    left_out = [f"  … and {more:,} more (--json has all)"] if more > 0 else []
    shown = (f"  {fault}" for fault in faults[:_FAULTS_SHOWN])
    return [f"{name} is not whole: {plural(len(faults), 'fault')}.", *shown, *left_out]


def printable(text: str) -> str:
    """The text with control characters as escapes: what others wrote cannot steer the terminal.

    So are the lone surrogates that stand for bytes of file names which are no UTF-8: a terminal could not show them.
    """
    return _CONTROL_CHARACTER.sub(lambda found: _escape(ord(found[0])), text)


def one_line(text: str) -> str:
    """The text on one line, without control characters."""
    return printable(text.replace("\n", "⏎").replace("\t", " "))


def count_text(count: int) -> str:
    """An integer in groups of three."""
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """`1 blob`, `2,000 blobs`."""
    return f"{count:,} {noun if count == 1 else plural_of(noun)}"


def plural_of(noun: str) -> str:
    """`blobs`, `entries`, `batches`."""
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def files_text(count: int, size: int) -> str:
    """`2 files (1.21 MiB)`."""
    return f"{plural(count, 'file')} ({size_text(size)})"


def size_text(count: int) -> str:
    """Bytes with three significant digits: `999 B`, `1.21 MiB`, `34.5 GiB`."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - it would need a fourth digit
        size, unit = size / 1024, unit + 1
    digits = 0 if unit == 0 or size >= 99.95 else 1 if size >= 9.995 else 2  # noqa: PLR2004 - three digits
    return f"{size:.{digits}f} {_UNITS[unit]}"


def time_text(moment: datetime | str) -> str:
    """UTC, to the second; a text that is not a time as it is."""
    try:
        moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        return str(moment)
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _cell(column: TableColumn[Row], row: Row) -> Text:
    value = column.value(row)
    shown = NONE if value is None else column.text(value)
    return shown if isinstance(shown, Text) else Text(one_line(shown) or NONE)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - the codes of one byte
