from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV2
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from arrow_avro import AvroSchema, header_schema, superset
from azureblob_source.iceberg.field_ids import assigned
from azureblob_source.iceberg.metadata import MAX_SNAPSHOTS, IcebergTable, TableSnapshot, from_json, table_uuid, to_json
from azureblob_source.iceberg.schema import NotInIcebergError

LOCATION = "abfss://data@acme.dfs.core.windows.net/flights/_iceberg"
NEW = IcebergTable(table_uuid("log"), LOCATION)


def schema(**columns: Any) -> AvroSchema:
    fields = [{"name": name, "type": avro} for name, avro in columns.items()]
    return header_schema(json.dumps({"type": "record", "name": "row", "fields": fields}), blob="a")


def snapshot(
    version: int, *, timestamp: int | None = None, oldest: int = 0, kept_from: int = 0, specs: tuple[int, ...] = ()
) -> TableSnapshot:
    at = 1_700_000_000_000 + version if timestamp is None else timestamp
    path = f"{LOCATION}/metadata/snap-{version}.avro"
    return TableSnapshot(version, at, path, 3, 200, 5_000, oldest, kept_from, specs)


def with_rows(table: IcebergTable, ids: dict[str, int], *written: AvroSchema) -> IcebergTable:
    rows = superset(written)
    ids.update(assigned(rows, ids))
    return table.with_rows(rows, written, ids)


def read(table: IcebergTable) -> TableMetadataV2:
    """The table by pyiceberg, which checks it. Nothing is lost on the way."""
    assert table == from_json(to_json(table))
    found = TableMetadataUtil.parse_raw(to_json(table).decode())
    assert isinstance(found, TableMetadataV2)
    return found


def test_pyiceberg_reads_the_table() -> None:
    found = read(with_rows(NEW, {}, schema(id="long", origin=["null", "string"])).with_snapshot(snapshot(6)))
    assert (table_uuid("log"), LOCATION) == (str(found.table_uuid), found.location)
    columns = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "origin", StringType()))
    assert columns == found.schema()
    assert (True, 2) == (found.spec().is_unpartitioned(), found.last_column_id)
    current = found.current_snapshot()
    assert current is not None and current.summary is not None
    assert (7, 7, None, found.schema().schema_id) == (
        current.snapshot_id,
        current.sequence_number,
        current.parent_snapshot_id,
        current.schema_id,
    )
    assert f"{LOCATION}/metadata/snap-6.avro" == current.manifest_list
    assert ("append", "6", "200") == (
        current.summary.operation.value,
        current.summary["azureblob.version"],
        current.summary["total-records"],
    )
    mapping = parse_mapping_from_json(found.properties[TableProperties.DEFAULT_NAME_MAPPING])
    assert [(1, ["id"]), (2, ["origin"])] == [(each.field_id, each.names) for each in mapping]


def test_snapshots_follow_each_other_and_keep_their_schema() -> None:
    ids: dict[str, int] = {}
    first, second = schema(id="int"), schema(id="long", origin=["null", "string"])
    table = with_rows(NEW, ids, first).with_snapshot(snapshot(0))
    table = with_rows(table, ids, first, second).with_snapshot(snapshot(5))
    table = with_rows(table, ids, first).with_snapshot(snapshot(9))
    found = read(table)
    kept = [(each.snapshot_id, each.parent_snapshot_id, each.schema_id) for each in found.snapshots]
    narrow, wide = (each.schema_id for each in found.schemas)
    assert [(1, None, narrow), (6, 1, wide), (10, 6, narrow)] == kept
    assert [IntegerType(), LongType()] == [each.find_type("id") for each in found.schemas]
    assert (narrow, 2, 10) == (found.current_schema_id, found.last_column_id, found.last_sequence_number)
    assert [1, 6, 10] == [each.snapshot_id for each in found.snapshot_log]


def test_a_clock_that_goes_back_leaves_the_log_of_snapshots_in_order() -> None:
    table = with_rows(NEW, {}, schema(id="int"))
    for version, timestamp in enumerate((2_000_000, 1_000_000, 3_000_000)):
        table = table.with_snapshot(snapshot(version, timestamp=timestamp))
    assert [2_000_000, 2_000_000, 3_000_000] == [each.timestamp_ms for each in read(table).snapshot_log]


def test_the_newest_snapshots_are_kept_but_none_whose_blobs_are_gone() -> None:
    table = with_rows(NEW, {}, schema(id="int"))
    for version in range(MAX_SNAPSHOTS + 5):
        table = table.with_snapshot(snapshot(version))
    ids = [each.snapshot_id for each in read(table).snapshots]
    assert list(range(6, MAX_SNAPSHOTS + 6)) == ids
    table = table.with_snapshot(snapshot(200, oldest=MAX_SNAPSHOTS + 3))
    kept = [(each.snapshot_id, each.parent_snapshot_id) for each in read(table).snapshots]
    assert [(104, 103), (105, 104), (201, 105)] == kept
    gone = read(table.with_snapshot(snapshot(300, oldest=300)))
    assert [(301, None)] == [(each.snapshot_id, each.parent_snapshot_id) for each in gone.snapshots]
    vacuumed = read(table.with_snapshot(snapshot(300, kept_from=7)))
    assert [301] == [each.snapshot_id for each in vacuumed.snapshots]


