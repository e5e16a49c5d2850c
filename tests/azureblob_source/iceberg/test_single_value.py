from __future__ import annotations

import json
import math
from typing import Any

import pytest

from arrow_avro import AvroType, header_schema
from azureblob_source.iceberg.single_value import encoded

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
DATE = {"type": "int", "logicalType": "date"}


def avro(kind: Any) -> AvroType:
    return header_schema(json.dumps(kind), blob="a").type


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("int", -2, "feffffff"),
        ({"type": "int", "sparkType": "short"}, 300, "2c010000"),
        (DATE, 18262, "56470000"),
        ("long", 1, "0100000000000000"),
        (["null", "long"], 1, "0100000000000000"),
        ({"type": "long", "logicalType": "timestamp-micros"}, -1, "ffffffffffffffff"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, -1, "ffffffffffffffff"),
        ("float", 0.5, "0000003f"),
        ("double", -0.0, "0000000000000080"),
        ("double", 1, "000000000000f03f"),
        ("string", "é", "c3a9"),
        (DECIMAL, 0, "00"),
        (DECIMAL, 127, "7f"),
        (DECIMAL, 128, "0080"),
        (DECIMAL, -128, "80"),
        (DECIMAL, -129, "ff7f"),
        ({"type": "fixed", "name": "f", "size": 9} | {**DECIMAL, "type": "fixed"}, 1420, "058c"),
        ("boolean", True, "01"),
        (["null", "boolean"], False, "00"),
    ],
)
def test_a_bound_is_encoded_as_the_specification_of_iceberg_says(kind: Any, value: float | str, stored: str) -> None:
    assert bytes.fromhex(stored) == encoded(avro(kind), value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double", math.nan),
        ("float", 1e300),
        ("int", 1 << 31),
        ("long", 0.5),
        ("string", 1),
        ("bytes", "a"),
        ("int", "1"),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, "a"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1),
        ({"type": "long", "spark.sql.catalyst.type": "interval day to second"}, 1),
        (["int", "string"], 1),
    ],
)
def test_other_bounds_are_left_out(kind: Any, value: float | str) -> None:
    assert encoded(avro(kind), value) is None
