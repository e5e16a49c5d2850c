"""The rows of splits: each row once, whatever the splits; requests and read-ahead; faults of storage; damage."""

from __future__ import annotations

import gzip
import io
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import metrics as telemetry

from arrow_avro import CODECS, DEFAULT_LIMITS, SYNC_SIZE, ReadLimits, block, blocks, header, parse, read_header
from arrow_avro.varint import encode
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import (
    Crash,
    FaultInjector,
    LostAnswer,
    ProcessDied,
    Reset,
    Throttle,
    TimeOut,
    Unreachable,
    always,
    on,
)
from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source import metrics
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.read_ahead import REQUEST_BYTES, ReadAhead
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import Split, split_blobs
from foundation.errors import ConfigurationError, ConflictError, CorruptError, NotFoundError, TransientError
from tests.arrow_avro.sync_marker import SYNC
from tests.azureblob_source.read.request_sizes import request_sizes
from tests.azureblob_source.test_metrics import Meter
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from azure_account.container import BlobContainer

FOUR = b"\x01\x02\x03\x04" * 4
ROW = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "n", "type": "long"}, {"name": "data", "type": ["null", "bytes"]}],
}
NAME = "s/1.avro"
WAIT = 60.0
"""Seconds (s) after which a test that would hang fails instead."""


def avro_file(rows: Sequence[Any], *, codec: str = "null", sync: bytes = SYNC, interval: int = 200) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, ROW, rows, codec=codec, sync_marker=sync, sync_interval=interval)
    return out.getvalue()


def numbered(count: int, size: int = 20) -> list[dict[str, Any]]:
    return [{"n": number, "data": bytes([number % 251]) * size} for number in range(count)]


def stored(**blobs: bytes) -> tuple[MemoryAccount, list[StreamBlob]]:
    """An account with the blobs `s/<name>`; `__` in a name is a dot."""
    account = new_account()
    found = []
    for name, data in blobs.items():
        blob = StreamBlob(f"s/{name.replace('__', '.')}", len(data))
        account.container("container").put(blob.name, data)
        found.append(blob)
    return account, found


def holding(data: bytes, name: str = NAME) -> BlobContainer:
    account = new_account()
    account.container("container").put(name, data)
    return account.container("container")


def rows_of(container: BlobContainer, splits: Sequence[Split], **options: Any) -> list[Any]:
    return [row for _, batch in read_splits(container, splits, SplitSettings(**options)) for row in batch.to_pylist()]


def splits_of(data: bytes, size: int, name: str = NAME) -> list[Split]:
    return list(split_blobs([StreamBlob(name, len(data))], size))


def read_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("azureblob-read")]


def assert_no_threads() -> None:
    for thread in read_threads():
        thread.join(WAIT)
    assert [] == read_threads()


@pytest.fixture
def small_requests() -> Iterator[None]:
    with request_sizes(1000, 100, least_charge=1):
        yield


# --- any split --------------------------------------------------------------------------------------------------------


def lookalikes(sync: bytes) -> st.SearchStrategy[bytes]:
    """Values that contain the marker, plausible block headers after it, and whole Avro files with the same marker."""
    return st.one_of(
        st.binary(max_size=60),
        st.just(sync),
        st.integers(0, 60).map(lambda size: sync + bytes([2, size * 2]) + bytes(size)),
        st.integers(0, 20).map(lambda size: b"".join((sync, *block(1, bytes(size), sync)))),
        st.integers(0, 3).map(lambda count: avro_file(numbered(count), sync=sync, interval=10)),
    )


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    sync = draw(st.one_of(st.just(SYNC), st.just(FOUR), st.binary(min_size=SYNC_SIZE, max_size=SYNC_SIZE)))
    rows = draw(st.lists(st.builds(lambda n, data: {"n": n, "data": data}, st.integers(0, 9), lookalikes(sync))))
    codec = draw(st.sampled_from(CODECS))
    return avro_file(rows, codec=codec, sync=sync, interval=draw(st.integers(1, 300))), rows


