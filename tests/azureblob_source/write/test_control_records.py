from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at, on
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import LogEntry, Transaction, to_json
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.read import views
from azureblob_source.read.snapshot import newest_generation
from azureblob_source.write import routing
from azureblob_source.write.control_objects import merged
from azureblob_source.write.control_records import EnvelopeRouter
from azureblob_source.write.routing import Router
from azureblob_source.write.staged_task import StagedTask
from control_messages.envelopes import unwrap, wrap
from control_messages.messages import (
    EARLIEST,
    ControlMessage,
    Drain,
    EndOfStream,
    Watermark,
    message_type,
    to_fields,
)
from control_messages.producer import FOR_THE_SINK, ProducerSpec
from foundation.errors import ConfigurationError, NotFoundError
from tests.azureblob_source.control_table import control_table
from tests.azureblob_source.log.committing import WEEK_AND_A_DAY
from tests.azureblob_source.write.sink_rows import (
    blob_rows,
    committer,
    new_account,
    plan_of,
    stage_rows,
    survives,
    visible_blobs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.entry import BlobEntry
    from azureblob_source.write.planning import WritePlan

ENVELOPES = pa.schema([("partition", pa.string()), ("value", pa.binary())])
SAMZA = b'\x01{"timestamp":5,"taskName":"Partition 0","version":1}'
Record = tuple["str | None", "bytes | None"]


def mark(task: str | None, time: int, generation: int = 0) -> bytes:
    return wrap(Watermark(task, 1 if task is None else 2, time, generation))


def end(task: str, stream: str | None = None) -> bytes:
    return wrap(EndOfStream(task, 2, stream))


def user(number: int) -> bytes:
    return wrap(str(number).encode())


def envelopes(records: Sequence[Record]) -> pa.RecordBatch:
    partitions, values = zip(*records, strict=True) if records else ((), ())
    columns = [pa.array(partitions, pa.string()), pa.array(values, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=ENVELOPES)


def plan_for_envelopes(**options: Any) -> WritePlan:
    return plan_of(ENVELOPES, **{"envelopeColumn": "value", "partitionColumn": "partition", **options})


def stage_records(account: MemoryAccount, plan: WritePlan, *batches: Sequence[Record], seed: int = 0) -> StagedTask:
    return stage_rows(account.container("container"), plan, map(envelopes, batches), seed=seed)


def commit(account: MemoryAccount, plan: WritePlan, *staged: StagedTask, batch: int | None = None) -> LogEntry:
    transaction = None if batch is None else Transaction("q", batch)
    (entry,) = committer(account.container("container"), plan).commit(staged, transaction)
    return entry


def written(account: MemoryAccount, blobs: Iterable[BlobEntry]) -> dict[str | None, list[bytes | None]]:
    """What a reader finds in each partition, blob by blob; watermarks without their counts."""
    visible = visible_blobs(account)
    found: dict[str | None, list[bytes | None]] = defaultdict(list)
    for blob in blobs:
        found[blob.partition] += [uncounted(row["value"]) for row in blob_rows(visible[blob.name])]
    return dict(found)


def uncounted(envelope: bytes | None) -> bytes | None:
    """The envelope without the count of a watermark that the sink has written."""
    if envelope is None or b',"rows":' not in envelope:
        return envelope
    message = unwrap(envelope)
    assert isinstance(message, Watermark)
    return wrap(replace(message, writer=None, rows=None))


def is_control(envelope: bytes | None) -> bool:
    return envelope is not None and envelope[0] != 0


def logged(message: ControlMessage, *partitions: str) -> dict[str, Any]:
    """The message as a log entry lists it."""
    name = {1: "watermark", 2: "endOfStream", 3: "drain"}[message_type(message)]
    of_all = list(partitions) == [str(number) for number in range(message.partition_count or 0)]
    named = "all" if of_all else list(partitions)
    return {"type": name, **to_fields(message)} | ({"partitions": named} if partitions else {})


# --- order of control messages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{"codec": "null"}, {"codec": "zstandard"}, {"compression__type": "gzip"}, {"maxFlushThresholdSize": 1}]
)
def test_control_messages_follow_all_other_rows_of_their_partition(how: dict[str, Any]) -> None:
    account, plan = new_account(), plan_for_envelopes(**how)
    first, last = mark("a", 5), end("a")
    staged = stage_records(
        account,
        plan,
        [("0", first), ("0", user(1)), ("1", first), ("1", user(2)), (None, user(3))],
        [("1", last), ("0", user(4)), ("0", last), ("1", user(5)), (None, first), ("2", first)],
    )
    entry = commit(account, plan, staged)
    assert {
        "0": [user(1), user(4), first, last],
        "1": [user(2), user(5), first, last],
        None: [user(3), first],
        "2": [first],
    } == written(account, entry.blobs)
    assert (
        logged(Watermark("a", 2, 5)),
        logged(Watermark("a", 2, 5), "0", "1", "2"),
        logged(EndOfStream("a", 2), "0", "1"),
    ) == entry.control


def test_control_messages_are_in_the_last_blob_of_their_partition_when_blobs_are_rolled() -> None:
    account, plan = new_account(), plan_for_envelopes(maxMessagesPerBlob=2)
    records: list[Record] = [("0", mark("a", 5)), *(("0", user(n)) for n in range(4)), ("1", user(9))]
    entry = commit(account, plan, stage_records(account, plan, records))
    of_the_first = [written(account, [blob])["0"] for blob in entry.blobs if blob.partition == "0"]
    assert [[user(0), user(1)], [user(2), user(3)], [mark("a", 5)]] == of_the_first


def test_without_partitions_control_messages_are_the_last_rows_of_the_task() -> None:
    account, plan = new_account(), plan_of(ENVELOPES, envelopeColumn="value")
    staged = stage_records(account, plan, [("0", mark("a", 5)), ("1", mark("a", 5)), ("0", user(1)), ("1", user(2))])
    entry = commit(account, plan, staged)
    assert {None: [user(1), user(2), mark("a", 5), mark("a", 5)]} == written(account, entry.blobs)
    assert (logged(Watermark("a", 2, 5)),) == entry.control


MESSAGES = [
    *(wrap(Watermark(task, 2, time, generation)) for task in ("a", "ß") for time in (-1, 7) for generation in (0, 1)),
    wrap(Watermark("a", 2, EARLIEST, idle=True)),
    wrap(Watermark(None, 1, 3)),
    end("a"),
    end("ß", "s"),
    wrap(Drain("a", 2, "run1")),
    SAMZA,
]
values = st.none() | st.binary(max_size=3).map(wrap) | st.sampled_from(MESSAGES)
records_of_a_task = st.lists(
    st.lists(st.tuples(st.none() | st.sampled_from(["0", "1", "10", "a/b"]), values), max_size=6), max_size=4
)


@settings(max_examples=60)
@given(
    st.lists(records_of_a_task, min_size=1, max_size=3),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([{}, {"maxMessagesPerBlob": 2}, {"maxFlushThresholdSize": 20}, {"maxBlobSize": 60}]),
)
def test_every_record_is_written_once_and_in_each_partition_control_messages_follow_data(
    tasks: list[list[list[Record]]], coalesced: int, limits: dict[str, int]
) -> None:
    account, plan = new_account(), plan_for_envelopes(**limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "COALESCED_ROWS", coalesced)
        staged = [stage_records(account, plan, *task, seed=n) for n, task in enumerate(tasks)]
    entries = committer(account.container("container"), plan).commit(staged, None)
    everything = [record for task in tasks for batch in task for record in batch]
    assert bool(everything) == bool(entries)
    found = Counter(
        (partition, value)
        for task in staged
        for partition, rows in written(account, task.blobs).items()
        for value in rows
    )
    assert Counter((partition and partition.replace("/", "%2F"), value) for partition, value in everything) == found
    for task in staged:
        for rows in written(account, task.blobs).values():
            kinds = [is_control(row) for row in rows]
            assert sorted(kinds) == kinds
    listed = [message for entry in entries for message in entry.control]
    assert latest_of(found) == Counter(row for message in listed for row in spread(message))
    assert len(listed) == len({json.dumps({**message, "partitions": "partitions" in message}) for message in listed})
    table = control_table(entries).to_pylist()
    assert sum(latest_of(found).values()) == len(table)


def latest_of(found: Counter[tuple[str | None, bytes | None]]) -> Counter[tuple[str, str | None]]:
    """What the log should list: every message, but of the watermarks of one task and generation only the latest."""
    latest: dict[tuple[str, str | None], int] = {}
    for partition, value in found:
        if value is None or not is_control(value):
            continue
        message = unwrap(value, 2)
        assert not isinstance(message, bytes)
        fields = logged(message)
        if value == SAMZA:
            del fields["taskCount"]
        time = fields.pop("timestamp", 0)
        key = (json.dumps(fields, sort_keys=True), partition)
        latest[key] = max(time, latest.get(key, time))
    return Counter(
        (json.dumps({**json.loads(text), **({"timestamp": time} if "watermark" in text else {})}, sort_keys=True), p)
        for (text, p), time in latest.items()
    )


def spread(message: Any) -> list[tuple[str, str | None]]:
    fields = dict(message)
    partitions = fields.pop("partitions", [None])
    assert len(partitions) == len(set(partitions))
    return [(json.dumps(fields, sort_keys=True), partition) for partition in partitions]


def test_at_least_once_publishes_control_messages_after_the_rows() -> None:
    account, plan = new_account(), plan_for_envelopes(deliveryGuarantee="at-least-once", maxMessagesPerBlob=1)
    container = account.container("container")
    order = []

    def publish(blob: BlobEntry) -> None:
        Publisher(container).publish_blob(blob, plan.options.attributes)
        order.extend(written(account, [blob])["0"])

    batch = envelopes([("0", mark("a", 5)), ("0", user(1)), ("0", user(2))])
    entry = commit(account, plan, stage_rows(container, plan, [batch], publish=publish))
    assert [user(1), user(2), mark("a", 5)] == order
    assert (logged(Watermark("a", 2, 5), "0"),) == entry.control


def test_without_the_options_envelopes_are_written_as_plain_bytes() -> None:
    account, plan = new_account(), plan_of(ENVELOPES, partitionColumn="partition")
    staged = stage_records(account, plan, [("0", mark("a", 5)), ("0", user(1)), ("0", b"")])
    assert ((), {"0": [mark("a", 5), user(1), b""]}) == (
        staged.control,
        written(account, commit(account, plan, staged).blobs),
    )


def test_the_messages_of_a_task_are_known_only_when_all_its_rows_are_routed() -> None:
    router = EnvelopeRouter("value", Router("flights"), None)
    routed = router.routed([envelopes([("0", mark("a", 5)), ("0", user(1))])])
    assert [user(1)] == next(routed).batch.column("value").to_pylist()
    with pytest.raises(RuntimeError, match="when all its rows are routed"):
        _ = router.messages
    assert [[mark("a", 5)]] == [each.batch.column("value").to_pylist() for each in routed]
    assert ({**logged(Watermark("a", 2, 5)), "stream": "flights"},) == router.messages


# --- what the log lists -----------------------------------------------------------------------------------------------


def test_of_the_watermarks_of_several_spark_tasks_the_log_lists_the_latest_for_each_partition() -> None:
    account, plan = new_account(), plan_for_envelopes()
    tasks: list[list[Record]] = [
        [("0", mark("a", 5)), ("1", mark("a", 5)), ("10", mark("a", 5)), ("0", end("b"))],
        [("1", mark("a", 9)), ("2", end("b")), ("1", mark("b", 1))],
        [("10", mark("a", 3)), ("1", mark("a", 8)), ("1", mark("a", 4, generation=1)), ("0", end("b"))],
    ]
    staged = [stage_records(account, plan, task, seed=n) for n, task in enumerate(tasks)]
    entry = commit(account, plan, *staged)
    assert (
        logged(Watermark("a", 2, 5), "0", "10"),
        logged(Watermark("a", 2, 9), "1"),
        logged(EndOfStream("b", 2), "0", "2"),
        logged(Watermark("b", 2, 1), "1"),
        logged(Watermark("a", 2, 4, 1), "1"),
    ) == entry.control
    assert 11 == sum(map(len, written(account, entry.blobs).values()))


def test_a_message_of_samza_is_copied_unchanged_and_listed_without_a_task_count() -> None:
    account, plan = new_account(), plan_for_envelopes()
    ended = b'\x02{"task-name":"Partition 0","version":1}'
    entry = commit(account, plan, stage_records(account, plan, [("0", SAMZA), ("0", ended), ("0", user(1))]))
    assert {"0": [user(1), SAMZA, ended]} == written(account, entry.blobs)
    common = {"version": 1, "taskName": "Partition 0", "generation": 0}
    assert (
        {"type": "watermark", **common, "timestamp": 5, "partitions": ["0"]},
        {"type": "endOfStream", **common, "streamId": None, "partitions": ["0"]},
    ) == entry.control


def test_control_messages_survive_serialization_to_the_driver() -> None:
    account, plan = new_account(), plan_for_envelopes()
    staged = stage_records(account, plan, [("é", wrap(EndOfStream("Zürich", 1, "flüge"))), ("0", mark("a", -1))])
    assert 2 == len(staged.control)
    assert staged == StagedTask.from_json(staged.to_json())


def test_watermarks_of_a_thousand_tasks_for_a_hundred_partitions_are_a_thousand_objects() -> None:
    producer = ProducerSpec("s", 100, 1000)
    schema = pa.schema([("partition", pa.int32()), ("value", pa.binary())])
    account, plan = new_account(), plan_of(schema, envelopeColumn="value", partitionColumn="partition")
    batch = producer.envelopes(Watermark(name, 1000, 1_700_000_000_000) for name in producer.names)
    staged = stage_rows(account.container("container"), plan, [batch.cast(schema)])
    again = merged(message for task in [staged] * 3 for message in task.control)
    assert staged.control == again
    entry = commit(account, plan, staged)
    assert 1000 == len(entry.control)
    assert {"all"} == {message["partitions"] for message in entry.control}
    assert len(to_json(entry)) < 250_000
    assert 100_000 == sum(batch.num_rows for batch in views.control([entry]))
    assert [100_000, 100_000, 0] == [batch.num_rows for batch in views.control([entry, replace(entry, version=1)])]


@pytest.mark.parametrize("unfinished", [False, True])
def test_the_newest_generation_is_read_from_the_end_of_the_log(unfinished: bool) -> None:
    """Also if a former job writes beside it; `unfinished`: a generation without an end is before it."""
    schema = pa.schema([("partition", pa.int32()), ("value", pa.binary())])
    account, plan = new_account(), plan_of(schema, envelopeColumn="value", partitionColumn="partition")

    def write(producer: ProducerSpec, *messages: ControlMessage) -> None:
        batch = producer.envelopes(messages).cast(schema)
        commit(account, plan, stage_rows(account.container("container"), plan, [batch]))

    for generation in range(4):
        producer = ProducerSpec("s", 2, ["a"], generation=generation)
        for time in range(12):
            write(producer, producer.watermark("a", time))
        if not (unfinished and generation == 2):
            write(producer, *producer.end_of_stream())
    for time in (98, 99):
        for either in (replace(producer, generation=2), producer):
            write(either, either.watermark("a", time))
    log = CommitLog(account.container("container"), "flights", readers=1)
    found, history = newest_generation(log), log.history()
    of_newest = [
        [each for entry in entries for each in entry.control if each["generation"] == 3] for entries in (found, history)
    ]
    assert of_newest[0] == of_newest[1]
    assert len(found) == 32 < len(history), "in steps of 16"
    with pytest.raises(NotFoundError, match="there is none"):
        newest_generation(CommitLog(account.container("container"), "other"))


# --- bad envelopes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("envelope", "reason"),
    [
        (b"", "zero bytes"),
        (b"\x07x", "The type byte is 7"),
        (b"\x01{", "is no JSON"),
        (b"\x01\xff", "is no JSON"),
        (b'\x01{"taskName":"t","taskCount":1}', "is a watermark without a timestamp"),
        (b'\x01{"taskName":"t"}', "is a watermark without a timestamp"),
        (b'\x02{"taskName":"t","taskCount":0}', "taskCount is 0"),
        (b'\x03{"taskName":"t","version":2}', "has version 2"),
    ],
)
@pytest.mark.parametrize("partition", ["7", None])
def test_a_bad_envelope_fails_the_write_with_option_partition_and_reason(
    envelope: bytes, reason: str, partition: str | None
) -> None:
    account, plan = new_account(), plan_for_envelopes(maxFlushThresholdSize=1)
    batches: list[list[Record]] = [[("0", user(1)), ("1", mark("a", 5))], [("0", user(2)), (partition, envelope)]]
    with pytest.raises(ConfigurationError) as caught:
        stage_records(account, plan, *batches)
    where = "an envelope of stream" if partition is None else "an envelope for partition '7' of stream"
    assert f"write {where} flights (option `envelopeColumn`, column 'value') failed: " in str(caught.value)
    assert reason in str(caught.value)
    assert {} == account.service.contents("container")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"envelopeColumn": "partition"}, "`envelopeColumn`: column 'partition' is string, it must be binary"),
        ({"envelopeColumn": "envelope"}, "`envelopeColumn` names column 'envelope'; the rows to write have partition"),
        (
            {"envelopeColumn": "value", "partitionColumn": "value", "dropRoutingColumns": True},
            "`envelopeColumn` names column 'value'; the rows to write have partition",
        ),
    ],
)
def test_a_column_that_cannot_hold_envelopes_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of(ENVELOPES, **options)


