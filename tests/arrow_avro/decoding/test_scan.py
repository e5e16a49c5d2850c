"""The part of the decoder that runs a program: what it reads, what it skips, and hostile bytes."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrow_avro.decoding.arrays import columns
from arrow_avro.decoding.decode import decode_blob
from arrow_avro.decoding.forth_scan import ForthScanner as Scanner
from arrow_avro.decoding.layout import Fields, Number, Primitive
from arrow_avro.decoding.plan import Record
from arrow_avro.decoding.program import MAX_EMPTY_ITEMS
from arrow_avro.decoding.resolve import resolve
from arrow_avro.decoding.scan import BodySlice
from arrow_avro.files.container_file import block, blocks, header, read_header
from arrow_avro.limits import ReadLimits
from arrow_avro.schema import parse
from arrow_avro.varint import encode
from foundation.errors import ConfigurationError, CorruptError
from tests.arrow_avro.sync_marker import SYNC

pytestmark = pytest.mark.usefixtures("each_decoder")

LONGS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
ROW_SECONDS = 10.0  # far more than any of these bodies may take

Json = Any


def record(name: str = "row", **fields: Json) -> Json:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": avro} for key, avro in fields.items()]}


def array(items: Json) -> Json:
    return {"type": "array", "items": items}


def mapping(values: Json) -> Json:
    return {"type": "map", "values": values}


def written(schema: Json, rows: list[Json], interval: int = 16_000) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, rows, sync_interval=interval, sync_marker=SYNC)
    return stream.getvalue()


def framed(schema: Json, *bodies: tuple[int, bytes]) -> bytes:
    """A blob of blocks given as rows and body."""
    parts = [piece for rows, body in bodies for piece in block(rows, body, SYNC)]
    return b"".join((header(json.dumps(schema), "null", SYNC), *parts))


def read(data: bytes, **options: Any) -> list[dict[str, Any]]:
    batches = list(decode_blob(data, blob="b", **options))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


# --- nulls, and longs of ten bytes ------------------------------------------------------------------------------------

NULLABLE = record(
    a=["null", "long"],
    b=["null", "string"],
    c=["double", "null"],
    d=["null", array(["null", "int"])],
    e=["null", record("inner", x=["null", "boolean"], y=["int", "null"])],
    f=["null", mapping(["string", "null"])],
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Seldom null, so that there are rows without nulls."""
    return st.one_of(*[values] * 7, st.none())


nullable_rows = st.fixed_dictionaries(
    {
        "a": maybe(LONGS),
        "b": maybe(st.text(max_size=4)),
        "c": maybe(st.floats(allow_nan=False)),
        "d": maybe(st.lists(maybe(st.integers(-99, 99)), max_size=3)),
        "e": maybe(st.fixed_dictionaries({"x": maybe(st.booleans()), "y": maybe(st.integers(-99, 99))})),
        "f": maybe(st.dictionaries(st.text(max_size=2), maybe(st.text(max_size=2)), max_size=2)),
    }
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(nullable_rows, max_size=30), st.integers(1, 7), st.sampled_from([1, 40, 16_000]))
def test_nulls_and_longs_of_ten_bytes_may_begin_and_end_anywhere(
    rows: list[Json], batch_rows: int, interval: int
) -> None:
    expected = [row | {"f": None if row["f"] is None else list(row["f"].items())} for row in rows]
    blob = written(NULLABLE, rows, interval)
    assert expected == read(blob, limits=ReadLimits(batch_rows=batch_rows))
    assert [{"e": row["e"], "a": row["a"]} for row in rows] == read(
        blob, columns=["e", "a"], limits=ReadLimits(batch_rows=batch_rows)
    )


@pytest.mark.parametrize("late", ["a", "b", "c", "d", "e", "f"])
def test_a_null_that_comes_after_many_batches_without_one_is_read(late: str) -> None:
    row = {"a": 1, "b": "x", "c": 0.5, "d": [1, 2], "e": {"x": True, "y": 5}, "f": {"k": "v"}}
    rows = [*[row] * 50, row | {late: None}, *[row] * 50]
    assert [each[late] is None for each in rows] == [
        each[late] is None for each in read(written(NULLABLE, rows, 100), limits=ReadLimits(batch_rows=10))
    ]


