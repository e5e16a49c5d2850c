"""Headers of other writers whose names, defaults, symbols and logical types violate the specification.

The bytes are written here, because no installed writer writes all of that; the expected rows are the drawn values.
"""

from __future__ import annotations

import io
import json
import struct
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.decoding.superset import superset
from arrow_avro.files.container_file import block, header
from arrow_avro.limits import ReadLimits
from arrow_avro.schema import arrow_schema, header_schema, parse
from arrow_avro.varint import encode
from foundation.errors import ConfigurationError, CorruptError
from tests.arrow_avro.sync_marker import SYNC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arrow_avro.schema import AvroSchema

pytestmark = pytest.mark.usefixtures("each_decoder")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS = 10.0  # far more than any of these schemas takes

Json = Any


def record(*fields: Json, **more: Json) -> Json:
    return {"type": "record", "name": "row", "fields": list(fields), **more}


def column(avro: Json, **more: Json) -> Json:
    return {"name": "v", "type": avro, **more}


def blob(schema: Json, *rows: bytes) -> bytes:
    return b"".join((header(json.dumps(schema), "null", SYNC), *block(len(rows), b"".join(rows), SYNC)))


def read(data: bytes, reader: Json | None = None, **options: Any) -> list[dict[str, Any]]:
    parsed = None if reader is None else parse(json.dumps(reader), reading=True)
    batches = list(decode_blob(data, blob="s/1.avro", reader=parsed, **options))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


# --- any header -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """A type in a header, its values with their bytes, and what is unusual about it."""

    schema: Json
    values: st.SearchStrategy[tuple[Any, bytes]]
    odd: tuple[str, ...] = ()


@dataclass(frozen=True)
class Names:
    """The next number for a name, and the named types that may be referred to."""

    numbers: Iterator[int]
    defined: list[tuple[str, Drawn]]


def text(value: str) -> bytes:
    return encode(len(value.encode())) + value.encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**70) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
# Attributes that have a meaning in other types, or for another writer.
UNKNOWN = st.dictionaries(
    st.sampled_from(
        ["size", "sparkType", "precision", "scale", "doc", "order", "avro.java.string", "aliases", "fields_"]
    ),
    JSON,
    max_size=2,
).filter(lambda found: found.get("sparkType") not in ("byte", "short"))
ODD_NAMES = ["größe", "a-b", "$", "a b", "1st", "列", "x.y", "null ", "a/b", '"', "é"]
SIMPLE: dict[str, st.SearchStrategy[tuple[Any, bytes]]] = {
    "boolean": st.booleans().map(lambda value: (value, bytes([value]))),
    "int": st.integers(-(2**31), 2**31 - 1).map(lambda value: (value, encode(value))),
    "long": st.integers(-(2**63), 2**63 - 1).map(lambda value: (value, encode(value))),
    "double": st.floats(allow_nan=False).map(lambda value: (value, struct.pack("<d", value))),
    "string": st.text(max_size=5).map(lambda value: (value, text(value))),
    "bytes": st.binary(max_size=5).map(lambda value: (value, encode(len(value)) + value)),
}
# Logical types that the specification demands to ignore.
INVALID: dict[str, list[Json]] = {
    "boolean": [{"logicalType": "date"}, {"logicalType": ["decimal"]}],
    "int": [{"logicalType": "timestamp-millis"}, {"logicalType": "decimal", "precision": 4}, {"logicalType": 7}],
    "long": [{"logicalType": "date"}, {"logicalType": "time-millis"}, {"logicalType": {"a": []}}],
    "double": [{"logicalType": "decimal", "precision": 4, "scale": 2}],
    "string": [{"logicalType": "decimal", "precision": 3}, {"logicalType": "timestamp-micros"}],
    "bytes": [
        {"logicalType": "decimal"},
        {"logicalType": "decimal", "precision": 0},
        {"logicalType": "decimal", "precision": 2, "scale": 3},
        {"logicalType": "decimal", "precision": "9", "scale": 2},
        {"logicalType": "decimal", "precision": True},
        {"logicalType": "uuid"},
    ],
}


