"""Planes that change: files of changes for a stream, and what the planes are after each of them."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tools.flights import planes

if TYPE_CHECKING:
    from pathlib import Path

VALUES = ("year", "manufacturer", "model", "seats")
SCHEMA = pa.schema(
    [("tailnum", pa.string()), ("op", pa.string()), ("at", pa.int64())]
    + [(name, planes().schema.field(name).type) for name in VALUES]
)
COLUMNS: dict[str, Any] = {
    "keys": ["tailnum"],
    "values": list(VALUES),
    "order_by": "at",
    "delete_when": "op = 'D'",
    "partitions": 3,
}
"""How the rows of the files become changes of a store."""
_EARLIEST_FILE = 1_500_000_000
_CHANGED, _NEW = 600, 20


@dataclass
class PlanesChanges:
    """The files that were written. The first has all planes.

    contents: the planes after each file, by tail number. deleted, older, again: rows that delete, that came after a
    newer change of their plane, and planes that came back.
    """

    folder: Path
    seed: int
    contents: list[dict[str, dict[str, Any]]] = field(default_factory=list)
    deleted: int = 0
    older: int = 0
    again: int = 0
    _latest: dict[str, tuple[int, dict[str, Any] | None]] = field(default_factory=dict)
    _used: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self._rng = random.Random(self.seed)
        first = [(row["tailnum"], "U", 0, {name: row[name] for name in VALUES}) for row in planes().to_pylist()]
        self._write(first)

    def feed(self) -> None:
        """Write the next file: changes of many planes, some of them several times, and in no order."""
        number = len(self.contents)
        tails = self._rng.sample(sorted(self._latest), _CHANGED) + [f"N{number}-{new}" for new in range(_NEW)]
        rows = []
        for tail in tails:
            for at in self._rng.sample(self._orders(tail, number), self._rng.choice((1, 1, 2))):
                delete = self._rng.random() < 0.25
                seats = self._rng.randrange(1000)
                value = {"year": number, "manufacturer": f"of file {number}", "model": tail[::-1], "seats": seats}
                rows.append((tail, "D" if delete else "U", at, dict.fromkeys(VALUES) if delete else value))
        self._rng.shuffle(rows)
        self._write(rows)

    def _orders(self, tail: str, number: int) -> list[int]:
        """Orders that no row of this plane has: two files may come in one batch, when a query was killed."""
        return [at for at in range(10 * number - 15, 10 * number + 10) if at not in self._used[tail]]

    def _write(self, rows: list[tuple[str, str, int, dict[str, Any]]]) -> None:
        for tail, operation, at, value in rows:
            self._used[tail].add(at)
            before = self._latest.get(tail)
            self.deleted += operation == "D"
            if before is not None and at < before[0]:
                self.older += 1
                continue
            self.again += before is not None and before[1] is None and operation == "U"
            self._latest[tail] = (at, None if operation == "D" else value)
        content = {tail: value for tail, (_, value) in self._latest.items() if value is not None}
        number = len(self.contents)
        self.contents.append(content)
        records = [{"tailnum": tail, "op": op, "at": at, **value} for tail, op, at, value in rows]
        hidden = self.folder / f".{number:04d}.parquet"
        pq.write_table(pa.Table.from_pylist(records, SCHEMA), hidden)
        os.utime(hidden, (_EARLIEST_FILE + number, _EARLIEST_FILE + number))
        hidden.rename(self.folder / f"{number:04d}.parquet")
