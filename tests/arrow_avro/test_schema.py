"""Schemas inferred from Arrow, parsed from the option, and turned into Arrow schemas."""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from arrow_avro import schema as avro_schema
from foundation.errors import ConfigurationError, CorruptError


def inferred(arrow: pa.DataType, **field: Any) -> Any:
    schema = avro_schema.infer(pa.schema([pa.field("a", arrow, **field)]), name="row", namespace=None)
    return schema.root["fields"][0]


def parsed(*fields: dict[str, Any]) -> avro_schema.AvroSchema:
    return avro_schema.parse(json.dumps({"type": "record", "name": "row", "fields": list(fields)}))


def members(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.int32(), nullable=False) for name in names]


LEAVES: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), "boolean"),
    (pa.int8(), {"type": "int", "sparkType": "byte"}),
    (pa.int16(), {"type": "int", "sparkType": "short"}),
    (pa.int32(), "int"),
    (pa.int64(), "long"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.string(), "string"),
    (pa.binary(), "bytes"),
    (pa.date32(), {"type": "int", "logicalType": "date"}),
    (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}),
    (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}),
    (pa.time64("us"), {"type": "long", "logicalType": "time-micros"}),
    (pa.duration("us"), {"type": "long", "spark.sql.catalyst.type": "interval day to second"}),
]


@pytest.mark.parametrize(("arrow", "avro"), LEAVES)
def test_every_type_of_spark_has_an_avro_type_that_is_read_as_it(arrow: pa.DataType, avro: Any) -> None:
    assert {"name": "a", "type": avro} == inferred(arrow, nullable=False)
    assert {"name": "a", "type": ["null", avro], "default": None} == inferred(arrow)
    for nullable in (True, False):
        schema = pa.schema([pa.field("a", arrow, nullable=nullable)])
        assert schema == avro_schema.arrow_schema(avro_schema.infer(schema, name="row", namespace="x"))


@pytest.mark.parametrize(
    ("arrow", "avro"),
    [
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.large_binary(), "bytes"),
        (pa.binary_view(), "bytes"),
        (pa.binary(4), "bytes"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.time64("ns"), {"type": "long", "logicalType": "time-micros"}),
        (
            pa.timestamp("ns", "Europe/Vienna"),
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
        ),
        (pa.list_(pa.int32()), {"type": "array", "items": ["null", "int"]}),
        (pa.large_list(pa.int32()), {"type": "array", "items": ["null", "int"]}),
        (pa.map_(pa.string(), pa.int32()), {"type": "map", "values": ["null", "int"]}),
    ],
)
def test_other_layouts_of_a_type_have_the_same_avro_type(arrow: pa.DataType, avro: Any) -> None:
    assert {"name": "a", "type": avro} == inferred(arrow, nullable=False)


def test_null_columns_are_null_without_a_union() -> None:
    assert {"name": "a", "type": "null"} == inferred(pa.null())


@pytest.mark.parametrize(("precision", "size"), [(1, 1), (2, 1), (3, 2), (9, 4), (18, 8), (19, 9), (38, 16)])
def test_decimals_take_as_few_bytes_as_their_precision_needs(precision: int, size: int) -> None:
    fixed = {"type": "fixed", "name": "row_a", "size": size, "logicalType": "decimal"}
    expected = fixed | {"precision": precision, "scale": 1}
    assert expected == inferred(pa.decimal128(precision, 1), nullable=False)["type"]


def test_maps_with_keys_that_are_not_strings_are_arrays_of_entries() -> None:
    arrow = pa.map_(pa.int32(), pa.field("value", pa.string(), nullable=False))
    entry = {
        "type": "record",
        "name": "row_a_entry",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
    }
    assert {"type": "array", "logicalType": "map", "items": entry} == inferred(arrow, nullable=False)["type"]


def test_nested_types_are_read_as_they_were_written() -> None:
    inner = pa.struct(
        [
            pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
            pa.field("by id", pa.map_(pa.int64(), pa.field("value", pa.decimal128(10, 2))), nullable=False),
            pa.field("by name", pa.map_(pa.string(), pa.struct([pa.field("ä", pa.int8())]))),
        ]
    )
    schema = pa.schema([pa.field("a", inner), pa.field("b", pa.list_(pa.field("element", inner)))])
    assert schema == avro_schema.arrow_schema(avro_schema.infer(schema, name="row", namespace="x.y"))


def test_a_variant_is_written_as_a_record_of_two_binaries_and_read_as_a_variant() -> None:
    tag = {b"variant": b"true"}
    variant = pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata=tag),
        ]
    )
    found = inferred(variant, nullable=False)["type"]
    assert ("variant", "record") == (found["sparkType"], found["type"])
    schema = pa.schema([pa.field("a", variant)])
    back = avro_schema.arrow_schema(avro_schema.infer(schema, name="row", namespace=None))
    assert schema.equals(back)
    assert tag == back.field("a").type.field("metadata").metadata


