"""Random nested types of Spark and values of them, as SQL: nulls at every level beside what must not be null."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from random import Random

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
DEPTH = 3


@dataclass(frozen=True)
class Kind:
    """A type: its SQL, an expression of a value of it, and the names of all types in it."""

    ddl: str
    value: Callable[[Random], str] = field(repr=False)
    names: frozenset[str]

    @property
    def null(self) -> str:
        """An expression of its null."""
        return f"CAST(NULL AS {self.ddl})"


def _leaf(name: str, ddl: str, *values: str) -> Kind:
    return Kind(ddl, lambda random: random.choice(values), frozenset({name}))


LEAVES = [
    _leaf("boolean", "BOOLEAN", "true", "false"),
    _leaf("byte", "TINYINT", "-128Y", "127Y"),
    _leaf("short", "SMALLINT", "-32768S", "7S"),
    _leaf("int", "INT", "-2147483648", "0", "5"),
    _leaf("long", "BIGINT", "9223372036854775807L", "-1L"),
    _leaf("float", "FLOAT", "CAST('NaN' AS FLOAT)", "CAST('-0.1' AS FLOAT)"),
    _leaf("double", "DOUBLE", "4.9E-324D", "CAST('-Infinity' AS DOUBLE)", "-0.0D"),
    _leaf("decimal", "DECIMAL(5,2)", "CAST(-12.34 AS DECIMAL(5,2))", "CAST(0 AS DECIMAL(5,2))"),
    _leaf("wide decimal", "DECIMAL(38,10)", "CAST('-9999999999999999999999999999.9' AS DECIMAL(38,10))"),
    _leaf("string", "STRING", "''", "'grüß 👋'", "repeat('x', 300)"),
    _leaf("binary", "BINARY", "X''", "X'00FF'"),
    _leaf("date", "DATE", "DATE'2020-02-29'"),
    _leaf("date before 1582", "DATE", "DATE'0001-01-01'", "DATE'1582-10-10'", "DATE'1500-02-28'"),
    _leaf("timestamp", "TIMESTAMP", "TIMESTAMP'2020-01-01 00:00:00.000001Z'"),
    _leaf("timestamp before 1900", "TIMESTAMP", "TIMESTAMP'1001-01-01 00:00:00Z'", "TIMESTAMP'1582-10-10 01:02:03Z'"),
    _leaf("timestamp_ntz", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-01-01 01:02:03'"),
    _leaf("interval", "INTERVAL DAY TO SECOND", "INTERVAL '-3 04:05:06.789' DAY TO SECOND"),
    _leaf("void", "VOID", "NULL"),
    _leaf("variant", "VARIANT", "parse_json('{\"a\": [1, null]}')", "parse_json('null')"),
    *([_leaf("time", "TIME", "TIME'00:00:00'", "TIME'23:59:59.999999'")] if VERSION >= (4, 1) else []),
]
KEYS = [each for each in LEAVES if each.ddl in ("STRING", "INT", "DATE", "DECIMAL(5,2)")]
"""Not BINARY: Spark 4.0 collects such a key as a `bytearray`, which is no key in Python."""
ALL = {name for each in LEAVES for name in each.names} | {
    "array", "empty array", "map", "map by struct", "struct", "struct without fields", "null in not null",
}  # fmt: skip
"""What a run must have drawn."""


def kind_of(random: Random, depth: int = DEPTH) -> Kind:
    """A type of at most `depth` levels."""
    form = random.choice(["array", "map", "struct", "struct"]) if depth and random.random() < 0.8 else ""
    if form == "array":
        return _array(kind_of(random, depth - 1), random)
    if form == "map":
        return _map(random, depth)
    if form == "struct":
        return struct([kind_of(random, depth - 1) for _ in range(random.choice([0, 1, 2, 2, 3]))], random)
    return random.choice(LEAVES)


def _array(element: Kind, random: Random) -> Kind:
    nullable = random.random() < 0.5

    def value(random: Random) -> str:
        items = [_inner(element, random, nullable=nullable) for _ in range(random.choice([0, 0, 1, 3]))]
        return f"array({', '.join(items)})" if items else _empty(f"ARRAY<{element.ddl}>", "array()", element)

    return Kind(f"ARRAY<{element.ddl}>", value, element.names | {"array", "empty array"})


def _map(random: Random, depth: int) -> Kind:
    by_struct = random.random() < 0.3
    key = struct([random.choice(KEYS)], random, nullable=False) if by_struct else random.choice(KEYS)
    item, nullable = kind_of(random, depth - 1), random.random() < 0.5
    ddl = f"MAP<{key.ddl}, {item.ddl}>"

    def value(random: Random) -> str:
        if random.random() < 0.3:
            return f"CAST(map() AS {ddl})"
        return f"map({key.value(random)}, {_inner(item, random, nullable=nullable)})"

    return Kind(ddl, value, key.names | item.names | {"map"} | ({"map by struct"} if by_struct else set()))


def struct(kinds: list[Kind], random: Random, *, nullable: bool | None = None) -> Kind:
    """A struct with fields of these types, each of which must not be null at random."""
    may = [each.ddl == "VOID" or (random.random() < 0.5 if nullable is None else nullable) for each in kinds]
    fields = [
        f"{name}: {each.ddl}{'' if null else ' NOT NULL'}" for name, each, null in zip("xyz", kinds, may, strict=False)
    ]

    def value(random: Random) -> str:
        given = [
            f"'{name}', {_inner(each, random, nullable=null)}"
            for name, each, null in zip("xyz", kinds, may, strict=False)
        ]
        return f"named_struct({', '.join(given)})"

    names = frozenset().union(*(each.names for each in kinds)) | {"struct" if kinds else "struct without fields"}
    return Kind(f"STRUCT<{', '.join(fields)}>", value, names | ({"null in not null"} if not all(may) else set()))


def _inner(kind: Kind, random: Random, *, nullable: bool) -> str:
    return kind.null if nullable and random.random() < 0.3 else kind.value(random)


def _empty(ddl: str, text: str, element: Kind) -> str:
    return text if element.ddl == "VOID" else f"CAST({text} AS {ddl})"