VALID: list[tuple[Json, st.SearchStrategy[tuple[Any, bytes]]]] = [
    (
        {"type": "int", "logicalType": "date"},
        st.integers(-9999, 9999).map(lambda days: (date(1970, 1, 1) + timedelta(days=days), encode(days))),
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": 5},
        st.integers(-(10**15), 10**15).map(lambda micros: (EPOCH + timedelta(microseconds=micros), encode(micros))),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2, "size": []},
        st.integers(-9999, 9999).map(
            lambda cents: (Decimal(cents).scaleb(-2), b"\x04" + cents.to_bytes(2, "big", signed=True))
        ),
    ),
]


@st.composite
def types(draw: st.DrawFn, names: Names, depth: int = 2) -> Drawn:
    made: list[Callable[..., st.SearchStrategy[Drawn]]] = [simple, simple, enums, fixed_types]
    if depth:
        made += [arrays, maps, unions, records, records]
    if names.defined and draw(st.integers(0, 4)) == 0:
        name, drawn = draw(st.sampled_from(names.defined))
        return Drawn(name, drawn.values, ("named again",))
    found: Drawn = draw(draw(st.sampled_from(made))(names, depth - 1))
    return found


@st.composite
def simple(draw: st.DrawFn, _names: Names, _depth: int) -> Drawn:
    kind = draw(st.sampled_from(sorted(SIMPLE)))
    how = draw(st.sampled_from(["plain", "unknown attributes", "invalid logical type", "valid logical type"]))
    if how == "valid logical type":
        schema, values = draw(st.sampled_from(VALID))
        return Drawn(schema, values, (how,))
    if how == "plain":
        return Drawn(kind, SIMPLE[kind])
    more = draw(UNKNOWN) if how == "unknown attributes" else draw(st.sampled_from(INVALID[kind]))
    return Drawn({**more, "type": kind}, SIMPLE[kind], (how,))


def named(draw: st.DrawFn, names: Names, made: Json, values: Any, odd: tuple[str, ...]) -> Drawn:
    """A named type, whose name and namespace may have any characters."""
    name = f"{draw(st.sampled_from([*ODD_NAMES[:5], 't', 't', 't']))}{next(names.numbers)}"
    space = draw(st.sampled_from([{}, {}, {"namespace": "ä.b-c"}, {"namespace": ""}]))
    schema = {**draw(UNKNOWN), **made, "name": name, **space}
    drawn = Drawn(schema, values, odd if name.startswith("t") else (*odd, "odd name"))
    if space:
        names.defined.append((f"{space['namespace']}.{name}" if space["namespace"] else name, drawn))
    return drawn


@st.composite
def enums(draw: st.DrawFn, names: Names, _depth: int) -> Drawn:
    symbols = draw(st.lists(st.sampled_from([*ODD_NAMES, "A", "B", ""]), min_size=1, max_size=5))
    odd: tuple[str, ...] = ("odd symbol",) if set(symbols) - {"A", "B"} else ()
    odd += ("symbol twice",) if len(set(symbols)) < len(symbols) else ()
    values = st.integers(0, len(symbols) - 1).map(lambda index: (symbols[index], encode(index)))
    more: Json = draw(st.sampled_from([{}, {"default": "?"}, {"default": 5}]))
    return named(draw, names, {"type": "enum", "symbols": symbols, **more}, values, odd)


@st.composite
def fixed_types(draw: st.DrawFn, names: Names, _depth: int) -> Drawn:
    size = draw(st.integers(0, 5))
    more: Json = draw(
        st.sampled_from([{}, {"logicalType": "duration"}, {"logicalType": "decimal", "precision": 40}, {"aliases": 5}])
    )
    odd = ("invalid logical type",) if "logicalType" in more else ()
    values = st.binary(min_size=size, max_size=size).map(lambda value: (value, value))
    return named(
        draw, names, {"type": "fixed", "size": draw(st.sampled_from([size, float(size)])), **more}, values, odd
    )