def test_names_that_avro_does_not_allow_are_replaced_and_kept_in_spark_name() -> None:
    avro = avro_schema.infer(pa.schema(members("a b", "a_b", "a-b", "1", "", "ä")), name="row", namespace=None)
    assert [
        ("a_b", "a b"),
        ("a_b_2", "a_b"),
        ("a_b_3", "a-b"),
        ("_1", "1"),
        ("_", ""),
        ("__2", "ä"),
    ] == [(field["name"], field["sparkName"]) for field in avro.root["fields"]]
    assert ["a b", "a_b", "a-b", "1", "", "ä"] == avro_schema.arrow_schema(avro).names


def test_named_types_never_share_a_name() -> None:
    clash = pa.struct(
        [pa.field("b_c", pa.struct(members("x"))), pa.field("b", pa.struct([("c", pa.struct(members("x")))]))]
    )
    avro = avro_schema.infer(pa.schema([pa.field("a", clash)]), name="row", namespace=None)
    names = [part.split('"')[0] for part in avro.json.split('"type":"record","name":"')[1:]]
    assert 5 == len(names) == len(set(names))


def test_json_is_compact_and_fingerprinted_by_its_own_bytes() -> None:
    avro = avro_schema.infer(pa.schema(members("a")), name="row", namespace="x")
    text = '{"type":"record","name":"row","namespace":"x","fields":[{"name":"a","type":"int"}]}'
    assert text == avro.json
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == avro.fingerprint
    assert avro == avro_schema.parse(json.dumps(json.loads(text), indent=2))


def test_a_schema_can_be_pickled() -> None:
    given = parsed({"name": "a", "type": "int"})
    for avro in (given, avro_schema.read_schema(given.json)):
        back = pickle.loads(pickle.dumps(avro))  # noqa: S301
        assert (avro, avro.root, avro.type, avro.given) == (back, back.root, back.type, back.given)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "3",
        "[]",
        '"unknown"',
        '{"type":1}',
        '{"type":"record","name":1,"fields":[]}',
        '{"type":"record","name":"a","fields":1}',
        '{"type":"enum","name":"a","symbols":1}',
        '{"type":"record","name":"a b","fields":[]}',
        '{"type":"record","name":"a","fields":[{"name":"x"}]}',
        '{"type":"record","name":"a"}',
        '{"type":"array"}',
        '{"type":"enum","name":"e","symbols":["A","A"]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":["null","null"]}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":"int","default":"text"}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":"int"},{"name":"x","type":"int"}]}',
    ],
)
def test_a_malformed_schema_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="Option `avroSchema` is not a valid Avro schema") as raised:
        avro_schema.parse(text)
    assert "iterable" not in str(raised.value)


@pytest.mark.parametrize(
    "field",
    [
        {"name": "x", "type": "int", "default": None},
        {"name": "x", "type": ["null", "int"], "default": "text"},
        {"name": "x", "type": {"type": "fixed", "name": "f", "size": 2}, "default": "abc"},
        {"name": "x", "type": {"type": "enum", "name": "e", "symbols": ["A"], "default": "B"}},
        {"name": "x", "type": {"type": "fixed", "name": "f", "size": True}},
        {"name": "x", "type": {"type": "fixed", "name": "f", "size": -1}},
        {"name": "x", "type": {"type": "fixed", "name": "f", "size": 4.0}},
        {"name": "x", "type": ["int", "int"]},
        {"name": "x", "type": []},
        {"name": "x", "type": {"type": "record", "name": "row", "fields": []}},
    ],
    ids=str,
)
def test_a_users_schema_must_keep_to_the_specification_for_writes_and_reads(field: dict[str, Any]) -> None:
    text = json.dumps({"type": "record", "name": "row", "fields": [field]})
    for reading in (False, True):
        with pytest.raises(ConfigurationError, match="Option `avroSchema` is not a valid Avro schema"):
            avro_schema.parse(text, reading=reading)


@pytest.mark.parametrize("name", ["größe", "a-b", "$", "a.b"])
def test_only_a_schema_for_reads_may_have_names_with_any_characters(name: str) -> None:
    text = json.dumps({"type": "record", "name": f"my {name}", "fields": [{"name": name, "type": "int"}]})
    assert [name] == avro_schema.arrow_schema(avro_schema.parse(text, reading=True)).names
    with pytest.raises(ConfigurationError, match="Option `avroSchema` is not a valid Avro schema"):
        avro_schema.parse(text)


