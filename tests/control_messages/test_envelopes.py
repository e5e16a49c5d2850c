from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_messages.envelopes import (
    EMPTY,
    NULL,
    Rejected,
    Unwrapped,
    count_user_rows,
    types,
    unwrap,
    unwrap_all,
    wrap,
)
from control_messages.errors import BadEnvelopeError
from control_messages.messages import ControlMessage, Drain, EndOfStream, Watermark
from tests.control_messages.any_messages import columns, control_messages

COUNTED = [
    b'\1{"timestamp":1,"writer":0,"rows":07}',
    b'\1{"timestamp":1,"writer":1,"rows":7}',
    b'\1{"timestamp":1,"writer":2,"rows":7}',
    b'\1{"timestamp":1,"rows":3,"writer":2,"rows":7}',
    b'\1{"writer":2,"rows":7}',
    b'\2{"taskName":null,"writer":2,"rows":7}',
    b'\1{"taskName":",\\"writer\\":1,\\"rows\\":2","taskCount":1,"timestamp":1,"writer":2,"rows":99999999999999999999}',
]
BINARY = [pa.binary(), pa.large_binary()]
envelopes = st.one_of(
    st.binary(max_size=6),
    st.binary(max_size=6).map(wrap),
    control_messages().map(wrap),
    st.sampled_from(
        [b'\1{"taskName":"a","timestamp":1}', b'\2{"taskName":null}', b"\3{}", *COUNTED, b"\2{", b"\4", b"\xff{}"]
    ),
)


def by_row(unwrapped: Unwrapped) -> dict[int, object]:
    """The content of each row."""
    rows: list[tuple[int, object]] = [
        *zip(unwrapped.user_rows.tolist(), unwrapped.payloads.to_pylist(), strict=True),
        *unwrapped.control,
        *((one.row, one) for one in unwrapped.rejected),
    ]
    assert len(rows) == len(dict(rows))
    return dict(rows)


def by_row_one_by_one(column: pa.Array, task_count: int | None) -> dict[int, object]:
    return {row: content_of(row, envelope, task_count) for row, envelope in enumerate(column.to_pylist())}


def content_of(row: int, envelope: bytes | None, task_count: int | None) -> object:
    try:
        return None if envelope is None else unwrap(envelope, task_count)
    except BadEnvelopeError as error:
        return Rejected(row, str(error), envelope or b"")


@given(st.one_of(control_messages(), st.binary(max_size=9)))
def test_what_is_wrapped_is_unwrapped_equal(message: ControlMessage | bytes) -> None:
    assert message == unwrap(wrap(message))


def test_the_first_byte_is_the_type() -> None:
    assert b"\0data" == wrap(b"data")
    assert b'\1{"version":1' == wrap(Watermark("a", 1, 5))[:13]
    assert b"\2" == wrap(EndOfStream("a", 1))[:1]
    assert b"\3" == wrap(Drain("a", 1))[:1]


@pytest.mark.parametrize(
    ("envelope", "message"),
    [
        (b'\1{"timestamp":5,"taskName":"Partition 0","version":1}', Watermark("Partition 0", 4, 5)),
        (b'\2{"taskName":"Partition 0","version":1}', EndOfStream("Partition 0", 4)),
        (b'\2{"taskName":null,"version":1}', EndOfStream(None, 1)),
        (b'\3{"taskName":"t","version":1,"runId":"run1"}', Drain("t", 4, "run1")),
        (b"\0user", b"user"),
        (b"\0", b""),
    ],
)
def test_samza_s_envelopes_are_unwrapped(envelope: bytes, message: ControlMessage | bytes) -> None:
    assert message == unwrap(envelope, task_count=4)
    assert {0: message} == by_row(unwrap_all(pa.array([envelope]), task_count=4))