def test_a_null_is_seen_even_if_its_row_could_be_read_without_one() -> None:
    schema = record(a=["null", "long"], b="string")
    rows = [{"a": 1, "b": "x"}] * 20 + [{"a": None, "b": "\0"}] + [{"a": 2, "b": ""}] * 9
    assert rows == read(written(schema, rows), limits=ReadLimits(batch_rows=10))


@pytest.mark.parametrize("output", range(8))
def test_an_output_that_is_too_short_never_becomes_an_array(output: int) -> None:
    fields = {"a": ["null", "long"], "b": "string", "c": "boolean", "d": array("double"), "e": ["int", "string"]}
    schema = parse(json.dumps(record(**fields)))
    plan = resolve(schema.type, schema.type)
    assert isinstance(plan, Record)
    row = b"\x02\x02" + b"\x04ab" + b"\x01" + b"\x02" + bytes(8) + b"\x00" + b"\x00\x02"
    scan = Scanner(schema.type, plan).scan([BodySlice(memoryview(row), 1)])
    name = [each for each, values in scan.outputs.items() if len(values)][output]
    scan.outputs[name] = scan.outputs[name][:-1]
    with pytest.raises(CorruptError, match="values where"):
        columns(plan, scan)


def test_outputs_of_another_length_are_refused() -> None:
    schema = parse(json.dumps(record(a="long", b="double")))
    scan = Scanner(schema.type, resolve(schema.type, schema.type)).scan([BodySlice(memoryview(bytes(9) * 2), 2)])
    assert isinstance(scan.root, Fields)
    number, double = scan.root.fields.values()
    assert isinstance(number, Number) and isinstance(double, Primitive)
    assert [0, 0] == scan.values(number.output, 2).tolist() == scan.values(double.output, 2).tolist()
    for count in (1, 3):
        with pytest.raises(CorruptError):
            scan.values(number.output, count)
        with pytest.raises(CorruptError):
            scan.values(double.output, count)


@given(st.lists(LONGS, max_size=20), st.integers(1, 5))
def test_longs_are_read_over_all_their_64_bits(values: list[int], batch_rows: int) -> None:
    schema = record(v="long", w=["null", "long"], x=array("long"), y=mapping(["long", "null"]), z=["string", "long"])
    rows = [{"v": v, "w": v, "x": [v, v], "y": {"k": v}, "z": v} for v in values]
    expected = [row | {"y": [("k", row["v"])], "z": {"member0": None, "member1": row["v"]}} for row in rows]
    blob = written(schema, rows, 30)
    assert expected == read(blob, limits=ReadLimits(batch_rows=batch_rows))
    assert [{"z": row["z"]} for row in expected] == read(blob, columns=["z"], limits=ReadLimits(batch_rows=batch_rows))


def test_a_varint_of_more_than_64_bits_is_corrupt() -> None:
    for last in (b"\x02", b"\x7f", b"\x80\x00", b"\x81\x01"):
        with pytest.raises(CorruptError, match="a row is unreadable"):
            read(framed(record(v="long"), (1, b"\xff" * 9 + last)))


def test_varints_longer_than_they_must_be_are_read() -> None:
    schema = record(v="long", w=["null", "int"], x="string")
    assert [{"v": 1, "w": 2, "x": "a"}] == read(
        framed(schema, (1, b"\x82\x80\x00" + b"\x82\x00\x84\x00" + b"\x82\x00a"))
    )


# --- slices of blocks -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12))
def test_batches_are_cut_anywhere_from_blocks_of_any_size(sizes: list[int], batch_rows: int) -> None:
    numbers = iter(range(1000))
    bodies = [(size, b"".join(b"\x02" + encode(next(numbers)) for _ in range(size))) for size in sizes]
    batches = list(
        decode_blob(framed(record(v=["null", "int"]), *bodies), blob="b", limits=ReadLimits(batch_rows=batch_rows))
    )
    assert list(range(sum(sizes))) == [value for batch in batches for value in batch.column("v").to_pylist()]
    assert all(batch_rows == batch.num_rows for batch in batches[:-1])
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)