def blocks_of(items: list[bytes]) -> bytes:
    return b"".join([encode(len(items)), *items, encode(0)]) if items else encode(0)


@st.composite
def arrays(draw: st.DrawFn, names: Names, depth: int) -> Drawn:
    inner = draw(types(names, depth))
    values = st.lists(inner.values, max_size=3).map(
        lambda items: ([value for value, _ in items], blocks_of([data for _, data in items]))
    )
    return Drawn({**draw(UNKNOWN), "type": "array", "items": inner.schema}, values, inner.odd)


@st.composite
def maps(draw: st.DrawFn, names: Names, depth: int) -> Drawn:
    inner = draw(types(names, depth))
    keys = st.sampled_from(["a", "ö", ""])  # few, so that one often comes twice
    values = st.lists(st.tuples(keys, inner.values), max_size=6).map(_entries)
    return Drawn({"type": "map", "values": inner.schema}, values, (*inner.odd, "map"))


def _entries(pairs: list[tuple[str, tuple[Any, bytes]]]) -> tuple[Any, bytes]:
    """A map: if a key comes twice, the last entry counts."""
    last = {key: index for index, (key, _) in enumerate(pairs)}
    SEEN["key twice"] += len(last) < len(pairs)
    shown = [(pairs[index][0], pairs[index][1][0]) for index in sorted(last.values())]
    return shown, blocks_of([text(key) + data for key, (_, data) in pairs])


@st.composite
def unions(draw: st.DrawFn, names: Names, depth: int) -> Drawn:
    """A nullable type; general unions are tested in `test_decode`."""
    inner = draw(types(names, depth))
    if isinstance(inner.schema, list):
        return inner
    first = draw(st.booleans())
    null, some = (b"\x00", b"\x02") if first else (b"\x02", b"\x00")
    values = st.one_of(st.just((None, null)), inner.values.map(lambda value: (value[0], some + value[1])))
    return Drawn(["null", inner.schema] if first else [inner.schema, "null"], values, inner.odd)


@st.composite
def records(draw: st.DrawFn, names: Names, depth: int) -> Drawn:
    drawn = draw(st.lists(types(names, depth), max_size=3))
    keys = draw(st.lists(st.sampled_from([*ODD_NAMES, "a", "b", "c"]), min_size=len(drawn), max_size=len(drawn)))
    fields: list[Json] = []
    more: Json
    odd = [each for inner in drawn for each in inner.odd]
    odd += ["odd field"] * bool(set(keys) & set(ODD_NAMES)) + ["field twice"] * (len(set(keys)) < len(keys))
    odd += ["no fields"] * (not drawn)
    for key, inner in zip(keys, drawn, strict=True):
        more = draw(st.sampled_from([{}, {"default": None}, {"default": "?"}, {"order": 5}, {"sparkName": 7}]))
        odd += ["unfit default"] * ("default" in more)
        fields.append({**more, "name": key, "type": inner.schema})
    shown = distinct(keys)
    values = st.tuples(*(inner.values for inner in drawn)).map(
        lambda found: (
            {key: value for key, (value, _) in zip(shown, found, strict=True)},
            b"".join(data for _, data in found),
        )
    )
    return named(draw, names, {"type": "record", "fields": fields}, values, tuple(odd))


def distinct(keys: list[str]) -> list[str]:
    """Names of columns: the second of one name gets a 2 after it."""
    found: list[str] = []
    for index, key in enumerate(keys):
        same = keys[:index].count(key)
        found.append(f"{key}_{same + 1}" if same else key)
    return found


SEEN: Counter[str] = Counter()
EXPECTED = [
    "valid logical type",
    "given as option",
    "odd name",
    "odd field",
    "odd symbol",
    "symbol twice",
    "field twice",
    "unfit default",
    "unknown attributes",
    "invalid logical type",
    "named again",
    "no fields",
    "root",
    "key twice",
    "read by fastavro",
]


