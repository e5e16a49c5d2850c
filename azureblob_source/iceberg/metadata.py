"""The metadata of the Iceberg table that a stream is: one JSON file for each checkpoint of its log. Pure.

    <stream>/_iceberg/metadata/v<k>.metadata.json     the table as of a version of the log; k is 1, 2, 3, …
    <stream>/_iceberg/metadata/version-hint.text      the newest k, or one before it

Path-based readers (`HadoopTables`) take the k of the hint, and then the next ones for as long as they are there. A
catalog is told the path of one file. Format: https://iceberg.apache.org/spec/#table-metadata, version 2.

It is partitioned by the stream's partition column. If that was another one before, each blob has the spec of its own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from azureblob_source.iceberg.partition import UNPARTITIONED, last_field_id, partition_spec
from azureblob_source.iceberg.schema import check_written, ids_in, name_mapping, schema_id, table_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from arrow_avro import AvroSchema

MAX_SNAPSHOTS = 100
"""A table has the newest ones. Older versions are read with option `versionAsOf`."""
VERSION = "azureblob.version"
"""Key of a snapshot's summary: the version of the log."""
_KEPT_FROM = "azureblob.kept-from"
"""The same: the version from which on its blobs are kept, the retention boundary of the log."""
_FORMAT_VERSION = 2
_MAIN = "main"


@dataclass(frozen=True)
class TableSnapshot:
    """What is live at a version of the log.

    timestamp: milliseconds since 1970 UTC. manifest_list: its path. blobs, rows, bytes: totals.
    oldest: the last version that has removed blobs, so that those of snapshots before it are gone.
    kept_from: the retention boundary.
    specs: ids of the partition specs of its blobs, that of the newest ones last.
    """

    version: int
    timestamp: int
    manifest_list: str
    blobs: int
    rows: int
    bytes: int
    oldest: int = 0
    kept_from: int = 0
    specs: tuple[int, ...] = ()


@dataclass(frozen=True)
class IcebergTable:
    """An Iceberg table. uuid: see `table_uuid`. location: the path above its metadata.

    schemas: all so far, by `schema_id`, as JSON without the id; those of snapshots that are gone stay, so that no
      field id is given twice. mapping: the names of columns in the blobs. snapshots: as JSON, in order of versions.
    specs, spec_id: ids of the partition specs of their blobs, and that of the newest ones.
    """

    uuid: str
    location: str
    schemas: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    schema_id: int = 0
    last_column_id: int = 0
    mapping: Sequence[Mapping[str, Any]] = ()
    snapshots: tuple[Mapping[str, Any], ...] = ()
    specs: tuple[int, ...] = ()
    spec_id: int = UNPARTITIONED

    @property
    def version(self) -> int:
        """The version of the log that the table is at; -1 before the first."""
        return int(self.snapshots[-1]["summary"][VERSION]) if self.snapshots else -1

    @property
    def field_ids(self) -> dict[str, int]:
        """The ids of all columns so far, by path."""
        return {path: id_ for schema in self.schemas.values() for path, id_ in ids_in(schema).items()}

    def with_rows(self, rows: AvroSchema, written: Sequence[AvroSchema], ids: Mapping[str, int]) -> IcebergTable:
        """The table with the schema of these rows. written: the schemas of the blobs. ids: of paths, old ones too.

        A table whose columns have other ids begins again: it has one mapping of names for all its snapshots. So does
        one of which a partition column was widened, as readers have one type for its values in all snapshots, and one
        with another schema of the same id.
        `NotInIcebergError` says why Iceberg's readers would not read the rows as they are.
        """
        check_written(rows, written)
        schema = table_schema(rows, ids)
        of_schema = schema_id(schema)
        other = any(ids.get(path) != id_ for path, id_ in self.field_ids.items()) or self._is_widened(schema)
        other = other or self.schemas.get(of_schema, schema) != schema
        before = IcebergTable(self.uuid, self.location) if other else self
        return replace(
            before,
            schemas={**before.schemas, of_schema: schema},
            schema_id=of_schema,
            last_column_id=max(ids.values(), default=0),
            mapping=name_mapping(rows, ids),
        )

    def with_snapshot(self, added: TableSnapshot) -> IcebergTable:
        """The table at a version, which takes the place of a snapshot at the same one.

        Timestamps never decrease, whatever the clocks of two writers say: readers refuse a log that goes back.
        """
        earlier = [each for each in self.snapshots if int(each["summary"][VERSION]) < added.version]
        kept = [each for each in earlier if _remains(each, added)][-MAX_SNAPSHOTS + 1 :]
        parent = {"parent-snapshot-id": kept[-1]["snapshot-id"]} if kept else {}
        only_added = earlier[-1:] == kept[-1:]
        snapshot = {
            "snapshot-id": added.version + 1,
            **parent,
            "sequence-number": added.version + 1,
            "timestamp-ms": max([added.timestamp, *(each["timestamp-ms"] for each in kept)]),
            "manifest-list": added.manifest_list,
            "schema-id": self.schema_id,
            "summary": {
                "operation": "append" if only_added else "overwrite",
                VERSION: str(added.version),
                _KEPT_FROM: str(added.kept_from),
                "total-data-files": str(added.blobs),
                "total-records": str(added.rows),
                "total-files-size": str(added.bytes),
            },
        }
        specs, spec_id = (self.specs, self.spec_id) if kept else ((), UNPARTITIONED)
        specs = tuple(sorted({*specs, *added.specs})) or (UNPARTITIONED,)
        spec_id = added.specs[-1] if added.specs else spec_id
        return replace(self, snapshots=(*kept, snapshot), specs=specs, spec_id=spec_id)

    def _is_widened(self, schema: Mapping[str, Any]) -> bool:
        """Whether a partition column has another type in this schema than in the newest one."""
        if not self.schemas:
            return False
        kinds = {each["id"]: each["type"] for each in schema["fields"]}
        fields = self.schemas[self.schema_id]["fields"]
        return any(kinds.get(each["id"], each["type"]) != each["type"] for each in fields if each["id"] in self.specs)

    @property
    def partition_specs(self) -> list[dict[str, Any]]:
        """The partition specs as JSON. Of columns that the rows have: no snapshot has blobs of before an overwrite."""
        names = {each["id"]: each["name"] for each in self.schemas[self.schema_id]["fields"]}
        return [partition_spec(each, names[each] if each else "") for each in self.specs]


