"""What other programs write, and what a read must give: schema, rows as they are stored, rows as Arrow gives them.

`python -m tests.clients.cases` prints the first two as JSON, for programs in any language. There a long is a decimal
text (JavaScript has no 64 bits), bytes and fixed are hexadecimal, a union is `{"index of the branch": value}`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

Json = Any


@dataclass(frozen=True)
class Case:
    """One schema. `read` are the rows that a read gives; rows_per_block: None for one block.

    every_codec: written with each codec that a program has, else without one.
    refused: what the error says, if a read cannot give the rows.
    """

    schema: Json
    rows: list[Json]
    read: list[dict[str, Any]]
    rows_per_block: int | None = None
    every_codec: bool = False
    refused: str | None = None


def record(name: str, *fields: tuple[str, Json], **more: Json) -> Json:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": avro} for one, avro in fields], **more}


def some(index: int, value: Json) -> Json:
    """A value of a branch of a union."""
    return {str(index): value}


NULL = some(0, None)
DAY, NOON = date(2024, 2, 29), datetime(2024, 2, 29, 12, 30, 15, 123000, UTC)
MILLIS = int(NOON.timestamp()) * 1000 + 123
NODE = record("Node", ("value", "long"), ("next", ["null", "Node"]))


def members(size: int, place: int, value: Any) -> dict[str, Any]:
    """How a read gives a union of several types that are not null."""
    return {f"member{each}": value if each == place else None for each in range(size)}


def logical(avro: str, name: str, **more: Json) -> Json:
    return {"type": avro, "logicalType": name, **more}


def fixed(name: str, size: int, **more: Json) -> Json:
    return {"type": "fixed", "name": name, "size": size, **more}


# What Event Hubs Capture writes, as Microsoft documents it ("Explore captured Avro files in Azure Event Hubs").
VALUES = {"type": "map", "values": ["long", "double", "string", "bytes"]}
EVENT = record(
    "EventData",
    ("SequenceNumber", "long"),
    ("Offset", "string"),
    ("EnqueuedTimeUtc", "string"),
    ("SystemProperties", VALUES),
    ("Properties", VALUES),
    ("Body", ["null", "bytes"]),
    namespace="Microsoft.ServiceBus.Messaging",
)

CASES: dict[str, Case] = {
    "primitives": Case(
        record(
            "Primitives",
            ("nothing", "null"),
            ("flag", "boolean"),
            ("small", "int"),
            ("large", "long"),
            ("single", "float"),
            ("double", "double"),
            ("data", "bytes"),
            ("text", "string"),
            namespace="org.example.ns",
            aliases=["Older"],
        ),
        [
            [None, True, -(2**31), str(-(2**63)), -0.5, 1e308, "00ff", "é𝄞"],
            [None, False, 2**31 - 1, str(2**63 - 1), 1.5, -1e-308, "", ""],
        ],
        [
            dict(zip(["nothing", "flag", "small", "large", "single", "double", "data", "text"], row, strict=True))
            for row in (
                (None, True, -(2**31), -(2**63), -0.5, 1e308, b"\x00\xff", "é𝄞"),
                (None, False, 2**31 - 1, 2**63 - 1, 1.5, -1e-308, b"", ""),
            )
        ],
    ),
    "logical": Case(
        record(
            "Logical",
            ("day", logical("int", "date")),
            ("time_millis", logical("int", "time-millis")),
            ("time_micros", logical("long", "time-micros")),
            ("millis", logical("long", "timestamp-millis")),
            ("micros", logical("long", "timestamp-micros")),
            ("local_millis", logical("long", "local-timestamp-millis")),
            ("local_micros", logical("long", "local-timestamp-micros")),
            ("money", logical("bytes", "decimal", precision=9, scale=2)),
            ("fixed_money", fixed("Money", 5, logicalType="decimal", precision=10, scale=3)),
            ("id", logical("string", "uuid")),
            ("span", fixed("Span", 12, logicalType="duration")),
        ),
        [
            [
                *((DAY - date(1970, 1, 1)).days, 45015123, str(45015123000), str(MILLIS), str(MILLIS * 1000)),
                *(str(MILLIS), str(MILLIS * 1000), "fb2e", "fffffffb2e"),
                *("6f1c2d3e-4b5a-4978-8697-a5b4c3d2e1f0", "010000000200000003000000"),
            ]
        ],
        [
            {
                "day": DAY,
                "time_millis": time(12, 30, 15, 123000),
                "time_micros": time(12, 30, 15, 123000),
                "millis": NOON,
                "micros": NOON,
                "local_millis": NOON.replace(tzinfo=None),
                "local_micros": NOON.replace(tzinfo=None),
                "money": Decimal("-12.34"),
                "fixed_money": Decimal("-1.234"),
                "id": "6f1c2d3e-4b5a-4978-8697-a5b4c3d2e1f0",
                "span": bytes.fromhex("010000000200000003000000"),
            }
        ],
    ),
    "nested": Case(
        record(
            "Nested",
            ("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"], "namespace": "org.example"}),
            ("code", fixed("Code", 3, namespace="org.example.deep")),
            ("numbers", {"type": "array", "items": ["null", "int"]}),
            ("counts", {"type": "map", "values": {"type": "array", "items": "long"}}),
            ("inner", ["null", record("Inner", ("again", "org.example.Colour"), ("code", "org.example.deep.Code"))]),
            ("inners", {"type": "array", "items": "Inner"}),
        ),
        [
            ["RED", "010203", [some(1, 7), NULL], {"a": ["1", "2"]}, some(1, ["GREEN", "0a0b0c"]), [["RED", "000000"]]],
            ["GREEN", "ffffff", [], {}, NULL, []],
        ],
        [
            {
                "colour": "RED",
                "code": b"\x01\x02\x03",
                "numbers": [7, None],
                "counts": [("a", [1, 2])],
                "inner": {"again": "GREEN", "code": b"\n\x0b\x0c"},
                "inners": [{"again": "RED", "code": b"\0\0\0"}],
            },
            {"colour": "GREEN", "code": b"\xff" * 3, "numbers": [], "counts": [], "inner": None, "inners": []},
        ],
    ),
    "unions": Case(
        record(
            "Unions",
            ("any", ["null", "long", "double", "string", "bytes"]),
            ("either", [record("Cat", ("lives", "int")), record("Dog", ("name", "string"))]),
            ("properties", {"type": "map", "values": ["long", "string"]}),
        ),
        [
            [some(1, "5"), some(0, [9]), {"x": some(1, "y")}],
            [some(3, "five"), some(1, ["rex"]), {"x": some(0, "8")}],
            [NULL, some(0, [1]), {}],
            [some(2, 0.25), some(0, [2]), {}],
            [some(4, "05"), some(0, [3]), {}],
        ],
        [
            {"any": one, "either": {"member0": cat, "member1": dog}, "properties": pairs}
            for one, cat, dog, pairs in (
                (members(4, 0, 5), {"lives": 9}, None, [("x", members(2, 1, "y"))]),
                (members(4, 2, "five"), None, {"name": "rex"}, [("x", members(2, 0, 8))]),
                (None, {"lives": 1}, None, []),
                (members(4, 1, 0.25), {"lives": 2}, None, []),
                (members(4, 3, b"\x05"), {"lives": 3}, None, []),
            )
        ],
    ),
    "capture": Case(
        EVENT,
        [
            ["7", "4096", "5/17/2024 9:05:07 AM", {}, {"delay": some(1, 0.5), "raw": some(3, "01ff")}, some(1, "7b7d")],
            ["8", "8192", "5/17/2024 9:05:08 AM", {"x": some(0, "1715936700000")}, {"carrier": some(2, "UA")}, NULL],
        ],
        [
            {
                "SequenceNumber": 7,
                "Offset": "4096",
                "EnqueuedTimeUtc": "5/17/2024 9:05:07 AM",
                "SystemProperties": [],
                "Properties": [("delay", members(4, 1, 0.5)), ("raw", members(4, 3, b"\x01\xff"))],
                "Body": b"{}",
            },
            {
                "SequenceNumber": 8,
                "Offset": "8192",
                "EnqueuedTimeUtc": "5/17/2024 9:05:08 AM",
                "SystemProperties": [("x", members(4, 0, 1715936700000))],
                "Properties": [("carrier", members(4, 2, "UA"))],
                "Body": None,
            },
        ],
    ),
    "empty": Case(record("Nothing", ("id", "long")), [], []),
    "blocks": Case(
        record("Counted", ("id", "long"), ("text", "string")),
        [[str(number), "x" * (number % 50)] for number in range(100)],
        [{"id": number, "text": "x" * (number % 50)} for number in range(100)],
        rows_per_block=30,
        every_codec=True,
    ),
    "recursive": Case(NODE, [["1", some(1, ["2", NULL])]], [], refused="set option recursiveFieldMaxDepth"),
}


def as_json() -> dict[str, Json]:
    """Schemas and rows."""
    return {
        name: {
            "schema": case.schema,
            "rows": case.rows,
            "rowsPerBlock": case.rows_per_block,
            "everyCodec": case.every_codec,
        }
        for name, case in CASES.items()
    }


if __name__ == "__main__":
    print(json.dumps(as_json()))
