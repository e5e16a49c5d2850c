"""Records that contain themselves, read to a number of levels, as Spark's `avro` reads them."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.decoding.superset import superset
from arrow_avro.schema import AvroSchema, arrow_schema, header_schema, parse
from foundation.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("each_decoder")

Json = Any


def record(name: str, *fields: tuple[str, Json], **more: Json) -> Json:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": avro} for key, avro in fields], **more}


def schema_of(avro: Json) -> AvroSchema:
    return header_schema(json.dumps(avro), blob="b")


def stored(avro: Json, *rows: Json) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, avro, rows)
    return out.getvalue()


def read(data: bytes, reader: AvroSchema, columns: list[str] | None = None) -> list[Json]:
    return [row for batch in decode_blob(data, blob="b", reader=reader, columns=columns) for row in batch.to_pylist()]


LINK = record("link", ("v", "int"), ("next", ["null", "link"]))
CHAIN = {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": {"v": 4, "next": None}}}}


def test_a_depth_of_one_leaves_out_what_is_within_itself_and_each_more_is_one_level() -> None:
    data = stored(LINK, CHAIN, {"v": 5, "next": None})
    assert [{"v": 1}, {"v": 5}] == read(data, superset([schema_of(LINK)], depth=1))
    assert [{"v": 1, "next": {"v": 2}}, {"v": 5, "next": None}] == read(data, superset([schema_of(LINK)], depth=2))
    deep = read(data, superset([schema_of(LINK)], depth=4))[0]
    assert {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": {"v": 4}}}} == deep


def test_without_a_depth_the_other_columns_can_be_read_and_the_error_says_so() -> None:
    avro = record("row", ("id", "long"), ("n", LINK))
    data = stored(avro, {"id": 7, "n": CHAIN})
    assert [{"id": 7}] == read(data, superset([schema_of(avro)], ["id"]), ["id"])
    (batch,) = decode_blob(data, blob="b", columns=["id"])
    assert [7] == batch.column("id").to_pylist()
    advice = "Name the other columns in option columns, or set option recursiveFieldMaxDepth from 1"
    with pytest.raises(ConfigurationError, match=rf"in column 'n', record link contains itself. {advice}"):
        superset([schema_of(avro)])
    with pytest.raises(ConfigurationError, match=rf"read blob b failed: in column 'n', .*{advice}"):
        list(decode_blob(data, blob="b"))


def test_records_that_contain_each_other_count_by_themselves() -> None:
    two = record("a", ("x", "int"), ("b", ["null", record("b", ("y", "int"), ("a", ["null", "a"]))]))
    value = {"x": 1, "b": {"y": 2, "a": {"x": 3, "b": {"y": 4, "a": None}}}}
    data = stored(two, value)
    assert [{"x": 1, "b": {"y": 2}}] == read(data, superset([schema_of(two)], depth=1))
    assert [{"x": 1, "b": {"y": 2, "a": {"x": 3, "b": {"y": 4}}}}] == read(data, superset([schema_of(two)], depth=2))
    both = record("row", ("n", ["null", two]), ("m", "b"))
    other = read(stored(both, {"n": None, "m": value["b"]}), superset([schema_of(both)], depth=1))
    assert [{"n": None, "m": {"y": 2, "a": {"x": 3}}}] == other


def test_of_a_union_of_several_types_the_others_stay_and_a_row_with_it_names_the_option() -> None:
    avro = record("row", ("v", ["null", "string", "long", {"type": "array", "items": "row"}]))
    data = stored(avro, {"v": "a"}, {"v": 3}, {"v": None})
    flat = superset([schema_of(avro)], depth=1)
    assert ["a", None, None] == [row["v"] and row["v"]["member0"] for row in read(data, flat)]
    deeper = stored(avro, {"v": [{"v": "x"}]})
    with pytest.raises(
        ConfigurationError, match="Raise option recursiveFieldMaxDepth, or leave the column out"
    ) as error:
        read(deeper, flat)
    assert "column 'v'" in str(error.value)
    (row,) = read(deeper, superset([schema_of(avro)], depth=2))
    assert [{"v": {"member0": "x", "member1": None}}] == row["v"]["member2"]


def test_a_branch_is_found_by_its_name_though_each_level_has_one_of_its_own() -> None:
    leaf = record("leaf", ("v", "int"))
    avro = record("node", ("v", "int"), ("in", ["null", leaf, "node"]), namespace="n")
    value = {"v": 1, "in": ("n.node", {"v": 2, "in": ("n.leaf", {"v": 3})})}
    data = stored(avro, value)
    (row,) = read(data, superset([schema_of(avro)], depth=3))
    assert (None, 2) == (row["in"]["member0"], row["in"]["member1"]["v"])
    assert {"v": 3} == row["in"]["member1"]["in"]["member0"]


def test_a_named_type_in_two_unions_of_a_superset_is_found_by_its_name() -> None:
    point, other = record("point", ("x", "int")), record("other", ("x", "int"))
    avro = record("row", ("a", [other, point]), ("b", ["other", "point"]))
    more = record("row", ("a", [other, point]), ("b", ["other", "point"]), ("c", ["null", "int"]))
    data = stored(avro, {"a": ("point", {"x": 1}), "b": ("point", {"x": 2})})
    (row,) = read(data, superset([schema_of(avro), schema_of(more)]))
    assert {"a": {"member0": None, "member1": {"x": 1}}, "b": {"member0": None, "member1": {"x": 2}}, "c": None} == row


def test_schemas_that_contain_themselves_have_a_superset() -> None:
    wider = record("link", ("v", "long"), ("next", ["null", "link"]), ("w", ["null", "string"]))
    both = superset([schema_of(LINK), schema_of(wider)], depth=2)
    assert [{"v": 1, "next": {"v": 2, "w": None}, "w": None}] == read(stored(LINK, CHAIN), both)
    assert pa.int64() == arrow_schema(both).field("v").type


def test_a_given_schema_may_contain_itself_or_be_written_out_by_hand() -> None:
    renamed = record("link", ("v", "int"), ("next", ["null", "link"]))
    renamed["fields"].append({"name": "value", "type": "int", "aliases": ["v"]})
    given = superset([parse(json.dumps(renamed), reading=True)], depth=2)
    assert given.given
    assert [{"v": 1, "next": {"v": 2, "value": 2}, "value": 1}] == read(stored(LINK, CHAIN), given)
    inner = record("inner", ("next", ["null", record("innermost", ("v", "int"))]))
    by_hand = parse(json.dumps(record("link", ("v", "int"), ("next", ["null", inner]))), reading=True)
    assert [{"v": 1, "next": {"next": {"v": 3}}}] == read(stored(LINK, CHAIN), by_hand)


def test_a_tree_of_too_many_types_is_refused_and_a_lower_depth_works() -> None:
    tree = record("tree", *((f"c{place}", ["null", "tree"]) for place in range(6)), ("v", "int"))
    with pytest.raises(
        ConfigurationError, match=r"more than 50,000 types with option recursiveFieldMaxDepth=15. Lower it"
    ):
        superset([schema_of(tree)], depth=15)
    assert ["v"] == arrow_schema(superset([schema_of(tree)], depth=1)).names


def cut(value: Json, depth: int) -> Json:
    """A drawn node with so many levels."""
    match value:
        case {"kind": _}:
            inner = {} if depth == 1 else {key: cut(value[key], depth - 1) for key in ("one", "list", "map")}
            return {"kind": value["kind"], **inner}
        case dict():
            return [(key, cut(each, depth)) for key, each in value.items()]
        case list():
            return [cut(each, depth) for each in value]
    return value


def test_random_nodes_are_read_to_any_depth() -> None:
    avro = record(
        "node",
        ("kind", "string"),
        ("one", ["null", "node"]),
        ("list", {"type": "array", "items": ["null", "node"]}),
        ("map", {"type": "map", "values": "node"}),
    )
    rng = Random(3)

    def node(levels: int) -> Json:
        some = [node(levels - 1) for _ in range(rng.randrange(3))] if levels else []
        one = node(levels - 1) if levels and rng.random() < 0.5 else None
        return {
            "kind": f"k{levels}",
            "one": one,
            "list": [*some, None],
            "map": {f"m{n}": e for n, e in enumerate(some)},
        }

    rows = [node(3) for _ in range(30)]
    for depth in range(1, 6):
        assert [cut(row, depth) for row in rows] == read(stored(avro, *rows), superset([schema_of(avro)], depth=depth))
