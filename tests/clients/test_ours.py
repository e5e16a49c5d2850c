"""How values that a program prints are compared with those that the sink wrote."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.ours import COLUMNS, same

VALUES = [value for _, values in COLUMNS.values() for value in values if value not in (None, [])]
PRINTED: dict[str, list[Any]] = {
    "date": ["19782", "2024-02-29", "2024-02-29T00:00:00.000000"],
    "timestamp": ["1709209815123456", "2024-02-29 12:30:15.123456+00:00", "2024-02-29T12:30:15.123456"],
    "time": ["45015123456", "12:30:15.123456", "12h30m15.123456s"],
    "decimal(9, 2)": ["-12.34", "-617/50", "fffffb2e"],
    "binary": ["00ff"],
    "long": ["-9223372036854775808", -(2**63)],
    "map": [{"k": "1", "l": None}],
}


@pytest.mark.parametrize("column", PRINTED)
def test_a_value_may_be_printed_in_several_ways(column: str) -> None:
    value = COLUMNS[column][1][0]
    assert [] == [text for text in PRINTED[column] if not same(value, text)]


@pytest.mark.parametrize("place", range(len(VALUES)))
def test_another_value_is_not_the_same(place: int) -> None:
    others: list[Any] = [None, "another", 7, "8", {"k": 2}, {"x": 0.5, "deep": None}, [2], VALUES[place - 1]]
    assert [] == [other for other in others if same(VALUES[place], other)]