def test_a_batch_ends_where_its_bytes_reach_the_limit() -> None:
    rows = [{"v": "x" * size} for size in [10] * 300 + [400] * 5 + [3000] * 2 + [10] * 30]
    blob = written(record(v="string"), rows, 700)
    batches = list(decode_blob(blob, blob="b", limits=ReadLimits(batch_bytes=2000)))
    assert rows == [row for batch in batches for row in batch.to_pylist()]
    assert max(batch.num_rows for batch in batches) <= 150
    assert max(batch.nbytes for batch in batches if batch.num_rows > 1) < 2500


@pytest.mark.parametrize("broken", range(5))
def test_of_many_blocks_in_one_batch_the_broken_one_is_named(broken: int) -> None:
    schema = record(v="string")
    bodies = [(2, b"\x04ab\x04cd")] * 5
    for bad in (b"\x04ab\x04c", b"\x04ab\x04c\xff", b"\x04ab\x03cd", b"\x04ab\x04cdx", b"\x04ab", b"\x04ab\x06cd"):
        blob = framed(schema, *bodies[:broken], (2, bad), *bodies[broken + 1 :])
        offset = [each.offset for each in blocks(blob, read_header(blob))][broken]
        with pytest.raises(CorruptError, match=f"in the block from byte {offset},"):
            read(blob)


def test_decoding_does_not_import_pandas() -> None:
    program = """
import sys
from arrow_avro.decoding.decode import decode_blob
batches = list(decode_blob(sys.stdin.buffer.read(), blob="b"))
print(sum(batch.num_rows for batch in batches), "pandas" in sys.modules)
"""
    rows = [{"a": n, "b": None, "c": 1.5, "d": [1, None], "e": {"x": None, "y": 5}, "f": {"k": None}} for n in range(9)]
    schema = {**NULLABLE, "fields": [*NULLABLE["fields"], {"name": "g", "type": ["null", "int", "string"]}]}
    schema["fields"].append({"name": "h", "type": {"type": "enum", "name": "suit", "symbols": ["x"]}})
    data = written(schema, [row | {"g": "z", "h": "x"} for row in rows])
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    assert b"9 False\n" == done.stdout


# --- what is skipped --------------------------------------------------------------------------------------------------

TREE = record(
    "tree",
    hash="long",
    left=["null", record("branch", label="string", tree=["null", "tree"], branch=["null", "branch"])],
    twigs=array("tree"),
    named=mapping("tree"),
)

