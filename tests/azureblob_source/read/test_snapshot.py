from __future__ import annotations

import gzip
import io
import json
import random
import threading
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

from arrow_avro import header, parse
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, on
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.read.blob_bytes import FIRST_REQUEST
from azureblob_source.read.blobs import BlobSelection
from azureblob_source.read.snapshot import ListingRules, take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, CorruptError, NotFoundError, TransientError
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows, visible_blobs
from tests.scripted_clock import ActingClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.values import BlobProperties
    from azureblob_source.read.snapshot import Snapshot

ROWS = pa.schema([("n", pa.int64())])
WIDER = pa.schema([("n", pa.int64()), ("s", pa.string())])


no_wait = ActingClock(lambda seconds: pytest.fail(f"waited for {seconds} s"))


def snapshot(account: MemoryAccount, version: int | None = None) -> Snapshot:
    return take_snapshot(CommitLog(account.container("container"), "flights"), version, no_wait)


def write(
    account: MemoryAccount, seed: int, schema: pa.Schema = ROWS, *, overwrite: bool = False, again: int = 0
) -> list[str]:
    """One batch, or a repeat of it; returns the names of its blobs."""
    container, plan = account.container("container"), plan_of(schema)
    batch = pa.RecordBatch.from_pylist([{"n": seed, "s": "x"}], schema)
    staged = stage_rows(container, plan, [batch], seed=seed + 100 * again)
    (entry,) = committer(container, plan, seed + 100 * again).commit(
        [staged], Transaction("q", seed), overwrite=overwrite
    )
    return [blob.name for blob in entry.blobs]


