"""Reader and writer schemas that differ at any depth: fastavro's resolution is the oracle."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.limits import ReadLimits
from arrow_avro.schema import parse
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("each_decoder")

Json = Any


@dataclass(frozen=True)
class Pair:
    """What was written, what it is read as, and values to write."""

    writer: Json
    reader: Json
    values: st.SearchStrategy[Any]


INTS = st.integers(-(2**20), 2**20)  # which a float holds, too
FLOATS = st.floats(width=32, allow_nan=False)
TEXT = st.text(max_size=6)
LEAVES = [
    *(Pair("int", reader, INTS) for reader in ("int", "long", "float", "double")),
    *(Pair("long", reader, INTS) for reader in ("long", "float", "double")),
    *(Pair("float", reader, FLOATS) for reader in ("float", "double")),
    Pair("double", "double", FLOATS),
    Pair("boolean", "boolean", st.booleans()),
    *(Pair("string", reader, TEXT) for reader in ("string", "bytes")),
    Pair("bytes", "string", TEXT.map(str.encode)),
    Pair("bytes", "bytes", st.binary(max_size=6)),
]
DEFAULTS: list[tuple[Json, Json]] = [
    ("long", -7),
    ("string", "né"),
    (["null", "int"], None),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": ["null", "string"]}, {"k": None}),
    ("double", 1.5),
]


@st.composite
def pairs(draw: st.DrawFn, names: Iterator[int], depth: int = 3) -> Pair:
    how = draw(st.sampled_from(["leaf", "nullable", "widened", "array", "map", "record"] if depth else ["leaf"]))
    if how == "leaf":
        return draw(st.sampled_from(LEAVES))
    if how == "record":
        return draw(records(names, depth - 1))
    inner = draw(pairs(names, depth - 1))
    if how == "array":
        listed = st.lists(inner.values, max_size=3)
        return Pair({"type": "array", "items": inner.writer}, {"type": "array", "items": inner.reader}, listed)
    if how == "map":
        mapped = st.dictionaries(TEXT, inner.values, max_size=3)
        return Pair({"type": "map", "values": inner.writer}, {"type": "map", "values": inner.reader}, mapped)
    if isinstance(inner.writer, list) or isinstance(inner.reader, list):
        return inner
    reader = draw(st.sampled_from([["null", inner.reader], [inner.reader, "null"]]))
    if how == "widened":
        return Pair(inner.writer, reader, inner.values)
    writer = draw(st.sampled_from([["null", inner.writer], [inner.writer, "null"]]))
    return Pair(writer, reader, st.none() | inner.values)


@st.composite
def records(draw: st.DrawFn, names: Iterator[int], depth: int = 3) -> Pair:
    """Fields that both have, in any order, some that only the writer has and some with a default."""
    name = f"record_{next(names)}"
    both = {f"both_{n}": draw(pairs(names, depth)) for n in range(draw(st.integers(1, 3)))}
    dropped = {f"dropped_{n}": draw(pairs(names, depth)) for n in range(draw(st.integers(0, 2)))}
    added = draw(st.lists(st.sampled_from(DEFAULTS), max_size=2))
    writer = [{"name": key, "type": pair.writer} for key, pair in (both | dropped).items()]
    reader = [{"name": key, "type": pair.reader} for key, pair in both.items()]
    reader += [{"name": f"added_{n}", "type": avro, "default": default} for n, (avro, default) in enumerate(added)]
    return Pair(
        {"type": "record", "name": name, "fields": draw(st.permutations(writer))},
        {"type": "record", "name": name, "fields": draw(st.permutations(reader))},
        st.fixed_dictionaries({key: pair.values for key, pair in (both | dropped).items()}),
    )


def shown(value: Any, schema: Json) -> Any:
    """A value of fastavro's as Arrow shows it: maps are lists of pairs."""
    match schema:
        case list():
            return None if value is None else shown(value, next(branch for branch in schema if branch != "null"))
        case {"type": "array"}:
            return [shown(item, schema["items"]) for item in value]
        case {"type": "map"}:
            return [(key, shown(item, schema["values"])) for key, item in value.items()]
        case {"type": "record"}:
            return {each["name"]: shown(value[each["name"]], each["type"]) for each in schema["fields"]}
    return value


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_two_schemas_that_resolve_are_read_as_fastavro_reads_them(data: st.DataObject) -> None:
    pair = data.draw(records(count()))
    rows = data.draw(st.lists(pair.values, max_size=6))
    stream = io.BytesIO()
    fastavro.writer(stream, pair.writer, rows, sync_interval=data.draw(st.sampled_from([1, 16_000])))
    blob = stream.getvalue()
    batches = list(decode_blob(blob, blob="b", reader=parse(json.dumps(pair.reader)), limits=ReadLimits(batch_rows=4)))
    for batch in batches:
        batch.validate(full=True)
    expected = [shown(row, pair.reader) for row in fastavro.reader(io.BytesIO(blob), pair.reader)]
    assert expected == [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("avro", "default"),
    [
        ("int", 2**31),
        ("long", 2**64),
        ("int", "x"),
        ("string", 5),
        ("boolean", 2),
        ({"type": "enum", "name": "suit", "symbols": ["a"]}, "b"),
        ({"type": "fixed", "name": "two", "size": 2}, "abc"),
        ({"type": "array", "items": "int"}, 5),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, "\u007f\u007f"),
    ],
)
def test_a_default_that_its_type_cannot_have_is_refused(avro: Json, default: Json) -> None:
    writer = {"type": "record", "name": "row", "fields": [{"name": "v", "type": "int"}]}
    fields = [{"name": "v", "type": "int"}, {"name": "new", "type": avro, "default": default}]
    stream = io.BytesIO()
    fastavro.writer(stream, writer, [{"v": 1}])
    try:
        reader = parse(json.dumps({**writer, "fields": fields}))
    except ConfigurationError:
        return  # the schema itself was refused
    with pytest.raises(ConfigurationError, match="column 'new': its default"):
        list(decode_blob(stream.getvalue(), blob="b", reader=reader))