trees: st.SearchStrategy[Any] = st.recursive(
    st.builds(lambda number: {"hash": number, "left": None, "twigs": [], "named": {}}, LONGS),
    lambda inner: st.fixed_dictionaries(
        {
            "hash": LONGS,
            "left": st.none()
            | st.fixed_dictionaries({"label": st.text(max_size=3), "tree": st.none() | inner, "branch": st.none()}),
            "twigs": st.lists(inner, max_size=2),
            "named": st.dictionaries(st.text(max_size=2), inner, max_size=2),
        }
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(trees, min_size=1, max_size=4))
def test_records_that_contain_each_other_are_skipped(values: list[Json]) -> None:
    rows = [{"before": n, "tree": tree, "after": "x" * n} for n, tree in enumerate(values)]
    reader = parse(json.dumps(record(after="string", before="int")))
    expected = [{"after": row["after"], "before": row["before"]} for row in rows]
    assert expected == read(written(record(before="int", tree=TREE, after="string"), rows), reader=reader)


def test_records_nested_too_deeply_are_refused_and_crash_nothing() -> None:
    schema = record(v="int", next=["null", "row"])
    reader = parse(json.dumps(record(v="int")))
    for depth in (1000, 300_000):
        assert [{"v": 1}] == read(framed(schema, (1, b"\x02\x02" * depth + b"\x02\x00")), reader=reader)
    with pytest.raises(ConfigurationError, match="blob b, block from byte .* row 0: .* nested too deeply"):
        read(framed(schema, (1, b"\x02\x02" * 10**6 + b"\x02\x00")), reader=reader)


def test_branches_and_lengths_of_skipped_values_are_checked() -> None:
    cases = [
        (array(["null", "int"]), encode(1) + encode(2) + b"\x00"),
        (array(["null", "int"]), encode(1) + encode(-1) + b"\x00"),
        ("string", encode(0) + encode(-1)),
        (array("string"), encode(1) + b"\x02a" + encode(-3)),
        (mapping("null"), encode(1) + b"\x00" + encode(-1)),
    ]
    for avro, body in cases:
        schema = record(before="string", v=avro, after="int")
        with pytest.raises(CorruptError):
            read(framed(schema, (1, b"\x02x" + body + b"\x02")), columns=["after"])


def test_blocks_of_an_array_that_have_their_size_are_skipped_and_read() -> None:
    schema = record(v=array("int"), w=mapping("string"), after="int")
    sized = encode(-2) + encode(2) + b"\x02\x04" + encode(1) + b"\x06" + b"\x00"
    named = encode(-1) + encode(4) + b"\x02k\x02v" + b"\x00"
    blob = framed(schema, (1, sized + named + b"\x0a"))
    assert [{"v": [1, 2, 3], "w": [("k", "v")], "after": 5}] == read(blob)
    assert [{"after": 5}] == read(blob, columns=["after"])


@settings(deadline=None)
@given(st.lists(nullable_rows, max_size=10))
def test_fields_of_nested_records_are_left_out(rows: list[Json]) -> None:
    reader = parse(
        json.dumps(record(e=["null", record("inner", y=["int", "null"])], d=["null", array(["null", "long"])]))
    )
    expected = [{"e": row["e"] and {"y": row["e"]["y"]}, "d": row["d"]} for row in rows]
    assert expected == read(written(NULLABLE, rows), reader=reader)


def test_a_field_may_be_read_twice_under_two_names() -> None:
    reader = record(one="long", two=["null", "double"], v="int")
    for each in reader["fields"]:
        each["aliases"] = ["v"]
    assert [{"one": 7, "two": 7.0, "v": 7}] == read(
        written(record(v="int"), [{"v": 7}]), reader=parse(json.dumps(reader))
    )


# --- rows and items without bytes -------------------------------------------------------------------------------------


def test_rows_without_bytes_are_counted() -> None:
    schema = record(v="null", w=record("empty"))
    batches = list(
        decode_blob(framed(schema, (100_000, b""), (3, b"")), blob="b", limits=ReadLimits(batch_rows=40_000))
    )
    assert [40_000, 40_000, 20_003] == [batch.num_rows for batch in batches]
    assert {"v": None, "w": {}} == batches[0].slice(0, 1).to_pylist()[0]


def test_items_without_bytes_are_counted() -> None:
    assert [{"v": [None] * 5}] == read(framed(record(v=array("null")), (1, encode(5) + b"\x00")))
    reader = parse(json.dumps(record(v=array(["null", "long"]))))
    assert [{"v": [None] * 5}] == read(framed(record(v=array("null")), (1, encode(5) + b"\x00")), reader=reader)


TWO = {"type": "fixed", "name": "two", "size": 2}
HOSTILE_COUNTS = [2**62 - 1, 2**61, 2**60, 2**40, 2**32, 2**31, 2**28]
EMPTY = record("empty", n="null")


@pytest.mark.parametrize(
    "avro",
    [
        "null",
        EMPTY,
        {"type": "fixed", "name": "none", "size": 0},
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "string",
        TWO,
        ["null", "double"],
        record("pair", x="int", y="long"),
        array("double"),
        mapping("double"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["array", "map"])
def test_counts_that_the_bytes_cannot_hold_are_corrupt(avro: Json, kind: str) -> None:
    schema = record(v=array(avro) if kind == "array" else mapping(avro), after="int")
    for count in HOSTILE_COUNTS:
        for counted in (encode(count), encode(-count) + encode(8)):
            began = time.perf_counter()
            with pytest.raises(CorruptError, match="in the block from byte"):
                read(framed(schema, (1, counted + bytes(64))))
            assert time.perf_counter() - began < ROW_SECONDS


def test_counts_of_blocks_do_not_overflow_together() -> None:
    body = encode(2**62 - 1) * 4 + encode(9) + b"\x00"  # together 2**64 + 5
    with pytest.raises(CorruptError):
        read(framed(record(v=array("null")), (1, body)))


def test_arrays_of_many_items_without_bytes_come_in_batches_of_their_own() -> None:
    body = (encode(MAX_EMPTY_ITEMS) + b"\x00") * 3
    batches = list(decode_blob(framed(record(v=array("null")), (3, body)), blob="b"))
    assert [1, 1, 1] == [batch.num_rows for batch in batches]
    assert [[MAX_EMPTY_ITEMS]] * 3 == [pa.compute.list_value_length(batch.column("v")).to_pylist() for batch in batches]
    nested = encode(3) + body + b"\x00"
    with pytest.raises(CorruptError, match="items without bytes"):
        read(framed(record(v=array(array("null"))), (1, nested)))


@pytest.mark.parametrize("items", ["null", {"type": "fixed", "name": "f", "size": 0}], ids=["null", "fixed"])
@pytest.mark.parametrize("blocks", [1, 1000])
def test_rows_that_claim_a_million_items_without_bytes_each_are_refused_soon(items: Any, blocks: int) -> None:
    rows = 100_000 // blocks
    blob = framed(record(v=array(items)), *([(rows, (encode(MAX_EMPTY_ITEMS) + b"\x00") * rows)] * blocks))
    found = 0
    with pytest.raises(CorruptError, match="claim more items without bytes than a read of so few bytes may have"):  # noqa: PT012 - counts until then
        for batch in decode_blob(blob, blob="b"):
            found += batch.num_rows
    assert found < 200


def test_arrays_of_items_without_bytes_are_read_however_many_rows_have_them() -> None:
    rows = 5_000
    blob = framed(record(v=array("null")), *([(rows, (encode(100) + b"\x00") * rows)] * 400))
    assert 400 * rows == sum(batch.num_rows for batch in decode_blob(blob, blob="b"))


@pytest.mark.parametrize("columns", [None, []])
@pytest.mark.parametrize("rows", HOSTILE_COUNTS)
def test_rows_that_the_bytes_cannot_hold_are_corrupt(rows: int, columns: list[str] | None) -> None:
    for schema, body in ((record(v="null"), b""), (record(v="int"), b"\x02"), (record(v="string"), b"\x02a")):
        with pytest.raises(CorruptError, match="in the block from byte"):
            read(framed(schema, (rows, body)), columns=columns)


_HOSTILE = """
import json, resource, sys
from foundation.errors import CorruptError
from arrow_avro.decoding.decode import decode_blob

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

blobs = [bytes.fromhex(line) for line in sys.stdin]
list(decode_blob(blobs.pop(), blob="b"))
before, corrupt = peak(), 0
for blob in blobs:
    try:
        list(decode_blob(blob, blob="b"))
    except CorruptError:
        corrupt += 1
print(json.dumps([len(blobs) - corrupt, (peak() - before) // 1024]))
"""


def test_hostile_counts_take_no_memory() -> None:
    blobs = []
    for avro in ("null", "long", "double", "string", TWO, ["null", "double"], ["double", "null"], mapping("double")):
        for count in HOSTILE_COUNTS:
            schema = record(v=array(avro), w=["null", "double"])
            blobs.append(framed(schema, (1, encode(count) + bytes(64))))
            blobs.append(framed(schema, (1, b"\x00" + encode(count) + bytes(64))))
            blobs.append(framed(schema, (count, bytes(64))))
    blobs.append(framed(record(v="long"), (1, b"\x02")))
    lines = "\n".join(blob.hex() for blob in blobs)
    done = subprocess.run([sys.executable, "-c", _HOSTILE], input=lines, capture_output=True, check=True, text=True)
    accepted, megabytes = json.loads(done.stdout)
    assert 0 == accepted
    assert megabytes < 64


# --- hostile bytes ----------------------------------------------------------------------------------------------------

WRONG = (-1, -2, 2, 3, 64, 2**8, -(2**8), 2**31, 2**32, -(2**32), 2**61, -(2**61), 2**62 - 1, -(2**62))
SUIT = {"type": "enum", "name": "suit", "symbols": ["a", "b"]}


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize(
    "avro",
    [
        ["null", "int"],
        ["long", "null"],
        ["null", "double"],
        ["float", "null"],
        ["null", "boolean"],
        ["null", "string"],
        ["string", "null"],
        ["null", array("int")],
        ["null", record("pair", x="int", y="long")],
        ["null", TWO],
        ["null", EMPTY],
        ["long"],
        ["null"],
        ["int", "string"],
        ["null", SUIT],
    ],
    ids=str,
)
def test_a_branch_that_the_union_lacks_is_corrupt(avro: Json, wanted: bool) -> None:
    schema = record(v=avro, after="int")
    for tag in [tag for tag in WRONG if not 0 <= tag < len(avro)]:
        with pytest.raises(CorruptError, match="in the block from byte"):
            read(framed(schema, (1, encode(tag) + bytes(64))), columns=None if wanted else ["after"])


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("avro", ["bytes", "string", mapping("int"), mapping("bytes"), array("string")], ids=str)
def test_a_length_that_no_bytes_can_have_is_corrupt(avro: Json, wanted: bool) -> None:
    before = b"" if isinstance(avro, str) else encode(1)
    schema = record(v=avro, after="int")
    for size in (-1, -3, -64, -(2**8), -(2**32), -(2**61), 2**31, 2**32, 2**61, 2**62 - 1):
        with pytest.raises(CorruptError, match="in the block from byte"):
            read(framed(schema, (1, before + encode(size) + bytes(64))), columns=None if wanted else ["after"])


@pytest.mark.parametrize(
    ("avro", "body"),
    [
        (SUIT, encode(2)),
        (SUIT, encode(-1)),
        ("boolean", b"\x02"),
        ("boolean", b"\xff"),
        ("int", encode(2**31)),
        ("int", encode(-(2**31) - 1)),
        (["null", "int"], b"\x02" + encode(2**31)),
        (array("int"), b"\x02" + encode(2**40) + b"\x00"),
        ({"type": "int", "logicalType": "date"}, encode(2**31)),
        ({"type": "int", "logicalType": "time-millis"}, encode(2**31)),
        ("string", b"\x02\xc3"),
        ("string", b"\x04\xc3\x28"),
        (array("string"), b"\x04\x02\xc3\x02\xa9\x00"),
        (mapping("int"), b"\x02\x02\xff\x02\x00"),
    ],
    ids=str,
)
def test_a_value_that_its_type_cannot_have_is_corrupt(avro: Json, body: bytes) -> None:
    with pytest.raises(CorruptError, match="in the block from byte"):
        read(framed(record(v=avro), (1, body)))


def test_the_cause_of_an_unreadable_row_is_in_words() -> None:
    for schema, body in ((record(v=array("int")), encode(2**40)), (record(v="string"), b"\x06a")):
        with pytest.raises(
            CorruptError, match="a row is unreadable .it(s bytes end within it| holds a number)"
        ) as error:
            read(framed(schema, (1, body)))
        assert "halt" not in str(error.value)
        assert "beyond" not in str(error.value)


def test_the_end_of_the_day_is_no_time_of_day_and_the_message_says_where_the_day_ends() -> None:
    noon = {"type": "int", "logicalType": "time-millis"}
    last = framed(record(v=noon), (1, encode(86_399_999)))
    assert [{"v": dt.time(23, 59, 59, 999_000)}] == read(last)
    with pytest.raises(ConfigurationError, match="a time of day is not from 00:00 to before 24:00"):
        read(framed(record(v=noon), (1, encode(86_400_000))))


NOTHING = {"type": "fixed", "name": "nothing", "size": 0}
BACK = b"".join((encode(-(2**14)), encode(2**13), bytes(2**13), b"\x00\x02"))


@pytest.mark.parametrize("columns", [None, ["after"], []])
@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (record(v=array(record("item", t="string", u=array("string"))), after="int"), encode(60) + BACK * 9),
        (record(t="string", after=array("int")), BACK * 9),
        (
            record(t=array(array("null")), after="int"),
            (encode(9000) + (encode(MAX_EMPTY_ITEMS) + b"\x00") * 9000 + bytes(2)),
        ),
        (
            record(t=array(array(NOTHING)), after="int"),
            (encode(9000) + (encode(MAX_EMPTY_ITEMS) + b"\x00") * 9000 + bytes(2)),
        ),
        (record(t=array(array(EMPTY)), after="int"), (encode(-(2**40)) + encode(-(2**13))) * 9000),
        # The negative length that follows would move the machine back by as much as it has read, again and again.
        (record(t=array("string"), after="int"), encode(2**40) + encode(-1) + bytes(9)),
        (record(t=mapping("int"), after="int"), encode(2**40) + encode(-1) + bytes(9)),
        (record(t=array("int"), after="int"), encode(-1) + encode(-2) + bytes(9)),
        (record(t=array(["null", "int"]), after="int"), encode(-(2**40)) + encode(-7) + bytes(9)),
        (
            record(t=array(record("back", u="string", w={**TWO, "size": 2**32 - 2})), after="int"),
            encode(2**40) + b"\x02a",
        ),
    ],
    ids=str,
)
def test_no_bytes_make_the_machine_run_for_long(schema: Json, body: bytes, columns: list[str] | None) -> None:
    began = time.perf_counter()
    with contextlib.suppress(CorruptError):
        read(framed(schema, (2**40, body)), columns=columns)
    assert time.perf_counter() - began < ROW_SECONDS


EDITS = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 10**6), st.integers(1, 255).map(lambda bits: bytes([bits]))),
    st.tuples(st.just("cut"), st.integers(0, 10**6), st.binary(min_size=1, max_size=3)),
    st.tuples(st.just("insert"), st.integers(0, 10**6), st.binary(min_size=1, max_size=10)),
    st.tuples(st.just("replace"), st.integers(0, 10**6), st.sampled_from(WRONG).map(encode)),
)