def avro_file(schema: dict[str, Any], rows: list[Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows)
    return out.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


# --- streams with a log -----------------------------------------------------------------------------------------------


def test_a_snapshot_has_the_blobs_as_of_its_version_and_their_sizes() -> None:
    account = new_account()
    names = [write(account, seed) for seed in range(3)]
    sizes = {name: len(data) for name, data in visible_blobs(account).items()}
    for version in range(3):
        found = snapshot(account, version)
        assert version == found.version
        assert [name for of_batch in names[: version + 1] for name in of_batch] == [blob.name for blob in found.blobs]
        assert [sizes[blob.name] for blob in found.blobs] == [blob.size for blob in found.blobs]
    assert snapshot(account) == snapshot(account, 2)


def test_blobs_that_no_log_entry_names_are_not_in_the_snapshot() -> None:
    account = new_account()
    names = write(account, 0)
    account.container("container").put("flights/stray.avro", b"Obj")
    assert names == [blob.name for blob in snapshot(account).blobs]


def test_the_schema_is_the_superset_of_those_of_the_live_blobs() -> None:
    account = new_account()
    write(account, 0)
    write(account, 1, WIDER)
    assert ["n", "s"] == [field["name"] for field in snapshot(account).reader_schema.root["fields"]]
    assert ["n"] == [field["name"] for field in snapshot(account, 0).reader_schema.root["fields"]]
    write(account, 2, overwrite=True)
    assert (plan_of(ROWS).avro,) == snapshot(account).schemas


def test_a_version_before_an_overwrite_is_an_error_without_waiting() -> None:
    account = new_account()
    names = write(account, 0)
    write(account, 1, overwrite=True)
    assert names == [blob.name for blob in snapshot(account, 0).blobs]


def test_a_version_that_does_not_exist_is_an_error_that_names_it() -> None:
    account = new_account()
    write(account, 0)
    with pytest.raises(NotFoundError, match=r"read version 1 of \S+flights failed: the newest is 0"):
        snapshot(account, 1)


def decided_only(account: MemoryAccount) -> None:
    with pytest.raises(ProcessDied):
        write(account.restarted(FaultInjector(on("commit_block_list", Crash()))), 0)


def test_a_reader_waits_for_a_batch_that_is_being_published() -> None:
    account = new_account()
    decided_only(account)
    container = account.container("container")
    waits: list[float] = []

    def publish_at_the_third_look(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            log = CommitLog(container, "flights")
            assert [] == Publisher(container).publish(log.read(0), "flights")

    found = take_snapshot(CommitLog(container, "flights"), None, ActingClock(publish_at_the_third_look))
    assert (1, 3) == (len(found.blobs), len(waits))


def test_a_reader_gives_up_on_a_batch_that_nobody_publishes_and_says_what_to_do() -> None:
    account = new_account()
    decided_only(account)
    waits: list[float] = []
    with pytest.raises(
        TransientError, match=r"after 60.0 s: its batch is committed.*Start the writer again.*versionAsOf"
    ):
        take_snapshot(CommitLog(account.container("container"), "flights"), None, ActingClock(waits.append))
    assert 60.0 == sum(waits)


# --- streams without one ----------------------------------------------------------------------------------------------


def test_a_log_that_begins_while_a_reader_lists_the_blobs_is_read_by_its_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = new_account()
    log = CommitLog(account.container("container"), "flights")
    list_blobs = log.container.list

    def after_the_first_batch(prefix: str = "", **more: Any) -> Iterator[BlobProperties]:
        if prefix == "flights/":
            write(account, 1)
        return list_blobs(prefix, **more)

    monkeypatch.setattr(log.container, "list", after_the_first_batch)
    assert 0 == take_snapshot(log, None, no_wait).version


def test_a_folder_of_avro_is_read_by_its_listing() -> None:
    account = new_account()
    container = account.container("container")
    files = {
        "flights/2013/a.avro": avro_file(record(n="long"), [{"n": 1}]),
        "flights/2013/b.avro.gz": gzip.compress(avro_file(record(n="long", s="string"), [{"n": 1, "s": "x"}])),
        "flights/_temporary/c.avro": b"half",
        "flights/2013/.hidden.avro": b"half",
        "flights/_SUCCESS": b"",
        "flights/notes.txt": b"text",
        "flights/empty.avro": b"",
        "flightsuite/d.avro": b"other",
    }
    for name, data in files.items():
        container.put(name, data)
    container.stage_block("flights/staged.avro", "0", b"x")
    found = snapshot(account)
    assert [
        ("flights/2013/a.avro", len(files["flights/2013/a.avro"])),
        ("flights/2013/b.avro.gz", len(files["flights/2013/b.avro.gz"])),
    ] == [(blob.name, blob.size) for blob in found.blobs]
    assert (None, 2) == (found.version, len(found.schemas))
    assert ["n", "s"] == [field["name"] for field in found.reader_schema.root["fields"]]


def test_a_header_longer_than_the_first_request_is_read_whole() -> None:
    account = new_account()
    schema = record(**{f"column_{number:05d}": "long" for number in range(3000)})
    data = avro_file(schema, [])
    assert len(json.dumps(schema)) > 1 << 16
    account.container("container").put("flights/wide.avro", data)
    assert 3000 == len(snapshot(account).reader_schema.root["fields"])


def test_only_the_beginning_of_a_large_file_is_fetched() -> None:
    account = new_account()
    account.container("container").put("flights/a.avro", avro_file(record(s="string"), [{"s": "x" * 500_000}]))
    ranges = []

    class RangeSizes(FaultInjector):
        def attempt(self, request: Any, send: Any) -> Any:
            answer = super().attempt(request, send)
            if request.operation == "get":
                ranges.append(len(answer.data))
            return answer

    take_snapshot(CommitLog(account.restarted(RangeSizes()).container("container"), "flights"), None, no_wait)
    assert [FIRST_REQUEST] == ranges


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_file_that_is_no_avro_is_named(size: int) -> None:
    account = new_account()
    account.container("container").put("flights/bad.avro", b"x" * size)
    with pytest.raises(CorruptError, match=r"flights/bad\.avro"):
        snapshot(account)


def test_nothing_to_read_is_an_error_that_says_where_it_looked() -> None:
    with pytest.raises(NotFoundError, match=r"flights failed: there is no commit log, and no blob with bytes"):
        snapshot(new_account())


def test_a_version_of_a_folder_without_log_is_an_error() -> None:
    account = new_account()
    account.container("container").put("flights/a.avro", avro_file(record(n="long"), []))
    with pytest.raises(NotFoundError, match=r"read the commit log of .* failed: there is none"):
        snapshot(account, 0)


# --- time ranges ------------------------------------------------------------------------------------------------------

NOON_MICROSECONDS = 1_359_633_605_000_000
SECOND = 1_000_000


class AnswerSizes(FaultInjector):
    """Notes the size of every answer to a GET of a data blob."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[tuple[str, int]] = []

    def attempt(self, request: Any, send: Any) -> Any:
        answer = super().attempt(request, send)
        if request.operation == "get" and not request.name.endswith((".json", ".avsc")):
            self.answers.append((request.name, len(answer.data)))
        return answer


def between(
    account: MemoryAccount, start: int | None, end: int | None, requests: AnswerSizes | None = None, **options: Any
) -> Snapshot:
    """A snapshot of a range, given in seconds from noon."""
    first, last = (None if each is None else NOON_MICROSECONDS + each * SECOND for each in (start, end))
    log = CommitLog(account.restarted(requests).container("container"), "flights")
    return take_snapshot(log, None, no_wait, selection=BlobSelection((first, last)), **options)


def test_with_a_log_blobs_outside_the_range_are_left_out_and_the_schema_stays() -> None:
    account = new_account()
    write(account, 0)
    write(account, 1, WIDER)
    requests = AnswerSizes()
    whole, none = between(account, None, None, requests), between(account, 10, 20, requests)
    assert [2, 0] == [len(whole.blobs), len(none.blobs)]
    assert whole.schemas == none.schemas
    assert whole == between(account, -5, 1)
    assert [] == requests.answers


def test_event_times_decide_if_the_log_has_them() -> None:
    account = new_account()
    container = account.container("container")
    times = pa.schema([("at", pa.timestamp("us", tz="UTC"))])
    plan = plan_of(times, eventTimeColumn="at")
    for number in range(3):
        batch = pa.RecordBatch.from_pylist(
            [{"at": NOON_MICROSECONDS + hour * 3600 * SECOND} for hour in (number, 3)], times
        )
        staged = stage_rows(container, plan, [batch.slice(0, 1 + number % 2)], seed=number)
        committer(container, plan, number).commit([staged], Transaction("q", number))
    hour = 3600
    assert [0, 0, 0] == [3 - len(between(account, *each).blobs) for each in [(None, None), (None, 3 * hour), (0, None)]]
    assert [1] == [blob.version for blob in between(account, 3 * hour, 4 * hour).blobs]
    assert [0] == [blob.version for blob in between(account, 0, hour).blobs]
    assert [1, 2] == [blob.version for blob in between(account, 2 * hour, None).blobs]


def capture(account: MemoryAccount, minutes: int, schema: dict[str, Any] | None = None) -> list[str]:
    names = [f"flights/0/2013/01/31/12/{minute:02d}/05.avro" for minute in range(minutes)]
    for name in names:
        account.container("container").put(name, avro_file(schema or record(n="long"), []))
    return names


def test_without_a_log_headers_outside_the_range_are_not_read() -> None:
    account = MemoryAccount(clock=ManualClock(NOON_MICROSECONDS / SECOND + 600))
    account.container("container").create()
    names = capture(account, 9)
    requests = AnswerSizes()
    found = between(account, None, 180, requests)
    assert names[:3] == [blob.name for blob in found.blobs] == sorted(name for name, _ in requests.answers)
    assert [("0", None)] * 3 == [(blob.partition, blob.version) for blob in found.blobs]
    assert 9 == len(between(account, 600, None).blobs)


def test_without_a_log_an_empty_range_has_the_newest_blobs_schema() -> None:
    account = MemoryAccount(clock=ManualClock(NOON_MICROSECONDS / SECOND + 600))
    account.container("container").create()
    capture(account, 2)
    requests = AnswerSizes()
    found = between(account, 700, None, requests)
    assert ((), ["n"]) == (found.blobs, [field["name"] for field in found.reader_schema.root["fields"]])
    assert 1 == len(requests.answers)


# --- headers ----------------------------------------------------------------------------------------------------------


def test_headers_are_read_concurrently() -> None:
    account = new_account()
    wide = record(**{f"column_{number}": "long" for number in range(5)})
    names = [*capture(account, 40), *capture(account, 1, wide)]
    inside, most, begun = 0, 0, 0
    lock, together = threading.Lock(), threading.Barrier(16, timeout=60)

    class Together(FaultInjector):
        def attempt(self, request: Any, send: Any) -> Any:
            nonlocal inside, most, begun
            if request.operation != "get" or not request.name.endswith(".avro"):
                return super().attempt(request, send)
            with lock:
                inside, most, begun = inside + 1, max(most, inside + 1), begun + 1
                is_first = begun <= 16
            if is_first:
                together.wait()
            answer = super().attempt(request, send)
            with lock:
                inside -= 1
            return answer

    found = take_snapshot(CommitLog(account.restarted(Together()).container("container"), "flights"), None, no_wait)
    assert sorted(set(names)) == [blob.name for blob in found.blobs]
    assert 2 == len(found.schemas)
    assert 16 == most


def test_damaged_headers_are_an_error_or_skipped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    account = new_account()
    names = capture(account, 3)
    stopped = avro_file(record(n="long"), [])[:-1]
    account.container("container").put(names[1], stopped)
    with pytest.raises(CorruptError, match=rf"{names[1]} at byte {len(stopped) - 15} failed: it stops within the sync"):
        snapshot(account)
    found = between(account, None, None, listing=ListingRules(ignore_corrupt=True))
    assert [names[0], names[2]] == [blob.name for blob in found.blobs]
    assert [True] == [names[1] in record.getMessage() for record in caplog.records]


def test_a_header_whose_schema_is_no_schema_is_damage_too() -> None:
    account = new_account()
    names = capture(account, 2)
    account.container("container").put(names[0], header('{"type":"recor', "null", bytes(range(16))))
    with pytest.raises(CorruptError, match=rf"blob {names[0]} failed: the schema in its header"):
        snapshot(account)
    assert names[1:] == [
        blob.name for blob in between(account, None, None, listing=ListingRules(ignore_corrupt=True)).blobs
    ]


def test_a_header_that_breaks_the_specification_is_no_damage() -> None:
    account = new_account()
    (name,) = capture(account, 1)
    odd = '{"type":"record","name":"my row","fields":[{"name":"größe","type":"int","default":null}]}'
    account.container("container").put(name, header(odd, "null", bytes(range(16))))
    (schema,) = snapshot(account).schemas
    assert ["größe"] == [member.name for member in schema.type.fields]
    assert not schema.given


def test_if_every_header_is_damaged_nothing_can_be_read() -> None:
    account = new_account()
    account.container("container").put("flights/a.avro", b"x" * 100)
    with pytest.raises(NotFoundError, match=r"no blob has a whole header"):
        between(account, None, None, listing=ListingRules(ignore_corrupt=True))


def test_only_the_beginning_of_a_large_gzip_is_fetched() -> None:
    account = new_account()
    rows = [{"s": random.Random(1).randbytes(300_000).hex()}]
    account.container("container").put("flights/a.avro.gz", gzip.compress(avro_file(record(s="string"), rows)))
    requests = AnswerSizes()
    between(account, None, None, requests)
    assert sum(size for _, size in requests.answers) < 100_000


def test_a_nested_stream_is_not_part_of_the_stream() -> None:
    account = new_account()
    account.container("container").put("flight.avro", avro_file(record(n="long"), []))
    account.container("container").put("x/a.avro", avro_file(record(n="long"), []))
    container, plan = account.container("container"), plan_of(ROWS, "container/x/inner")
    staged = stage_rows(container, plan, [pa.RecordBatch.from_pylist([{"n": 1}], ROWS)])
    committer(container, plan).commit([staged], Transaction("q", 0))
    found = take_snapshot(CommitLog(container, "x"), None, no_wait)
    assert ["x/a.avro"] == [blob.name for blob in found.blobs]
    assert 1 == len(take_snapshot(CommitLog(container, "x/inner"), None, no_wait).blobs)


# --- batches that are not published yet -------------------------------------------------------------------------------


def expired(account: MemoryAccount) -> None:
    """A committed batch whose staged blocks have expired, so that it can never be published."""
    decided_only(account)
    clock = account.clock
    assert isinstance(clock, ManualClock)
    clock.advance(8 * 24 * 3600)


@pytest.mark.parametrize("repeat", [True, False])
def test_a_batch_that_is_replaced_or_voided_while_a_reader_waits_is_read_as_the_log_then_says(repeat: bool) -> None:
    account = new_account()
    expired(account)
    waits = 0

    def go_on_at_the_second_look(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 2:
            write(account, 0 if repeat else 1, again=1)

    found = take_snapshot(
        CommitLog(account.container("container"), "flights"), None, ActingClock(go_on_at_the_second_look)
    )
    visible = list(visible_blobs(account))
    assert (2, 1) == (waits, len(visible))
    # The void is version 1, the repeat that replaces it version 2; another batch is none of this reader's business.
    assert ((2, visible) if repeat else (1, [])) == (found.version, [blob.name for blob in found.blobs])
    assert visible == [blob.name for blob in snapshot(account).blobs]


@pytest.mark.parametrize("repeat", [True, False])
def test_a_read_as_of_a_revoked_version_does_not_have_its_batch(repeat: bool) -> None:
    account = new_account()
    names = write(account, 7)
    with pytest.raises(ProcessDied):
        write(account.restarted(FaultInjector(on("commit_block_list", Crash(), skip=1))), 8)
    clock = account.clock
    assert isinstance(clock, ManualClock)
    clock.advance(8 * 24 * 3600)
    write(account, 8 if repeat else 9, again=1)
    assert (1, names) == ((found := snapshot(account, 1)).version, [blob.name for blob in found.blobs])


def voided_overwrite(account: MemoryAccount) -> None:
    """A committed overwrite whose staged blocks have expired: the next batch of another query voids it."""
    with pytest.raises(ProcessDied):
        write(account.restarted(FaultInjector(on("commit_block_list", Crash(), skip=1))), 8, overwrite=True)
    clock = account.clock
    assert isinstance(clock, ManualClock)
    clock.advance(8 * 24 * 3600)


def test_what_an_overwrite_was_to_remove_is_read_if_that_is_voided_while_a_reader_waits() -> None:
    account = new_account()
    names = write(account, 7)
    voided_overwrite(account)
    container = account.container("container")
    clock = ActingClock(lambda _: write(account, 9, again=1))
    found = take_snapshot(CommitLog(container, "flights"), None, clock)
    assert (2, names) == (found.version, [blob.name for blob in found.blobs])


def test_a_read_as_of_a_voided_overwrite_has_what_was_there_before() -> None:
    account = new_account()
    names = write(account, 7, WIDER)
    voided_overwrite(account)
    write(account, 9, again=1)
    found = snapshot(account, 1)
    assert (1, names) == (found.version, [blob.name for blob in found.blobs])
    assert ["n", "s"] == [field["name"] for field in found.reader_schema.root["fields"]]


def test_many_unpublished_blobs_are_checked_concurrently_and_each_visible_one_once() -> None:
    account = new_account()
    container = account.container("container")
    plan = plan_of(ROWS, maxMessagesPerBlob=1)
    batch = pa.RecordBatch.from_pylist([{"n": n} for n in range(40)], ROWS)
    dying = account.restarted(FaultInjector(on("commit_block_list", Crash(), skip=30)))
    with pytest.raises(ProcessDied):
        committer(dying.container("container"), plan).commit(
            [stage_rows(dying.container("container"), plan, [batch])], Transaction("q", 0)
        )
    looks = FaultInjector()

    def publish(seconds: float) -> None:
        assert [] == Publisher(container).publish(CommitLog(container, "flights").read(0), "flights")

    found = take_snapshot(
        CommitLog(account.restarted(looks).container("container"), "flights"), None, ActingClock(publish)
    )
    assert 40 == len(found.blobs)
    seen = [each.name for each in looks.attempts if each.operation == "properties" and each.name.endswith(".avro")]
    assert 40 == len(set(seen))
    assert len(seen) <= 40 + 10


def test_the_publish_timeout_is_the_callers_and_the_error_names_the_next_step() -> None:
    account = new_account()
    decided_only(account)
    waits: list[float] = []
    with pytest.raises(TransientError, match=r"after 2.0 s: .*python -m azureblob_source repair"):
        take_snapshot(
            CommitLog(account.container("container"), "flights"), None, ActingClock(waits.append), publish_timeout=2.0
        )
    assert 2.0 == sum(waits)


def test_entries_before_the_last_overwrite_are_not_read() -> None:
    account = new_account()
    for seed in range(40):
        write(account, seed)
    names = write(account, 40, overwrite=True) + write(account, 41)
    requests = FaultInjector()
    found = take_snapshot(CommitLog(account.restarted(requests).container("container"), "flights"), None, no_wait)
    assert names == [blob.name for blob in found.blobs]
    assert len([each for each in requests.attempts if each.operation == "get" and "/_log/" in each.name]) < 10
    assert 40 == len(snapshot(account, 39).blobs)


def test_a_blob_whose_schema_has_no_columns_is_named_and_the_advice_helps() -> None:
    account = new_account()
    container = account.container("container")
    tree = record(v="long", next=["null", "row"])
    container.put("flights/a.avro", avro_file(record(v="long"), [{"v": 1}]))
    container.put("flights/b.avro", avro_file(tree, [{"v": 2, "next": {"v": 3, "next": None}}]))
    found = snapshot(account)
    with pytest.raises(ConfigurationError, match="read blob flights/b.avro failed: .*record row contains itself"):
        _ = found.reader_schema
    reader = parse(json.dumps(record(v="long")))
    rows = [
        row
        for _, batch in read_splits(container, list(split_blobs(found.blobs)), SplitSettings(reader=reader))
        for row in batch.to_pylist()
    ]
    assert [{"v": 1}, {"v": 2}] == rows
