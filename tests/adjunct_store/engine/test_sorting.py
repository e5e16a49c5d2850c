"""Changes in any order are the same changes, sorted, whatever of them is on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjunct_store.engine.entry import Changes
from adjunct_store.engine.sorting import in_order

ROWS = st.lists(st.tuples(st.sampled_from([b"", b"a", b"b", b"b\x00", b"\xff"]), st.integers(-2, 2)), max_size=8)


def changes(rows: list[tuple[bytes, int]], *, ordered: bool = True) -> Changes:
    """The record tells the row."""
    keys, orders = [key for key, _ in rows], np.array([order for _, order in rows], np.int64)
    told = pa.array([repr(row).encode() for row in rows], pa.large_binary())
    return Changes(pa.array(keys, pa.large_binary()), told, orders if ordered else None)


def read(pieces: list[Changes]) -> list[tuple[bytes, int, bytes]]:
    return [
        (key, order, record)
        for each in pieces
        for key, order, record in zip(
            each.keys.to_pylist(),
            [0] * len(each.keys) if each.orders is None else each.orders.tolist(),
            each.records.to_pylist(),
            strict=True,
        )
    ]


@given(st.lists(ROWS, max_size=6), st.sampled_from([1, 150, 10**6]))
def test_all_changes_are_there_by_key_and_order(batches: list[list[tuple[bytes, int]]], run_bytes: int) -> None:
    given_changes = [changes(rows) for rows in batches if rows]
    with tempfile.TemporaryDirectory() as folder:
        found = read(list(in_order(given_changes, Path(folder), run_bytes)))
    assert sorted(read(given_changes)) == found


@pytest.mark.parametrize("ordered", [True, False])
def test_long_runs_are_merged_in_pieces(tmp_path: Path, ordered: bool) -> None:
    numbers = np.random.default_rng(2).permutation(100_000)
    rows = [(f"{number // 3:06}".encode(), number % 3 if ordered else 0) for number in numbers.tolist()]
    batches = [changes(rows[begin : begin + 10_000], ordered=ordered) for begin in range(0, 100_000, 10_000)]
    pieces = list(in_order(batches, tmp_path, 1_200_000))
    assert 3 <= len(list(tmp_path.iterdir()))
    assert max(len(each.keys) for each in pieces) < 50_000
    assert sorted(rows) == [(key, order) for key, order, _ in read(pieces)]
    assert {not ordered} == {each.orders is None for each in pieces}
