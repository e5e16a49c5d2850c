"""A read takes no more memory than its limits, whatever the bytes claim; measured in processes of their own."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.files.block_codecs import CODECS, codec
from arrow_avro.files.container_file import block, header
from arrow_avro.limits import BeyondLimitError, ReadLimits
from arrow_avro.varint import encode
from foundation.errors import ConfigurationError
from tests.arrow_avro.decoding.bounded import MIB, Case, DecodeResult, outcomes
from tests.arrow_avro.decoding.test_scan import array, mapping, record
from tests.arrow_avro.sync_marker import SYNC

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("each_decoder")

SMALL = ReadLimits(block_bytes=8 * MIB)
SIZE = 64 * MIB


def deflated(size: int) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join([*(stream.compress(bytes(MIB)) for _ in range(size // MIB)), stream.flush()])


BOMBS: dict[str, Callable[[int], bytes]] = {
    "deflate": deflated,
    "snappy": lambda size: bytes(codec("snappy").compress(bytes(size))),
    "zstandard": lambda size: pa.Codec("zstd").compress(bytes(size), asbytes=True),
    "bzip2": lambda size: bz2.compress(bytes(size)),
    "xz": lambda size: lzma.compress(bytes(size), preset=1),
}


def of_codec(name: str, rows: int, stored: bytes, schema: Any = None) -> bytes:
    return b"".join((header(json.dumps(schema or record(v="long")), name, SYNC), *block(rows, stored, SYNC)))


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_a_block_that_inflates_beyond_the_limit_is_refused_and_takes_no_memory() -> None:
    blobs = {name: of_codec(name, SIZE, bomb(SIZE)) for name, bomb in BOMBS.items()}
    blobs["gzip"] = gzip.compress(header(json.dumps(record(v="long")), "null", SYNC) + encode(SIZE) * 2 + bytes(SIZE))
    found = dict(zip(blobs, outcomes([Case(blob, SMALL) for blob in blobs.values()]), strict=True))
    for name, outcome in found.items():
        assert "ConfigurationError" == outcome.error, (name, outcome)
        assert "read blob b, block from byte " in outcome.message
        assert "more than the 8,388,608 bytes of option maxBlockBytes" in outcome.message
        assert outcome.peak < 48 * MIB, (name, outcome)
        assert 0 == outcome.rows
    assert 20 * len(blobs["bzip2"]) < SIZE


def test_the_limit_can_be_raised_as_the_error_says() -> None:
    body = bytes(9 * MIB)
    for name in CODECS:
        blob = of_codec(name, len(body), bytes(codec(name).compress(body)))
        with pytest.raises(ConfigurationError, match="Raise option maxBlockBytes"):
            list(decode_blob(blob, blob="b", limits=SMALL))
        batches = decode_blob(blob, blob="b", limits=ReadLimits(block_bytes=9 * MIB))
        assert len(body) == sum(batch.num_rows for batch in batches)


def test_a_dictionary_that_takes_more_than_the_limit_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    stored = lzma.compress(b"few", format=lzma.FORMAT_XZ, filters=filters)
    with pytest.raises(BeyondLimitError, match="to inflate it takes more than"):
        codec("xz").decompress(stored, 8 * MIB)
    assert b"few" == bytes(codec("xz").decompress(stored, 1 << 30))


# --- batches ----------------------------------------------------------------------------------------------------------

NARROW = ReadLimits(block_bytes=64 * MIB, batch_bytes=16 * MIB)
INTERPRETER = 48 * MIB
"""What else a read takes: the compiled program of the scan, modules, the allocator's slack."""


def bound(limits: ReadLimits, body: int) -> int:
    """The documented bound of a read: two batches, and the largest block stored, inflated and in its columns."""
    return 2 * limits.batch_bytes + 3 * min(body, limits.block_bytes) + INTERPRETER


def zeros(schema: Any, rows: int, size: int) -> bytes:
    return of_codec("zstandard", rows, bytes(codec("zstandard").compress(bytes(size))), schema)


def columns_of(avro: Any, count: int) -> Any:
    return record(**{f"c{place}": avro for place in range(count)})


WIDE = record("wide", **{f"w{place}": "long" for place in range(300)})


@pytest.mark.parametrize(
    "avro",
    [["null", "long"], ["null", "string"], "int", ["null", array("string")], ["null", "string", "double", WIDE]],
    ids=["long", "string", "int", "array", "union"],
)
def test_columns_that_are_null_are_cut_into_batches_that_fit(avro: Any) -> None:
    count, rows = (1, 40_000) if "double" in avro else (300, 10_000)
    (found,) = outcomes([Case(zeros(columns_of(avro, count), rows, count * rows), NARROW)])
    assert ("", rows) == (found.error, found.rows), found
    assert found.batches > 1
    assert found.peak < bound(NARROW, count * rows), found


