from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

from azure_account.errors import CorruptError, NotFoundError, TransientError
from azure_account.faults import Crash, Faults, ProcessDied, on
from azureblob_source.commit import Publisher
from azureblob_source.commit_log import CommitLog
from azureblob_source.listing import take_snapshot
from azureblob_source.log_entry import Transaction
from tests.azureblob_source.sink_rows import committer, new_account, plan_of, public_blobs, stage_rows

if TYPE_CHECKING:
    from azure_account.memory import MemoryAccount
    from azureblob_source.listing import Snapshot

ROWS = pa.schema([("n", pa.int64())])
WIDER = pa.schema([("n", pa.int64()), ("s", pa.string())])


def no_wait(seconds: float) -> None:
    pytest.fail(f"waited for {seconds} s")


def snapshot(account: MemoryAccount, version: int | None = None) -> Snapshot:
    return take_snapshot(account.container("container"), "flights", version, no_wait)


def write(account: MemoryAccount, seed: int, schema: pa.Schema = ROWS, *, overwrite: bool = False) -> list[str]:
    """One batch; returns the names of its blobs."""
    container, plan = account.container("container"), plan_of(schema)
    batch = pa.RecordBatch.from_pylist([{"n": seed, "s": "x"}], schema)
    staged = stage_rows(container, plan, [batch], seed=seed)
    (entry,) = committer(container, plan, seed).commit([staged], Transaction("q", seed), overwrite=overwrite)
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
    sizes = {name: len(data) for name, data in public_blobs(account).items()}
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


def test_a_version_before_an_overwrite_is_told_without_waiting() -> None:
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
        write(account.restarted(Faults(on("commit_block_list", Crash()))), 0)


def test_a_reader_waits_for_a_batch_that_is_being_published() -> None:
    account = new_account()
    decided_only(account)
    container = account.container("container")
    waits: list[float] = []

    def publish_at_the_third_look(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            log = CommitLog(container, "flights")
            assert [] == Publisher(container).publish(log.read(0))

    found = take_snapshot(container, "flights", None, publish_at_the_third_look)
    assert (1, 3) == (len(found.blobs), len(waits))


def test_a_reader_gives_up_on_a_batch_that_nobody_publishes_and_says_what_to_do() -> None:
    account = new_account()
    decided_only(account)
    waits: list[float] = []
    with pytest.raises(
        TransientError, match=r"after 60.0 s: its batch is decided.*Start the writer again.*versionAsOf"
    ):
        take_snapshot(account.container("container"), "flights", None, waits.append)
    assert 60.0 == sum(waits)


# --- streams without one ----------------------------------------------------------------------------------------------


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


def test_a_header_longer_than_the_first_look_is_read_whole() -> None:
    account = new_account()
    schema = record(**{f"column_{number:05d}": "long" for number in range(3000)})
    data = avro_file(schema, [])
    assert len(json.dumps(schema)) > 1 << 16
    account.container("container").put("flights/wide.avro", data)
    assert 3000 == len(snapshot(account).reader_schema.root["fields"])


def test_of_a_large_file_only_the_beginning_is_fetched() -> None:
    account = new_account()
    account.container("container").put("flights/a.avro", avro_file(record(s="string"), [{"s": "x" * 500_000}]))
    ranges = []

    class Watch(Faults):
        def attempt(self, call: Any, request: Any) -> Any:
            answer = super().attempt(call, request)
            if call.operation == "get":
                ranges.append(len(answer.data))
            return answer

    take_snapshot(account.restarted(Watch()).container("container"), "flights", None, no_wait)
    assert [1 << 16] == ranges


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_file_that_is_no_avro_is_named(size: int) -> None:
    account = new_account()
    account.container("container").put("flights/bad.avro", b"x" * size)
    with pytest.raises(CorruptError, match=r"flights/bad\.avro"):
        snapshot(account)


def test_nothing_to_read_is_an_error_that_says_where_it_looked() -> None:
    with pytest.raises(NotFoundError, match=r"container/flights failed: there is no commit log and no blob ending in"):
        snapshot(new_account())


def test_a_version_of_a_folder_without_log_is_an_error() -> None:
    account = new_account()
    account.container("container").put("flights/a.avro", avro_file(record(n="long"), []))
    with pytest.raises(NotFoundError, match=r"read the commit log of .* failed: there is none"):
        snapshot(account, 0)
