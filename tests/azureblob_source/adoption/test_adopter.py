"""Adopting a folder: each rule for a blob, two discoveries at once, and what a discovery costs."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.memory.service import MemoryService, ServiceAssumptions
from azure_account.retrying.retry_loop import Intercept
from azure_account.values import Done
from azureblob_source.adoption.adopter import Adopter, AdoptionSettings
from azureblob_source.cli.app import app
from azureblob_source.iceberg.schema import NotInIcebergError
from azureblob_source.log.checkpointing import make_table
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import log_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out, void_version
from azureblob_source.log.relocating.compaction import CompactionRules, plan_compaction
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.inventory import inventory
from azureblob_source.maintenance.repair import plan_repair, repair
from azureblob_source.maintenance.tailing import Tail
from azureblob_source.maintenance.vacuum import plan_vacuum
from azureblob_source.options import EARLIEST, LATEST
from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.overwritten import as_they_are
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from tests.azureblob_source.adoption.folder_writer import AT_ONCE, FOLDER, NOON, SCHEMA, avro, capture_name, fill
from tests.azureblob_source.log.committing import ROWS, rows
from tests.azureblob_source.write.sink_rows import committer, plan_of, stage_rows
from tests.command_lines import CommandLine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account.container import BlobContainer
    from azure_account.retrying.retry_loop import Request

run = CommandLine(app)
ONE, TWO, THREE = (capture_name(0, NOON + timedelta(minutes=minute)) for minute in range(3))


class Counting(Intercept):
    """Counts requests by operation; one that puts the next entry can be overtaken."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.before_put: Callable[[], object] | None = None

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        self.seen[str(request.operation)] += 1
        if request.operation == "put" and "/_log/0" in request.name and self.before_put is not None:
            act, self.before_put = self.before_put, None
            act()
        return send()


class Folder:
    """A folder in memory, and its discoveries."""

    def __init__(self, settings: AdoptionSettings = AT_ONCE, *, lists_from_name: bool = True) -> None:
        self.clock = ManualClock(NOON.timestamp())
        behaviour = ServiceAssumptions(lists_from_name=lists_from_name)
        self.account = MemoryAccount(MemoryService(clock=self.clock, behaviour=behaviour))
        self.container = self.account.container("container")
        self.container.create()
        self.requests = Counting()
        self.adopter = self.new_adopter(settings)

    def new_adopter(self, settings: AdoptionSettings = AT_ONCE) -> Adopter:
        container = self.account.restarted(self.requests).container("container")
        return Adopter(self.log(container), settings, self.clock)

    def log(self, container: BlobContainer | None = None) -> CommitLog:
        return CommitLog(container or self.container, FOLDER, readers=1, clock=self.clock)

    def names(self) -> list[str]:
        return [blob.name for entry in self.log().history() for blob in entry.blobs]


@pytest.fixture
def folder() -> Folder:
    return Folder()


def test_an_entry_names_a_blob_as_it_is(folder: Folder) -> None:
    folder.container.put(ONE, avro([1, 2]))
    there = folder.container.properties(ONE)
    assert there is not None
    assert 1 == folder.adopter.discover().adopted
    begin, entry = folder.log().history()
    assert ("adopt", "adopt", ()) == (begin.operation, entry.operation, begin.blobs)
    (blob,) = entry.blobs
    assert (ONE, "0", there.etag, there.size) == (blob.name, blob.partition, blob.etag, blob.size)
    assert (0, 0, "adopted", True) == (blob.blocks, blob.rows, blob.rolled_by, blob.adopted)
    stored = json.loads(folder.container.get(log_name(FOLDER, 1)).data)["blobs"][0]
    assert (there.etag, int(NOON.timestamp()) * 10**6) == (stored["etag"], stored["modified"])
    assert "n" == folder.log().writer_schema(blob.schema).row.fields[0].column


def test_each_blob_is_adopted_once_whatever_its_discovery_knows(folder: Folder) -> None:
    folder.container.put(ONE, avro([1]))
    assert 1 == folder.adopter.discover().adopted
    folder.container.put(TWO, avro([2]))
    assert [1, 0, 0] == [folder.adopter.discover().adopted for _ in range(3)]
    assert 0 == folder.new_adopter().discover().adopted
    assert [ONE, TWO] == folder.names()