@seed(1)
@settings(
    deadline=None,
    max_examples=300,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def check_any_header(data: st.DataObject) -> None:
    names = Names(count(), [])
    root = data.draw(types(names) | records(names, 2))
    values = data.draw(st.lists(root.values, max_size=4))
    expected = [value for value, _ in values]
    is_record = isinstance(root.schema, dict) and root.schema["type"] == "record"
    stored = blob(root.schema, *(data for _, data in values))
    rows = expected if is_record else [{"value": value} for value in expected]
    assert rows == read(stored, limits=ReadLimits(batch_rows=3))
    schema = header_schema(json.dumps(root.schema), blob="b")
    again = superset([schema, header_schema(json.dumps(record(column("int"))), blob="b")])
    batches = decode_blob(stored, blob="b", reader=again)
    assert [{**row, "v": None} for row in rows] == [row for batch in batches for row in batch.to_pylist()]
    _compare_with_the_option(stored, root, rows)
    SEEN.update({*root.odd, *(["root"] if not is_record else [])})
    _compare_with_fastavro(stored, root, expected)


def _compare_with_the_option(stored: bytes, root: Drawn, rows: list[Any]) -> None:
    """A header that is valid as option avroSchema has the same meaning there."""
    try:
        parse(json.dumps(root.schema), reading=True)
    except ConfigurationError:
        return
    SEEN["given as option"] += 1
    assert rows == read(stored, root.schema)


def _compare_with_fastavro(stored: bytes, root: Drawn, expected: list[Any]) -> None:
    if "field twice" in root.odd or "invalid logical type" in root.odd:
        return
    try:
        found = list(fastavro.reader(io.BytesIO(stored)))
    except Exception:  # noqa: BLE001 - it refuses headers that violate the specification
        return
    SEEN["read by fastavro"] += 1
    assert len(expected) == len(found)
    if "map" not in root.odd:
        assert expected == found


def test_any_header_of_other_writers_is_read() -> None:
    SEEN.clear()
    check_any_header()
    assert [] == [event for event in EXPECTED if SEEN[event] < 5]


# --- one by one -------------------------------------------------------------------------------------------------------


def test_a_file_of_sparks_own_writer_is_read() -> None:
    schema = {"type": "record", "name": "topLevelRecord", "fields": [{"name": "größe", "type": ["int", "null"]}]}
    assert [{"größe": 5}, {"größe": None}] == read(blob(schema, b"\x00\x0a", b"\x02"))
    assert [{"größe": 5}] == read(blob(schema, b"\x00\x0a"), {**schema, "name": "other"})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "3",
        '"lung"',
        "null",
        '{"type":"record","name":"a"}',
        '{"type":"record","name":"a","fields":{}}',
        '{"type":"record","name":"a","fields":[5]}',
        '{"type":"record","name":"a","fields":[{"name":5,"type":"int"}]}',
        '{"type":"record","name":"a","fields":[{"name":"v"}]}',
        '{"type":"array"}',
        '{"type":"map","values":{}}',
        '{"type":"enum","name":"a","symbols":5}',
        '{"type":"enum","name":"a","symbols":[5]}',
        '{"type":"fixed","name":"a"}',
        '{"type":"fixed","name":"a","size":true}',
        '{"type":"fixed","name":"a","size":"4"}',
        '{"type":"fixed","name":"a","size":4.5}',
        '{"type":"fixed","name":"a","size":Infinity}',
        "[" * 40,
    ],
)
def test_a_header_without_a_meaning_is_damaged(text: str) -> None:
    with pytest.raises(
        CorruptError, match=r"read blob s/1\.avro failed: the schema in its header is not an Avro schema: "
    ) as error:
        read(header(text, "null", SYNC))
    assert "avroSchema" not in str(error.value)


def test_a_union_within_a_union_is_unsupported_not_damaged() -> None:
    with pytest.raises(ConfigurationError, match=r"s/1\.avro failed: the schema in its header has a union within"):
        read(blob(record(column(["null", ["int"]]))))


