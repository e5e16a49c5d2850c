from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_messages.envelopes import unwrap, wrap
from control_messages.errors import ControlMessageError
from control_messages.messages import EARLIEST, LATEST, ControlMessage, Drain, EndOfStream, Watermark
from control_messages.producer import ENVELOPES, ProducerSpec, TaskWatermarks, with_watermarks
from tests.control_messages.any_messages import texts

FLIGHTS = ProducerSpec("flights", 3, 2, generation=7, lateness_ms=1_000)

producers = st.builds(
    ProducerSpec,
    texts,
    st.integers(1, 2**31 - 1),
    st.one_of(st.integers(1, 2**31 - 1), st.lists(texts, min_size=1, max_size=5, unique=True).map(tuple)),
    st.integers(0, LATEST),
    st.integers(0, LATEST),
    st.integers(0, LATEST),
    st.booleans(),
)


@given(producers)
def test_a_producer_can_be_passed_as_an_option(producer: ProducerSpec) -> None:
    text = producer.to_json()
    assert text.isascii()
    assert producer == ProducerSpec.from_json(text)


def test_the_json_of_a_producer_is_in_camel_case() -> None:
    text = '{"stream":"flights","partitions":3,"tasks":2,"generation":7,"latenessMs":1000}'
    assert text == FLIGHTS.to_json()
    assert '["north","south"]' in ProducerSpec("flights", 3, ("north", "south")).to_json()


def test_the_other_fields_of_a_producer_have_defaults() -> None:
    assert ProducerSpec("s", 1) == ProducerSpec.from_json('{"stream":"s","partitions":1}')


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stream": ""}, "stream is '', give it a name"),
        ({"stream": None}, "stream of ProducerSpec is None: give a text"),
        ({"stream": "\ud800"}, "give it a name"),
        ({"partitions": 0}, "partitions of ProducerSpec is 0: give a whole number from 1"),
        ({"partitions": True}, "partitions of ProducerSpec is True"),
        ({"partitions": 2**31}, "partitions of ProducerSpec is 2147483648"),
        ({"partitions": "three"}, "partitions of ProducerSpec is 'three'"),
        ({"tasks": 0}, "tasks of ProducerSpec is 0: give a whole number from 1 to"),
        ({"tasks": 1.0}, "tasks of ProducerSpec is 1.0"),
        ({"tasks": None}, "tasks of ProducerSpec is None"),
        ({"tasks": "ab"}, "tasks of ProducerSpec is 'ab': give a whole number"),
        ({"tasks": []}, "give at least one name"),
        ({"tasks": ["a", ""]}, "tasks are 'a', ''; give at least one name, no empty one and none twice"),
        ({"tasks": ["a", "a"]}, "tasks are 'a', 'a'; give"),
        ({"tasks": ["a", 1]}, "tasks of ProducerSpec has the item 1: give a text"),
        ({"tasks": [["a"]]}, "tasks of ProducerSpec has the item of type list: give a text"),
        ({"generation": -1}, "generation of ProducerSpec is -1: give a whole number from 0 to 9223372036854775807"),
        ({"generation": 2**63}, "generation of ProducerSpec is 9223372036854775808"),
        ({"latenessMs": -1}, "lateness_ms of ProducerSpec is -1: give a whole number from 0"),
        ({"latenessMs": 0.5}, "lateness_ms of ProducerSpec is 0.5"),
        ({"counts": 1}, "counts of ProducerSpec is 1"),
        (
            {"lateness": 5, "more": 1},
            "has no 'lateness', 'more'; its fields are 'aheadMs', 'counts', 'generation', 'latenessMs'",
        ),
    ],
)
def test_a_wrong_field_of_a_producer_is_named(change: dict[str, Any], reason: str) -> None:
    fields = {"stream": "s", "partitions": 3, "tasks": 2, "generation": 7, "latenessMs": 1_000, **change}
    with pytest.raises(ValueError, match=re.escape(reason)):
        ProducerSpec.from_json(json.dumps(fields))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("[]", "no JSON object"),
        ('{"stream":"s"}', "a producer needs 'partitions'"),
        ("{}", "a producer needs 'partitions', 'stream'"),
        ('{"stream":"s","partitions":1,"partitions":2}', "'partitions' occurs twice"),
    ],
)
def test_text_that_is_no_producer_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ControlMessageError, match=reason):
        ProducerSpec.from_json(text)


