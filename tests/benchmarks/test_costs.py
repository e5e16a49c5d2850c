"""What requests cost."""

from __future__ import annotations

import pytest

pytest.importorskip("polars", reason="not of the environments of other versions of Spark")

from benchmarks.costs import _line


def test_listings_cost_as_writes_leases_as_reads_and_deletes_nothing() -> None:
    line = _line({"PUT": 2, "LIST": 1, "GET": 3, "HEAD": 1, "SET": 1, "DELETE": 7})
    assert 15 == line["requests"]
    assert 3 * 0.055 + 5 * 0.0044 == pytest.approx(float(line["USD for 10,000"]))
    with pytest.raises(AssertionError, match="PATCH"):
        _line({"PATCH": 1})
