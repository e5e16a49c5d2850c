"""A checkpoint as it is stored: Iceberg's manifest list, and what it says of the log in its header. Pure.

    <stream>/_iceberg/metadata/snap-<20-digit version>.avro     the list: a row for each manifest
    <stream>/_iceberg/metadata/m-<version>-<digest>.avro        manifests: a row for each live blob (`manifest.py`)

Each row also says what its manifest covers (versions, times, partitions), so that readers leave manifests out. Format:
https://iceberg.apache.org/spec/#manifest-lists
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from arrow_avro import arrow_schema, decode_blob, header_schema
from azure_account.documents.form import check_version, damaged
from azureblob_source.iceberg.partition import UNPARTITIONED, PartitionField
from azureblob_source.log.checkpoint.manifest import REBUILD, ROOT, avro_file, checked_header, optional
from azureblob_source.log.checkpoint.manifest import field as avro_field
from azureblob_source.log.naming import metadata_prefix
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arrow_avro import AvroSchema

FORMAT_VERSION = 1
_CHECKPOINT = "azureblob.checkpoint"
_OWN_IDS = 10100


@dataclass(frozen=True)
class ManifestFile:
    """A manifest, and what it covers. length: its bytes. added: the version of the checkpoint that wrote it.

    blobs, rows, bytes: totals of its blobs. first, last: the lowest and highest of their versions; earliest, latest: of
    their times, None if unknown; lowest_partition, highest_partition: None if one of them has no partition.
    partition_field: of all of them, see `iceberg.partition`.
    """

    name: str
    length: int
    added: int
    blobs: int
    rows: int
    bytes: int
    first: int
    last: int
    earliest: int | None
    latest: int
    lowest_partition: str | None
    highest_partition: str | None
    partition_field: str | None = None

    def may_have(self, partition: str | None) -> bool:
        """Whether it can have blobs of a partition."""
        lowest, highest = self.lowest_partition, self.highest_partition
        return lowest is None or highest is None or (partition is not None and lowest <= partition <= highest)

    @classmethod
    def of(cls, name: str, length: int, added: int, table: pa.Table) -> ManifestFile:
        """The manifest that has the blobs of a live table, one at least."""

        def extreme(of: Any, column: str) -> Any:
            values = table[column]
            return None if values.null_count else of(values).as_py()

        return cls(
            name,
            length,
            added,
            table.num_rows,
            pc.sum(table["rows"]).as_py(),
            pc.sum(table["size"]).as_py(),
            pc.min(pc.coalesce(table["first_version"], table["version"])).as_py(),
            extreme(pc.max, "version"),
            extreme(pc.min, "earliest"),
            extreme(pc.max, "latest"),
            extreme(pc.min, "partition"),
            extreme(pc.max, "partition"),
            table["partition_field"][0].as_py(),
        )

    @property
    def spec_id(self) -> int:
        """The partition spec of its blobs."""
        return UNPARTITIONED if self.partition_field is None else PartitionField.parse(self.partition_field).column_id


@dataclass(frozen=True)
class LogCheckpoint:
    """What is live at a published version.

    log_id, write_id, timestamp, since: of the entry that has the version.
    removers: the versions since then of entries that remove blobs or revoke others, but overwrites. If one of these is
      revoked, blobs are live again that the checkpoint has not.
    field_ids: Iceberg's ids of the columns, by path, which stay for as long as there are checkpoints.
    """

    version: int
    log_id: str
    write_id: str
    timestamp: str
    since: int
    removers: tuple[int, ...] = ()
    manifests: tuple[ManifestFile, ...] = ()
    field_ids: Mapping[str, int] = field(default_factory=dict)

    @property
    def blobs(self) -> int:
        """How many are live."""
        return sum(each.blobs for each in self.manifests)

    @property
    def oldest(self) -> int:
        """The lowest version of a live blob; that of the checkpoint if there is none."""
        return min((each.first for each in self.manifests), default=self.version)


_STATED = {
    "version": "version",
    "logId": "log_id",
    "writeId": "write_id",
    "timestamp": "timestamp",
    "since": "since",
    "removers": "removers",
    "fieldIds": "field_ids",
}
_OWN = tuple(
    (each.name, optional("string" if "partition" in each.name else "long"))
    for each in fields(ManifestFile)
    if each.name not in ("name", "length", "rows", "blobs")
)


@lru_cache(maxsize=1)
def _schema() -> AvroSchema:
    numbers = (
        ("manifest_length", 501, "long"),
        ("partition_spec_id", 502, "int"),
        ("content", 517, "int"),
        ("sequence_number", 515, "long"),
        ("min_sequence_number", 516, "long"),
        ("added_snapshot_id", 503, "long"),
        ("added_files_count", 504, "int"),
        ("existing_files_count", 505, "int"),
        ("deleted_files_count", 506, "int"),
        ("added_rows_count", 512, "long"),
        ("existing_rows_count", 513, "long"),
        ("deleted_rows_count", 514, "long"),
    )
    columns = [
        avro_field("manifest_path", 500, "string"),
        *(avro_field(*number) for number in numbers),
        *(avro_field(name, _OWN_IDS + place, kind) for place, (name, kind) in enumerate(_OWN)),
    ]
    return header_schema(json.dumps({"type": "record", "name": "manifest_file", "fields": columns}), blob="a list")


def list_bytes(checkpoint: LogCheckpoint, root: str) -> bytes:
    """The manifest list of a checkpoint. root: what stands before blob names in paths."""
    rows = [
        {
            "manifest_path": root + each.name,
            "manifest_length": each.length,
            "partition_spec_id": each.spec_id,
            "content": 0,
            "sequence_number": each.added + 1,
            "min_sequence_number": each.first + 1,
            "added_snapshot_id": each.added + 1,
            "added_files_count": 0,
            "existing_files_count": each.blobs,
            "deleted_files_count": 0,
            "added_rows_count": 0,
            "existing_rows_count": each.rows,
            "deleted_rows_count": 0,
            **{name: getattr(each, name) for name, _ in _OWN},
        }
        for each in checkpoint.manifests
    ]
    schema = arrow_schema(_schema())
    stated = {key: getattr(checkpoint, attribute) for key, attribute in _STATED.items()}
    header = {
        "format-version": b"2",
        "snapshot-id": str(checkpoint.version + 1).encode(),
        "sequence-number": str(checkpoint.version + 1).encode(),
        ROOT: root.encode(),
        _CHECKPOINT: json.dumps({"formatVersion": FORMAT_VERSION, **stated}, separators=(",", ":")).encode(),
    }
    return avro_file(pa.RecordBatch.from_pylist(rows, schema), _schema(), header)


def read_list(data: bytes, name: str, stream: str) -> LogCheckpoint:
    """The checkpoint stored as blob `name` of a stream.

    `ConfigurationError` if it has a newer format, `CorruptError` if it is damaged, or names manifests of another
    stream.
    """
    try:
        metadata = checked_header(data, name).metadata
        document = json.loads(metadata[_CHECKPOINT])
        check_version(document["formatVersion"], FORMAT_VERSION, f"Checkpoint {name}")
        root = metadata[ROOT].decode()
        rows = [row for batch in decode_blob(data, blob=name, reader=_schema()) for row in batch.to_pylist()]
        manifests = [
            ManifestFile(
                name=row["manifest_path"].removeprefix(root),
                length=row["manifest_length"],
                blobs=row["existing_files_count"],
                rows=row["existing_rows_count"],
                **{of: row[of] for of, _ in _OWN},
            )
            for row in rows
        ]
        stated = {attribute: document[key] for key, attribute in _STATED.items()}
        found = replace(LogCheckpoint(**stated), removers=tuple(document["removers"]), manifests=tuple(manifests))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise damaged(f"Checkpoint {name}", f"{error!r}", REBUILD) from error
    foreign = next((each.name for each in manifests if not each.name.startswith(metadata_prefix(stream))), None)
    if foreign is not None:
        raise damaged(f"Checkpoint {name}", f"it names {foreign!r}", REBUILD)
    return found