def run_of(count: int, size: int) -> bytes:
    """An array or map of so many items, whose bytes are all zero, and its end."""
    return encode(count) + bytes(size + 1)


@pytest.mark.parametrize(
    ("items", "rows", "count", "size"),
    [
        (["null", "long"], 200, 100_000, 100_000),
        (["null", WIDE], 200, 1_000, 1_000),
        ("null", 100, 1 << 20, 0),
        (record("empty"), 100, 1 << 20, 0),
        ("string", 200_000, 30, 30),
    ],
    ids=["null longs", "null records", "nulls", "empty records", "texts"],
)
def test_rows_whose_items_grow_are_cut_into_batches_that_fit(items: Any, rows: int, count: int, size: int) -> None:
    row = run_of(count, size)
    (found,) = outcomes([Case(of_codec("null", rows, row * rows, record(v=array(items))), NARROW)])
    assert ("", rows) == (found.error, found.rows), found
    assert found.batches > 1
    assert found.peak < bound(NARROW, len(row) * rows), found


@pytest.mark.parametrize(
    ("avro", "count", "size"),
    [
        (array(["null", "long"]), 16 * MIB, 16 * MIB),
        (array("double"), 5 * MIB, 40 * MIB),
        (mapping("string"), 8 * MIB, 16 * MIB),
        (array(["null", WIDE]), 100_000, 100_000),
    ],
    ids=["null longs", "doubles", "map", "null records"],
)
def test_a_row_that_fits_no_batch_is_refused_and_the_advice_helps(avro: Any, count: int, size: int) -> None:
    schema, row = record(s="string", v=avro), run_of(count, size)
    blob = of_codec("null", 1, b"\x02a" + row, schema)
    small = of_codec("null", 1, b"\x02a\0", schema)
    raised = ReadLimits(batch_bytes=2 << 30)
    narrow, wide, fewer, other = outcomes(
        [Case(blob, NARROW), Case(blob, raised), Case(blob, NARROW, columns=("s",)), Case(small, NARROW)]
    )
    assert "ConfigurationError" == narrow.error
    assert "row 0: one row takes more memory than option maxBatchBytes allows" in narrow.message
    assert narrow.peak < bound(NARROW, len(row)), narrow
    assert [("", 1)] * 3 == [(found.error, found.rows) for found in (wide, fewer, other)]


def test_a_large_text_is_no_reason_to_refuse_a_row() -> None:
    row = encode(50 * MIB) + bytes(50 * MIB) + encode(1) + b"\x02\0"
    (found,) = outcomes([Case(of_codec("null", 1, row, record(s="string", v=array("long"))), NARROW)])
    assert ("", 1) == (found.error, found.rows)
    assert found.peak < bound(NARROW, len(row)), found


def test_a_default_and_a_symbol_count_in_every_row() -> None:
    long_symbol = "s" * 100_000
    reader = record(n="null", e={"type": "enum", "name": "e", "symbols": [long_symbol]})
    reader["fields"].append({"name": "d", "type": "string", "default": "d" * 100_000})
    blob = of_codec("null", 3_000, bytes(3_000), record(n="null", e={**reader["fields"][1]["type"]}))
    (found,) = outcomes([Case(blob, NARROW, reader=json.dumps(reader))])
    assert ("", 3_000) == (found.error, found.rows), found
    assert found.peak < bound(NARROW, 0), found


def test_a_null_of_a_huge_fixed_decimal_takes_nothing() -> None:
    money = {"type": "fixed", "name": "m", "size": 10**9, "logicalType": "decimal", "precision": 38, "scale": 2}
    (found,) = outcomes([Case(of_codec("null", 9, bytes(9), record(v=["null", money])))])
    assert ("", 9) == (found.error, found.rows)
    assert found.peak < INTERPRETER, found


# --- whatever bytes and schemas claim ---------------------------------------------------------------------------------