@pytest.mark.parametrize(
    ("envelope", "reason"),
    [
        (b"", "zero bytes"),
        (b"\4{}", "type byte is 4, known are 0 to 3"),
        (b"\xff", "type byte is 255"),
        (b"\1", "no JSON"),
        (b'\2{"taskName":"a"}', "Give the number of tasks"),
    ],
)
def test_a_bad_envelope_is_rejected_and_the_others_are_not(envelope: bytes, reason: str) -> None:
    with pytest.raises(BadEnvelopeError, match=reason) as caught:
        unwrap(envelope)
    unwrapped = unwrap_all(pa.array([b"\0first", envelope, b"\0last", envelope]))
    assert [b"first", b"last"] == unwrapped.payloads.to_pylist()
    assert [Rejected(row, str(caught.value), envelope) for row in (1, 3)] == unwrapped.rejected


@given(columns(envelopes, BINARY), st.none() | st.integers(1, 9))
def test_a_column_is_unwrapped_like_its_rows_one_by_one(column: pa.Array, task_count: int | None) -> None:
    unwrapped = unwrap_all(column, task_count)
    assert by_row_one_by_one(column, task_count) == by_row(unwrapped)
    assert column.type == unwrapped.payloads.type
    unwrapped.payloads.validate(full=True)
    for rows in (unwrapped.user_rows, unwrapped.control_rows):
        assert np.int64 == rows.dtype
        assert sorted(rows.tolist()) == rows.tolist()


@given(columns(st.binary(max_size=5), BINARY))
def test_the_user_messages_of_a_column_are_unwrapped_equal(column: pa.Array) -> None:
    rows = [None if payload is None else wrap(payload) for payload in column.to_pylist()]
    unwrapped = unwrap_all(pa.array(rows, column.type))
    assert column.equals(unwrapped.payloads)
    assert list(range(len(column))) == unwrapped.user_rows.tolist()


@pytest.mark.parametrize("first", range(5))
def test_a_payload_that_begins_with_a_type_byte_stays_a_payload(first: int) -> None:
    payload = bytes([first]) + b'{"taskName":"a","taskCount":1,"timestamp":5}'
    assert payload == unwrap(wrap(payload))
    assert [payload] == unwrap_all(pa.array([wrap(payload)])).payloads.to_pylist()


def test_a_null_is_a_user_message_of_null_and_an_empty_payload_is_an_empty_one() -> None:
    assert {0: None, 1: b""} == by_row(unwrap_all(pa.array([None, b"\0"])))


@pytest.mark.parametrize("kind", BINARY)
def test_the_types_of_a_column_are_its_first_bytes(kind: pa.DataType) -> None:
    column = pa.array([None, b"", b"\0", b"\1{", b"\xff", b""], kind)
    assert [NULL, EMPTY, 0, 1, 255, EMPTY] == types(column).tolist()
    assert [0, 1, 255, EMPTY] == types(column[2:]).tolist()
    assert np.int16 == types(column).dtype
    assert [] == types(column[:0]).tolist()
    assert [EMPTY, EMPTY] == types(pa.array([b"", b""], kind)).tolist()


def test_the_bytes_of_a_null_are_ignored() -> None:
    offsets, data = np.array([0, 2, 4], np.int32), b"\1{\0a"
    column = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\2"), pa.py_buffer(offsets), pa.py_buffer(data)])
    assert [NULL, 0] == types(column).tolist()
    assert {0: None, 1: b"a"} == by_row(unwrap_all(column))


@pytest.mark.parametrize("kind", BINARY)
def test_a_column_may_be_empty_or_all_null(kind: pa.DataType) -> None:
    nothing = pa.array([], kind)
    assert nothing.equals(unwrap_all(nothing).payloads)
    nulls = pa.nulls(3, kind)
    assert nulls.equals(unwrap_all(nulls).payloads)


@pytest.mark.parametrize("column", [pa.array(["a"]), pa.array([1]), pa.nulls(1), pa.array([b"a"], pa.binary(1))])
def test_envelopes_of_other_types_are_refused(column: pa.Array) -> None:
    with pytest.raises(TypeError, match=re.escape(f"envelopes are binary, these are {column.type}.")):
        unwrap_all(column)
    with pytest.raises(TypeError, match=re.escape(f"envelopes are binary, these are {column.type}.")):
        types(column)


