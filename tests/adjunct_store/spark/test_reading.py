"""Batches that a task looks up at once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adjunct_store.spark import reading
from adjunct_store.spark.reading import gathered


def batch_of(*keys: str) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys, pa.string())})


def test_batches_are_joined_until_they_have_the_rows_or_bytes_of_one_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(reading, "BYTES_AT_ONCE", 1_000)
    given = [batch_of("a"), batch_of(), batch_of("b", "c"), batch_of("d" * 1_000), batch_of("e"), batch_of("f")]
    found = [batch.column(0).to_pylist() for batch in gathered(given)]
    assert [["a", "b", "c"], ["d" * 1_000], ["e", "f"]] == found


def test_no_rows_are_no_batch() -> None:
    assert [] == list(gathered([batch_of(), batch_of()]))