@settings(deadline=None, max_examples=80)
@given(files(), st.integers(1, 500), st.integers(1, 300), st.integers(1, 100))
def test_any_split_gives_every_row_once(file: tuple[bytes, list[Any]], size: int, piece: int, look: int) -> None:
    data, rows = file
    container = holding(data)
    splits = splits_of(data, max(size, len(data) // 40))
    with request_sizes(piece, look):
        try:
            assert rows == rows_of(container, splits)
            assert rows == [row for split in splits for row in rows_of(container, [split])]
        except ConfigurationError as error:
            assert "imitate" in str(error)  # noqa: PT017 - or else the rows are right


@pytest.mark.parametrize("codec", CODECS)
def test_splits_of_a_single_byte_give_every_row_once(codec: str) -> None:
    rows = numbered(9)
    data = avro_file(rows, codec=codec, interval=40)
    assert rows == rows_of(holding(data), splits_of(data, 1))


@pytest.mark.parametrize("size", [1 << 15, 1 << 18, 1 << 22, 1 << 25])
def test_requests_of_the_real_size(size: int) -> None:
    rows = numbered(90, 100_000)
    data = avro_file(rows, interval=1 << 18)
    assert len(data) > 2 * REQUEST_BYTES
    splits = splits_of(data, size)
    assert rows == rows_of(holding(data), splits[:1]) + rows_of(holding(data), splits[1:])


def _read_or_refused(data: bytes, size: int, rows: list[Any]) -> str:
    try:
        assert rows == rows_of(holding(data), splits_of(data, size))
    except ConfigurationError as error:
        assert "maxPartitionBytes" in str(error)  # noqa: PT017 - one of two right ends
        return "refused"
    return "read"


@pytest.mark.usefixtures("small_requests")
def test_a_crafted_imitation_is_an_error_and_never_wrong_rows() -> None:
    false = avro_file([{"n": 666, "data": b"false"}])
    rows = [*numbered(40), {"n": 1, "data": b"a" * 500 + false[read_header(false).size - SYNC_SIZE :] + b"b" * 9000}]
    data = avro_file([*rows, *numbered(40)])
    seen = Counter(_read_or_refused(data, size, [*rows, *numbered(40)]) for size in range(500, len(data) + 1, 97))
    assert seen["refused"]
    assert seen["read"]
    assert [*rows, *numbered(40)] == rows_of(holding(data), splits_of(data, len(data)))


def test_a_header_longer_than_the_first_request_is_read_by_every_split() -> None:
    wide = {**ROW, "doc": "x" * 300_000}
    out = io.BytesIO()
    fastavro.writer(out, wide, numbered(20_000), sync_marker=SYNC)
    for size in (1 << 14, 1 << 16, 100_001, 1 << 19):
        splits = splits_of(out.getvalue(), size)
        assert numbered(20_000) == [row for split in splits for row in rows_of(holding(out.getvalue()), [split])]


@pytest.mark.usefixtures("small_requests")
@pytest.mark.parametrize("sync", [SYNC, FOUR])
@pytest.mark.parametrize("members", [1, 7])
def test_gzip_under_any_name_is_read_by_the_first_split(sync: bytes, members: int) -> None:
    plain = avro_file(numbered(500), sync=sync)
    step = -(-len(plain) // members)
    data = b"".join(gzip.compress(plain[at : at + step]) for at in range(0, len(plain), step))
    splits = splits_of(data, 700)
    assert numbered(500) == rows_of(holding(data), splits[:1])
    assert [] == rows_of(holding(data), splits[1:])
    assert numbered(500) == rows_of(holding(data, "s/1.avro.gz"), splits_of(data, 700, "s/1.avro.gz"))


@pytest.mark.usefixtures("small_requests")
def test_a_marker_that_is_not_random_is_read_by_the_first_split() -> None:
    data = avro_file(numbered(500), sync=FOUR)
    splits = splits_of(data, 1500)
    assert numbered(500) == rows_of(holding(data), splits[:1])
    assert [] == rows_of(holding(data), splits[1:])


def test_empty_blobs_and_headers_alone_have_no_rows() -> None:
    account, blobs = stored(a__avro=b"", b__avro=avro_file([]), c__avro__gz=gzip.compress(b""))
    assert [] == rows_of(account.container("container"), list(split_blobs(blobs)))
    assert [] == rows_of(account.container("container"), [])


def test_batches_come_with_their_split_in_order() -> None:
    files = {f"{name}__avro": avro_file(numbered(count)) for name, count in (("a", 30), ("b", 0), ("c", 5))}
    account, blobs = stored(**files)
    found = Counter[Split]()
    order = []
    for split, batch in read_splits(account.container("container"), list(split_blobs(blobs)), SplitSettings()):
        found[split] += batch.num_rows
        order.append(split)
    assert {Split(blobs[0]): 30, Split(blobs[2]): 5} == found
    assert sorted(order, key=lambda split: split.blob.name) == order


def test_rows_are_those_of_the_reader_and_the_columns() -> None:
    data = avro_file(numbered(3))
    wider = {**ROW, "fields": [*ROW["fields"], {"name": "more", "type": "long", "default": 7}]}
    found = rows_of(holding(data), splits_of(data, 60), reader=parse(json.dumps(wider)), columns=["more", "n"])
    assert [{"more": 7, "n": number} for number in range(3)] == found


# --- requests ---------------------------------------------------------------------------------------------------------


class RecordedGets(Intercept):
    """Records every GET: its blob and size. `before` is called first, on the thread that makes the request."""

    def __init__(self, before: Callable[[Request], None] | None = None) -> None:
        self.sizes: list[tuple[str, int]] = []
        self.done = threading.Semaphore(0)
        self._before = before
        self._lock = threading.Lock()

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        if request.operation != "get":
            return send()
        if self._before:
            self._before(request)
        answer = send()
        with self._lock:
            self.sizes.append((request.name, len(answer.data)))
        self.done.release()
        return answer

    @property
    def total(self) -> int:
        with self._lock:
            return sum(size for _, size in self.sizes)


def watched(account: MemoryAccount, watch: Intercept) -> BlobContainer:
    return account.restarted(watch).container("container")


def test_a_small_blob_costs_one_request() -> None:
    account, blobs = stored(**{f"{number:03d}__avro": avro_file(numbered(2)) for number in range(50)})
    watch = RecordedGets()
    assert numbered(2) * 50 == rows_of(watched(account, watch), list(split_blobs(blobs)))
    assert sorted((blob.name, blob.size) for blob in blobs) == sorted(watch.sizes)


def test_a_blob_in_splits_costs_little_more_than_its_size() -> None:
    data = avro_file(numbered(120, 100_000), interval=1 << 18)
    account, (blob,) = stored(a__avro=data)
    watch = RecordedGets()
    for split in split_blobs([blob], 3 << 20):
        rows_of(watched(account, watch), [split])
    assert len(data) <= watch.total <= len(data) * 1.25


@pytest.mark.usefixtures("small_requests")
def test_bytes_are_fetched_ahead_and_no_more_than_the_budget() -> None:
    account, blobs = stored(a__avro=avro_file(numbered(300)), b__avro=avro_file(numbered(300)))
    budget, longest = 5000, 300
    watch = RecordedGets()
    found = read_splits(
        watched(account, watch), list(split_blobs(blobs, 1 << 20)), SplitSettings(budget=budget, columns=["n"])
    )
    rows = 0
    for _, batch in found:
        rows += batch.num_rows
        # The rows that are out were read from at least so many bytes; the others wait in the decoder.
        assert watch.total <= sum(blob.size for blob in blobs)
    assert 600 == rows
    assert_no_threads()

    watch = RecordedGets()
    ahead = ReadAhead(watched(account, watch), list(split_blobs(blobs, 1 << 20)), 4, budget)
    with ahead:
        assert all(watch.done.acquire(timeout=WAIT) for _ in range(budget // 1000))  # fetched before the reader asks
        for _, source in ahead:
            for at in range(0, source.clip(1 << 20), longest):
                source.forget(at)
                source.read(at, source.clip(at + longest))
                assert ahead.charged <= budget + 1000
    assert sum(blob.size for blob in blobs) == watch.total
    assert 0 == ahead.charged


def resized(data: bytes, number: int, size: int) -> bytes:
    """The file with another size in its block of that number."""
    there = list(blocks(data, read_header(data)))[number]
    body = there.end - SYNC_SIZE - len(there.body)
    return data[: there.offset] + encode(there.rows) + encode(size) + data[body:]


@pytest.mark.usefixtures("small_requests")
@pytest.mark.parametrize("sync", [SYNC, FOUR])
def test_a_size_is_accepted_only_if_a_marker_is_where_the_block_would_end(sync: bytes) -> None:
    data = avro_file(numbered(2_000, 1_000), interval=20_000, sync=sync)
    size = len(next(blocks(data, read_header(data))).body)
    broken = resized(data, 1, size * 64 - 7)
    account, (blob,) = stored(a__avro=broken)
    watch = RecordedGets()
    split = next(split_blobs([blob], 50_000)) if sync == SYNC else Split(blob)
    limits = DEFAULT_LIMITS if sync == SYNC else ReadLimits(block_bytes=size * 2)
    with pytest.raises(CorruptError, match="does not end with the file's sync marker"):
        list(read_splits(watched(account, watch), [split], SplitSettings(budget=50_000, limits=limits)))
    assert watch.total < 110_000 < len(data) // 10


@pytest.mark.usefixtures("small_requests")
def test_a_size_beyond_the_blob_is_corrupt_and_fetches_nothing() -> None:
    data = avro_file(numbered(400, 1_000), interval=20_000)
    account, (blob,) = stored(a__avro=resized(data, 1, len(data)))
    watch = RecordedGets()
    with pytest.raises(CorruptError, match="it stops within the body of a block"):
        list(read_splits(watched(account, watch), list(split_blobs([blob], 50_000))[:1], SplitSettings(budget=50_000)))
    assert watch.total < 110_000 < len(data) // 3


@pytest.mark.usefixtures("small_requests")
def test_a_block_that_is_larger_than_its_split_costs_a_small_request_more() -> None:
    data = avro_file(numbered(30, 9_000), interval=100_000)
    account, (blob,) = stored(a__avro=data)
    watch = RecordedGets()
    assert numbered(30, 9_000)[:12] == rows_of(watched(account, watch), list(split_blobs([blob], 1_000))[:1])[:12]
    assert 1 <= sum(size == SYNC_SIZE for _, size in watch.sizes) <= 2


def test_a_block_beyond_the_limit_is_no_damage_and_the_advice_helps() -> None:
    data = avro_file(numbered(30, 9_000), interval=100_000)
    with pytest.raises(
        ConfigurationError, match=r"read blob s/1.avro, block from byte \d+, .* Raise option maxBlockBytes"
    ):
        rows_of(holding(data), splits_of(data, 1 << 20), limits=ReadLimits(block_bytes=100_000), ignore_corrupt=True)
    raised = ReadLimits(block_bytes=120_000)
    assert numbered(30, 9_000) == rows_of(holding(data), splits_of(data, 1 << 20), limits=raised)


@pytest.mark.usefixtures("small_requests")
def test_a_block_larger_than_the_budget_is_read() -> None:
    data = avro_file(numbered(10, 20_000), interval=1 << 20)
    assert numbered(10, 20_000) == rows_of(holding(data), splits_of(data, 1 << 20), budget=3000)


@pytest.mark.usefixtures("small_requests")
def test_nothing_is_fetched_before_the_first_row_is_asked_for() -> None:
    account, blobs = stored(a__avro=avro_file(numbered(300)))
    watch = RecordedGets()
    read_splits(watched(account, watch), list(split_blobs(blobs)), SplitSettings())
    assert [] == watch.sizes
    assert_no_threads()


@pytest.mark.usefixtures("small_requests")
def test_closing_early_ends_the_threads_and_the_fetching() -> None:
    account, blobs = stored(a__avro=avro_file(numbered(10)), b__avro=avro_file(numbered(30_000)))
    watch = RecordedGets()
    found = read_splits(watched(account, watch), list(split_blobs(blobs, 1 << 21)), SplitSettings(budget=8000))
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert_no_threads()
    assert watch.total <= 8000 + 1000


@pytest.mark.usefixtures("small_requests")
def test_a_failure_ends_the_threads() -> None:
    data = avro_file(numbered(3000))
    broken = data[:2000] + b"\xff" * 40 + data[2040:]
    with pytest.raises(CorruptError):
        rows_of(holding(broken), splits_of(broken, 1 << 20))
    assert_no_threads()


# --- faults of storage ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_requests")
@pytest.mark.parametrize("fault", [Throttle(), Unreachable(), TimeOut(), Reset(), LostAnswer()])
def test_transient_faults_are_retried(fault: Any) -> None:
    account, blobs = stored(a__avro=avro_file(numbered(300)), b__avro=avro_file(numbered(9)))
    faults = FaultInjector(on("get", fault, times=2, skip=3), on("get", fault, times=1, skip=7))
    found = rows_of(watched(account, faults), list(split_blobs(blobs, 2000)))
    assert numbered(300) + numbered(9) == found


def test_a_service_that_stays_away_is_a_transient_error() -> None:
    account, blobs = stored(a__avro=avro_file(numbered(300)))
    with pytest.raises(TransientError, match=r"a\.avro"):
        rows_of(watched(account, FaultInjector(always(Unreachable()))), list(split_blobs(blobs)))
    assert_no_threads()


@pytest.mark.usefixtures("small_requests")
def test_a_killed_process_leaves_no_threads() -> None:
    account, blobs = stored(a__avro=avro_file(numbered(3000)))
    with pytest.raises(ProcessDied):
        rows_of(watched(account, FaultInjector(on("get", Crash(), skip=5))), list(split_blobs(blobs)))
    assert_no_threads()


def test_a_deleted_blob_is_an_error_even_if_corrupt_blobs_are_ignored() -> None:
    account, blobs = stored(a__avro=avro_file(numbered(3)))
    account.container("container").delete("s/a.avro")
    for ignore in (False, True):
        with pytest.raises(
            NotFoundError, match=r"read blob s/a\.avro in memory://\S+ failed: the blob is gone; .*versionAsOf"
        ):
            rows_of(account.container("container"), list(split_blobs(blobs)), ignore_corrupt=ignore)


@pytest.mark.usefixtures("small_requests")
@pytest.mark.parametrize("ignore", [False, True])
def test_a_blob_that_is_replaced_between_two_requests_is_a_conflict(ignore: bool) -> None:
    data = avro_file(numbered(3000))
    account, blobs = stored(a__avro=data)
    gets = 0

    def replace_before_the_third(request: Request) -> None:
        nonlocal gets
        gets += 1
        if gets == 3:
            account.container("container").put("s/a.avro", avro_file(numbered(3000, 7)))

    container = watched(account, RecordedGets(replace_before_the_third))
    with pytest.raises(ConflictError, match=r"read blob s/a\.avro in \S+ failed: the blob was replaced"):
        rows_of(container, list(split_blobs(blobs)), threads=1, ignore_corrupt=ignore)


def test_a_blob_that_is_not_the_listed_one_is_a_conflict() -> None:
    account, _ = stored(a__avro=avro_file(numbered(3)))
    (listed,) = account.container("container").list()
    split = Split(StreamBlob(listed.name, listed.size, etag=listed.etag))
    assert numbered(3) == rows_of(account.container("container"), [split])
    account.container("container").put("s/a.avro", avro_file(numbered(3, 7)))
    with pytest.raises(ConflictError, match="was replaced"):
        rows_of(account.container("container"), [split])


@pytest.mark.usefixtures("small_requests")
def test_a_blob_that_is_longer_than_was_known_is_read_whole() -> None:
    data = avro_file(numbered(500))
    assert numbered(500) == rows_of(holding(data), [Split(StreamBlob(NAME, 1500))])


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str, str]]:
    """What a telemetry SDK would have counted."""
    sums: Counter[tuple[str, str, str]] = Counter()
    monkeypatch.setattr(telemetry, "get_meter", lambda *_: Meter(sums))
    monkeypatch.setattr(metrics.METERS, "_made", {})
    return sums


def whole_blocks(data: bytes, left: int) -> list[Any]:
    """The rows of the blocks that lie in the first `left` bytes."""
    stream = io.BytesIO(data)
    return [row for one in fastavro.block_reader(stream) if one.offset + one.size <= left for row in one]


def test_a_blob_that_stops_anywhere_is_an_error_or_its_whole_blocks(counted: Counter[Any]) -> None:
    data = avro_file(numbered(12), interval=60)
    ends = [one.offset + one.size for one in fastavro.block_reader(io.BytesIO(data))]
    head = read_header(data).size
    for left in range(1, len(data)):
        container = holding(data[:left])
        splits = splits_of(data[:left], 1 << 20)
        if left in (head, *ends):
            assert whole_blocks(data, left) == rows_of(container, splits)
            continue
        with pytest.raises(CorruptError, match=r"blob s/1\.avro at byte \d+ failed: it stops within"):
            rows_of(container, splits)
        before = counted["azureblob.corruptBlobs", "aggregate", ""]
        assert whole_blocks(data, left) == rows_of(container, splits, ignore_corrupt=True)
        assert before + 1 == counted["azureblob.corruptBlobs", "aggregate", ""]
        assert before + 1 == counted["azureblob.corruptBlobs", "system", "container"]


@given(st.integers(0, 1 << 20), st.integers(1, 255), st.sampled_from(CODECS), st.integers(50, 400))
@settings(deadline=None)
def test_a_damaged_byte_never_adds_rows_and_never_hangs(place: int, flip: int, codec: str, size: int) -> None:
    rows = numbered(40)
    data = bytearray(avro_file(rows, codec=codec, interval=100))
    head = read_header(bytes(data)).size
    data[head + place % (len(data) - head)] ^= flip
    container = holding(bytes(data))
    try:
        assert len(rows) >= len(rows_of(container, splits_of(bytes(data), size), ignore_corrupt=True))
    except ConfigurationError as error:
        assert "imitate" in str(error)  # noqa: PT017 - a damaged marker can do that


def damaged(data: bytes, block_number: int) -> tuple[bytes, int]:
    """The file with a broken body, and where that block begins."""
    found = list(fastavro.block_reader(io.BytesIO(data)))
    framed = found[block_number]
    body = framed.offset + framed.size - SYNC_SIZE - 5
    return data[:body] + b"\xff" * 4 + data[body + 4 :], framed.offset


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_rows_before_the_damage_are_kept_and_the_warning_names_blob_and_byte(
    codec: str, counted: Counter[Any], caplog: pytest.LogCaptureFixture
) -> None:
    rows = numbered(100)
    undamaged = avro_file(rows, codec=codec, interval=300)
    data, offset = damaged(undamaged, 3)
    kept = whole_blocks(undamaged, offset)
    with pytest.raises(CorruptError, match=rf"blob s/1\.avro failed: in the block from byte {offset},"):
        rows_of(holding(data), splits_of(data, 1 << 20))
    found = rows_of(holding(data), splits_of(data, 1 << 20), ignore_corrupt=True)
    assert kept == found
    assert found == rows[: len(found)]
    assert found
    assert 1 == counted["azureblob.corruptBlobs", "aggregate", ""]
    (record,) = caplog.records
    assert "s/1.avro" in record.getMessage()
    assert f"byte {offset}" in record.getMessage()


def test_other_splits_and_blobs_are_read_though_one_is_damaged(counted: Counter[Any]) -> None:
    rows = numbered(100)
    data, offset = damaged(avro_file(rows, codec="deflate", interval=300), 3)
    account, blobs = stored(a__avro=data, b__avro=b"no Avro at all", c__avro=avro_file(numbered(5)))
    found = rows_of(account.container("container"), list(split_blobs(blobs, offset // 2)), ignore_corrupt=True)
    assert rows[-1] in found
    assert numbered(5) == found[-5:]
    assert len(found) == len({(row["n"], len(row["data"])) for row in found[:-5]}) + 5
    assert 2 <= counted["azureblob.corruptBlobs", "aggregate", ""]


def test_rows_that_were_yielded_before_the_damage_are_not_yielded_again() -> None:
    many = avro_file([{"n": number, "data": None} for number in range(25_000)], interval=1 << 20)
    head = read_header(many)
    more = header(head.schema_json, "null", SYNC) + many[head.size :] + b"".join(block(2, b"\x02\x00\xff", SYNC))
    found = rows_of(holding(more), splits_of(more, 1 << 30), ignore_corrupt=True)
    assert list(range(25_000)) == [row["n"] for row in found[:25_000]]
    assert len(found) <= 25_001


def test_a_schema_that_does_not_resolve_is_never_ignored() -> None:
    data = avro_file(numbered(3))
    other = parse('{"type":"record","name":"row","fields":[{"name":"n","type":"string"}]}')
    with pytest.raises(ConfigurationError):
        rows_of(holding(data), splits_of(data, 1 << 20), reader=other, ignore_corrupt=True)


def test_a_value_that_does_not_fit_is_never_ignored() -> None:
    far = avro_file([{"n": 2**62, "data": None}])
    instant = '{"type":"long","logicalType":"timestamp-millis"}'
    reader = parse(f'{{"type":"record","name":"row","fields":[{{"name":"n","type":{instant}}}]}}')
    with pytest.raises(ConfigurationError, match="column 'n': .* plain long for that column"):
        rows_of(holding(far), splits_of(far, 1 << 20), reader=reader, ignore_corrupt=True)


def test_an_imitation_is_never_ignored() -> None:
    sync = SYNC
    body = b"a" * 50 + sync + b"".join(block(1, b"\x00\x00", sync)) + b"b" * 50
    data = avro_file([{"n": 0, "data": body}, *numbered(9)])
    with pytest.raises(ConfigurationError, match="imitate"):
        rows_of(holding(data), [Split(StreamBlob(NAME, len(data)), 0, data.index(b"a" * 50))], ignore_corrupt=True)


def test_truncated_gzip_has_the_rows_before_its_end() -> None:
    data = gzip.compress(avro_file(numbered(3000, 30), interval=500), mtime=0)
    stopped = data[: len(data) * 2 // 3]
    with pytest.raises(CorruptError, match="gzip member"):
        rows_of(holding(stopped), splits_of(stopped, 1 << 20))
    found = rows_of(holding(stopped), splits_of(stopped, 1 << 20), ignore_corrupt=True)
    assert numbered(3000, 30)[: len(found)] == found
    assert found


def test_batches_have_the_requested_schema() -> None:
    data = avro_file(numbered(3))
    ((_, batch),) = read_splits(holding(data), splits_of(data, 1 << 20), SplitSettings(columns=["n"]))
    assert pa.schema([pa.field("n", pa.int64(), nullable=False)]) == batch.schema


@pytest.mark.parametrize("missing", [1, 20, 100])
def test_a_blob_that_is_shorter_than_the_log_says_is_damaged_wherever_it_ends(missing: int) -> None:
    account = new_account()
    container = account.container("container")
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    plan = plan_of(rows.schema)
    committer(container, plan).commit([stage_rows(container, plan, [rows])], None)
    (blob,) = take_snapshot(CommitLog(container, "flights"), None).blobs
    container.put(blob.name, container.get(blob.name).data[:-missing])
    size = blob.size - missing
    with pytest.raises(CorruptError, match=rf"{blob.name} .*ends at byte {size}, by the log it has {blob.size} bytes"):
        list(read_splits(container, [Split(blob)], SplitSettings()))
    assert [] == list(read_splits(container, [Split(blob)], SplitSettings(ignore_corrupt=True)))
