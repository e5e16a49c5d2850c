from __future__ import annotations

import json
from typing import Any

from arrow_avro import AvroSchema, header_schema
from azureblob_source.iceberg.field_ids import assigned


def schema(**columns: Any) -> AvroSchema:
    fields = [{"name": name, "type": avro} for name, avro in columns.items()]
    return header_schema(json.dumps({"type": "record", "name": "row", "fields": fields}), blob="a")


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": avro} for key, avro in fields.items()]}


def test_every_path_of_the_rows_has_an_id() -> None:
    entry = record("entry", key="int", value=["null", record("seat", number="int")])
    rows = schema(
        id="long",
        crew=["null", {"type": "array", "items": ["null", record("person", name="string")]}],
        delays={"type": "map", "values": {"type": "array", "items": "int"}},
        seats={"type": "array", "logicalType": "map", "items": entry},
    )
    paths = """id
        crew crew.element crew.element.name
        delays delays.key delays.value delays.value.element
        seats seats.key seats.value seats.value.number"""
    assert {path: number for number, path in enumerate(paths.split(), 1)} == assigned(rows, {})


def test_of_a_type_that_iceberg_lacks_only_the_path_has_an_id() -> None:
    variant = record("v", value="bytes", metadata="bytes") | {"sparkType": "variant"}
    tree = record("tree", left=["null", "tree"])
    rows = schema(choice=["null", "int", "string"], nothing="null", document=variant, tree=tree)
    assert {"choice": 1, "nothing": 2, "document": 3, "tree": 4, "tree.left": 5} == assigned(rows, {})


def test_the_value_of_a_file_without_a_record_is_a_column() -> None:
    assert {"value": 1, "value.element": 2} == assigned(header_schema('{"type":"array","items":"int"}', blob="a"), {})


def test_paths_keep_their_ids_and_no_id_is_given_twice() -> None:
    first = assigned(schema(a="int", b="int", c="int"), {})
    second = assigned(schema(c="int", d=record("d", x="int"), a="int"), first)
    assert {"a": 1, "b": 2, "c": 3, "d": 4, "d.x": 5} == second
    assert second | {"e": 6} == assigned(schema(e="int", b="int"), second)


def test_a_dot_in_a_name_is_no_path() -> None:
    fields = [
        {"name": "a", "type": record("a", b="int")},
        {"name": "a_b", "type": "int", "sparkName": "a.b"},
        {"name": "a_c", "type": "int", "sparkName": "a`c"},
    ]
    rows = header_schema(json.dumps({"type": "record", "name": "row", "fields": fields}), blob="a")
    assert {"a": 1, "a.b": 2, "`a.b`": 3, "`a``c`": 4} == assigned(rows, {})