def test_rows_are_counted_if_that_is_asked_for(folder: Folder) -> None:
    folder.container.put(ONE, avro([1, 2, 3]))
    folder.container.put(f"{TWO}.gz", gzip.compress(avro([4, 5])))
    folder.new_adopter(replace(AT_ONCE, count_rows=True)).discover()
    blobs = folder.log().read(1).blobs
    assert [(3, "adopted, counted"), (2, "adopted, counted")] == [(blob.rows, blob.rolled_by) for blob in blobs]


def test_a_header_without_rows_is_adopted_as_no_rows(folder: Folder) -> None:
    folder.container.put(ONE, avro([]))
    folder.adopter.discover()
    assert [(0, "adopted, counted")] == [(blob.rows, blob.rolled_by) for blob in folder.log().read(1).blobs]


def test_what_cannot_be_adopted_is_counted_and_waits(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    put = folder.container.put
    put(f"{FOLDER}/0/2026/01/01/12/00/01.avro", b"")
    put(f"{FOLDER}/0/2026/01/01/12/00/02.json", b"{}")
    put(f"{FOLDER}/0/2026/01/01/12/00/03.avro", avro([1])[:50])
    put(f"{FOLDER}/0/_spark_metadata/0", b"v1")
    put(f"{FOLDER}/.hidden.avro", avro([1]))
    put(ONE, avro([1]))
    put(TWO, avro(["one"], {**SCHEMA, "fields": [{"name": "n", "type": "string"}]}))  # type: ignore[list-item]
    found = folder.adopter.discover()
    assert 1 == found.adopted
    expected = {"empty": 1, "other format by its name": 1, "damaged": 1, "schema does not fit the others": 1}
    assert expected == found.left_out
    assert 4 == sum("are not adopted, such as" in each.getMessage() for each in caplog.records)
    assert 1 == sum("`_spark_metadata` is ignored" in each.getMessage() for each in caplog.records)
    gets = folder.requests.seen["get"]
    assert expected == folder.adopter.discover().left_out
    assert folder.requests.seen["get"] - gets <= 2, "what stays as it is is looked at once"
    put(f"{FOLDER}/0/2026/01/01/12/00/03.avro", avro([1]))
    put(f"{FOLDER}/0/2026/01/01/12/00/01.avro", avro([1]))
    assert 2 == folder.adopter.discover().adopted


def test_a_read_of_the_listing_says_that_the_log_of_sparks_sink_is_ignored(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.container.put(f"{FOLDER}/_spark_metadata/0", b"v1")
    folder.container.put(ONE, avro([1]))
    assert 1 == len(take_snapshot(folder.log(), None).blobs)
    assert 1 == sum("`_spark_metadata` is ignored" in each.getMessage() for each in caplog.records)


def test_other_names_are_read_if_that_is_asked_for(folder: Folder) -> None:
    folder.container.put(f"{FOLDER}/000000_0", avro([1]))
    assert {"other format by its name": 1} == folder.adopter.discover().left_out
    assert 1 == folder.new_adopter(replace(AT_ONCE, any_extension=True)).discover().adopted


def test_a_blob_that_is_being_written_is_waited_for(folder: Folder) -> None:
    adopter = folder.new_adopter(replace(AT_ONCE, at_rest=60.0))
    folder.container.put(ONE, avro([1]))
    assert {"leased or modified just now": 1} == adopter.discover().left_out
    folder.clock.advance(59.0)
    folder.container.put(ONE, avro([1, 2]))
    folder.clock.advance(59.0)
    assert 0 == adopter.discover().adopted
    assert isinstance(folder.container.acquire_lease(ONE, "4d2e79b6-1f7c-4c55-9d1a-0d3c7ce6e0a1", 60), Done)
    folder.clock.advance(2.0)
    assert {"leased or modified just now": 1} == adopter.discover().left_out
    folder.clock.advance(60.0)
    assert 1 == adopter.discover().adopted


def test_a_blob_that_is_replaced_is_not_read_again(folder: Folder) -> None:
    folder.container.put(ONE, avro([1]))
    folder.adopter.discover()
    folder.container.put(ONE, avro([2]))
    for adopter in (folder.adopter, folder.adopter, folder.new_adopter()):
        found = adopter.discover()
        assert (0, {"replaced after it was adopted": 1}) == (found.adopted, found.left_out)
    folder.container.delete(ONE)
    assert {} == folder.adopter.discover().left_out
    folder.container.put(ONE, avro([1]))
    assert 0 == folder.new_adopter().discover().adopted


@pytest.mark.parametrize("start", [LATEST, NOON + timedelta(seconds=30)])
def test_a_log_begins_at_a_time_that_all_discoveries_keep(folder: Folder, start: str | datetime) -> None:
    folder.container.put(ONE, avro([1]))
    folder.clock.advance(30.0)
    from_start = folder.new_adopter(replace(AT_ONCE, start=start))
    assert {"modified before the start": 1} == from_start.discover().left_out
    folder.container.put(THREE, avro([3]))
    folder.container.put(TWO, avro([2]))
    assert 2 == folder.new_adopter().discover().adopted, "what was stored counts"
    assert [TWO, THREE] == folder.names()
    assert [] == [blob.name for blob in folder.container.list(f"{FOLDER}/_log/_probe")]


def test_streams_below_the_folder_are_left_to_their_logs(folder: Folder) -> None:
    plan = plan_of(ROWS, f"container/{FOLDER}/own")
    commit = committer(folder.container, plan, 1, folder.clock)
    commit.commit([stage_rows(folder.container, plan, [rows([1])], seed=1)], None)
    folder.container.put(ONE, avro([1]))
    assert 1 == folder.adopter.discover().adopted
    assert [ONE] == folder.names()


def test_a_stream_of_this_package_cannot_be_adopted_nor_an_adopted_folder_written(folder: Folder) -> None:
    plan = plan_of(ROWS, f"container/{FOLDER}")
    commit = committer(folder.container, plan, 1, folder.clock)
    commit.commit([stage_rows(folder.container, plan, [rows([1])], seed=1)], None)
    with pytest.raises(ConfigurationError, match="the folder is a stream, with a log of its own"):
        folder.adopter.discover()
    other = Folder()
    other.container.put(ONE, avro([1]))
    other.adopter.discover()
    commit = committer(other.container, plan, 1, other.clock)
    with pytest.raises(ConfigurationError, match="another program has written, which are never changed or deleted"):
        commit.commit([stage_rows(other.container, plan, [rows([1])], seed=1)], None)
    assert [ONE] == other.names()


def test_two_discoveries_at_once_adopt_each_blob_once(folder: Folder) -> None:
    folder.container.put(ONE, avro([1]))
    folder.adopter.discover()
    folder.container.put(TWO, avro([2]))
    other = folder.new_adopter()

    def overtake() -> None:
        folder.container.put(THREE, avro([3]))
        assert 2 == other.discover().adopted

    folder.requests.before_put = overtake
    assert 0 == folder.adopter.discover().adopted
    assert [ONE, TWO, THREE] == folder.names()


def test_readers_of_the_log_read_what_was_adopted_on_its_etag(folder: Folder) -> None:
    fill(folder.container, 2, 20)
    settings = replace(AT_ONCE, entry_blobs=2, checkpoint_interval=4)
    folder.new_adopter(settings).discover()
    found = take_snapshot(folder.log(), None)
    etags = {blob.name: blob.etag for blob in folder.container.list(f"{FOLDER}/")}
    assert 40 == len(found.blobs)
    assert {blob.name: blob.etag for blob in found.blobs} == {blob.name: etags[blob.name] for blob in found.blobs}
    follower, at, seen = Follower(folder.log(), 1.0, folder.clock), -1, []
    while (until := follower.latest(at, TriggerLimits(blobs=5))) > at:
        seen.append([blob.name for blob, _ in follower.blobs(at, until)])
        at = until
    assert 10 == len(seen)
    assert sorted(etags.keys() & {name for some in seen for name in some}) == sorted(n for some in seen for n in some)
    assert seen[0][0] < seen[0][2] or seen[0][0].split("/")[3:] <= seen[0][2].split("/")[3:]
    backlog = Follower(folder.log(), 1.0, folder.clock)
    backlog.latest(-1, TriggerLimits())
    left = backlog.backlog(-1)
    assert left is not None
    assert (21, 40) == (left.versions, left.blobs)


def test_live_blobs_by_entries_and_by_checkpoint_are_the_same(folder: Folder) -> None:
    fill(folder.container, 2, 40)
    folder.new_adopter(replace(AT_ONCE, entry_blobs=2, checkpoint_interval=4)).discover()
    log = folder.log()
    assert log.checkpoint_hint() == 39
    by_entries = {(name, blob.etag) for name, blob in live_blobs(log.history()).items()}
    assert by_entries == {(blob.name, blob.etag) for blob in take_snapshot(log, None).blobs}


def test_nothing_that_changes_blobs_works_on_an_adopted_folder(folder: Folder) -> None:
    fill(folder.container, 2, 3)
    folder.adopter.discover()
    before = {blob.name: blob.etag for blob in folder.container.list()}
    log = folder.log()
    draft, publisher = new_draft(folder.clock, None), Publisher(folder.container)
    rules = CompactionRules(before=NOON + timedelta(days=1))
    acts: list[Callable[[], object]] = [
        lambda: plan_vacuum(log, NOON + timedelta(days=1)),
        lambda: plan_compaction(log, rules, 1),
        lambda: append_epoch(log, replace(draft, epoch=1), publisher),
        lambda: restore(log, 0, draft, publisher),
        lambda: leave_out(log, log.read(1).blobs, draft, publisher),
    ]
    for act in acts:
        with pytest.raises(ConfigurationError, match="another program"):
            act()
    with pytest.raises(ConflictError, match="it is published"):
        void_version(log, 1, draft, publisher)
    assert before == {blob.name: blob.etag for blob in folder.container.list()}
    assert (
        0 == repair(folder.container, plan_repair(folder.container, FOLDER, NOON), lambda: draft, publisher).published
    )


def test_commands_show_an_adopted_folder_as_it_is(folder: Folder) -> None:
    fill(folder.container, 2, 3)
    folder.container.put(f"{FOLDER}/0//x.avro", avro([1]))
    folder.adopter.discover()
    folder.container.stage_block(f"{FOLDER}/0/uploading.avro", "00", b"a part")
    (shown,) = inventory(folder.container, FOLDER)
    assert (FOLDER, 6, ()) == (shown.name, shown.blobs, shown.strangers)
    folder.clock.advance(1e6)
    plan = plan_repair(folder.container, FOLDER, datetime.fromtimestamp(folder.clock.now(), UTC))
    assert ((), {}) == (plan.leftovers, plan.strangers)
    rows = Tail(folder.log(), folder.clock, None).last(2)
    assert [4, 5] == [number for each in rows for number in each.batch["n"].to_pylist()]
    found = folder.adopter.discover()
    assert {"with a name that has an empty level or a backslash": 1} == found.left_out


def test_an_audit_finds_what_was_replaced_or_deleted_and_counts_what_is_not_adopted(folder: Folder) -> None:
    fill(folder.container, 2, 3)
    folder.adopter.discover()
    assert audit(folder.log(), timedelta(hours=1)).sound
    assert audit(folder.log(), timedelta(hours=1), history=True).sound
    folder.container.put(capture_name(1, NOON + timedelta(minutes=9)), avro([9]))
    folder.container.put(ONE, avro([99]))
    folder.container.delete(TWO)
    for history in (False, True):
        found = audit(folder.log(), timedelta(hours=1), history=history)
        kinds = {(each.kind.value, each.name, each.what) for each in found.findings}
        replaced, deleted = "it was replaced since it was adopted", "it was deleted since it was adopted"
        assert {("altered", ONE, replaced), ("missing", TWO, deleted)} == kinds
        assert (1, 6) == (found.young, found.blobs)


def test_a_read_of_what_was_replaced_or_deleted_fails_or_leaves_it_out(folder: Folder) -> None:
    fill(folder.container, 1, 3)
    folder.adopter.discover()
    blobs = take_snapshot(folder.log(), None).blobs
    folder.container.put(ONE, avro([99]))
    folder.container.delete(TWO)

    def read(*, ignore: bool) -> list[int]:
        found = read_splits(folder.container, list(split_blobs(blobs)), SplitSettings(ignore_corrupt=ignore))
        return [number for _, batch in found for number in batch["n"].to_pylist()]

    with pytest.raises(ConflictError, match="replaced since it was adopted"):
        read(ignore=False)
    assert [2] == read(ignore=True)


def test_what_was_replaced_is_read_as_it_is_if_that_is_allowed(folder: Folder) -> None:
    four = capture_name(0, NOON + timedelta(minutes=3))
    for name in (ONE, TWO, THREE, four):
        folder.container.put(name, avro(range(1000)))
    folder.adopter.discover()
    blobs = take_snapshot(folder.log(), None).blobs
    folder.container.put(ONE, avro(range(9000, 9900)))
    folder.container.put(TWO, avro(range(5000)))
    folder.container.put(THREE, b"")
    assert "replaced after it was adopted" in folder.adopter.discover().left_out

    def read(planned: Sequence[StreamBlob]) -> list[int]:
        found = read_splits(folder.container, list(split_blobs(planned, 500)), SplitSettings())
        return [number for _, batch in found for number in batch["n"].to_pylist()]

    now = as_they_are(folder.container, blobs)
    assert [*range(9000, 9900), *range(5000), *range(1000)] == read(now)
    folder.container.put(ONE, avro(range(900)))
    with pytest.raises(ConflictError, match="replaced since it was adopted.*`allowOverwrites`"):
        read(now)
    folder.container.delete(four)
    with pytest.raises(NotFoundError, match="deleted since it was adopted"):
        read(as_they_are(folder.container, blobs))


def test_blobs_of_a_stream_are_not_read_as_they_are(folder: Folder) -> None:
    folder.container.put(ONE, avro([1]))
    own = [StreamBlob(ONE, 1, 7), StreamBlob(TWO, 2, None, etag="1")]
    before = folder.requests.seen.total()
    assert own == as_they_are(folder.adopter.log.container, own)
    assert before == folder.requests.seen.total()


def test_an_iceberg_table_needs_counted_rows(folder: Folder) -> None:
    fill(folder.container, 2, 3)
    folder.adopter.discover()
    with pytest.raises(NotInIcebergError, match="`countRows`"):
        make_table(folder.log(), folder.log().read(1), "abfss://box/")
    other = Folder(replace(AT_ONCE, count_rows=True))
    fill(other.container, 2, 3)
    other.adopter.discover()
    table = make_table(other.log(), other.log().read(1), "abfss://box/")
    assert table is not None
    assert (1, "6") == (table.version, table.snapshots[-1]["summary"]["total-records"])


def test_a_log_can_be_in_another_place_than_the_blobs(folder: Folder) -> None:
    fill(folder.container, 2, 3)
    before = {blob.name: blob.etag for blob in folder.container.list()}
    logs = folder.account.container("logs")
    logs.create()
    arguments = (f"container/{FOLDER}", "-o", "logPath=logs/of/hub")
    assert "6 blobs adopted" in run(folder.account, "adopt", *arguments, "-o", "minBlobAgeMs=0").stdout
    assert before == {blob.name: blob.etag for blob in folder.container.list()}
    assert {"of/hub/_log", "of/hub/_schemas"} == {blob.name.rpartition("/")[0] for blob in logs.list()}
    assert 6 == len(json.loads(run(folder.account, "log", *arguments, "--version", "1", "--json").stdout)["blobs"])
    assert "6 live blobs" in run(folder.account, "audit", *arguments).stdout
    assert 0 == run(folder.account, "audit", *arguments).exit_code
    assert 0 == run(folder.account, "checkpoint", *arguments).exit_code
    assert 1 == run(folder.account, "iceberg", *arguments).exit_code
    for wrong in (f"container/{FOLDER}/logs", "container/ns", "logs", f"container/{FOLDER}"):
        refused = run(folder.account, "log", f"container/{FOLDER}", "-o", f"logPath={wrong}")
        assert (1, True) == (refused.exit_code, "must be a folder of the account" in " ".join(refused.stderr.split()))


@pytest.mark.parametrize("start", [EARLIEST, LATEST])
def test_who_may_not_write_to_the_folder_is_told_of_another_place(folder: Folder, start: str) -> None:
    folder.container.put(ONE, avro([1]))
    refused = folder.account.restarted(FaultInjector(on("put", Refuse()))).container("container")
    with pytest.raises(ConfigurationError, match=r"begin the log of ns/hub.*not granted.*`logPath`"):
        Adopter(folder.log(refused), replace(AT_ONCE, start=start), folder.clock).discover()


def test_the_command_adopts_a_folder(folder: Folder) -> None:
    folder.container.put(ONE, avro([1]))
    folder.container.put(f"{FOLDER}/x.csv", b"1")
    arguments = ("adopt", f"container/{FOLDER}", "-o", "minBlobAgeMs=0")
    done = run(folder.account, *arguments)
    assert "1 blob adopted in 1 version, of 3 names listed; 1 other format by its name." == " ".join(
        done.stdout.split()
    )
    folder.container.put(TWO, avro([1]))
    found = json.loads(run(folder.account, *arguments, "--from", "latest", "--json").stdout)
    assert (FOLDER, 1, 1, {"other format by its name": 1}) == tuple(
        found[name] for name in ("stream", "adopted", "versions", "leftOut")
    )
    assert [ONE, TWO] == folder.names()
    wrong = run(folder.account, *arguments, "--from", "noon")
    assert (2, True) == (wrong.exit_code, "it must be a time such as" in wrong.stderr)
