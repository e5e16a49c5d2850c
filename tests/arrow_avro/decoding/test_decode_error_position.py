"""Errors of a blob name blob, block, row and column. Any error that a schema causes is one of this project."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.files.container_file import blocks, header, read_header
from arrow_avro.limits import MAX_LEVELS, ReadLimits
from arrow_avro.schema import parse
from arrow_avro.varint import encode
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError
from tests.arrow_avro.decoding.test_decode_limits import ODD
from tests.arrow_avro.decoding.test_scan import array, framed, mapping, read, record
from tests.arrow_avro.sync_marker import SYNC

pytestmark = pytest.mark.usefixtures("each_decoder")

INTACT = b"\x02\x02a\x00"
ROWS = record(n="int", text="string", list=array("int"))
DAMAGED = {
    "n": encode(2**31) + b"\x02a\x00",
    "text": b"\x02\x02\xff\x00",
    "list": b"\x02\x02a" + encode(10**6) + b"\x00",
}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(DAMAGED)), st.integers(0, 30), st.integers(0, 30), st.integers(0, 2), st.integers(1, 40))
def test_a_damaged_row_is_named_with_its_block_and_its_column(
    column: str, before: int, after: int, blocks_before: int, batch_rows: int
) -> None:
    body = INTACT * before + DAMAGED[column] + INTACT * after
    blob = framed(ROWS, *[(5, INTACT * 5)] * blocks_before, (before + 1 + after, body))
    offset = [each.offset for each in blocks(blob, read_header(blob))][-1]
    place = rf"blob b failed: in the block from byte {offset}, row {before} \(from 0\), column '{column}': "
    with pytest.raises(CorruptError, match=place):
        list(decode_blob(blob, blob="b", limits=ReadLimits(batch_rows=batch_rows)))


@pytest.mark.parametrize("wanted", [["text"], ["n"], []])
def test_a_damaged_column_is_named_even_if_it_is_not_read(wanted: list[str]) -> None:
    with pytest.raises(CorruptError, match=r"row 1 \(from 0\), column 'list': a row is unreadable \("):
        list(decode_blob(framed(ROWS, (2, INTACT + DAMAGED["list"])), blob="b", columns=wanted))


@pytest.mark.parametrize(
    ("schema", "columns", "cause"),
    [
        (record(n=["null", "row"]), None, "record row contains itself"),
        (record(n="int"), ["m"], "there is no column m among n. Correct option columns."),
    ],
    ids=["recursive", "no column"],
)
def test_an_error_of_the_schema_names_the_blob(schema: Any, columns: list[str] | None, cause: str) -> None:
    with pytest.raises(ConfigurationError, match=f"read blob b failed: .*{cause}"):
        list(decode_blob(framed(schema, (1, b"\x02")), blob="b", columns=columns))


def levels(count: int, kind: str) -> Any:
    avro: Any = "int"
    for level in range(count):
        inner = {"array": array(avro), "map": mapping(avro), "record": record(f"r{level}", v=avro)}[kind]
        avro = ["null", inner]
    return avro


@pytest.mark.parametrize("kind", ["array", "map", "record"])
def test_as_many_levels_as_are_allowed_are_read(kind: str) -> None:
    blob = framed(record(v=levels(MAX_LEVELS - 1, kind)), (1, b"\0"))
    assert [{"v": None}] == read(blob)
    deep = {"array": b"\x02\x02", "map": b"\x02\x02\x02k", "record": b"\x02"}[kind] * (MAX_LEVELS - 1)
    ends = b"\0" * (0 if kind == "record" else MAX_LEVELS - 1)
    (row,) = read(framed(record(v=levels(MAX_LEVELS - 1, kind)), (1, deep + b"\x0e" + ends)))
    value = row["v"]
    for _ in range(MAX_LEVELS - 1):
        value = value["v"] if kind == "record" else value[0] if kind == "array" else value[0][1]
    assert 7 == value


@pytest.mark.parametrize("kind", ["array", "map", "record"])
@pytest.mark.parametrize("count", [MAX_LEVELS, 163, 300, 20_000])
def test_more_levels_are_refused_with_their_number(kind: str, count: int) -> None:
    unit = {"array": '{"type":"array","items":', "map": '{"type":"map","values":', "record": "["}[kind]
    close = "]" if kind == "record" else "}"
    text = json.dumps(record(v="int")).replace('"int"', unit * count + '"int"' + close * count)
    with pytest.raises(ConfigurationError):
        parse(text)
    blob = b"".join((header(text, "null", SYNC), framed(record(v="int"), (1, b"\x02"))[-19:]))
    with pytest.raises(AzureBlobError, match="read blob b failed: "):
        list(decode_blob(blob, blob="b"))


def test_named_types_do_not_hide_levels() -> None:
    fields = [{"name": "f0", "type": record("r0", v="int")}]
    fields += [{"name": f"f{n}", "type": record(f"r{n}", v=f"r{n - 1}")} for n in range(1, 3 * MAX_LEVELS)]
    with pytest.raises(ConfigurationError, match=f"nested more than {MAX_LEVELS} levels"):
        parse(json.dumps({"type": "record", "name": "row", "fields": fields}))
    fewer = parse(json.dumps({"type": "record", "name": "row", "fields": fields[: MAX_LEVELS - 1]}))
    assert MAX_LEVELS - 1 == len(fewer.type.fields)


@pytest.mark.parametrize("avro", ODD, ids=lambda avro: json.dumps(avro)[:60])
@pytest.mark.parametrize("columns", [None, [], ["v"]])
def test_an_odd_schema_is_read_or_an_error_that_names_the_blob(avro: Any, columns: list[str] | None) -> None:
    try:
        rows = read(framed(record(v=avro), (1, b"\0")), columns=columns)
    except AzureBlobError as error:
        assert "read blob b failed: " in str(error)  # noqa: PT017 - the other outcome is as good
    else:
        assert 1 == len(rows)
