"""The year that is played, in its first days."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from benchmarks.year import MINUTES, ROWS, Year, _read, _sizes


def test_days_are_played_and_each_row_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.year.MINUTES", 240)
    year = Year(2, Random(1))
    for day in range(2):
        year.play(day)
    assert _read(year, "all", None)["rows"] == 2 * 240 * ROWS
    assert _read(year, "an hour", timedelta(hours=1))["rows"] == 60 * ROWS
    assert int(_sizes(year)["data"]) < 10 < 2 * 240 < MINUTES
    assert year.done["blobs joined"] >= 2 * 240
    for reader in year.readers.values():
        reader.wake(year.process("a reader"), year.clock)
    assert all(2 * 240 * ROWS == reader.seen.total() == len(reader.seen) for reader in year.readers.values())