def test_a_fixed_of_any_size_is_read_where_it_is_null() -> None:
    for more in ({}, {"logicalType": "decimal", "precision": 10**9}, {"logicalType": "decimal", "precision": 5}):
        huge = {"type": "fixed", "name": "f", "size": 2**70, **more}
        assert [{"v": None}] == read(blob(record(column(["null", huge])), b"\x00"))


def test_a_union_without_branches_has_no_values() -> None:
    assert [{"v": []}] == read(blob(record(column({"type": "array", "items": []})), b"\x00"))
    with pytest.raises(CorruptError):
        read(blob(record(column([])), b"\x00"))


def test_a_type_that_is_defined_twice_is_what_each_definition_says() -> None:
    first = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    second = {"type": "record", "name": "r", "fields": [{"name": "b", "type": "string"}]}
    schema = record(column(first), {"name": "w", "type": second}, {"name": "x", "type": "r"})
    expected = [{"v": {"a": 1}, "w": {"b": "x"}, "x": {"b": "y"}}]
    assert expected == read(blob(schema, b"\x02" + b"\x02x" + b"\x02y"))


def test_lone_surrogates_in_names_are_read_as_question_marks() -> None:
    schema = json.dumps(record({"name": "?", "type": {"type": "enum", "name": "e", "symbols": ["?"]}}))
    data = b"".join((header(schema.replace("?", "\\ud800"), "null", SYNC), *block(1, b"\x00", SYNC)))
    assert [{"?": "?"}] == read(data)


# --- values that their type cannot hold are not damage, and the advice of the error works -----------------------------

BYTE = {"type": "int", "sparkType": "byte"}
MILLIS = {"type": "int", "logicalType": "time-millis"}
MICROS = {"type": "long", "logicalType": "time-micros"}
INSTANT = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
FIXED = {"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal", "precision": 2}
UNFIT = [
    (BYTE, None, encode(300), "int", 300),
    ("int", BYTE, encode(300), "int", 300),
    (MILLIS, None, encode(86_400_000), "int", 86_400_000),
    (MICROS, None, encode(-1), "long", -1),
    (INSTANT, None, encode(2**62), "long", 2**62),
    (DECIMAL, None, b"\x04\x7f\xff", "bytes", b"\x7f\xff"),
    ("bytes", DECIMAL, b"\x04\x7f\xff", "bytes", b"\x7f\xff"),
    (DECIMAL, None, b"\x28" + b"\x7f" * 20, "bytes", b"\x7f" * 20),
    (FIXED, None, b"\x7f\xff", {"type": "fixed", "name": "f", "size": 2}, b"\x7f\xff"),
    ("bytes", "string", b"\x04\xff\xfe", "bytes", b"\xff\xfe"),
]


@pytest.mark.parametrize(("writer", "reader", "body", "plain", "value"), UNFIT, ids=str)
@pytest.mark.parametrize("nullable", [False, True])
def test_a_value_that_its_type_cannot_hold_is_not_damage_and_the_advice_works(
    writer: Json, reader: Json, body: bytes, plain: Json, value: Any, *, nullable: bool
) -> None:
    def within(avro: Json) -> Json:
        inner = {"type": "record", "name": "r", "fields": [column(["null", avro] if nullable else avro)]}
        return record({"name": "u", "type": inner}, {"name": "after", "type": "int"})

    data = blob(within(writer), (b"\x02" if nullable else b"") + body + b"\x0a")
    kind = plain if isinstance(plain, str) else "fixed"
    advice = f"Give option avroSchema with plain {kind} for that column, or leave it out with option columns"
    with pytest.raises(ConfigurationError, match=rf"read blob s/1\.avro failed: column 'u\.v': .*{advice}"):
        read(data, None if reader is None else within(reader))
    assert [{"u": {"v": value}, "after": 5}] == read(data, within(plain))
    assert [{"after": 5}] == read(data, None if reader is None else within(reader), columns=["after"])


def test_a_string_that_is_not_utf8_is_damage_in_its_column() -> None:
    with pytest.raises(CorruptError, match=r"byte \d+, row 0 \(from 0\), column 'v': a string is not utf8"):
        read(blob(record(column("string")), b"\x04\xff\xfe"))


