from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_messages.errors import BadEnvelopeError, ControlMessageError
from control_messages.messages import (
    EARLIEST,
    LATEST,
    ControlMessage,
    Drain,
    EndOfStream,
    MessageType,
    Watermark,
    from_json,
    json_object,
    message_type,
    to_fields,
    to_json,
)
from tests.control_messages.any_messages import control_messages

WATERMARK, END, DRAIN = MessageType.WATERMARK, MessageType.END_OF_STREAM, MessageType.DRAIN


@given(control_messages())
def test_what_is_written_is_read_back_equal(message: ControlMessage) -> None:
    assert message == from_json(message_type(message), to_json(message))


def test_the_json_has_the_fields_of_samza_s_proposal() -> None:
    watermark = Watermark("Partition 0", 2, 1357016400000, 3)
    assert b'{"version":1,"taskName":"Partition 0","taskCount":2,"generation":3,"timestamp":1357016400000}' == to_json(
        watermark
    )
    assert (
        b'{"version":1,"taskName":"Partition 0","taskCount":2,"generation":3,"streamId":"by-destination"}'
        == to_json(EndOfStream("Partition 0", 2, "by-destination", 3))
    )


def test_an_idle_watermark_may_leave_out_its_timestamp() -> None:
    idle = Watermark("a", 2, EARLIEST, idle=True)
    assert idle == from_json(WATERMARK, b'{"taskName":"a","taskCount":2,"idle":true}')
    up_to = from_json(WATERMARK, b'{"taskName":"a","taskCount":2,"idle":true,"timestamp":7}')
    assert Watermark("a", 2, 7, idle=True) == up_to
    assert to_fields(idle)["idle"] is True
    assert "idle" not in to_fields(Watermark("a", 2, 7))


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (WATERMARK, b'{"timestamp":5,"taskName":"Partition 0","version":1}', Watermark("Partition 0", 4, 5)),
        (END, b'{"taskName":"Partition 0","version":1}', EndOfStream("Partition 0", 4)),
        (END, b'{"taskName":null,"version":1}', EndOfStream(None, 1)),
        (DRAIN, b'{"taskName":"t","version":1,"runId":"run1"}', Drain("t", 4, "run1")),
        (DRAIN, b'{"task-name":"t","run-id":"run1"}', Drain("t", 4, "run1")),
    ],
)
def test_samza_s_messages_are_read_with_a_task_count_from_the_caller(
    kind: MessageType, data: bytes, message: ControlMessage
) -> None:
    assert message == from_json(kind, data, task_count=4)


def test_a_message_for_all_tasks_has_a_count_of_1() -> None:
    assert Watermark(None, 1, 5) == from_json(WATERMARK, b'{"taskName":null,"timestamp":5}')
    assert Watermark(None, 1, 5) == from_json(WATERMARK, b'{"taskCount":7,"timestamp":5}', task_count=4)


def test_the_count_in_the_message_overrides_the_caller_s() -> None:
    assert EndOfStream("a", 2) == from_json(END, b'{"taskName":"a","taskCount":2}', task_count=4)


def test_without_any_count_the_error_asks_for_one() -> None:
    with pytest.raises(BadEnvelopeError, match="Give the number of tasks to the reader"):
        from_json(WATERMARK, b'{"timestamp":5,"taskName":"Partition 0","version":1}')


@pytest.mark.parametrize("task_count", [0, -1, True, 2**31])
def test_a_count_out_of_range_is_refused(task_count: int) -> None:
    with pytest.raises(ValueError, match=f"task_count is {task_count}, it must be an integer from 1 to 2147483647"):
        from_json(END, b'{"taskName":"a"}', task_count)


def test_fields_of_later_releases_are_ignored() -> None:
    data = b'{"version":1,"taskName":"a","taskCount":1,"timestamp":5,"nested":{"a":[1,2.5,{}]},"more":null}'
    assert Watermark("a", 1, 5) == from_json(WATERMARK, data)


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        (WATERMARK, b"", "no JSON"),
        (WATERMARK, b"[1]", "no JSON object"),
        (WATERMARK, b'{"taskName":"a"', "no JSON"),
        (WATERMARK, b'\xff{"taskName":"a"}', "no JSON"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":5,"version":2}', "so it needs a newer release"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":5,"version":"1"}', "version is '1', it must be an"),
        (WATERMARK, b'{"taskName":"a","taskCount":1}', "watermark without a timestamp"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":null}', "watermark without a timestamp"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":5.0}', "timestamp is 5.0, it must be an integer"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":true}', "timestamp is True, it must be an integer"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":NaN}', "NaN is no JSON number"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":5,"more":-Infinity}', "-Infinity is no JSON number"),
        (
            WATERMARK,
            b'{"taskName":"a","taskCount":1,"timestamp":9223372036854775808}',
            "timestamp is 9223372036854775808",
        ),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":5,"idle":1}', "idle is 1, it must be true or false"),
        (WATERMARK, b'{"taskName":"a","taskCount":1,"timestamp":1,"timestamp":9}', "'timestamp' occurs twice"),
        (END, b'{"taskName":"","taskCount":1}', "taskName is '', it must be a text that is not empty"),
        (END, b'{"taskName":7,"taskCount":1}', "taskName is 7, it must be a text"),
        (END, rb'{"taskName":"\ud800","taskCount":1}', "can be encoded as UTF-8"),
        (END, b'{"taskName":"a","taskCount":0}', "taskCount is 0, it must be an integer from 1"),
        (END, b'{"taskName":"a","taskCount":true}', "taskCount is True, it must be an integer"),
        (END, b'{"taskName":"a","taskCount":2147483648}', "taskCount is 2147483648"),
        (END, b'{"taskName":"a","taskCount":1,"generation":-1}', "generation is -1"),
        (END, b'{"taskName":"a","taskCount":1,"streamId":{}}', "streamId is {}, it must be a text"),
        (DRAIN, rb'{"taskName":"a","taskCount":1,"run-id":"\udfff"}', "run-id is"),
    ],
)
def test_bad_control_data_is_rejected_with_the_reason(kind: MessageType, data: bytes, reason: str) -> None:
    with pytest.raises(BadEnvelopeError, match=re.escape(reason)):
        from_json(kind, data)