def test_equal_control_envelopes_are_parsed_once() -> None:
    message = Watermark("a", 2, 5)
    first, second = unwrap_all(pa.array([wrap(message), b"\0", wrap(message)])).messages
    assert message == first
    assert first is second


def test_a_million_control_envelopes_of_a_thousand_tasks_take_less_than_a_second() -> None:
    distinct = [wrap(Watermark(f"Partition {task}", 1_000, task)) for task in range(1_000)]
    column = pa.array(distinct).take(pa.array(np.arange(1_000_000) % 1_000))
    began = time.process_time()
    unwrapped = unwrap_all(column)
    assert time.process_time() - began < 1
    assert 1_000_000 == len(unwrapped.messages) == len(unwrapped.control_rows)
    assert Watermark("Partition 999", 1_000, 999) == unwrapped.messages[-1]


def test_a_worker_does_not_import_pandas_for_envelopes() -> None:
    program = """
import sys
import numpy as np
import pyarrow as pa
from control_messages.arrow_memory import binary_array, integer_array
from control_messages.envelopes import count_user_rows, unwrap_all
from control_messages.producer import ProducerSpec, with_watermarks

producer = ProducerSpec("s", 2, ("a", "b"))
names = binary_array(np.array([0, 1, 2], np.int32), b"ab").cast(pa.string())
times = integer_array(np.array([1, 2])).view(pa.timestamp("us"))
partitions = integer_array(np.array([0, 1], np.int32))
sequence = integer_array(np.array([5, 5]))
of_tasks = {"task": names, "eventTime": times, "sequence": sequence, "writer": sequence}
columns = {"partition": partitions, "value": binary_array(np.array([0, 2, 4], np.int32), b"\\0a\\0b"), **of_tasks}
rows = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
batches = [*with_watermarks(producer, [rows]), producer.envelopes(producer.end_of_stream())]
bad = binary_array(np.array([0, 0, 1], np.int32), b"x")
unwrapped = unwrap_all(pa.concat_arrays([*(batch.column("value") for batch in batches), bad]))
positions = pa.nulls(2, pa.string())
envelopes = pa.RecordBatch.from_arrays([partitions, bad, positions], ["partition", "value", "position"])
assert [2, 0] == [each.num_rows for each in count_user_rows([envelopes])]
assert (2, 8, 2) == (len(unwrapped.payloads), len(unwrapped.control), len(unwrapped.rejected))
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=20), max_size=4),
    st.sampled_from([pa.int32(), pa.string()]),
)
def test_user_messages_are_replaced_by_their_number_in_each_partition(
    batches: list[list[tuple[int, bool]]], kind: pa.DataType
) -> None:
    def batch(rows: list[tuple[int, bool]]) -> pa.RecordBatch:
        partitions = pa.array([partition for partition, _ in rows], pa.int32()).cast(kind)
        values = pa.array([None if is_user else b"\1x" for _, is_user in rows], pa.binary())
        return pa.RecordBatch.from_arrays(
            [partitions, values, pa.array(["here"] * len(rows), pa.string())], ["partition", "value", "position"]
        )

    found = pa.Table.from_batches(
        count_user_rows(map(batch, batches)), batch([]).schema.append(pa.field("rows", pa.int64()))
    ).to_pylist()
    assert all(row["position"] == "here" and row["rows"] == 0 for row in found if row["value"] is not None)
    users, control = Counter[str](), Counter[str]()
    for row in found:
        users[str(row["partition"])] += row["rows"]
        control[str(row["partition"])] += row["value"] is not None
    rows = [row for rows in batches for row in rows]
    assert Counter(str(partition) for partition, is_user in rows if is_user) == +users
    assert Counter(str(partition) for partition, is_user in rows if not is_user) == +control