# --- resolution -------------------------------------------------------------------------------------------------------


def test_a_branch_that_does_not_resolve_is_an_error_only_if_a_row_has_it() -> None:
    nullable = record(column(["null", "int"])), record(column(["null", "string"]))
    assert [{"v": None}, {"v": None}] == read(blob(nullable[0], b"\x00", b"\x00"), nullable[1])
    listed = [record(column({"type": "array", "items": kind})) for kind in ("int", "string")]
    assert [{"v": []}] == read(blob(listed[0], b"\x00"), listed[1])
    mapped = [record(column({"type": "map", "values": kind})) for kind in ("int", "boolean")]
    assert [{"v": []}] == read(blob(mapped[0], b"\x00"), mapped[1])
    assert [] == read(blob(record(column("int"))), record(column("string"), {"name": "w", "type": "int"}))
    for (writer, reader), body in ((nullable, b"\x02\x02"), (listed, b"\x02\x02\x00"), (mapped, b"\x02\x02a\x02\x00")):
        with pytest.raises(ConfigurationError, match="column 'v.*cannot be read as.*Change option avroSchema"):
            read(blob(writer, body), reader)
        assert 1 == len(read(blob(writer, body))), "the advice: leave it out"


def test_nulls_are_refused_where_the_reader_allows_none_whether_other_values_resolve_or_not() -> None:
    for kind in ("int", "string"):
        with pytest.raises(ConfigurationError, match="column 'v': there is a null where"):
            read(blob(record(column(["null", "int"])), b"\x00"), record(column(kind)))
    with pytest.raises(ConfigurationError, match="column 'v': what was written as null cannot be read as int"):
        read(blob(record(column("null")), b""), record(column("int")))


def test_the_option_is_not_blamed_for_a_reader_schema_that_is_not_from_it() -> None:
    stale = header_schema(json.dumps(record(column("int"))), blob="b")
    with pytest.raises(ConfigurationError, match="Start the query again") as error:
        list(decode_blob(blob(record(column("string")), b"\x02a"), blob="b", reader=stale))
    assert "avroSchema" not in str(error.value)
    now = header_schema(json.dumps(record(column("string"))), blob="b")
    assert ["a"] == read_as(blob(record(column("string")), b"\x02a"), now)


def read_as(data: bytes, reader: AvroSchema) -> list[Any]:
    return [value for batch in decode_blob(data, blob="b", reader=reader) for value in batch.column("v").to_pylist()]


def point(name: str, **more: Json) -> Json:
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}], **more}


@pytest.mark.parametrize(
    ("writer", "reader", "index"),
    [
        (point("old"), [point("other"), point("new", aliases=["old"])], 1),
        (point("n.old"), [point("other"), point("m.new", aliases=["n.old"])], 1),
        (point("n.old"), [point("other"), point("n.new", aliases=["old"])], 1),
        (point("n.old"), [point("m.new"), point("m.old")], 1),
        (point("old"), [point("first"), point("second")], 0),
        ("int", [{"type": "long", "logicalType": "local-timestamp-micros"}, "double"], 0),
        ("int", ["double", "long"], 0),
        ("int", ["double", "int"], 1),
        (
            {"type": "fixed", "name": "old", "size": 2},
            [
                {"type": "fixed", "name": "a", "size": 2},
                {"type": "fixed", "name": "b", "size": 2, "aliases": ["old"]},
            ],
            1,
        ),
    ],
    ids=str,
)
def test_a_value_is_read_as_the_branch_that_java_chooses(writer: Json, reader: Json, index: int) -> None:
    body = b"\x02\x02" if isinstance(writer, dict) and writer["type"] == "fixed" else b"\x02"
    (row,) = read(blob(record(column(writer)), body), record(column(reader)))
    assert index == [member is not None for member in row["v"].values()].index(True)


def test_a_string_is_not_read_as_a_decimal() -> None:
    with pytest.raises(ConfigurationError, match="column 'v': what was written as string cannot be read as bytes dec"):
        read(blob(record(column("string")), b"\x02a"), record(column(DECIMAL)))