def test_a_snapshot_says_whether_blobs_of_the_one_before_are_gone() -> None:
    table = with_rows(NEW, {}, schema(id="int"))
    operations = []
    for each in (snapshot(3), snapshot(4), snapshot(9, oldest=4), snapshot(15, oldest=12), snapshot(20, kept_from=9)):
        table = table.with_snapshot(each)
        operations.append(table.snapshots[-1]["summary"]["operation"])
    assert ["append", "append", "append", "overwrite", "overwrite"] == operations


def test_a_snapshot_takes_the_place_of_that_at_the_same_version() -> None:
    table = with_rows(NEW, {}, schema(id="int")).with_snapshot(snapshot(3)).with_snapshot(snapshot(4))
    assert table == table.with_snapshot(snapshot(4))
    assert [4, 5] == [each.snapshot_id for each in read(table.with_snapshot(snapshot(4, timestamp=9_000))).snapshots]


def test_a_table_begins_anew_if_columns_have_other_ids() -> None:
    """A checkpoint that was lost has had them: the one mapping of names would be wrong for the old snapshots."""
    table = with_rows(NEW, {}, schema(id="int", origin="string")).with_snapshot(snapshot(3))
    again = with_rows(table, {}, schema(origin="string", id="int"))
    assert ((), 1, {"origin": 1, "id": 2}) == (again.snapshots, len(again.schemas), again.field_ids)


def test_blobs_of_each_partition_column_have_a_spec_of_their_own() -> None:
    table = with_rows(NEW, {}, schema(id="int", origin="string"))
    by_origin = [PartitionField(2, 1001, IdentityTransform(), "origin")]
    by_id = [PartitionField(1, 1000, IdentityTransform(), "id")]
    expected: list[tuple[tuple[int, ...], int, dict[int, list[PartitionField]], int]] = [
        ((), 0, {0: []}, 999),
        ((0, 2), 2, {0: [], 2: by_origin}, 1001),
        ((2, 0), 0, {0: [], 2: by_origin}, 1001),
        ((2, 0, 1), 1, {0: [], 1: by_id, 2: by_origin}, 1001),
        ((), 1, {0: [], 1: by_id, 2: by_origin}, 1001),
    ]
    for version, (specs, newest, fields, last) in enumerate(expected):
        table = table.with_snapshot(snapshot(version, specs=specs))
        found = read(table)
        assert (newest, last) == (found.default_spec_id, found.last_partition_id)
        assert fields == {each.spec_id: list(each.fields) for each in found.partition_specs}


def test_a_spec_of_a_column_that_the_rows_have_no_longer_goes_with_its_snapshots() -> None:
    ids: dict[str, int] = {}
    table = with_rows(NEW, ids, schema(id="int", origin="string")).with_snapshot(snapshot(3, specs=(2,)))
    assert [2] == [each.spec_id for each in read(table).partition_specs], "so readers need not apply a filter of it"
    table = with_rows(table, ids, schema(id="int"))
    for specs, expected in (((1,), 1), ((), 0)):
        found = read(table.with_snapshot(snapshot(4, oldest=4, specs=specs)))
        assert (expected, [expected]) == (found.default_spec_id, [each.spec_id for each in found.partition_specs])


def test_a_table_begins_anew_if_a_partition_column_is_widened() -> None:
    """To Iceberg's readers, values of a partition have the newest type in all snapshots, and rows have their own."""
    ids: dict[str, int] = {}
    narrow, wide = schema(id="int", n="int"), schema(id="long", n="int")
    table = with_rows(NEW, ids, narrow).with_snapshot(snapshot(3, specs=(2,)))
    assert 1 == len(with_rows(table, ids, narrow, wide).snapshots), "another column"
    again = with_rows(table.with_snapshot(snapshot(4, specs=(2, 1))), ids, narrow, wide)
    assert ((), 1, ids) == (again.snapshots, len(again.schemas), again.field_ids)
    assert [1, 2] == [each.spec_id for each in read(again.with_snapshot(snapshot(5, specs=(2, 1)))).partition_specs]


def test_a_table_begins_anew_if_two_schemas_have_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azureblob_source.iceberg.metadata.schema_id", lambda _: 7)
    table = with_rows(NEW, {}, schema(id="int")).with_snapshot(snapshot(3))
    assert 1 == len(with_rows(table, {}, schema(id="int")).snapshots)
    again = with_rows(table, {}, schema(id="long"))
    assert ((), ["long"]) == (again.snapshots, [each["type"] for each in again.schemas[7]["fields"]])


@pytest.mark.parametrize("summary", [{"azureblob.version": "4"}, {"operation": "append"}])
def test_a_table_that_another_program_has_changed_is_none_of_ours(summary: dict[str, str]) -> None:
    table = with_rows(NEW, {}, schema(id="int")).with_snapshot(snapshot(3))
    document = json.loads(to_json(table))
    document["snapshots"][0]["summary"] = summary
    with pytest.raises((ValueError, KeyError)):
        from_json(json.dumps(document).encode())


def test_what_iceberg_cannot_say_leaves_the_table_as_it_was() -> None:
    table = with_rows(NEW, {}, schema(id="int"))
    with pytest.raises(NotInIcebergError, match="column 'id' is int in some blobs and double in others"):
        with_rows(table, {}, schema(id="int"), schema(id="double"))
    assert with_rows(NEW, {}, schema(id="int")) == table


def test_the_table_of_another_log_is_another_one() -> None:
    assert table_uuid("log") == table_uuid("log") != table_uuid("log of a stream that was deleted and made again")