# --- watermarks of the sink -------------------------------------------------------------------------------------------

PRODUCER = ProducerSpec("flights", 3, ("a", "b"), generation=4, lateness_ms=1000)
ROWS = pa.schema(
    [
        ("eventTime", pa.timestamp("us", "UTC")), ("task", pa.string()), ("value", pa.binary()),
        ("partition", pa.int32()), ("more", pa.int64()),
    ]
)  # fmt: skip
NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)
NEW_YEAR_MS = 1_356_998_400_000


def row(partition: int | None, value: bytes | None, task: Any = "a", seconds: float | None = 0) -> dict[str, Any]:
    time = None if seconds is None else NEW_YEAR + timedelta(seconds=seconds)
    return {"partition": partition, "value": value, "task": task, "eventTime": time, "more": 1}


def plan_of_producer(producer: ProducerSpec = PRODUCER, schema: pa.Schema = ROWS, **options: Any) -> WritePlan:
    return plan_of(schema, **{"emission": producer.to_json(), "partitionColumn": "partition", **options})


def stage_rows_of_producer(
    account: MemoryAccount, plan: WritePlan, *batches: list[dict[str, Any]], schema: pa.Schema = ROWS, seed: int = 0
) -> StagedTask:
    return stage_rows(
        account.container("container"), plan, [pa.RecordBatch.from_pylist(rows, schema) for rows in batches], seed=seed
    )


