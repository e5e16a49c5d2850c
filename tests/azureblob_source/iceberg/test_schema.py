from __future__ import annotations

import json
from typing import Any

import pytest

from arrow_avro import AvroSchema, header_schema, superset
from azureblob_source.iceberg.field_ids import assigned
from azureblob_source.iceberg.schema import NotInIcebergError, check_written, ids_in, name_mapping, table_schema

DAY = {"type": "int", "logicalType": "date"}


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": avro} for key, avro in fields.items()]}


def schema(**columns: Any) -> AvroSchema:
    return parsed(record("row", **columns))


def parsed(document: Any) -> AvroSchema:
    return header_schema(json.dumps(document), blob="a")


def decimal(precision: int, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2} | more


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type} | more


@pytest.mark.parametrize(
    ("avro", "iceberg"),
    [
        ("boolean", "boolean"),
        ({"type": "int", "sparkType": "byte"}, "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        ({"type": "fixed", "name": "f", "size": 5}, "fixed[5]"),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, "string"),
        (DAY, "date"),
        (logical("long", "time-micros"), "time"),
        (logical("long", "timestamp-micros"), "timestamptz"),
        (logical("long", "timestamp-millis"), "timestamptz"),
        (logical("fixed", "uuid", name="u", size=16), "uuid"),
        (decimal(38), "decimal(38, 2)"),
        (decimal(9, type="fixed", name="d", size=4), "decimal(9, 2)"),
    ],
)
def test_a_type_is_named_as_iceberg_does(avro: Any, iceberg: str) -> None:
    for required, kind in ((True, avro), (False, ["null", avro]), (False, [avro, "null"])):
        rows = schema(x=kind)
        field = {"id": 7, "name": "x", "required": required, "type": iceberg}
        assert {"type": "struct", "fields": [field]} == table_schema(rows, {"x": 7})
        check_written(rows, [rows])


def test_nested_types_have_an_id_at_each_level() -> None:
    entry = record("entry", key="int", value=["null", DAY])
    rows = parsed(
        {
            "type": "record",
            "name": "row",
            "fields": [
                {"name": "crew", "type": ["null", {"type": "array", "items": record("person", name="string")}]},
                {"name": "by_day", "type": {"type": "map", "values": ["null", "long"]}, "sparkName": "by day"},
                {"name": "days", "type": {"type": "array", "logicalType": "map", "items": entry}},
            ],
        }
    )
    ids = assigned(rows, {})
    name = {"id": 3, "name": "name", "required": True, "type": "string"}
    crew = {
        "type": "list",
        "element-id": 2,
        "element": {"type": "struct", "fields": [name]},
        "element-required": True,
    }
    by_day = {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value": "long", "value-required": False}
    days = {"type": "map", "key-id": 8, "key": "int", "value-id": 9, "value": "date", "value-required": False}
    assert {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "crew", "required": False, "type": crew},
            {"id": 4, "name": "by day", "required": True, "type": by_day},
            {"id": 7, "name": "days", "required": True, "type": days},
        ],
    } == table_schema(rows, ids)
    assert ids == ids_in(table_schema(rows, ids))
    in_crew = {"field-id": 2, "names": ["element"], "fields": [{"field-id": 3, "names": ["name"]}]}
    assert [
        {"field-id": 1, "names": ["crew"], "fields": [in_crew]},
        {
            "field-id": 4,
            "names": ["by_day"],
            "fields": [{"field-id": 5, "names": ["key"]}, {"field-id": 6, "names": ["value"]}],
        },
        {
            "field-id": 7,
            "names": ["days"],
            "fields": [{"field-id": 8, "names": ["key"]}, {"field-id": 9, "names": ["value"]}],
        },
    ] == name_mapping(rows, ids)


VARIANT = record("v", value="bytes", metadata="bytes") | {"sparkType": "variant"}
NOT_IN_ICEBERG: list[tuple[Any, str]] = [
    (["null", "int", "string"], r"\[null, int, string\], and Iceberg has no unions"),
    (["int"], "no unions"),
    ("null", "null, and Iceberg has no type without values before format version 3"),
    (VARIANT, "a variant, and Iceberg has no variants before format version 3"),
    (
        {"type": "long", "spark.sql.catalyst.type": "interval day to second"},
        "long interval day to second, and Iceberg has no intervals",
    ),
    (logical("long", "timestamp-nanos"), "no nanoseconds"),
    (logical("long", "local-timestamp-nanos"), "no nanoseconds"),
    (logical("long", "local-timestamp-micros"), "long local-timestamp-micros, and Iceberg's readers do not take"),
    (logical("int", "time-millis"), "do not take"),
    (logical("string", "uuid"), "string uuid, and Iceberg's readers do not take this Avro type"),
    (logical("fixed", "duration", name="d", size=12), "do not take"),
    (decimal(39), "38 digits at most"),
    (record("tree", left=["null", "tree"]), "reference tree, and Iceberg has no records within"),
]


