"""The columns of a stream as those of an Iceberg table: their ids, bounds of blobs by ids, partition fields. Pure."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from arrow_avro import superset
from azureblob_source.iceberg.field_ids import assigned, path_of
from azureblob_source.iceberg.partition import PartitionField, value_in
from azureblob_source.iceberg.schema import NotInIcebergError, schema_id, table_schema
from azureblob_source.iceberg.single_value import encoded
from azureblob_source.log.naming import partition_value
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from arrow_avro import AvroField, AvroSchema
    from azureblob_source.log.entry import BlobEntry, Bound

    ById: TypeAlias = "list[tuple[int, bytes]]"


class TableColumns:
    """Ids of columns, which begin with those of an earlier checkpoint and grow with each writer schema.

    schema_of: the writer schema of a fingerprint; None if it cannot be had, and its blobs have no bounds then.
    """

    def __init__(self, before: Mapping[str, int], schema_of: Callable[[str], AvroSchema | None]) -> None:
        self.ids: Mapping[str, int] = dict(before)
        self._schema_of = cache(schema_of)
        self._members: dict[str, Mapping[str, tuple[int, AvroField]]] = {}

    def described(self, blob: BlobEntry) -> tuple[str | None, ById, ById]:
        """The partition field of a blob as text, None if it has none; lower and upper bounds of its columns, by id.

        Those of the partition column are the value that the blob's partition names, if that is known.
        """
        columns, bounds, partition_field = self.members(blob.schema), dict(blob.bounds), None
        column = blob.partition_column
        if column is not None and column in columns:
            partition_field, value = _partition(blob, *columns[column])
            bounds |= {} if value is None else {column: (value, value)}
        lower: ById = []
        upper: ById = []
        for name, of_column in bounds.items():
            if name in columns:
                id_, member = columns[name]
                low, high = (encoded(member.type, value) for value in of_column)
                if low is not None and high is not None:
                    lower.append((id_, low))
                    upper.append((id_, high))
        return partition_field, lower, upper

    def schema(self, fingerprints: Iterable[str]) -> dict[str, Any] | None:
        """Iceberg's schema of blobs with these writer schemas, as JSON. None if there is none."""
        written = [self._schema_of(each) for each in fingerprints]
        try:
            rows = superset([each for each in written if each is not None])
            struct = table_schema(rows, assigned(rows, self.ids))
        except (NotInIcebergError, ConfigurationError):
            return None
        return None if None in written else {"schema-id": schema_id(struct), **struct}

    def members(self, fingerprint: str) -> Mapping[str, tuple[int, AvroField]]:
        """The columns of a writer schema, each with its id."""
        if fingerprint not in self._members:
            schema = self._schema_of(fingerprint)
            self.ids = self.ids if schema is None else assigned(schema, self.ids)
            fields = () if schema is None else schema.row.fields
            self._members[fingerprint] = {each.column: (self.ids[path_of(each.column)], each) for each in fields}
        return self._members[fingerprint]


def _partition(blob: BlobEntry, column_id: int, column: AvroField) -> tuple[str | None, Bound | None]:
    """The partition field of a blob by this column, and the value; None for both if the level does not say it."""
    field = PartitionField.of(column_id, column.type)
    if field is None or blob.partition is None:
        return (None if field is None else str(field)), None
    value = value_in(field, column.type, partition_value(blob.partition))
    return (None if value is None else str(field)), value
