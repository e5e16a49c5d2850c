"""The partition of a blob as Iceberg has it: the value of one column that all its rows have. Pure.

    text of the level   Avro type of the column   partition field   value
    EWR                 string                    2 string          "EWR"
    none                string                    2 string          null
    2013-01-31          int date                  2 date            15736
    0.5                 double                    none              unknown

Readers take the value in the place of those in the blob: only types whose text says the whole value have a field. A
table has a partition spec for each column that was the partition column of some of its blobs, beside the one without
fields: its id is that of the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

from azureblob_source.iceberg.single_value import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from arrow_avro import AvroType

Value: TypeAlias = int | str
"""A text, a number, days since 1970, or whether it is true."""

UNPARTITIONED = 0
"""Id of the spec without fields."""
_BEFORE_FIRST_ID = 999


def _days(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def _truth(text: str) -> bool:
    return ("false", "true").index(text) > 0


_TYPES = {
    ("string", ""): "string",
    ("int", ""): "int",
    ("long", ""): "long",
    ("int", "date"): "date",
    ("boolean", ""): "boolean",
}
_READ: Mapping[str, Callable[[str], Value]] = {
    "string": str,
    "int": int,
    "long": int,
    "date": _days,
    "boolean": _truth,
}


@dataclass(frozen=True)
class PartitionField:
    """A column as Iceberg's partition field, by the identity transform. type: Iceberg's name of that of its values."""

    column_id: int
    type: str

    @classmethod
    def of(cls, column_id: int, avro: AvroType) -> PartitionField | None:
        """That of a column of this type; None if texts do not say the values of the type."""
        avro = avro.nullable or avro
        is_interval = avro.kind == "long" and avro.hint
        found = None if is_interval else _TYPES.get((avro.kind, avro.logical))
        return None if found is None else cls(column_id, found)

    @classmethod
    def parse(cls, text: str) -> PartitionField:
        """The inverse of `str`. ValueError if it is no such text."""
        column_id, type_ = text.split(" ")
        if type_ not in _READ:
            raise ValueError(f"{type_!r} is no type of a partition field")
        return cls(int(column_id), type_)

    def __str__(self) -> str:
        """As manifests of the log have it."""
        return f"{self.column_id} {self.type}"

    @property
    def id(self) -> int:
        """Its own id."""
        return field_id(self.column_id)

    @property
    def avro(self) -> Any:
        """The Avro type of its values."""
        return {"type": "int", "logicalType": "date"} if self.type == "date" else self.type

    def value(self, text: str) -> Value:
        """The value with this text. ValueError if there is none."""
        return _READ[self.type](text)


def value_in(field: PartitionField, avro: AvroType, text: str) -> Value | None:
    """The value with this text in a column of a type; None if the type has none."""
    try:
        value = field.value(text)
        return None if encoded(avro, value) is None else value
    except ValueError:
        return None


def partition_spec(spec_id: int, column: str) -> dict[str, Any]:
    """The partition spec with this id as JSON. column: the name of its column, if it has one."""
    field = {"source-id": spec_id, "field-id": field_id(spec_id), "name": column, "transform": "identity"}
    return {"spec-id": spec_id, "fields": [] if spec_id == UNPARTITIONED else [field]}


def field_id(spec_id: int) -> int:
    """The id of the field of a spec; before the first one, 999."""
    return _BEFORE_FIRST_ID + spec_id


def last_field_id(specs: Iterable[int]) -> int:
    """The highest id of a field of these specs."""
    return max(map(field_id, specs))