@pytest.mark.parametrize(("name", "namespace"), [("a b", None), ("row", "x..y"), ("", None)])
def test_record_names_that_avro_does_not_allow_are_refused(name: str, namespace: str | None) -> None:
    with pytest.raises(ConfigurationError, match="which is no Avro name"):
        avro_schema.infer(pa.schema(members("a")), name=name, namespace=namespace)


@pytest.mark.parametrize(
    "arrow",
    [
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("x", pa.int32())]),
        pa.decimal128(5, -2),
        pa.decimal256(50, 2),
    ],
)
def test_arrow_types_without_an_avro_type_are_refused_with_their_column(arrow: pa.DataType) -> None:
    nested = pa.struct([pa.field("inner", arrow)])
    with pytest.raises(ConfigurationError, match=r"column 'a\.inner': Arrow type .* Avro"):
        avro_schema.infer(pa.schema([pa.field("a", nested)]), name="row", namespace=None)


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("avro", "arrow", "nullable"),
    [
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string(), False),
        ({"type": "fixed", "name": "f", "size": 4}, pa.binary(), False),
        ({"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"}, pa.binary(), False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, pa.decimal128(4, 2), False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60}, pa.binary(), False),
        ({"type": "string", "logicalType": "uuid"}, pa.string(), False),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC"), False),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("us", "UTC"), False),
        ({"type": "int", "logicalType": "time-millis"}, pa.time64("us"), False),
        ({"type": "int", "logicalType": "timestamp-millis"}, pa.int32(), False),
        (["int", "null"], pa.int32(), True),
        (["int"], pa.int32(), False),
        (["null", "int", "string"], pa.struct([("member0", pa.int32()), ("member1", pa.string())]), True),
    ],
)
def test_avro_types_are_read_as_arrow_types(avro: Any, arrow: pa.DataType, nullable: bool) -> None:
    expected = pa.schema([pa.field("a", arrow, nullable=nullable)])
    assert expected == avro_schema.arrow_schema(parsed({"name": "a", "type": avro}))


def test_a_logical_type_may_stand_outside_of_its_type_as_the_library_of_c_sharp_writes_it() -> None:
    money = {"type": "fixed", "name": "Money", "size": 5}
    outside = {"type": money, "logicalType": "decimal", "precision": 10, "scale": 3}
    within = {**money, "logicalType": "decimal", "precision": 9, "scale": 2}
    fields = [{"name": "v", "type": outside}, {"name": "w", "type": {**outside, "type": {**within, "name": "Other"}}}]
    found = avro_schema.header_schema(json.dumps({"type": "record", "name": "row", "fields": fields}), blob="b")
    assert [pa.decimal128(10, 3), pa.decimal128(9, 2)] == avro_schema.arrow_schema(found).types


def test_named_types_are_found_by_their_full_names() -> None:
    text = """{"type":"record","name":"row","namespace":"x","fields":[
        {"name":"a","type":{"type":"enum","name":"y.e","symbols":["A"]}},
        {"name":"b","type":{"type":"record","name":"r","namespace":"z","fields":[{"name":"i","type":"int"}]}},
        {"name":"c","type":"y.e"},{"name":"d","type":"z.r"}]}"""
    inner = pa.struct([pa.field("i", pa.int32(), nullable=False)])
    assert [pa.string(), inner, pa.string(), inner] == avro_schema.arrow_schema(avro_schema.parse(text)).types


def test_a_record_that_contains_itself_cannot_be_read_as_columns() -> None:
    text = '{"type":"record","name":"link","fields":[{"name":"next","type":["null","link"]}]}'
    with pytest.raises(ConfigurationError, match="record link contains itself"):
        avro_schema.arrow_schema(avro_schema.parse(text))


