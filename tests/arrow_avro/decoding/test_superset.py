"""The reader schema that several writer schemas resolve to."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.decoding.superset import Difference, difference, superset
from arrow_avro.schema import AvroSchema, arrow_schema, infer, parse, read_schema
from foundation.errors import ConfigurationError

Json = Any
BYTE = {"type": "int", "sparkType": "byte"}
SHORT = {"type": "int", "sparkType": "short"}
DATE = {"type": "int", "logicalType": "date"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
WALL_CLOCK = {"type": "long", "logicalType": "local-timestamp-micros"}
POINT = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
SPACE = {"type": "record", "name": "space", "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "int"}]}


def decimal(precision: int, scale: int, size: int | None = None) -> Json:
    base = {"type": "bytes"} if size is None else {"type": "fixed", "name": f"d{size}", "size": size}
    return {**base, "logicalType": "decimal", "precision": precision, "scale": scale}


def enum(*symbols: str) -> Json:
    return {"type": "enum", "name": "enum", "symbols": list(symbols)}


def record(**fields: Json) -> AvroSchema:
    members = [{"name": name, "type": avro} for name, avro in fields.items()]
    return parse(json.dumps({"type": "record", "name": "row", "fields": members}))


def column(left: Json, right: Json) -> pa.Field:
    (found,) = arrow_schema(superset([record(v=left), record(v=right)]))
    return found


def test_one_schema_is_its_own_superset() -> None:
    schema = record(a="int", b=enum("x"))
    assert superset([schema]) is schema
    assert schema == superset([schema, record(a="int", b=enum("x"))])


def test_no_schema_has_no_superset() -> None:
    with pytest.raises(ConfigurationError, match="avroSchema"):
        superset([])


def test_fields_are_in_the_order_in_which_they_first_appear() -> None:
    found = superset([record(b="int", a="int"), record(c="int", a="int", b="int")])
    assert ["b", "a", "c"] == arrow_schema(found).names


def test_a_field_that_some_lack_is_nullable_with_default_null() -> None:
    found = superset([record(a="int", b="string"), record(a="int", c=["null", "int"])])
    assert [
        {"name": "a", "type": "int"},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": ["null", "int"], "default": None},
    ] == found.root["fields"]


def test_columns_that_are_not_asked_for_are_left_out_whatever_their_types() -> None:
    schemas = [record(a="int", bad="int"), record(bad="string", a="long"), record(b="int")]
    with pytest.raises(ConfigurationError, match="name the others in option columns"):
        superset(schemas)
    assert [{"name": "a", "type": ["null", "long"], "default": None}] == superset(schemas, ["a"]).root["fields"]
    assert ["a", "b"] == arrow_schema(superset(schemas, ["b", "a"])).names


def test_the_difference_is_that_of_the_first_schema_without_a_superset() -> None:
    schemas = [record(a="int"), record(a="long", b=POINT), record(b={**POINT, "fields": []}), record(a="string")]
    assert difference(schemas[:3]) is None
    assert Difference("a", "long", "string") == difference(schemas)


@pytest.mark.parametrize(
    ("left", "right", "arrow", "nullable"),
    [
        ("int", "long", pa.int64(), False),
        ("int", "float", pa.float64(), False),
        ("int", "double", pa.float64(), False),
        ("long", "float", pa.float64(), False),
        ("float", "double", pa.float64(), False),
        (["null", "int"], "long", pa.int64(), True),
        ("int", ["long", "null"], pa.int64(), True),
        ("null", "long", pa.int64(), True),
        ("null", ["null", "long"], pa.int64(), True),
        (BYTE, SHORT, pa.int16(), False),
        (BYTE, "int", pa.int32(), False),
        (SHORT, "long", pa.int64(), False),
        (BYTE, ["null", BYTE], pa.int8(), True),
        ("string", "bytes", pa.binary(), False),
        (MILLIS, MICROS, pa.timestamp("us", "UTC"), False),
        (DATE, ["null", DATE], pa.date32(), True),
        (decimal(5, 2), decimal(9, 2), pa.decimal128(9, 2), False),
        (decimal(5, 2, 3), decimal(9, 2, 4), pa.decimal128(9, 2), False),
        (decimal(5, 2), decimal(9, 2, 4), pa.decimal128(9, 2), False),
        (enum("a"), enum("b"), pa.string(), False),
        (enum("a"), "string", pa.string(), False),
    ],
)
def test_types_widen(left: Json, right: Json, arrow: pa.DataType, nullable: bool) -> None:
    for found in (column(left, right), column(right, left)):
        assert pa.field("v", arrow, nullable) == found


def test_what_is_nested_merges() -> None:
    expected = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int32())])
    assert expected == column(POINT, SPACE).type
    assert expected == column({"type": "array", "items": POINT}, {"type": "array", "items": SPACE}).type.value_type
    assert expected == column({"type": "map", "values": POINT}, {"type": "map", "values": SPACE}).type.item_type


def test_enums_have_the_symbols_of_both() -> None:
    found = superset([record(v=enum("a", "b")), record(v=enum("c", "b"))])
    assert ["a", "b", "c"] == found.root["fields"][0]["type"]["symbols"]


def test_general_unions_have_the_branches_of_both() -> None:
    found = superset([record(v=["int", "string"]), record(v=["null", "long", "boolean"])])
    assert ["null", "long", "string", "boolean"] == found.root["fields"][0]["type"]


def test_a_type_that_became_a_branch_of_a_union_is_that_union() -> None:
    for schemas in ([record(v="int"), record(v=["string", "long"])], [record(v=["string", "long"]), record(v="int")]):
        assert ["string", "long"] == superset(schemas).root["fields"][0]["type"]


def test_column_names_that_avro_cannot_have_are_kept() -> None:
    spark = pa.schema([pa.field("total (€)", pa.int32()), pa.field("p q", pa.decimal128(5, 2))])
    found = superset([infer(spark, name="row", namespace="a"), record(other="int")])
    assert ["total (€)", "p q", "other"] == arrow_schema(found).names


def test_named_types_get_names_of_their_own() -> None:
    space = {**POINT, "fields": [{"name": "y", "type": "string"}]}
    left = parse(
        json.dumps(
            {
                "type": "record",
                "name": "a.row",
                "fields": [{"name": "p", "type": POINT}, {"name": "q", "type": {"type": "array", "items": "point"}}],
            }
        )
    )
    found = arrow_schema(superset([left, record(r=space)]))
    point = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    assert [point, point] == [found.field("p").type, found.field("q").type.value_type]
    assert pa.struct([pa.field("y", pa.string(), nullable=False)]) == found.field("r").type


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("int", "string", "column 'v' is int in one and string in the other"),
        ("boolean", "int", "boolean"),
        ("int", DATE, "date"),
        (MICROS, WALL_CLOCK, "local-timestamp-micros"),
        (decimal(5, 2), decimal(5, 3), r"decimal\(5,3\)"),
        (decimal(5, 2), "bytes", "decimal"),
        ({"type": "array", "items": "int"}, "int", "array of int"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, r"column 'v\.element'"),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, r"column 'v\.value'"),
        (["int", "string"], "boolean", "boolean"),
        (POINT, {**POINT, "fields": [{"name": "x", "type": "string"}]}, r"column 'v\.x' is int in one and string"),
    ],
)
def test_a_conflict_names_schemas_column_and_types(left: Json, right: Json, message: str) -> None:
    first, second = record(v=left), record(v=right)
    for schemas in ([first, second], [second, first]):
        with pytest.raises(ConfigurationError, match=first.fingerprint) as error:
            superset([record(a="int"), *schemas])
        assert second.fingerprint in str(error.value)
    with pytest.raises(ConfigurationError, match=message):
        superset([first, second])


def test_two_columns_with_one_avro_name_are_a_conflict() -> None:
    schemas = [infer(pa.schema([pa.field(name, pa.int32())]), name="row", namespace=None) for name in ("a b", "a-b")]
    with pytest.raises(ConfigurationError, match="column 'a_b' is named 'a b' in one and 'a-b' in the other"):
        superset(schemas)


def test_a_record_that_contains_itself_is_refused() -> None:
    tree = parse('{"type":"record","name":"row","fields":[{"name":"next","type":["null","row"]}]}')
    with pytest.raises(ConfigurationError, match="contains itself"):
        superset([tree, record(a="int")])


# --- defaults ---------------------------------------------------------------------------------------------------------

KINDS = enum("EDIT", "NEW")
_DECLARED: list[tuple[Json, Any]] = [
    # Types that have a common one, each with the defaults that it may declare.
    (KINDS, "EDIT"),
    (KINDS, "NEW"),
    (enum("EDIT", "LOG"), "EDIT"),
    ("string", "EDIT"),
    (["null", "string"], None),
    (["string", "null"], "EDIT"),
]


def declared(avro: Json, **default: Any) -> AvroSchema:
    members = [{"name": "n", "type": "int"}, {"name": "v", "type": avro, **default}]
    return read_schema(json.dumps({"type": "record", "name": "row", "fields": members}))


def read_of_older(*schemas: AvroSchema) -> Any:
    """What a row without the column `v` is read as."""
    older = record(n="int")
    blob = io.BytesIO()
    fastavro.writer(blob, older.root, [{"n": 1}])
    (batch,) = decode_blob(blob.getvalue(), blob="a", reader=superset([older, *schemas]))
    return batch.column("v")[0].as_py()


def test_a_column_that_some_lack_has_the_default_of_those_that_have_it() -> None:
    assert "EDIT" == read_of_older(declared(KINDS, default="EDIT"))
    assert not arrow_schema(superset([record(n="int"), declared(KINDS, default="EDIT")])).field("v").nullable


def test_a_default_that_no_column_can_hold_is_none() -> None:
    assert read_of_older(declared("int", default="EDIT")) is None
    assert (
        read_of_older(declared({"type": "bytes", "logicalType": "decimal", "precision": 1}, default="\u007f")) is None
    )


@pytest.mark.parametrize(
    ("left", "right", "default"),
    [
        (MILLIS, MICROS, 1000),
        ("string", "bytes", "é"),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "bytes"}, ["é"]),
    ],
)
def test_defaults_that_are_written_alike_and_mean_different_values_do_not_agree(
    left: Json, right: Json, default: Any
) -> None:
    assert read_of_older(declared(left, default=default), declared(left, default=default)) is not None
    assert read_of_older(declared(left, default=default), declared(right, default=default)) is None


@given(st.lists(st.tuples(st.sampled_from(_DECLARED), st.booleans()), min_size=1, max_size=4), st.randoms())
def test_whoever_is_merged_first_the_default_is_the_one_on_which_all_agree(
    having: list[tuple[tuple[Json, Any], bool]], draws: random.Random
) -> None:
    """The oracle is the rule in one sentence: all that have the column declare this default."""
    values = {default if declares else "none declared" for (_, default), declares in having}
    expected = values.pop() if len(values) == 1 and "none declared" not in values else None
    schemas = [declared(avro, **({"default": default} if declares else {})) for (avro, default), declares in having]
    every = [record(n="int"), *schemas]
    draws.shuffle(every)
    (found,) = (each for each in superset(every).row.fields if each.name == "v")
    assert (True, expected) == (found.has_default, found.default)
    assert expected == read_of_older(*schemas)


# --- every writer's rows resolve to it --------------------------------------------------------------------------------

_NUMBERS = {"int": st.integers(-(2**24), 2**24), "long": st.integers(-(2**50), 2**50)}
_TYPES: dict[str, list[tuple[Json, st.SearchStrategy[Any]]]] = {
    "number": [
        ("int", _NUMBERS["int"]),
        (["null", "long"], st.none() | _NUMBERS["long"]),
        ("float", st.floats(width=32, allow_nan=False)),
        ("double", st.floats(allow_nan=False)),
    ],
    "text": [("string", st.text(max_size=4)), (["string", "null"], st.none() | st.text(max_size=4))],
    "list": [
        ({"type": "array", "items": "int"}, st.lists(_NUMBERS["int"], max_size=2)),
        ({"type": "array", "items": ["null", "long"]}, st.lists(st.none() | _NUMBERS["long"], max_size=2)),
    ],
    "point": [
        (POINT, st.fixed_dictionaries({"x": _NUMBERS["int"]})),
        (SPACE, st.fixed_dictionaries({"x": _NUMBERS["long"], "y": _NUMBERS["int"]})),
    ],
}


@st.composite
def writers(draw: st.DrawFn) -> tuple[AvroSchema, list[dict[str, Any]]]:
    names = draw(st.lists(st.sampled_from(sorted(_TYPES)), unique=True))
    picked = {name: draw(st.sampled_from(_TYPES[name])) for name in names}
    rows = st.lists(st.fixed_dictionaries({name: values for name, (_, values) in picked.items()}), max_size=3)
    return record(**{name: avro for name, (avro, _) in picked.items()}), draw(rows)


@given(st.lists(writers(), min_size=1, max_size=4))
def test_every_writers_rows_are_read_by_the_superset(found: list[tuple[AvroSchema, list[dict[str, Any]]]]) -> None:
    reader = superset([schema for schema, _ in found])
    columns = arrow_schema(reader)
    for schema, rows in found:
        blob = io.BytesIO()
        fastavro.writer(blob, schema.root, rows)
        batches = list(decode_blob(blob.getvalue(), blob="a", reader=reader))
        for batch in batches:
            batch.validate(full=True)
            assert columns == batch.schema
        assert [_filled(row, columns) for row in rows] == [row for batch in batches for row in batch.to_pylist()]


@given(st.lists(writers().map(lambda pair: pair[0]), min_size=1, max_size=4))
def test_a_superset_with_its_own_parts_is_itself(schemas: list[AvroSchema]) -> None:
    found = superset(schemas)
    assert arrow_schema(found) == arrow_schema(superset([found, *schemas]))


def _filled(value: Any, columns: Any) -> dict[str, Any]:
    return {
        one.name: _filled(value[one.name], one.type)
        if pa.types.is_struct(one.type) and one.name in value
        else value.get(one.name)
        for one in columns
    }