TIGHT = ReadLimits(block_bytes=6 * MIB, batch_bytes=8 * MIB)
NONE = {"type": "fixed", "name": "none", "size": 0}
ODD: list[Any] = [
    *({"type": "fixed", "name": "f", "size": size} for size in (True, 4.0, -1, "4", None, 2**70)),
    {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 10**12},
    {"type": "bytes", "logicalType": "decimal", "precision": {}, "scale": []},
    {"type": "int", "sparkType": ["x"]},
    {"type": "int", "logicalType": []},
    {"type": "long", "spark.sql.catalyst.type": {}},
    {"type": "record", "name": "r", "fields": None},
    {"type": "record", "name": "r", "fields": [1]},
    {"type": "record", "name": "r", "namespace": 5, "fields": []},
    {"type": "enum", "name": "e", "symbols": ["\ud800"]},
    {"type": "enum", "name": "e", "symbols": 5},
    {"type": "array"},
    ["row", "null"],
]


def nested(levels: int, avro: Any = "int") -> Any:
    for _ in range(levels):
        avro = ["null", array(avro)]
    return avro


@st.composite
def bombs(draw: st.DrawFn) -> tuple[Case, int]:
    name = draw(st.sampled_from([each for each in CODECS if each != "null"]))
    size = draw(st.integers(1, 12)) * MIB
    avro = draw(st.sampled_from(["long", ["null", "long"], "string", "null", array(["null", WIDE]), record("e")]))
    rows = draw(st.sampled_from([1, size, size // 2, 2**40]))
    blob = of_codec(name, rows, bytes(codec(name).compress(bytes(size))), record(v=avro))
    return Case(gzip.compress(blob, 1) if draw(st.booleans()) else blob, TIGHT), size


@st.composite
def hostile_counts(draw: st.DrawFn) -> tuple[Case, int]:
    items = draw(
        st.sampled_from(["null", record("e"), NONE, ["null", "long"], ["null", WIDE], array("null"), "double"])
    )
    kind = draw(st.sampled_from([array, mapping]))
    size = draw(st.sampled_from([0, 100, MIB, 3 * MIB]))
    count = draw(st.sampled_from([size // 2, size, 1 << 20, 2**31, 2**62, -size, -(2**62)]))
    rows = draw(st.sampled_from([1, 2, 1000, 2**40]))
    return Case(of_codec("null", rows, encode(count) + bytes(size), record(v=kind(items))), TIGHT), size


@st.composite
def flipped(draw: st.DrawFn) -> tuple[Case, int]:
    rows = draw(st.integers(1, 50_000))
    whole = bytearray(zeros(columns_of(["null", "int"], 20), rows, 20 * rows))
    at = draw(st.integers(4, len(whole) - 1))
    whole[at] ^= 1 << draw(st.integers(0, 7))
    return Case(bytes(whole), TIGHT), 20 * rows


@st.composite
def odd_schemas(draw: st.DrawFn) -> tuple[Case, int]:
    avro = draw(st.one_of(st.sampled_from(ODD), st.integers(45, 200).map(nested)))
    columns = draw(st.sampled_from([None, (), ("v",), ("nope",)]))
    schema = draw(
        st.sampled_from([record(v=avro), avro, {**record(v="int"), "fields": [{"name": "v", "type": avro}] * 2}])
    )
    return Case(of_codec("null", 1, bytes(4), schema), TIGHT, columns), 4


EVENTS: dict[str, Callable[[DecodeResult], bool]] = {
    "read": lambda found: not found.error,
    "cut into batches": lambda found: not found.error and found.batches > 1,
    "corrupt": lambda found: found.error == "CorruptError",
    "block beyond the limit": lambda found: "maxBlockBytes" in found.message,
    "row beyond the limit": lambda found: "maxBatchBytes" in found.message,
    "nested too deeply": lambda found: "levels deep" in found.message,
    "odd schema": lambda found: "schema" in found.message and "levels" not in found.message,
}


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # else it hides what has failed
@pytest.mark.parametrize("times", [pytest.param(8, marks=pytest.mark.long), 1])
def test_whatever_bytes_claim_ends_in_rows_or_in_an_error_that_names_the_place(times: int) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=times, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(drawn=st.lists(st.one_of(bombs(), hostile_counts(), flipped(), odd_schemas()), min_size=60, max_size=60))
    def check(drawn: list[tuple[Case, int]]) -> None:
        for (case, size), found in zip(drawn, outcomes([case for case, _ in drawn]), strict=True):
            seen.update(name for name, happened in EVENTS.items() if happened(found))
            assert found.error in ("", "CorruptError", "ConfigurationError"), found
            assert not found.error or "blob b" in found.message or "an Avro file" in found.message, found
            assert not found.error or "byte" in found.message or "schema" in found.message or "column" in found.message
            assert found.peak < bound(case.limits, size), (found, size)

    check()
    assert set(EVENTS) == set(seen) or times == 1, seen