def edited(body: bytes, edits: list[tuple[str, int, bytes]]) -> bytes:
    changed = bytearray(body)
    for how, at, given_bytes in edits:
        place = at % (len(changed) + 1)
        match how:
            case "flip":
                changed[place : place + 1] = bytes(byte ^ given_bytes[0] for byte in changed[place : place + 1])
            case "cut":
                del changed[place : place + len(given_bytes)]
            case "insert":
                changed[place:place] = given_bytes
            case "replace":
                changed[place : place + 1] = given_bytes
    return bytes(changed)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(nullable_rows, min_size=1, max_size=8),
    st.lists(EDITS, min_size=1, max_size=4),
    st.sampled_from([None, ["a", "f"], ["e"], []]),
    st.sampled_from([0, 0, 0, 1, -1, 2**40]),
)
def test_damaged_rows_soon_end_in_an_error_or_in_other_rows(
    rows: list[Json], edits: list[tuple[str, int, bytes]], columns: list[str] | None, more: int
) -> None:
    whole = written(NULLABLE, rows)
    parts = [(max(each.rows + more, 0), edited(bytes(each.body), edits)) for each in blocks(whole, read_header(whole))]
    blob = framed(NULLABLE, (len(rows), bytes(next(blocks(whole, read_header(whole))).body)), *parts)
    began = time.perf_counter()
    try:
        found = sum(
            batch.num_rows for batch in decode_blob(blob, blob="b", columns=columns, limits=ReadLimits(batch_rows=5))
        )
    except CorruptError as error:
        assert "blob b failed: in the block from byte" in str(error)  # noqa: PT017 - the other outcome is as good
    else:
        assert len(rows) + sum(count for count, _ in parts) == found
    assert time.perf_counter() - began < ROW_SECONDS