def own(task: str, seconds: float) -> Watermark:
    at = NEW_YEAR_MS + round(seconds * 1000) - 1000
    return Watermark(task, 2, at, 4, stream=PRODUCER.stream, partition_count=PRODUCER.partitions)


@pytest.mark.parametrize("drop", [False, True])
def test_the_sink_writes_the_watermark_of_each_task_to_every_partition(drop: bool) -> None:
    account, plan = new_account(), plan_of_producer(dropRoutingColumns=drop)
    staged = stage_rows_of_producer(
        account,
        plan,
        [row(0, user(1), "a", 5.0019), row(1, user(2), "b", 7), row(0, None, "a", 3)],
        [row(0, user(4), "b", -2), row(1, user(5), "a", None)],
    )
    entry = commit(account, plan, staged)
    watermarks = [wrap(own("a", 5.001)), wrap(own("b", 7))]
    assert {
        "0": [user(1), None, user(4), *watermarks],
        "1": [user(2), user(5), *watermarks],
        "2": watermarks,
    } == written(account, entry.blobs)
    assert (logged(own("a", 5.001), "0", "1", "2"), logged(own("b", 7), "0", "1", "2")) == entry.control
    visible = visible_blobs(account)
    stored = [row for blob in entry.blobs for row in blob_rows(visible[blob.name])]
    assert {("value",) if drop else ("partition", "value")} == {tuple(row) for row in stored}
    assert drop or {("2", 2)} == {
        (b.partition, r["partition"]) for b in entry.blobs[2:] for r in blob_rows(visible[b.name])
    }


