"""Events of Event Hubs Capture that are Avro datums: `Body` is read as a struct, or refused."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.memory.account import MemoryAccount
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from foundation.errors import ConfigurationError
from tests.azureblob_source.write.sink_rows import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

EVENT = {
    "type": "record",
    "name": "reading",
    "fields": [
        {"name": "device", "type": "string"},
        {"name": "value", "type": ["null", "double"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
CAPTURE = {
    "type": "record",
    "name": "EventData",
    "namespace": "Microsoft.ServiceBus.Messaging",
    "fields": [{"name": "SequenceNumber", "type": "long"}, {"name": "Body", "type": ["null", "bytes"]}],
}
EVENTS = st.none() | st.fixed_dictionaries(
    {
        "device": st.text(max_size=3),
        "value": st.none() | st.floats(allow_nan=False),
        "tags": st.lists(st.text(max_size=2), max_size=2),
    }
)


def datum(event: dict[str, Any] | None) -> bytes | None:
    if event is None:
        return None
    out = io.BytesIO()
    fastavro.schemaless_writer(out, EVENT, event)
    return out.getvalue()


def read(bodies: Sequence[bytes | None], schema: dict[str, Any] = CAPTURE, **options: str) -> list[dict[str, Any]]:
    out = io.BytesIO()
    rows = [{"SequenceNumber": number, "Body": body} for number, body in enumerate(bodies)]
    fastavro.writer(out, schema, rows, sync_interval=100)
    container = MemoryAccount().container("container")
    container.create()
    container.put("hub/0/2026/11/28/10/00/00.avro", out.getvalue())
    raw = {"path": "container/hub", **ACCOUNT, "bodySchema": json.dumps(EVENT), **options}
    plan = ReadPlan(source_options(raw, {}))
    plan.container = container
    reader = SnapshotReader(plan, spark_schema(plan))
    found = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [row for batch in found for row in batch.to_pylist()]


@given(st.lists(EVENTS, max_size=30))
def test_each_body_is_a_struct_and_null_where_it_is_null(events: list[dict[str, Any] | None]) -> None:
    assert [{"SequenceNumber": n, "Body": event} for n, event in enumerate(events)] == read([*map(datum, events)])


def test_the_column_is_read_with_others_without_them_or_not_at_all() -> None:
    event = {"device": "a", "value": 1.5, "tags": []}
    assert [{"Body": event}] == read([datum(event)], columns="Body")
    assert [{"SequenceNumber": 0}] == read([datum(event)], columns="SequenceNumber")
    assert [event] == [row["Body"] for row in read([datum(event)], metadataColumns="blob")]


@pytest.mark.parametrize("wrong", [b"", b"\x02", b"\x00\x00\x00\x00\x07\x02a\x00\x00", b"\x02a\x00\x00\x00"])
def test_a_body_that_is_not_exactly_one_datum_is_an_error_that_names_the_blob(wrong: bytes) -> None:
    good = datum({"device": "a", "value": None, "tags": []})
    text = f"blob hub/0/2026/11/28/10/00/00.avro failed: a `Body` of {len(wrong)} bytes is not one datum of option"
    with pytest.raises(ConfigurationError, match=text):
        read([good, wrong, good])


def test_two_bodies_that_are_datums_only_together_are_not_taken_for_two() -> None:
    body = datum({"device": "ab", "value": None, "tags": []})
    assert body is not None
    with pytest.raises(ConfigurationError, match="not one datum"):
        read([body + body[:2], body[2:]])


def test_a_column_of_this_name_that_is_not_binary_or_not_there_is_refused() -> None:
    fields = [CAPTURE["fields"][0], {"name": "Body", "type": ["null", "double"]}]
    with pytest.raises(ConfigurationError, match="is for a binary column `Body`: it is double"):
        read([None], {**CAPTURE, "fields": fields})
    with pytest.raises(ConfigurationError, match="is for a binary column `Body`: there is none"):
        read([None], {**CAPTURE, "fields": fields[:1]})


def test_a_schema_that_is_none_is_refused_by_the_name_of_its_option() -> None:
    with pytest.raises(ConfigurationError, match="Option `bodySchema` is not a valid Avro schema"):
        read([None], bodySchema="{")
