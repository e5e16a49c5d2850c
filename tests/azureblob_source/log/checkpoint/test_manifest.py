from __future__ import annotations

import io
import json
from datetime import date
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from azureblob_source.log.checkpoint import manifest
from azureblob_source.log.checkpoint.live_table import LIVE
from azureblob_source.log.checkpoint.manifest import avro_file, digest_of, manifest_bytes, manifest_table, without
from azureblob_source.log.live_state import UNUSABLE
from azureblob_source.log.naming import manifest_name
from foundation.errors import CorruptError
from tests.azureblob_source.log.checkpoint.live_tables import (
    ROOT,
    STREAM,
    damaged,
    damages,
    each_damage,
    tables,
    with_header,
)


def row(name: str, **given: Any) -> dict[str, Any]:
    """A blob of a live table."""
    found = {each.name: "x" if each.type == pa.string() else 1 for each in LIVE}
    nulls = dict.fromkeys(("first_version", "moved_in", "partition_field"))
    return {**found, **nulls, "lower_bounds": [], "upper_bounds": [], "name": name, **given}


def table_of(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), LIVE)


def named(data: bytes, version: int = 7) -> str:
    return manifest_name(STREAM, version, digest_of(data))


def stored(table: pa.Table) -> tuple[bytes, str]:
    """A manifest, and its name."""
    data = manifest_bytes(table, ROOT, {"schema-id": 3, "type": "struct", "fields": []})
    return data, named(data)


def header_of(data: bytes) -> dict[str, str]:
    found: Any = fastavro.reader(io.BytesIO(data))
    return dict(found.metadata)


@given(tables)
def test_a_manifest_has_all_columns_of_its_table(table: pa.Table) -> None:
    assert table == manifest_table(*stored(table), STREAM)


@given(tables, st.sets(st.sampled_from(LIVE.names), min_size=1))
def test_some_columns_are_read_as_they_are(table: pa.Table, columns: set[str]) -> None:
    wanted = [name for name in LIVE.names if name in columns]
    assert table.select(wanted) == manifest_table(*stored(table), STREAM, wanted)


@given(tables)
def test_others_read_icebergs_fields(table: pa.Table) -> None:
    found: list[Any] = list(fastavro.reader(io.BytesIO(stored(table)[0])))
    rows = table.to_pylist()
    assert [f"{ROOT}{each['name']}" for each in rows] == [each["data_file"]["file_path"] for each in found]
    assert [each["rows"] for each in rows] == [each["data_file"]["record_count"] for each in found]
    assert [each["size"] for each in rows] == [each["data_file"]["file_size_in_bytes"] for each in found]
    assert [each["version"] + 1 for each in rows] == [each["sequence_number"] for each in found]
    assert [(0, each["version"] + 1, 0, "AVRO") for each in rows] == [
        (each["status"], each["snapshot_id"], each["data_file"]["content"], each["data_file"]["file_format"])
        for each in found
    ]


@pytest.mark.parametrize(
    ("partition_field", "partition", "value"),
    [
        (None, "EWR", {}),
        ("2 string", "a%2Fb", {"value": "a/b"}),
        ("2 string", "%00", {"value": ""}),
        ("2 string", None, {"value": None}),
        ("3 int", "-7", {"value": -7}),
        ("3 long", "9223372036854775807", {"value": 2**63 - 1}),
        ("3 date", "1969-12-31", {"value": date(1969, 12, 31)}),
        ("3 boolean", "false", {"value": False}),
    ],
)
def test_the_partition_of_a_blob_is_the_value_of_its_partition_column(
    partition_field: str | None, partition: str | None, value: dict[str, Any]
) -> None:
    rows = [row(f"{STREAM}/{number}.avro", partition=partition, partition_field=partition_field) for number in (1, 2)]
    reader = fastavro.reader(io.BytesIO(stored(table_of(*rows))[0]))
    schema: Any = reader.writer_schema
    (of_file,) = (each["type"]["fields"] for each in schema["fields"] if each["name"] == "data_file")
    (kind,) = (each["type"]["fields"] for each in of_file if each["field-id"] == 102)
    column = 0 if partition_field is None else int(partition_field[0])
    assert [999 + column] * bool(column) == [each["field-id"] for each in kind]
    found: list[Any] = list(reader)
    assert [value, value] == [each["data_file"]["partition"] for each in found]


@pytest.mark.parametrize(
    ("partition_field", "partition"),
    [("2 int", "x"), ("2 int", "2147483648"), ("2 date", "x"), ("2 string", "%ED%A0%80"), ("2 x", "x"), ("x", "x")],
)
def test_a_partition_that_only_a_forged_manifest_can_have_is_not_written(partition_field: str, partition: str) -> None:
    table = table_of(row(f"{STREAM}/1.avro", partition=partition, partition_field=partition_field))
    with pytest.raises(CorruptError, match="Make it again"):
        stored(table)