def test_the_watermarks_of_the_sink_count_the_rows_of_each_task_and_partition() -> None:
    account = new_account()
    plan = replace(plan_of_producer(), sequence=5, task=7)
    rows = [row(0, user(1), "a", 5), row(1, user(2), "b", 7), row(0, None, "a", 3), row(0, own_end("a"), "b", 1)]
    entry = commit(account, plan, stage_rows_of_producer(account, plan, rows))
    visible = visible_blobs(account)
    sent = {
        (blob.partition, unwrap(row["value"]))
        for blob in entry.blobs
        for row in blob_rows(visible[blob.name])
        if row["value"]
    }
    counts = {
        (partition, each.task): (each.writer, each.rows) for partition, each in sent if isinstance(each, Watermark)
    }
    assert {("0", "a"): (7, 2), ("0", "b"): (7, 0), ("1", "a"): (7, 0), ("1", "b"): (7, 1)} == {
        key: count for key, count in counts.items() if key[0] != "2"
    }
    assert not any("rows" in message for message in entry.control), "one object for all partitions"


def own_end(task: str) -> bytes:
    return wrap(PRODUCER.end_of_stream([task])[0])


def test_envelopes_in_the_struct_of_emit_are_stored_as_bytes() -> None:
    place = ROWS.get_field_index("value")
    schema = ROWS.set(place, pa.field("value", pa.struct([(FOR_THE_SINK, pa.binary())])))
    account, plan = new_account(), plan_of_producer(schema=schema)
    rows = [row(0, user(1)), row(1, None), row(0, user(3))]
    batch = [{**each, "value": {FOR_THE_SINK: each["value"]}} for each in rows]
    entry = commit(account, plan, stage_rows_of_producer(account, plan, batch, batch[1:], schema=schema))
    mine = wrap(own("a", 0))
    assert {"0": [user(1), user(3), user(3), mine], "1": [None, None, mine], "2": [mine]} == written(
        account, entry.blobs
    )


