"""What a store has: key columns, value columns, partitions. Fixed for a generation, and part of the manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from arrow_avro import AvroSchema, arrow_schema, infer, parse
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Types that a key column may have: Spark's name, and Arrow's type."""
MOST_PARTITIONS = 10_000
_RECORD = "value"


@dataclass(frozen=True)
class StoreSchema:
    """keys, values: columns; a null in a key is not stored. ordered: whether changes have an order column.

    order_by: name and type of that column, only to be compared: orders of two columns cannot be.
    `ConfigurationError` for a key column of a type that has no order or no exact equality, and for values that Avro
    cannot hold.
    """

    keys: pa.Schema
    values: pa.Schema
    partitions: int
    ordered: bool = False
    order_by: str = ""

    def __post_init__(self) -> None:
        """Check what the caller has chosen."""
        if not len(self.keys):
            raise ConfigurationError("Argument keys: a store needs at least one key column. Give one.")
        for column in self.keys:
            key_type_name(column)
        both = sorted(set(self.keys.names) & set(self.values.names))
        if both:
            raise ConfigurationError(f"Columns {', '.join(both)} are keys and values of the store: choose one.")
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise ConfigurationError(
                f"Argument partitions: {self.partitions} is not possible. Give 1 to {MOST_PARTITIONS}."
            )
        _ = self.avro

    @cached_property
    def avro(self) -> AvroSchema:
        """The Avro schema with which values are stored."""
        return infer(self.values, name=_RECORD, namespace=None)

    @cached_property
    def value_type(self) -> pa.StructType:
        """The type of a looked-up value."""
        return pa.struct(list(arrow_schema(self.avro)))

    def to_json(self) -> dict[str, Any]:
        """As the manifest has it."""
        return {
            "keys": [{"name": column.name, "type": key_type_name(column)} for column in self.keys],
            "values": json.loads(self.avro.json),
            "partitions": self.partitions,
            "ordered": self.ordered,
            "order_by": self.order_by,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> StoreSchema:
        """The inverse. Columns of values have the types that their Avro types are read as.

        `ConfigurationError` for a type of keys that only a later version of this package knows.
        """
        unknown = sorted({each["type"] for each in fields["keys"]} - set(_KEY_TYPES))
        if unknown:
            text = f"The store has keys of type {', '.join(unknown)}, which this version of the package does not know."
            raise ConfigurationError(f"{text} Update it.")
        keys = pa.schema([(each["name"], _KEY_TYPES[each["type"]]) for each in fields["keys"]])
        values = arrow_schema(parse(json.dumps(fields["values"]), reading=True))
        return cls(keys, values, int(fields["partitions"]), bool(fields["ordered"]), fields.get("order_by", ""))


def key_type_name(column: pa.Field) -> str:
    """Spark's name of the type of a key column. `ConfigurationError` if keys cannot have it."""
    arrow = _plain(column.type)
    for name, allowed in _KEY_TYPES.items():
        if arrow.equals(allowed):
            return name
    raise ConfigurationError(
        f"Key column {column.name!r} has type {column.type}, which keys cannot have: cast it to one of "
        f"{', '.join(_KEY_TYPES)}."
    )


def _plain(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(arrow):
        return pa.string()
    if pa.types.is_large_binary(arrow):
        return pa.binary()
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return pa.timestamp(arrow.unit, "UTC")
    return arrow
