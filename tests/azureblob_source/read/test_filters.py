from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from azureblob_source.read.filters import column_filter, selected

if not hasattr(spark, "EqualTo"):
    pytest.skip("Spark 4.1 brings the push-down of filters", allow_module_level=True)

WHEN = datetime(2013, 1, 31, 12, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "bool": (pa.bool_(), False, True),
    "byte": (pa.int8(), -3, 5),
    "long": (pa.int64(), -(2**62), 2**62),
    "text": (pa.string(), "Orly", "orly"),
    "bytes": (pa.binary(), b"\x00", b"\xff\x00"),
    "day": (pa.date32(), date(1969, 12, 31), date(2013, 1, 31)),
    "instant": (pa.timestamp("us", tz="UTC"), WHEN, WHEN.replace(microsecond=1)),
    "clock": (pa.timestamp("us"), datetime(1960, 1, 1), datetime(2013, 1, 31, 12)),  # noqa: DTZ001 - without a zone
    "price": (pa.decimal128(10, 2), Decimal("-1.50"), Decimal("99999999.99")),
}


def rows(kind: pa.DataType, *values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind), pa.array(range(len(values)))], ["a", "number"])


def kept(batch: pa.RecordBatch, *filters: spark.Filter) -> list[int]:
    found = [column_filter(each, batch.schema) for each in filters]
    assert None not in found
    numbers: list[int] = selected(batch, [each for each in found if each is not None]).column("number").to_pylist()
    return numbers


@pytest.mark.parametrize(("kind", "low", "high"), VALUES.values(), ids=VALUES)
def test_comparisons_keep_what_sql_keeps(kind: pa.DataType, low: Any, high: Any) -> None:
    batch = rows(kind, low, None, high, low)
    column = ("a",)
    assert [0, 3] == kept(batch, spark.EqualTo(column, low))
    assert [2] == kept(batch, spark.Not(spark.EqualTo(column, low)))
    assert [2] == kept(batch, spark.GreaterThan(column, low))
    assert [0, 2, 3] == kept(batch, spark.GreaterThanOrEqual(column, low))
    assert [0, 3] == kept(batch, spark.LessThan(column, high))
    assert [0, 3] == kept(batch, spark.LessThanOrEqual(column, low))
    assert [2] == kept(batch, spark.In(column, (high,)))
    assert [0, 3] == kept(batch, spark.Not(spark.In(column, (high,))))
    assert [2] == kept(batch, spark.In(column, (high, None)))
    assert [] == kept(batch, spark.Not(spark.In(column, (high, None))))
    assert [1, 2] == kept(batch, spark.Not(spark.EqualNullSafe(column, low)))
    assert [1] == kept(batch, spark.EqualNullSafe(column, None))
    assert [1] == kept(batch, spark.IsNull(column))
    assert [0, 2] == kept(batch, spark.IsNotNull(column), spark.LessThan(("number",), 3))


def test_strings_are_matched_literally() -> None:
    batch = rows(pa.string(), "a%b", None, "_a%", "ab", "")
    assert [0, 3] == kept(batch, spark.StringStartsWith(("a",), "a"))
    assert [0, 3] == kept(batch, spark.StringEndsWith(("a",), "b"))
    assert [0, 2] == kept(batch, spark.StringContains(("a",), "a%"))
    assert [2, 4] == kept(batch, spark.Not(spark.StringStartsWith(("a",), "a")))


@pytest.mark.parametrize(
    "given_filter",
    [
        spark.EqualTo(("b",), 1),
        spark.EqualTo(("a", "b"), 1),
        spark.EqualTo(("a",), None),
        spark.EqualTo(("a",), "text"),
        spark.EqualTo(("a",), 2**40),
        spark.StringContains(("a",), "1"),
        spark.EqualTo(("double",), 1.0),
        spark.EqualTo(("list",), [1]),
        spark.Not(spark.Not(spark.EqualTo(("a",), 1))),
    ],
    ids=str,
)
def test_what_cannot_be_applied_exactly_is_left_to_spark(given_filter: spark.Filter) -> None:
    schema = pa.schema([("a", pa.int32()), ("double", pa.float64()), ("list", pa.list_(pa.int32()))])
    assert column_filter(given_filter, schema) is None


@dataclass(frozen=True)
class Unheard(spark.Filter):
    attribute: tuple[str, ...]
    value: int


def test_a_filter_of_a_later_spark_is_left_to_spark() -> None:
    assert column_filter(Unheard(("a",), 1), pa.schema([("a", pa.int32())])) is None


def test_no_filter_keeps_the_batch() -> None:
    batch = rows(pa.float64(), math.nan, None)
    assert selected(batch, []) is batch


@given(st.lists(st.none() | st.integers(-3, 3)), st.lists(st.none() | st.integers(-3, 3), min_size=1), st.booleans())
def test_in_follows_three_valued_logic(values: list[int | None], wanted: list[int | None], negated: bool) -> None:
    def truth(value: int | None) -> bool | None:
        if value is None:
            return None
        if value in wanted:
            return True
        return None if None in wanted else False

    found = spark.In(("a",), tuple(wanted))
    batch = rows(pa.int64(), *values)
    expected = [place for place, value in enumerate(values) if truth(value) is (not negated)]
    assert expected == kept(batch, spark.Not(found) if negated else found)