def test_a_root_that_is_no_record_is_read_as_one_column_and_cannot_be_written() -> None:
    only = pa.schema([pa.field("value", pa.string(), nullable=False)])
    assert only == avro_schema.arrow_schema(avro_schema.parse('"string"'))
    with pytest.raises(ConfigurationError, match="rows need a record"):
        avro_schema.check_writable(pa.schema(members("a")), avro_schema.parse('"string"'))


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrow", "avro", "message"),
    [
        (pa.string(), "int", "column 'a': Arrow type string cannot be written as Avro type int"),
        (pa.float64(), "float", "Arrow type double cannot be written as Avro type float"),
        (pa.int64(), "double", "Arrow type int64 cannot be written as Avro type double"),
        (pa.timestamp("us"), {"type": "long", "logicalType": "timestamp-micros"}, "Avro type long timestamp-micros"),
        (pa.binary(), "string", "Arrow type binary cannot be written as Avro type string"),
        (pa.int32(), ["null", "string"], "Arrow type int32 cannot be written as Avro type string"),
        (pa.int32(), ["null", "string", "bytes"], r"fits no branch of the Avro union \[null, string, bytes\]"),
        (pa.list_(pa.string()), {"type": "array", "items": "int"}, "column 'a.element': Arrow type string"),
        (pa.map_(pa.string(), pa.string()), {"type": "map", "values": "int"}, "column 'a.value': Arrow type string"),
        (
            pa.decimal128(5, 3),
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            "fraction digits",
        ),
        (pa.month_day_nano_interval(), "string", "Arrow type month_day_nano_interval cannot be written"),
        (
            pa.struct(members("x", "y")),
            {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]},
            "column 'a.y': record r has no such field",
        ),
    ],
)
def test_a_column_that_cannot_be_written_is_reported_with_both_types(
    arrow: pa.DataType, avro: Any, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        avro_schema.check_writable(pa.schema([("a", arrow)]), parsed({"name": "a", "type": avro}))


def test_columns_without_a_field_are_reported_with_the_option() -> None:
    with pytest.raises(ConfigurationError, match="option avroSchema would lose b, c"):
        avro_schema.check_writable(pa.schema(members("a", "b", "c")), parsed({"name": "a", "type": "int"}))


def test_a_field_without_a_column_needs_a_default() -> None:
    wanted = {"name": "b", "type": ["null", "int"]}
    rows = pa.schema(members("a"))
    with pytest.raises(ConfigurationError, match=r"column 'b': .* has no default"):
        avro_schema.check_writable(rows, parsed({"name": "a", "type": "int"}, wanted))
    avro_schema.check_writable(rows, parsed({"name": "a", "type": "int"}, wanted | {"default": None}))


def test_two_columns_with_the_same_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the same name"):
        avro_schema.check_writable(pa.schema(members("a", "a")), parsed({"name": "a", "type": "int"}))


def test_every_inferred_schema_is_writable() -> None:
    rows = pa.schema([pa.field(f"c{n}", arrow) for n, (arrow, _) in enumerate(LEAVES)])
    avro_schema.check_writable(rows, avro_schema.infer(rows, name="row", namespace=None))


def test_a_schema_whose_named_types_define_billions_of_types_is_refused_at_once() -> None:
    inner: dict[str, Any] = {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "long"}]}
    for depth in range(1, 40):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"r{depth - 1}"}]
        inner = {"type": "record", "name": f"r{depth}", "fields": fields}
    with pytest.raises(ConfigurationError, match=r"option avroSchema has more than 50,000 types .* written out"):
        avro_schema.parse(json.dumps(inner))
    with pytest.raises(ConfigurationError, match=r"blob s/1 failed: the schema in its header has more than 50,000"):
        avro_schema.header_schema(json.dumps(inner), blob="s/1")


def test_rows_of_ten_thousand_nullable_columns_can_be_written() -> None:
    rows = pa.schema([(f"column {index}", pa.int64()) for index in range(10_000)])
    assert rows == avro_schema.arrow_schema(avro_schema.infer(rows, name="row", namespace=None))


def test_rows_of_too_many_columns_are_refused_without_naming_the_option() -> None:
    rows = pa.schema([(f"c{index}", pa.int64()) for index in range(50_001)])
    with pytest.raises(ConfigurationError, match=r"the schema of the rows has more than 50,000 types") as error:
        avro_schema.infer(rows, name="row", namespace=None)
    assert "avroSchema" not in str(error.value)


NESTED = 100_000
LATER = {
    "type": "record", "name": "row",
    "fields": [
        {"name": "a", "type": "n.later"},
        {"name": "b", "type": {"type": "fixed", "name": "n.later", "size": 1}},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            '{"type":"array","items":' * NESTED + '"int"' + "}" * NESTED,
            "more than 50 levels deep, which is the limit of",
        ),
        (json.dumps(LATER), r"refers to the type n\.later before it defines it"),
    ],
    ids=["levels", "later"],
)
def test_an_intact_header_schema_that_is_not_supported_is_not_taken_for_damaged(text: str, cause: str) -> None:
    with pytest.raises(ConfigurationError, match=f"read blob s/1 failed: the schema in its header .*{cause}"):
        avro_schema.header_schema(text, blob="s/1")


@pytest.mark.parametrize("name", ["nowhere", "other.row"])
def test_a_type_that_is_defined_nowhere_is_no_schema(name: str) -> None:
    row = {"type": "record", "name": "row", "fields": [{"name": "a", "type": name}]}
    with pytest.raises(CorruptError, match=f"unknown type {name}"):
        avro_schema.header_schema(json.dumps(row), blob="s/1")