@pytest.mark.parametrize(("avro", "reason"), NOT_IN_ICEBERG)
def test_what_iceberg_cannot_say_is_named_wherever_it_is(avro: Any, reason: str) -> None:
    entry = record("entry", key="int", value=avro)
    nested = [avro, record("r", y=avro), {"type": "map", "values": avro}, {"type": "array", "items": avro}]
    for kind in (*nested, {"type": "array", "logicalType": "map", "items": entry}):
        rows = schema(x=kind)
        with pytest.raises(NotInIcebergError, match=f"^column 'x.*' is .*{reason}"):
            table_schema(rows, assigned(rows, {}))


@pytest.mark.parametrize(("avro", "reason"), [each for each in NOT_IN_ICEBERG if each[0] != "null"])
def test_readers_fail_for_such_a_column_though_the_rows_have_it_no_longer(avro: Any, reason: str) -> None:
    with pytest.raises(NotInIcebergError, match=reason):
        check_written(schema(y="int"), [schema(y="int", x=avro)])


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("int", "long"),
        ("float", "double"),
        (decimal(5), decimal(9)),
        (decimal(5), decimal(9, type="fixed", name="d", size=4)),
        ("int", ["null", "int"]),
        ("null", "string"),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, "string"),
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros")),
        ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "long"]}),
        ({"type": "map", "values": "float"}, {"type": "map", "values": "double"}),
        (record("r", a="int"), record("r", a="int", b=["null", "int"])),
    ],
)
def test_types_that_iceberg_widens(earlier: Any, later: Any) -> None:
    written = [schema(x=earlier), schema(x=later)]
    rows = superset(written)
    table_schema(rows, assigned(rows, {}))
    check_written(rows, written)


@pytest.mark.parametrize(
    ("earlier", "later", "reason"),
    [
        ("int", "double", "column 'x' is int in some blobs and double in others, which Iceberg does not widen"),
        ("long", "float", "long in some blobs and double"),
        ("bytes", "string", "string in some blobs and bytes"),
        (record("r", a="int"), record("r", a="double"), "column 'x.a' is int"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, "column 'x.element' is int"),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, "column 'x.value' is int"),
        (
            {"type": "array", "logicalType": "map", "items": record("e", key="int", value="int")},
            {"type": "array", "logicalType": "map", "items": record("e", key="int", value="double")},
            "column 'x.value' is int",
        ),
    ],
)
def test_types_that_only_this_package_widens(earlier: Any, later: Any, reason: str) -> None:
    written = [schema(x=earlier), schema(x=later)]
    with pytest.raises(NotInIcebergError, match=reason):
        check_written(superset(written), written)


def test_a_column_that_some_blobs_lack_is_null_there_and_not_its_default() -> None:
    def rows(default: Any) -> list[AvroSchema]:
        kind: Any = ["null", "string"] if default is None else ["string", "null"]
        more = record("row", y="int")
        more["fields"].append({"name": "x", "type": kind, "default": default})
        return [schema(y="int"), parsed(more)]

    check_written(superset(rows(None)), rows(None))
    with pytest.raises(NotInIcebergError, match=r"column 'x' .* is missing in some blobs and has the default 'EWR'"):
        check_written(superset(rows("EWR")), rows("EWR"))


def test_rows_that_are_no_records_are_none_of_iceberg() -> None:
    with pytest.raises(NotInIcebergError, match="rows are string, and Iceberg's are records"):
        check_written(parsed("string"), [parsed("string")])


def test_a_column_may_not_have_the_name_of_a_field() -> None:
    dotted = {"name": "a_b", "type": "int", "sparkName": "a.b"}
    alone = parsed({"type": "record", "name": "row", "fields": [dotted]})
    assert table_schema(alone, assigned(alone, {}))["fields"][0]["name"] == "a.b"
    both = parsed({"type": "record", "name": "row", "fields": [dotted, {"name": "a", "type": record("a", b="int")}]})
    with pytest.raises(NotInIcebergError, match=r"column 'a\.b' is there twice"):
        table_schema(both, assigned(both, {}))
