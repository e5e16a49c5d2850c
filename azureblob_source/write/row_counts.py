"""How many rows a task has after each of its steps. Pure.

Each step is counted by itself: the contents of a batch do not always show its number of rows, as when its structs have
no fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foundation.errors import RowCountError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_REPORT = "Report this, with the types of the columns: it is a fault of this package."


@dataclass
class RowCounts:
    """received: from Spark, as its batches say. added: watermarks that the sink writes itself."""

    received: int = 0
    added: int = 0
    routed: int = 0
    encoded: int = 0
    staged: int = 0

    def of_spark(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, whose rows are counted as they pass."""
        for batch in batches:
            self.received += batch.num_rows
            yield batch

    def check(self) -> int:
        """The number of rows that are staged; RowCountError if it is not the same after each step."""
        due = self.received + self.added
        if not due == self.routed == self.encoded == self.staged:
            cause = (
                f"of {self.received} rows that it received, and {self.added} that it added, {self.routed} were routed, "
                f"{self.encoded} encoded and {self.staged} staged"
            )
            raise RowCountError("write", "the rows of a task", cause, _REPORT)
        return due


def check_blob(name: str, added: int, staged: int) -> None:
    """RowCountError unless the blocks of a blob have the rows that were added to it."""
    if staged != added:
        cause = f"{added} rows were added to it, and its blocks have {staged}"
        raise RowCountError("write", f"blob {name}", cause, _REPORT)


def check_named(staged: int, named: int, where: str) -> None:
    """RowCountError unless what tasks have staged is what is to be named in the log."""
    if named != staged:
        cause = f"{staged} rows were staged, and {named} are named; nothing was committed"
        raise RowCountError("commit", where, cause, _REPORT)