def _remains(snapshot: Mapping[str, Any], added: TableSnapshot) -> bool:
    """Whether the blobs of a snapshot before the one that is added are there."""
    summary = snapshot["summary"]
    return int(summary[VERSION]) >= added.oldest and int(summary[_KEPT_FROM]) == added.kept_from


def table_uuid(log_id: str) -> str:
    """The id of the table of a log."""
    digits = hashlib.sha256(f"azureblob {log_id}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def to_json(table: IcebergTable) -> bytes:
    """The table as its metadata file has it. It has a snapshot at least."""
    newest = table.snapshots[-1]
    document = {
        "format-version": _FORMAT_VERSION,
        "table-uuid": table.uuid,
        "location": table.location,
        "last-sequence-number": newest["sequence-number"],
        "last-updated-ms": newest["timestamp-ms"],
        "last-column-id": table.last_column_id,
        "current-schema-id": table.schema_id,
        "schemas": [{"schema-id": id_, **schema} for id_, schema in table.schemas.items()],
        "default-spec-id": table.spec_id,
        "partition-specs": table.partition_specs,
        "last-partition-id": last_field_id(table.specs),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            "schema.name-mapping.default": json.dumps(table.mapping, ensure_ascii=False, separators=(",", ":")),
            # The log says which blobs are deleted: no maintenance of Iceberg's may.
            "gc.enabled": "false",
        },
        "current-snapshot-id": newest["snapshot-id"],
        "refs": {_MAIN: {"snapshot-id": newest["snapshot-id"], "type": "branch"}},
        "snapshots": table.snapshots,
        "snapshot-log": [{key: each[key] for key in ("timestamp-ms", "snapshot-id")} for each in table.snapshots],
        "metadata-log": [],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(data: bytes) -> IcebergTable:
    """The table that a metadata file has. ValueError, KeyError or TypeError if this package has not written it."""
    document = json.loads(data)
    if any(each["summary"][VERSION] != str(each["snapshot-id"] - 1) for each in document["snapshots"]):
        raise ValueError("it has a snapshot that is no version of the log")
    return IcebergTable(
        uuid=str(document["table-uuid"]),
        location=str(document["location"]),
        schemas={
            int(each["schema-id"]): {key: value for key, value in each.items() if key != "schema-id"}
            for each in document["schemas"]
        },
        schema_id=int(document["current-schema-id"]),
        last_column_id=int(document["last-column-id"]),
        mapping=json.loads(document["properties"]["schema.name-mapping.default"]),
        snapshots=tuple(document["snapshots"]),
        specs=tuple(int(each["spec-id"]) for each in document["partition-specs"]),
        spec_id=int(document["default-spec-id"]),
    )