def test_concurrent_readers_of_one_schema_do_not_change_each_others_rows() -> None:
    first = written(NULLABLE, [dict.fromkeys("abcdef")] * 20, 10)
    second = written(record(v="long"), [{"v": n} for n in range(50)], 10)
    one, other = (decode_blob(data, blob="b", limits=ReadLimits(batch_rows=7)) for data in (second, second))
    assert [row for batch in decode_blob(first, blob="b") for row in batch.to_pylist()] == [
        dict.fromkeys("abcdef")
    ] * 20
    mixed = [[row["v"] for row in batch.to_pylist()] for pair in zip(one, other, strict=True) for batch in pair]
    assert list(range(50)) == list(chain(*mixed[::2])) == list(chain(*mixed[1::2]))


def test_threads_read_blobs_of_one_schema_concurrently() -> None:
    schema = record(v=["null", "long"], w="string")
    blobs = [written(schema, [{"v": seed * n, "w": str(n)} for n in range(3000)], 500) for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda blob: read(blob, limits=ReadLimits(batch_rows=300)), blobs))
    assert [[seed * n for n in range(3000)] for seed in range(8)] == [[row["v"] for row in rows] for rows in found]


def test_arrays_outlive_the_next_run() -> None:
    data = written(record(v=["null", "double"], w="string"), [{"v": n, "w": str(n)} for n in range(1000)], 100)
    batches = list(decode_blob(data, blob="b", limits=ReadLimits(batch_rows=10)))
    assert list(range(1000)) == [value for batch in batches for value in batch.column("v").to_pylist()]
    assert [str(n) for n in range(1000)] == [text for batch in batches for text in batch.column("w").to_pylist()]
