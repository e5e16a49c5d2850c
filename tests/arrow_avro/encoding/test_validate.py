"""Bytes that are, or are not, datums of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro import schema as avro_schema
from arrow_avro import varint
from arrow_avro.encoding.encode import RowEncoder, raw_rows
from arrow_avro.encoding.validate import validate_datums
from foundation.errors import ConfigurationError
from tests.arrow_avro.arrow_tables import batches
from tests.arrow_avro.encoding.datums import ENUM, datums, record

if TYPE_CHECKING:
    from arrow_avro.schema import AvroSchema

LINKED = avro_schema.parse(
    '{"type":"record","name":"link","fields":[{"name":"x","type":"int"},{"name":"next","type":["null","link"]}]}'
)


@pytest.mark.parametrize(
    ("avro", "valid", "invalid"),
    [
        (record(("a", "int")), varint.encode(-5), varint.encode(2**31)),
        (record(("a", "long")), varint.encode(-(2**63)), b"\xff" * 9 + b"\x02"),
        (record(("a", "string")), b"\x04\xc3\xa9", b"\x04\xc3\x28"),
        (record(("a", "string")), b"\x00", b"\x06ab"),
        (record(("a", "bytes")), b"\x02\xff", b"\x01"),
        (record(("a", "boolean")), b"\x01", b"\x02"),
        (record(("a", ENUM)), b"\x02", b"\x04"),
        (record(("a", ["null", "int"])), b"\x02\x06", b"\x04\x06"),
        (record(("a", "double")), b"12345678", b"1234567"),
        (record(("a", {"type": "array", "items": "int"})), b"\x04\x02\x02\x00", b"\x04\x02\x02"),
        (record(("a", {"type": "array", "items": "int"})), b"\x01\x02\x02\x02\x02\x00", b"\xfe\xff\xff\xff\x0f\x00"),
        (record(("a", {"type": "array", "items": "null"})), b"\xfe\xff\xff\xff\x0f\x00", b"\x02"),
        (record(("a", {"type": "map", "values": "int"})), b"\x02\x02k\x06\x00", b"\x02\x02\xff\x06\x00"),
        (LINKED, b"\x02\x02\x04\x00", b"\x02\x02\x04"),
        (record(("a", "int")), b"\x02", b"\x02\x02"),
    ],
)
def test_each_row_must_be_exactly_one_datum(avro: AvroSchema, valid: bytes, invalid: bytes) -> None:
    validate_datums(raw_rows(pa.array([valid, valid])), avro)
    with pytest.raises(ConfigurationError, match=f"row 2 of its batch: the {len(invalid)} bytes in the valueColumn"):
        validate_datums(raw_rows(pa.array([valid, valid, invalid, valid])), avro)


@settings(max_examples=100, deadline=None)
@given(batches(), st.data())
def test_a_datum_that_is_too_short_or_too_long_is_refused(batch: pa.RecordBatch, data: st.DataObject) -> None:
    avro = avro_schema.infer(batch.schema, name="row", namespace=None)
    values = datums(RowEncoder(batch.schema, avro).encode(batch))
    longer = data.draw(st.booleans())
    whole = [row for row, value in enumerate(values) if longer or value]
    if whole:
        row = data.draw(st.sampled_from(whole))
        values[row] = values[row] + b"\0" if longer else values[row][:-1]
        with pytest.raises(ConfigurationError, match=f"row {row} of its batch"):
            validate_datums(raw_rows(pa.array(values, pa.binary())), avro)
