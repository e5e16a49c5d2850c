"""Strings that are not UTF-8: an error that names the ways out, or replaced as fastavro and Java replace them."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro
import pytest

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.files.container_file import header, read_header
from arrow_avro.limits import ReadLimits
from arrow_avro.schema import parse
from foundation.errors import CorruptError
from tests.arrow_avro.sync_marker import SYNC

pytestmark = pytest.mark.usefixtures("each_decoder")

FIELDS = {
    "a": "string",
    "b": ["null", "string"],
    "l": {"type": "array", "items": "string"},
    "m": {"type": "map", "values": ["null", "string"]},
}
PARTS = [
    b"a",
    b"\xc3\xbc",
    b"\xff",
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\xf0\x9f\x98",
    b"\x80",
    b"\xc0\xaf",
]
REPLACE = ReadLimits(replace_invalid_utf8=True)


def schema(kind: str) -> Any:
    text = json.dumps([{"name": name, "type": avro} for name, avro in FIELDS.items()])
    return {"type": "record", "name": "row", "fields": json.loads(text.replace('"string"', f'"{kind}"'))}


def stored(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema("bytes"), rows, sync_marker=SYNC)
    data = out.getvalue()
    return header(json.dumps(schema("string")), "null", SYNC) + data[read_header(data).size :]


def test_invalid_bytes_are_replaced_as_by_fastavro_wherever_strings_are() -> None:
    rng = Random(2)

    def text() -> bytes:
        return b"".join(rng.choices(PARTS, k=rng.randrange(5)))

    rows = [
        {
            "a": text(),
            "b": rng.choice([None, text()]),
            "l": [text() for _ in range(3)],
            "m": {"k": text(), "n": None},
        }
        for _ in range(300)
    ]
    data = stored(rows)
    oracle = list(fastavro.reader(io.BytesIO(data), handle_unicode_errors="replace"))
    found = [row for batch in decode_blob(data, blob="b", limits=REPLACE) for row in batch.to_pylist()]
    assert [{**row, "m": list(row["m"].items())} for row in oracle] == found


def test_the_error_names_ways_out_that_work() -> None:
    data = stored([{"a": b"\xff", "b": b"b", "l": [], "m": {}}])
    with pytest.raises(CorruptError, match=r"row 0 \(from 0\), column 'a': a string is not utf8") as error:
        list(decode_blob(data, blob="b"))
    assert "Set option invalidUtf8 to replace" in str(error.value)
    (batch,) = decode_blob(data, blob="b", limits=REPLACE)
    assert ["\ufffd"] == batch.column("a").to_pylist()
    assert "avroSchema with plain bytes for that column" in str(error.value)
    (batch,) = decode_blob(data, blob="b", reader=parse(json.dumps(schema("bytes")), reading=True))
    assert [b"\xff"] == batch.column("a").to_pylist()
    assert "leave it out with option columns" in str(error.value)
    (batch,) = decode_blob(data, blob="b", columns=["b"])
    assert ["b"] == batch.column("b").to_pylist()