@pytest.mark.parametrize("key", ["string", "int", "double", point("key")], ids=str)
def test_if_a_map_has_a_key_twice_the_last_entry_counts(key: Json) -> None:
    entry = {
        "type": "record",
        "name": "entry",
        "fields": [{"name": "key", "type": key}, {"name": "value", "type": "int"}],
    }
    avro = (
        {"type": "array", "logicalType": "map", "items": entry} if key != "string" else {"type": "map", "values": "int"}
    )
    first, second = {"string": (b"\x02a", b"\x02b"), "double": (bytes(8), struct.pack("<d", 1))}.get(
        str(key), (b"\x02", b"\x04")
    )
    row = blocks_of([first + b"\x02", second + b"\x04", first + b"\x06", second + b"\x08", second + b"\x0a"])
    rows = read(blob(record(column(["null", avro])), b"\x00", b"\x02" + row, b"\x02\x00", b"\x02" + row))
    assert [None, [3, 5], [], [3, 5]] == [
        None if each["v"] is None else [value for _, value in each["v"]] for each in rows
    ]


def test_of_thousands_of_keys_only_repeated_ones_are_dropped() -> None:
    maps = [[f"k{index * step % 997}" for index in range(50)] for step in range(1, 60)]
    maps.append(["same", "other", "same"])
    rows = [blocks_of([text(key) + encode(index) for index, key in enumerate(keys)]) for keys in maps]
    expected = [sorted({key: index for index, key in enumerate(keys)}.items()) for keys in maps]
    found = read(blob(record(column({"type": "map", "values": "int"})), *rows))
    assert expected == [sorted(each["v"]) for each in found]


def test_values_of_two_branches_of_one_kind_are_read_as_the_first_of_them() -> None:
    found = read(
        blob(record(column(["string", "null", "string", "int"])), b"\x00\x02a", b"\x04\x02b", b"\x02", b"\x06\x02")
    )
    nothing = dict.fromkeys(["member0", "member1", "member2"])
    assert [{**nothing, "member0": "a"}, {**nothing, "member0": "b"}, None, {**nothing, "member2": 1}] == [
        row["v"] for row in found
    ]


# --- wide schemas -----------------------------------------------------------------------------------------------------


def members(size: int) -> Json:
    return [{"type": "record", "name": f"r{index}", "fields": [{"name": "a", "type": "long"}]} for index in range(size)]


WIDE: list[tuple[Json, list[bytes]]] = [
    (record(column(members(5000))), [encode(0) + b"\x02", encode(4999) + b"\x02"]),
    (record(column({"type": "enum", "name": "e", "symbols": [f"s{n}" for n in range(200_000)]})), [encode(199_999)]),
    (record(*({"name": f"c{index}", "type": ["null", "long"]} for index in range(6700))), [bytes(6700)]),
]


@pytest.mark.parametrize(("schema", "rows"), WIDE, ids=["union", "enum", "columns"])
def test_reading_wide_schemas_takes_linear_time(schema: Json, rows: list[bytes]) -> None:
    begin = time.process_time()
    avro = header_schema(json.dumps(schema), blob="b")
    more = header_schema(json.dumps({**schema, "fields": [*schema["fields"], column("int", name="more")]}), blob="b")
    both = superset([avro, more])
    found = list(decode_blob(blob(schema, *rows), blob="b", reader=both))
    assert time.process_time() - begin < SECONDS
    assert len(rows) == sum(batch.num_rows for batch in found)
    assert pa.schema([*arrow_schema(avro), pa.field("more", pa.int32())]) == found[0].schema


def test_values_of_hundreds_of_branches_are_read() -> None:
    size = 800
    (batch,) = decode_blob(blob(record(column(members(size))), *(encode(n) + encode(n) for n in range(size))), blob="b")
    values = batch.column("v").to_pylist()
    assert [{"a": index} for index in range(size)] == [row[f"member{index}"] for index, row in enumerate(values)]
    assert size == sum(member is not None for row in values for member in row.values())