def test_tasks_may_be_a_list() -> None:
    assert ProducerSpec("s", 1, ("a", "b")) == ProducerSpec("s", 1, ["a", "b"])
    assert hash(ProducerSpec("s", 1, ["a"])) == hash(ProducerSpec("s", 1, ("a",)))


def test_tasks_are_named_as_samza_does_unless_they_have_names() -> None:
    assert ("Partition 0", "Partition 1") == FLIGHTS.names
    assert ("north", "south") == ProducerSpec("s", 1, ("north", "south")).names


def test_a_producer_is_pickled_with_its_names() -> None:
    assert FLIGHTS.names == pickle.loads(pickle.dumps(FLIGHTS)).names  # noqa: S301 - as Spark sends it


def test_the_end_of_stream_is_the_end_of_every_task_or_of_some() -> None:
    first, second = (EndOfStream(f"Partition {task}", 2, "flights", 7, 3) for task in range(2))
    assert [first, second] == FLIGHTS.end_of_stream()
    assert [second] == FLIGHTS.end_of_stream([1])
    assert [second, first] == FLIGHTS.end_of_stream(["Partition 1", 0])


def test_tasks_are_declared_idle_by_name_or_number() -> None:
    idle = [Watermark(f"Partition {task}", 2, EARLIEST, 7, True, "flights", 3) for task in (1, 0)]
    assert idle == FLIGHTS.idle([1, "Partition 0"])


@pytest.mark.parametrize("task", [2, -1, "Partition 2", "", True, 2**70])
def test_an_unknown_task_cannot_be_declared_idle(task: str | int) -> None:
    with pytest.raises(ControlMessageError, match=re.escape(f"flights has no task {task!r}. Its 2 tasks are ")):
        FLIGHTS.idle([task])


def test_every_message_goes_to_every_partition_in_its_order() -> None:
    messages: list[ControlMessage] = [*FLIGHTS.idle([0]), *FLIGHTS.end_of_stream(), Drain(None, 1, "run", 7)]
    batch = FLIGHTS.envelopes(messages, sequence=5)
    assert ENVELOPES.equals(batch.schema)
    batch.validate(full=True)
    rows = zip(batch["partition"].to_pylist(), map(unwrap, batch["value"].to_pylist()), strict=True)
    sent = [replace(message, stream="flights", partition_count=3, sequence=5) for message in messages]
    assert [(partition, message) for partition in range(3) for message in sent] == list(rows)


def test_a_message_keeps_the_sequence_that_it_has() -> None:
    (given,) = FLIGHTS.idle([0])
    batch = FLIGHTS.envelopes([replace(given, sequence=3)], sequence=5)
    assert {replace(given, sequence=3)} == {unwrap(value) for value in batch["value"].to_pylist()}