@pytest.mark.parametrize("depth", [10, 200, 400, 600, 800, 900, 1_000, 100_000])
@pytest.mark.parametrize("field", ["taskName", "more"])
def test_a_message_of_any_nesting_is_read_or_rejected(field: str, depth: int) -> None:
    data = f'{{"{field}":{"[" * depth}{"]" * depth},"taskCount":1}}'.encode()
    with suppress(BadEnvelopeError):
        assert EndOfStream(None, 1) == from_json(END, data)


@pytest.mark.parametrize("digits", [20, 4_300, 5_000])
def test_a_number_of_many_digits_is_rejected_with_a_short_message(digits: int) -> None:
    data = b'{"taskName":"a","taskCount":1,"timestamp":' + b"9" * digits + b"}"
    with pytest.raises(BadEnvelopeError) as caught:
        from_json(WATERMARK, data)
    assert len(str(caught.value)) < 500


def test_an_error_shows_the_beginning_of_long_data() -> None:
    with pytest.raises(BadEnvelopeError, match="^b'xxx") as caught:
        from_json(WATERMARK, b"x" * 1_000_000)
    assert len(str(caught.value)) < 500


def test_half_of_a_surrogate_pair_is_no_name_but_a_whole_pair_is() -> None:
    assert EndOfStream("😀", 1) == from_json(END, rb'{"taskName":"\ud83d\ude00","taskCount":1}')


@given(st.sampled_from([WATERMARK, END, DRAIN]), st.binary(max_size=40), st.none() | st.integers(1, 9))
def test_any_bytes_are_read_or_rejected(kind: MessageType, data: bytes, task_count: int | None) -> None:
    read_or_rejected(kind, data, task_count)


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
_known_fields = [
    "version",
    "taskName",
    "task-name",
    "taskCount",
    "generation",
    "timestamp",
    "idle",
    "streamId",
    "runId",
]


@given(
    st.sampled_from([WATERMARK, END, DRAIN]),
    st.dictionaries(
        st.sampled_from(_known_fields),
        st.one_of(_json_values, st.integers(0, 1), st.just("a")),
        max_size=len(_known_fields),
    ),
    st.booleans(),
)
def test_any_values_in_the_known_fields_are_read_or_rejected(
    kind: MessageType, fields: dict[str, object], ascii_only: bool
) -> None:
    read_or_rejected(kind, json.dumps(fields, ensure_ascii=ascii_only).encode(errors="surrogatepass"), 3)


def read_or_rejected(kind: MessageType, data: bytes, task_count: int | None) -> None:
    """What was read can also be written, and is then read back equal."""
    try:
        message = from_json(kind, data, task_count)
    except BadEnvelopeError:
        return
    assert message == from_json(message_type(message), to_json(message))


def test_a_user_message_has_no_control_data() -> None:
    with pytest.raises(ValueError, match="A user message has no control data"):
        from_json(MessageType.USER, b'{"taskName":"a","taskCount":1}')


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Watermark("", 1, 5), "task is None or a name"),
        (Watermark("\ud800", 1, 5), "task is None or a name"),
        (Watermark(7, 1, 5), "task is None or a name"),  # type: ignore[arg-type]
        (Watermark("a", 0, 5), "task_count is an integer from 1"),
        (Watermark("a", True, 5), "task_count is an integer from 1"),
        (Watermark("a", 2**31, 5), "task_count is an integer from 1"),
        (Watermark(None, 2, 5), "and 1 for a message without a task"),
        (Watermark("a", 1, 5, -1), "generation is an integer from 0"),
        (Watermark("a", 1, 5, 2**63), "generation is an integer from 0"),
        (Watermark("a", 1, LATEST + 1), "timestamp is an integer"),
        (Watermark("a", 1, 5.0), "timestamp is an integer"),  # type: ignore[arg-type]
        (Watermark("a", 1, True), "timestamp is an integer"),
        (EndOfStream("a", 1, ""), "stream or run is None or a text"),
        (Drain("a", 1, "\udc00"), "stream or run is None or a text"),
    ],
)
def test_the_writer_refuses_what_would_not_be_read_back_equal(message: ControlMessage, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        to_json(message)


def test_fields_may_come_in_any_order_but_only_once() -> None:
    assert {"a": 1, "b": {"a": 2}} == json_object('{"b":{"a":2},"a":1}')
    with pytest.raises(ControlMessageError, match="'a' occurs twice"):
        json_object('{"b":{"a":2,"a":2}}')