def test_without_a_partition_column_all_partitions_are_in_one_blob() -> None:
    account, plan = new_account(), plan_of(ROWS, emission=PRODUCER.to_json())
    entry = commit(account, plan, stage_rows_of_producer(account, plan, [row(1, user(1))]))
    (blob,) = entry.blobs
    stored = [(row["partition"], uncounted(row["value"])) for row in blob_rows(visible_blobs(account)[blob.name])]
    assert [(1, user(1)), *((n, wrap(own("a", 0))) for n in range(3))] == stored
    assert (logged(own("a", 0)),) == entry.control


def test_control_messages_among_the_rows_of_a_producer_come_last_and_do_not_advance_its_watermarks() -> None:
    account, plan = new_account(), plan_of_producer()
    ended = wrap(EndOfStream("b", 2, "flights", 4))
    staged = stage_rows_of_producer(
        account, plan, [row(0, ended, None, 99), row(0, user(1), "a", 5)], [row(2, ended, "b", 99)]
    )
    entry = commit(account, plan, staged)
    mine = wrap(own("a", 5))
    assert {"0": [user(1), ended, mine], "1": [mine], "2": [ended, mine]} == written(account, entry.blobs)


@pytest.mark.parametrize("rows", [[], [row(0, wrap(EndOfStream("b", 2)), "b", 5)]])
def test_a_task_without_rows_writes_no_watermark(rows: list[dict[str, Any]]) -> None:
    account, plan = new_account(), plan_of_producer()
    staged = stage_rows_of_producer(account, plan, rows)
    assert [] == [message for message in staged.control if message["type"] == "watermark"]
    assert len(rows) == staged.metrics["messagesSent"]