def test_no_messages_are_no_rows() -> None:
    assert 0 == FLIGHTS.envelopes([]).num_rows
    assert ENVELOPES.equals(FLIGHTS.envelopes([]).schema)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Watermark("Partition 2", 2, 5, 7), "flights has no task 'Partition 2'"),
        (Watermark("Partition 0", 3, 5, 7), "is not of flights, which has 2 tasks and 3 partitions in generation 7"),
        (Watermark("Partition 0", 2, 5, 6), "is not of flights, which has 2 tasks and 3 partitions in generation 7"),
        (EndOfStream("Partition 0", 2, "trains", 7), "is not of flights"),
        (Watermark("Partition 0", 2, 5, 7, stream="trains"), "is not of flights"),
        (Watermark("Partition 0", 2, 5, 7, partition_count=4), "is not of flights"),
        (Watermark("Partition 0", 2, 5.5, 7), "timestamp is an integer"),  # type: ignore[arg-type]
    ],
)
def test_a_message_of_another_producer_is_not_written(message: ControlMessage, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        FLIGHTS.envelopes([message])


def test_more_envelopes_than_a_batch_holds_are_refused_before_they_are_made() -> None:
    wide = ProducerSpec("s", 10**8, 1)
    with pytest.raises(ValueError, match=r"1 messages for 100000000 partitions of s are \d+ bytes.*give fewer"):
        wide.envelopes(wide.end_of_stream())


class Watermarks(TaskWatermarks):
    """Of rows of which only task and time matter."""

    def observe(self, tasks: pa.Array | None, times: pa.Array, partitions: pa.Array | None = None) -> None:
        super().observe(tasks, times, pa.array([0] * len(times), pa.int32()) if partitions is None else partitions)


def watermarks_of(tasks: int | tuple[str, ...] = 1, lateness_ms: int = 0) -> Watermarks:
    return Watermarks(ProducerSpec("s", 1, tasks, lateness_ms=lateness_ms))


def times(*ticks: int | None, unit: str = "ms") -> pa.Array:
    return pa.array(ticks, pa.int64()).view(pa.timestamp(unit))


def timestamps(by: TaskWatermarks) -> dict[str | None, int]:
    return {watermark.task: watermark.timestamp for watermark in by.watermarks()}


def test_a_task_s_watermark_is_its_latest_time_less_the_lateness() -> None:
    of_two = Watermarks(FLIGHTS)
    of_two.observe(pa.array([0, 1, 0, 1]), times(5_000, 2_000, 4_000, 3_000))
    of_two.observe(pa.array([1]), times(2_500))
    assert [FLIGHTS.watermark(0, 4_000), FLIGHTS.watermark("Partition 1", 2_000)] == of_two.watermarks()


def test_a_task_without_rows_has_no_watermark_and_one_without_times_has_the_earliest() -> None:
    of_three = watermarks_of(3)
    assert [] == of_three.watermarks()
    of_three.observe(pa.array([], pa.int32()), times())
    of_three.observe(pa.array([0, 1, 1]), times(None, 7, None))
    assert {"Partition 0": EARLIEST, "Partition 1": 7} == timestamps(of_three)


def test_a_single_task_need_not_be_named() -> None:
    alone = watermarks_of()
    alone.observe(None, times(None, 3, 2))
    assert {"Partition 0": 3} == timestamps(alone)


def test_several_tasks_need_a_task_column() -> None:
    with pytest.raises(ControlMessageError, match="s has 2 tasks: name the task of each row"):
        watermarks_of(2).observe(None, times(1))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_tasks_can_be_given_by_name(kind: pa.DataType) -> None:
    named = watermarks_of(("north", "south"))
    named.observe(pa.array(["x", "south", "north", "south"], kind)[1:], times(9, 1, 2, 3)[1:])
    assert {"north": 2, "south": 3} == timestamps(named)
    numbered = watermarks_of(2)
    numbered.observe(pa.array(["Partition 1"], kind), times(1))
    assert {"Partition 1": 1} == timestamps(numbered)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()])
def test_tasks_can_be_given_by_number(kind: pa.DataType) -> None:
    named = watermarks_of(("north", "south"))
    named.observe(pa.array([9, 1, 0, 1], kind)[1:], times(9, 1, 2, 3)[1:])
    assert {"north": 2, "south": 3} == timestamps(named)


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        (pa.array(["north", "west"]), "s has no task 'west'. Its 2 tasks are 'north', 'south'."),
        (pa.array(["north", None]), "s has no task None. Its 2 tasks are 'north', 'south'."),
        (pa.array([0, 2]), "s has no task 2. Its 2 tasks are 0 to 1."),
        (pa.array([0, -1]), "s has no task -1. Its 2 tasks are 0 to 1."),
        (pa.array([0, 2**64 - 1], pa.uint64()), "s has no task 18446744073709551615."),
        (pa.array([0, None]), "s has no task None."),
    ],
)
def test_a_row_of_an_unknown_task_is_an_error_that_changes_no_watermark(tasks: pa.Array, reason: str) -> None:
    named = watermarks_of(("north", "south"))
    with pytest.raises(ControlMessageError, match=re.escape(reason)):
        named.observe(tasks, times(1, None))
    assert [] == named.watermarks()


