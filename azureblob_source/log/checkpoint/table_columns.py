"""The columns of a stream as those of an Iceberg table: their ids, and bounds of blobs by ids. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from azureblob_source.iceberg.field_ids import assigned, path_of
from azureblob_source.iceberg.single_value import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arrow_avro import AvroField, AvroSchema
    from azureblob_source.log.entry import BlobEntry

    ById: TypeAlias = "list[tuple[int, bytes]]"


class TableColumns:
    """Ids of columns, which begin with those of an earlier checkpoint and grow with each writer schema.

    schema_of: the writer schema of a fingerprint; None if it cannot be had, and its blobs have no bounds then.
    """

    def __init__(self, before: Mapping[str, int], schema_of: Callable[[str], AvroSchema | None]) -> None:
        self.ids = dict(before)
        self._schema_of = schema_of
        self._members: dict[str, Mapping[str, tuple[int, AvroField]]] = {}

    def bounds(self, blob: BlobEntry) -> tuple[ById, ById]:
        """The lower and the upper bounds of a blob's columns, by id."""
        columns = self.members(blob.schema)
        lower: ById = []
        upper: ById = []
        for name, of_column in blob.bounds.items():
            if name in columns:
                id_, member = columns[name]
                low, high = (encoded(member.type, value) for value in of_column)
                if low is not None and high is not None:
                    lower.append((id_, low))
                    upper.append((id_, high))
        return lower, upper

    def members(self, fingerprint: str) -> Mapping[str, tuple[int, AvroField]]:
        """The columns of a writer schema, each with its id."""
        if fingerprint not in self._members:
            schema = self._schema_of(fingerprint)
            self.ids = self.ids if schema is None else assigned(schema, self.ids)
            fields = () if schema is None else schema.row.fields
            self._members[fingerprint] = {each.column: (self.ids[path_of(each.column)], each) for each in fields}
        return self._members[fingerprint]
