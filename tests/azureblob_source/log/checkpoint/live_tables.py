"""Live tables and checkpoints that hypothesis draws, and files that are damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import strategies as st

from arrow_avro import decode_blob, header_schema, read_header
from azureblob_source.log.checkpoint.live_table import LIVE
from azureblob_source.log.checkpoint.manifest import avro_file
from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint, ManifestFile
from azureblob_source.log.naming import manifest_name, partition_level

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAM, ROOT = "flüge/a", "abfss://box@account.dfs.core.windows.net/"
numbers = st.integers(0, 2**62)
times = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=9)
levels = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), min_size=1).filter(lambda x: x[0] not in "_.")
bounds = st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=9), max_size=3).map(lambda x: sorted(x.items()))
_VALUES = {
    "name": st.lists(levels, min_size=1, max_size=3).map(lambda x: f"{STREAM}/{'/'.join(x)}"),
    "min_event_time": st.none() | times,
    "max_event_time": st.none() | times,
    "earliest": st.none() | times,
    "latest": times,
    "committed": times,
    "lower_bounds": bounds,
    "upper_bounds": bounds,
}


def _values(field: pa.Field) -> st.SearchStrategy[object]:
    return _VALUES.get(field.name, texts if field.type == pa.string() else numbers)


_LEVELS: dict[str | None, st.SearchStrategy[str]] = {
    None: texts,
    "3 string": texts.map(partition_level),
    "1 int": st.integers(-(2**31), 2**31 - 1).map(str),
    "7 long": st.integers(-(2**63), 2**63 - 1).map(str),
    "2 date": st.dates().map(str),
    "4 boolean": st.sampled_from(("true", "false")),
}
"""Partition fields, and the partitions of blobs with them."""
partition_fields = st.sampled_from(list(_LEVELS))


def _rows(partition_field: str | None) -> st.SearchStrategy[list[dict[str, object]]]:
    """Blobs of one manifest."""
    values = {field.name: _values(field) for field in LIVE}
    of_field = {"partition_field": st.just(partition_field), "partition": st.none() | _LEVELS[partition_field]}
    return st.lists(st.fixed_dictionaries(values | of_field), max_size=5)


rows = partition_fields.flatmap(_rows)
tables = rows.map(lambda found: pa.Table.from_pylist(found, LIVE))
manifests = st.builds(
    ManifestFile,
    name=st.integers(0, 2**60).map(lambda x: manifest_name(STREAM, x, f"{x:016x}")),
    length=numbers, added=numbers, blobs=st.integers(0, 2**31 - 1), rows=numbers, bytes=numbers, first=numbers,
    last=numbers, earliest=st.none() | times, latest=times, lowest_partition=st.none() | texts,
    highest_partition=st.none() | texts, partition_field=partition_fields,
)  # fmt: skip
checkpoints = st.builds(
    LogCheckpoint,
    version=numbers, log_id=texts, write_id=texts, timestamp=texts, since=numbers,
    removers=st.lists(numbers, max_size=3).map(tuple), manifests=st.lists(manifests, max_size=3).map(tuple),
    field_ids=st.dictionaries(texts, numbers, max_size=3),
)  # fmt: skip


def damaged(data: bytes, kind: str, at: int, bit: int) -> bytes:
    """The file cut, with a bit turned over, with a byte more or less, at a place."""
    at %= len(data)
    match kind:
        case "cut":
            return data[:at]
        case "turned over":
            return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
        case "longer":
            return data[:at] + bytes([bit]) + data[at:]
        case _:
            return data[:at] + data[at + 1 :]


KINDS = ("cut", "turned over", "longer", "shorter")
damages = st.tuples(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(0, 7))


def each_damage(data: bytes) -> Iterator[bytes]:
    """The file with each kind of damage at each place."""
    for at in range(len(data)):
        for kind in KINDS:
            found = (damaged(data, kind, at, bit) for bit in range(8))
            yield from (other for other in found if other != data)


def with_header(data: bytes, entries: dict[str, bytes]) -> bytes:
    """A manifest or a list with the same rows and other entries in its header."""
    found = read_header(data)
    schema = header_schema(found.schema_json, blob="a manifest or a list")
    (rows,) = pa.Table.from_batches(decode_blob(data, blob="")).to_batches()
    return avro_file(rows, schema, {**found.metadata, **entries})