def test_an_error_lists_twenty_names_at_most() -> None:
    many = watermarks_of(tuple(f"t{number:03}" for number in range(100)))
    with pytest.raises(ControlMessageError, match="'t000', .*'t019' and 80 more") as caught:
        many.observe(pa.array(["t100"]), times(1))
    assert 20 == str(caught.value).count("'t0")


@pytest.mark.parametrize("tasks", [pa.array([0.0]), pa.array([True]), pa.array([b"a"])])
def test_tasks_of_other_types_are_refused(tasks: pa.Array) -> None:
    with pytest.raises(TypeError, match=f"tasks are integers or strings, these are {tasks.type}"):
        watermarks_of().observe(tasks, times(1))


@pytest.mark.parametrize("column", [pa.array([1]), pa.array(["2013-01-01"]), pa.nulls(1)])
def test_times_of_other_types_are_refused(column: pa.Array) -> None:
    with pytest.raises(TypeError, match=f"times are timestamps or dates, these are {column.type}."):
        watermarks_of().observe(None, column)


@pytest.mark.parametrize(
    ("ticks", "unit", "milliseconds"),
    [
        (5, "s", 5_000),
        (-5, "s", -5_000),
        (5, "ms", 5),
        (5_999, "us", 5),
        (-1, "us", -1),
        (-1_000, "us", -1),
        (-1_001, "us", -2),
        (5_999_999, "ns", 5),
        (-1, "ns", -1),
        (LATEST, "ms", LATEST),
        (LATEST, "ns", LATEST // 1_000_000),
        (EARLIEST + 1, "us", EARLIEST // 1_000),
        (LATEST // 1_000, "s", LATEST // 1_000 * 1_000),
    ],
)
def test_times_are_rounded_down_to_milliseconds(ticks: int, unit: str, milliseconds: int) -> None:
    one = watermarks_of()
    one.observe(None, times(ticks, unit=unit))
    assert {"Partition 0": milliseconds} == timestamps(one)


@pytest.mark.parametrize("seconds", [LATEST // 1_000 + 1, EARLIEST // 1_000, LATEST])
def test_seconds_that_do_not_fit_64_bits_of_milliseconds_are_an_error(seconds: int) -> None:
    one = watermarks_of()
    with pytest.raises(ControlMessageError, match=f"{seconds} seconds does not fit 64 bits of milliseconds"):
        one.observe(None, times(seconds, unit="s"))
    assert [] == one.watermarks()


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_a_date_is_its_midnight(kind: pa.DataType) -> None:
    one = watermarks_of()
    one.observe(None, pa.array([date(1969, 12, 30), date(1969, 12, 31), None], kind))
    assert {"Partition 0": -86_400_000} == timestamps(one)


def test_a_time_in_a_zone_is_the_instant() -> None:
    one = watermarks_of()
    noon = datetime(1970, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    one.observe(None, pa.array([noon], pa.timestamp("us", "America/New_York")))
    assert {"Partition 0": 7 * 3_600_000} == timestamps(one)


def test_a_watermark_does_not_fall_below_64_bits_by_the_lateness() -> None:
    one = watermarks_of(lateness_ms=LATEST)
    one.observe(None, times(EARLIEST + 1))
    assert {"Partition 0": EARLIEST} == timestamps(one)


@pytest.mark.parametrize("kind", [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")] + [pa.date32(), pa.date64()])
def test_a_time_far_ahead_of_the_clock_raises_no_watermark(kind: pa.DataType) -> None:
    day, now = 86_400_000, 10 * 86_400_000
    dates = [date(1970, 1, 6), date(1970, 1, 13), date(1970, 1, 14)]
    column = pa.array(dates, pa.date32()).cast(pa.timestamp("s")).cast(kind)
    one = Watermarks(ProducerSpec("s", 1, ahead_ms=2 * day), now)

    one.observe(None, column)

    assert {"Partition 0": 12 * day} == timestamps(one), "two days ahead, and not three"


@pytest.mark.parametrize("far", [date(9999, 12, 31), datetime(9999, 12, 31, 23, 59, 59)])  # noqa: DTZ001
def test_the_year_9999_raises_no_watermark_unless_the_producer_says_so(far: date) -> None:
    now, column = 1_800_000_000_000, pa.array([far]).cast(pa.timestamp("us"))
    usual = Watermarks(ProducerSpec("s", 1), now)
    usual.observe(None, column)
    assert {"Partition 0": EARLIEST} == timestamps(usual), "it promises nothing, as a null"
    usual.observe(None, times(now - 5))
    assert {"Partition 0": now - 5} == timestamps(usual)

    unlimited = Watermarks(ProducerSpec("s", 1, ahead_ms=LATEST), now)
    unlimited.observe(None, column)
    assert {"Partition 0"} == {task for task, at in timestamps(unlimited).items() if at > 10**14}


def test_the_limit_is_from_the_time_of_the_batch() -> None:
    producer = ProducerSpec("s", 1, ahead_ms=100)
    columns = [[0, 0], [b"\0a", b"\0b"], [0, 0], times(1_050, 1_101), [1_000, 1_000], [3, 3]]
    batch = pa.RecordBatch.from_arrays(
        [each if isinstance(each, pa.Array) else pa.array(each) for each in columns],
        ["partition", "value", "task", "eventTime", "sequence", "writer"],
    )
    *_, last = with_watermarks(producer, [batch])
    (message,) = map(unwrap, last.column("value").to_pylist())
    assert isinstance(message, Watermark)
    assert (1_050, 3, 2) == (message.timestamp, message.writer, message.rows)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(-(10**6), 10**6)), max_size=20),
        max_size=4,
    ),
    st.integers(0, 3_000),
    st.booleans(),
    st.integers(0, 3),
)
def test_the_watermark_follows_the_latest_time_of_each_task(
    batches: list[list[tuple[int, int | None]]], lateness_ms: int, named: bool, skip: int
) -> None:
    several = watermarks_of(4, lateness_ms)
    latest: dict[str | None, int] = {}
    for batch in batches:
        tasks = [f"Partition {task}" if named else task for task, _ in batch]
        column = pa.array(tasks, pa.string() if named else pa.int32())
        several.observe(column[skip:], times(*(tick for _, tick in batch), unit="us")[skip:])
        for task, tick in batch[skip:]:
            name, at = f"Partition {task}", EARLIEST if tick is None else tick // 1_000 - lateness_ms
            latest[name] = max(latest.get(name, EARLIEST), at)
    assert latest == timestamps(several)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=20), max_size=4),
    st.sampled_from([pa.int32(), pa.int64()]),
)
def test_each_watermark_counts_the_rows_of_its_task_in_its_partition(
    batches: list[list[tuple[int, int]]], kind: pa.DataType
) -> None:
    producer = ProducerSpec("s", 3, 4, generation=2)
    counting = TaskWatermarks(producer, 1_000, 7)
    expected: Counter[tuple[int, str | None]] = Counter()
    for batch in batches:
        tasks, partitions = (pa.array([row[place] for row in batch], kind) for place in (0, 1))
        counting.observe(tasks, times(*(5 for _ in batch)), partitions)
        expected.update((partition, f"Partition {task}") for task, partition in batch)
    found = counting.envelopes()
    found.validate(full=True)
    messages = list(zip(found["partition"].to_pylist(), map(unwrap, found["value"].to_pylist()), strict=True))
    assert {wrap(message) for _, message in messages} == set(found["value"].to_pylist())
    marks = [(partition, each) for partition, each in messages if isinstance(each, Watermark)]
    assert len(marks) == 3 * len({task for _, task in expected})
    assert expected == Counter({(partition, each.task): each.rows or 0 for partition, each in marks if each.rows})
    assert {(7, 1_000)} >= {(each.writer, each.sequence) for _, each in marks}


def test_a_producer_may_leave_its_rows_uncounted() -> None:
    silent = TaskWatermarks(ProducerSpec("s", 1, counts=False), 1_000)
    silent.observe(None, times(5), pa.array([0]))
    (value,) = silent.envelopes()["value"].to_pylist()
    assert value.endswith(b',"timestamp":5}')