BY_N = [{"source-id": 1, "field-id": 1000, "name": "ü", "transform": "identity"}]


@pytest.mark.parametrize(("partition_field", "spec_id", "spec"), [(None, "0", []), ("1 int", "1", BY_N)])
def test_the_header_has_what_icebergs_format_requires(partition_field: str | None, spec_id: str, spec: Any) -> None:
    table = table_of(row(f"{STREAM}/1.avro", partition="7", partition_field=partition_field))
    columns = {"schema-id": 3, "type": "struct", "fields": [{"id": 1, "name": "ü", "required": True, "type": "int"}]}
    found = header_of(manifest_bytes(table, ROOT, columns))
    texts = {"format-version": "2", "content": "data", "schema-id": "3", "partition-spec-id": spec_id}
    assert texts == {key: found[key] for key in texts}
    assert (columns, spec) == (json.loads(found["schema"]), json.loads(found["partition-spec"]))
    assert not {"schema", "partition-spec"} & header_of(manifest_bytes(table, ROOT)).keys()


def test_many_blobs_are_several_blocks_and_the_same_blobs_the_same_bytes() -> None:
    table = table_of(*(row(f"{STREAM}/{number}.avro", version=number) for number in range(1000)))
    data, name = stored(table)
    assert (data, name) == stored(table)
    assert [256, 256, 256, 232] == [each.num_records for each in fastavro.block_reader(io.BytesIO(data))]
    assert table == manifest_table(data, name, STREAM)
    assert table[300:] == manifest_table(*stored(table[300:]), STREAM)


@pytest.mark.parametrize(
    "name",
    [
        "other/1.avro",
        "flüge/ab/1.avro",
        f"{STREAM}",
        f"{STREAM}/",
        f"{STREAM}/_log/00000000000000000000.json",
        f"{STREAM}/x/_schemas/1.avsc",
        f"{STREAM}/.hidden/1.avro",
        f"{STREAM}//1.avro",
        f"{STREAM}/x\\..\\..\\other\\1.avro",
        "",
    ],
)
def test_a_blob_that_is_no_data_of_the_stream_is_refused(name: str) -> None:
    table = table_of(row(f"{STREAM}/1.avro"), row(name))
    with pytest.raises(CorruptError, match=r"which is no data of flüge/a"):
        manifest_table(*stored(table), STREAM)


def test_a_path_under_another_root_is_refused() -> None:
    data = with_header(manifest_bytes(table_of(row(f"{STREAM}/1.avro")), "x/"), {manifest.ROOT: b"y/"})
    with pytest.raises(CorruptError, match=r"which is no data of flüge/a"):
        manifest_table(data, named(data), STREAM)


@given(tables, damages)
def test_a_damaged_manifest_is_unusable(table: pa.Table, how: tuple[str, int, int]) -> None:
    data, name = stored(table)
    other = damaged(data, *how)
    assume(data != other)
    with pytest.raises(UNUSABLE):
        manifest_table(other, name, STREAM)


def test_every_bit_of_a_manifest_counts() -> None:
    data, name = stored(table_of(row(f"{STREAM}/1.avro"), row(f"{STREAM}/2.avro", partition=None)))
    for other in each_damage(data):
        with pytest.raises(UNUSABLE):
            manifest_table(other, name, STREAM)


def test_another_manifest_under_the_name_is_unusable() -> None:
    _, name = stored(table_of(row(f"{STREAM}/1.avro")))
    other, _ = stored(table_of(row(f"{STREAM}/2.avro")))
    with pytest.raises(CorruptError, match=r"it has the bytes of another one\. .*checkpoint … --rebuild"):
        manifest_table(other, name, STREAM)


@pytest.mark.parametrize("metadata", [{}, {manifest.ROOT: b"\xff"}])
def test_a_forged_manifest_is_unusable(metadata: dict[str, bytes]) -> None:
    schema = manifest._schema()
    rows = manifest._entries(table_of(row(f"{STREAM}/1.avro")), ROOT)
    data = avro_file(rows, schema, metadata)
    with pytest.raises(UNUSABLE):
        manifest_table(data, named(data), STREAM)


def test_blobs_are_taken_out_by_version_by_name_and_below_a_boundary() -> None:
    table = table_of(*(row(f"{STREAM}/{number}.avro", version=number) for number in range(6)))
    left = without(table, versions=frozenset({3}), names=frozenset({f"{STREAM}/5.avro"}), kept_from=2)
    assert [2, 4] == left["version"].to_pylist()
    assert without(table) is table