def test_a_task_without_event_times_says_only_that_it_is_there() -> None:
    account, plan = new_account(), plan_of_producer()
    staged = stage_rows_of_producer(account, plan, [row(0, user(1), "a", None)])
    assert [EARLIEST] == [message["timestamp"] for message in staged.control]


def test_watermarks_have_the_sequence_of_the_write() -> None:
    account, plan = new_account(), replace(plan_of_producer(), sequence=17)
    staged = stage_rows_of_producer(account, plan, [row(0, user(1), "a", 5), row(0, user(2), "b", 5)])
    assert [17, 17] == [message["sequence"] for message in staged.control]


TASK = ROWS.get_field_index("task")


@pytest.mark.parametrize(
    ("tasks", "schema", "task"),
    [
        (1, ROWS.remove(TASK), None),
        (("only",), ROWS.remove(TASK), None),
        (1, ROWS, "Partition 0"),
        (("a", "only"), ROWS.set(TASK, pa.field("task", pa.int32())), 1),
        (2, ROWS.set(TASK, pa.field("task", pa.int64())), 1),
        (("only",), ROWS.set(0, pa.field("eventTime", pa.timestamp("ms"))), "only"),
        (("only",), ROWS.set(2, pa.field("value", pa.large_binary(), nullable=False)), "only"),
        (("only",), ROWS.set(3, pa.field("partition", pa.int64(), nullable=False)), "only"),
    ],
)
def test_tasks_are_names_or_numbers_or_omitted_if_there_is_one(tasks: Any, schema: pa.Schema, task: Any) -> None:
    account = new_account()
    producer = ProducerSpec("s", 2, tasks)
    plan = plan_of_producer(producer, schema)
    made = row(1, user(1), task, 5) | {"eventTime": (NEW_YEAR + timedelta(seconds=5)).replace(tzinfo=None)}
    if schema.field("eventTime").type.tz:
        made["eventTime"] = made["eventTime"].replace(tzinfo=UTC)
    ended = {**made, "value": wrap(producer.end_of_stream()[0])}
    entry = commit(account, plan, stage_rows_of_producer(account, plan, [made, ended], schema=schema))
    expected = producer.watermark(len(producer.names) - 1, NEW_YEAR_MS + 5000)
    assert logged(expected, "0", "1") in entry.control
    assert [user(1), wrap(producer.end_of_stream()[0]), wrap(expected)] == written(account, entry.blobs)["1"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(0, user(1), "c"), "Option `emission`: flights has no task 'c'. Its 2 tasks are 'a', 'b'"),
        (row(0, user(1), None), "Option `emission`: flights has no task None"),
        (row(3, user(1)), "Option `emission`: column 'partition' is 3 in a row; the stream has the partitions 0 to 2"),
        (row(-1, user(1)), "Option `emission`: column 'partition' is -1 in a row"),
        (row(None, user(1)), "Option `emission`: column 'partition' is null in a row"),
        (row(5, mark("a", 5)), "Option `emission`: column 'partition' is 5 in a row"),
        (row(2, b""), "an envelope for partition '2' of stream flights (option `emission`, column 'value') failed"),
    ],
)
def test_a_row_that_does_not_fit_the_producer_fails_the_write(bad: dict[str, Any], message: str) -> None:
    account, plan = new_account(), plan_of_producer(maxFlushThresholdSize=1)
    with pytest.raises(ConfigurationError) as caught:
        stage_rows_of_producer(account, plan, [row(0, user(0)), bad])
    assert message in str(caught.value)
    assert {} == account.service.contents("container")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (ROWS.remove(0), "Option `emission` needs a column 'eventTime', a timestamp; the rows to write have task"),
        (ROWS.remove(TASK), "Option `emission` needs a column 'task', an integer or a string"),
        (ROWS.set(0, pa.field("eventTime", pa.string())), "column 'eventTime' is string, it must be a timestamp"),
        (ROWS.set(TASK, pa.field("task", pa.float64())), "column 'task' is double, it must be an integer or a string"),
        (ROWS.set(2, pa.field("value", pa.string())), "Option `emission`: column 'value' is string, it must be binary"),
        (ROWS.set(3, pa.field("partition", pa.string())), "column 'partition' is string, it must be an int or bigint"),
    ],
)
def test_rows_without_the_columns_of_option_emission_are_refused(schema: pa.Schema, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of_producer(schema=schema)


@pytest.mark.parametrize("options", [{"partitionColumn": "more"}, {"eventTimeColumn": "eventTime"}])
def test_columns_that_option_emission_does_not_store_cannot_be_named(options: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"Option `{next(iter(options))}` names column .*have partition, value"
    ):
        plan_of_producer(**options)


_WORKER = """
import sys, time, datetime
import pyarrow as pa
from azure_account.memory.account import MemoryAccount
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.staging import stage

rows = pa.ipc.open_stream(sys.argv[1])
options = {"path": "box/s", "partitioncolumn": "partition", "emission": sys.argv[2]}
plan = plan_for_rows(sink_options({**options, "connectionstring": "UseDevelopmentStorage=true"}, {}), rows.schema)
container = MemoryAccount().container("box")
container.create()
staged = stage(rows, plan, container, names=BlobIds(bytes, suffixed=True))
print(staged.metrics["messagesSent"], len(staged.control), "pandas" in sys.modules)
"""


def test_a_worker_that_writes_control_messages_does_not_import_pandas(tmp_path: Path) -> None:
    with pa.ipc.new_stream(tmp_path / "rows", ROWS) as stream:
        stream.write(
            pa.RecordBatch.from_pylist([row(0, user(1)), row(1, end("b"), "b", None), row(1, None, "b")], ROWS)
        )
    command = [sys.executable, "-c", _WORKER, str(tmp_path / "rows"), PRODUCER.to_json()]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "9 3 False\n" == result.stdout


# --- repeated batches -------------------------------------------------------------------------------------------------


def history(account: MemoryAccount, stream: str = "flights") -> list[LogEntry]:
    return CommitLog(account.container("container"), stream, readers=1).history()


def attempt(
    account: MemoryAccount, time: int, seed: int, faults: FaultInjector | None = None, query: str = "q"
) -> LogEntry:
    """One run of batch 0; `time` in its messages identifies the run."""
    container, plan = account.restarted(faults or FaultInjector()).container("container"), plan_for_envelopes()
    staged = stage_rows(container, plan, [envelopes([("0", mark("a", time)), ("0", user(time))])], seed=seed)
    (entry,) = committer(container, plan, seed).commit([staged], Transaction(query, 0))
    return entry


def test_a_repeated_batch_has_the_messages_of_the_run_that_was_committed() -> None:
    for n in range(1, 40):
        account, faults = new_account(), FaultInjector(at(n, Crash(after_effect=n % 2 == 0)))
        try:
            attempt(account, 5, 1, faults)
        except ProcessDied:
            attempt(account, 9, 2)
        else:
            assert faults.count < n
            break
        (entry,) = history(account)
        (message,) = entry.control
        assert {"0": [user(message["timestamp"]), mark("a", message["timestamp"])]} == written(account, entry.blobs)
    else:
        pytest.fail("the driver died at every attempt")


def test_messages_of_a_voided_batch_are_not_listed_and_those_of_its_repeat_are() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        attempt(account, 5, 1, FaultInjector(on("commit_block_list", Crash())))
    account.clock.sleep(WEEK_AND_A_DAY)
    attempt(account, 7, 2, query="other")
    assert [7] == times(account)
    attempt(account, 6, 3)
    assert [7, 6] == times(account)
    assert ["append", "void", "append", "append"] == [entry.operation for entry in history(account)]
    assert () == history(account)[1].control


def times(account: MemoryAccount, stream: str = "flights") -> list[int]:
    return [json.loads(row["message"])["timestamp"] for row in control_table(history(account, stream)).to_pylist()]


STREAMS = ["a", "b/c", "d"]
NAMED = pa.schema([("stream", pa.string()), ("partition", pa.int32()), ("value", pa.binary())])


def run_batch(account: MemoryAccount, faults: FaultInjector, run: int) -> bool:
    """One process of a query that sends its rows to other streams in every run. Whether it lives to the end."""
    container = account.restarted(faults).container("container")
    plan = plan_of(
        NAMED, "container", streamColumn="stream", partitionColumn="partition", envelopeColumn="value",
        threadPoolCount=1,
    )  # fmt: skip

    def commit_batch(repeat: int) -> None:
        number = 10 * run + repeat
        rows = [
            {"stream": STREAMS[(number + n) % 3], "partition": p, "value": value}
            for n in range(2)
            for p in range(2)
            for value in (mark("t", 100 * number + n), user(100 * number + n))
        ]
        staged = stage_rows(container, plan, [pa.RecordBatch.from_pylist(rows, NAMED)], seed=number)
        committer(container, plan, number).commit([staged], Transaction("q", 0))

    return survives(commit_batch)


@pytest.mark.parametrize("expire", [False, True], ids=["at once", "after the blocks have expired"])
def test_the_logs_of_all_streams_list_the_messages_of_the_batch_entry(expire: bool) -> None:
    faults = FaultInjector()
    assert run_batch(new_account(), faults, 0)
    for n in range(1, faults.count + 1):
        account = new_account()
        if not run_batch(account, FaultInjector(at(n, Crash(after_effect=n % 2 == 0))), 0):
            if expire:
                account.clock.sleep(WEEK_AND_A_DAY)
            assert run_batch(account, FaultInjector(), 1)
        decision = history(account, "_batches/q")[-1]
        assert 2 == len(decision.control)
        for stream in STREAMS:
            of_stream = [message for message in decision.control if message["stream"] == stream]
            entries = history(account, stream)
            undone = {entry.replaces for entry in entries}
            kept = [entry for entry in entries if entry.version not in undone and entry.control]
            assert of_stream == [{**m, "stream": stream} for entry in kept for m in entry.control], f"attempt {n}"
            assert [message["timestamp"] for message in of_stream for _ in range(2)] == times(account, stream)
            for entry in kept:
                (message,) = entry.control
                expected = [user(message["timestamp"]), wrap(Watermark("t", 2, message["timestamp"]))]
                assert {"0": expected, "1": expected} == written(account, entry.blobs)
