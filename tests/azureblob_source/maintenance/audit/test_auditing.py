from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from azure_account.connect import connect
from azure_account.location import Location
from azure_account.memory.faults import FaultInjector
from azure_account.values import BlobAttributes
from azureblob_source.audits import audit_stream
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, BlobEntry, Draft, LogEntry, Transaction, to_json
from azureblob_source.log.live_state import with_live_state
from azureblob_source.log.naming import checkpoint_name, hint_name, log_name, schema_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.audit import extra_blobs
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.audit.findings import Audit, Kind
from azureblob_source.maintenance.audit.live_index import LiveIndex, Sweep
from azureblob_source.maintenance.audit.log_view import view_of
from azureblob_source.maintenance.audit.looking import is_staged
from azureblob_source.write.options import sink_options
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from tests.azureblob_source.log.checkpointed import DAY, STREAM, log_of, stream_of_days
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from azure_account.retrying.retry_loop import Request, T
    from azureblob_source.maintenance.audit.looking import AuditContext
    from tools.azurite import Azurite

DAY_OLD = timedelta(days=1)


def audited(account: MemoryAccount, older_than: timedelta = DAY_OLD, *, history: bool = False) -> Audit:
    return audit(log_of(account), older_than, history=history)


def found(account: MemoryAccount, older_than: timedelta = DAY_OLD, *, history: bool = False) -> list[tuple[str, str]]:
    return [(str(each.kind), each.name) for each in audited(account, older_than, history=history).findings]


def box(account: MemoryAccount) -> BlobContainer:
    return account.container("container")


def put_entry(account: MemoryAccount, entry: LogEntry, version: int | None = None) -> None:
    box(account).put(log_name(STREAM, entry.version if version is None else version), to_json(entry))


# --- what is read -----------------------------------------------------------------------------------------------------


def test_a_sound_stream_takes_its_listing_and_a_few_entries() -> None:
    account = stream_of_days(300)
    counter = FaultInjector()
    log = log_of(account, account.restarted(counter).container("container"))
    names = len(list(box(account).list(f"{STREAM}/")))
    expected = Audit(STREAM, 0, 299, 299, 300, 300, 300, listed=names, read=2, checkpoint=299)
    assert expected == audit(log, DAY_OLD)
    assert counter.count < 30


@pytest.mark.parametrize("overwrites", [(), (37,)])
def test_entries_alone_say_the_same_as_a_checkpoint(overwrites: tuple[int, ...]) -> None:
    account = stream_of_days(70, overwrites)
    by_checkpoint, by_entries = audited(account), audited(account, history=True)
    assert (67, None) == (by_checkpoint.checkpoint, by_entries.checkpoint)
    live = 33 if overwrites else 70
    assert (live, live, live, True) == (
        by_entries.blobs, by_entries.rows, by_entries.bytes, by_entries.sound
    ) == (by_checkpoint.blobs, by_checkpoint.rows, by_checkpoint.bytes, by_checkpoint.sound)  # fmt: skip
    assert 70 == by_entries.read


def test_no_data_is_read() -> None:
    account, read = stream_of_days(20), set[str]()

    class Noting(FaultInjector):
        def attempt(self, request: Request, send: Callable[[], T]) -> T:
            read.update([request.name] if request.operation == "get" else [])
            return super().attempt(request, send)

    for history in (False, True):
        audit(log_of(account, account.restarted(Noting()).container("container")), DAY_OLD, history=history)
    assert read
    assert [] == [name for name in read if "/_" not in name]


def test_pages_in_any_order_show_the_same() -> None:
    account = stream_of_days(40)
    box(account).delete(f"{STREAM}/007.avro")
    box(account).put(f"{STREAM}/x.avro", b"x")
    blobs = list(box(account).list(f"{STREAM}/"))
    view = view_of(log_of(account))
    shown = []
    for pages in ([blobs], [[blob] for blob in reversed(blobs)], [blobs[::2], blobs[1::2]]):
        sweep = Sweep(LiveIndex(view.live), STREAM)
        for page in pages:
            sweep.page(page)
        shown.append((sweep.missing(99).tolist(), sweep.odd, sweep.extra().to_pylist(), sorted(sweep.versions)))
    assert ([7], [], [{"name": f"{STREAM}/x.avro", "attempt": None}], list(range(40))) == shown[0]
    assert shown[0] == shown[1] == shown[2]


def test_many_faults_are_counted_and_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azureblob_source.maintenance.audit.auditing.MOST", 2)
    account = stream_of_days(20)
    for day in range(5):
        box(account).delete(f"{STREAM}/{day:03d}.avro")
        box(account).put(f"{STREAM}/x{day}.avro", b"x")
    result = audited(account)
    assert ({"missing": 3, "foreign": 3}, {"missing": 5, "foreign": 5}) == (result.more, result.counts)
    assert not result.sound


def test_a_view_has_the_boundary_by_which_it_knows_what_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    account, moved = stream_of_days(20), list[Boundary]()

    def beside_a_vacuum(log: CommitLog, *rest: Any) -> Any:
        if not moved:
            moved.append(move_boundary(box(account), STREAM, Boundary(), Boundary(8, {7: "etag"}, "vacuum")))
        return with_live_state(log, *rest)

    monkeypatch.setattr("azureblob_source.maintenance.audit.log_view.with_live_state", beside_a_vacuum)
    view = view_of(log_of(account))
    assert (moved[0], 12) == (view.boundary, len(view.live))


def test_what_a_vacuum_removes_while_an_unpublished_version_is_looked_at_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = stream_of_days(5)
    log = log_of(account)
    head = log.read(4)
    for blob in head.blobs:
        box(account).delete(blob.name)
    assert [("missing", blob.name) for blob in head.blobs] == found(account)

    def overtaken(context: AuditContext, name: str) -> bool | None:
        for version in (5, 6):
            put_entry(account, replace(head, version=version, write_id=f"{version}", blobs=()))
        move_boundary(box(account), STREAM, Boundary(), Boundary(6, {}, "vacuum"))
        for version in range(6):
            box(account).delete(log_name(STREAM, version))
        return is_staged(context, name)

    monkeypatch.setattr("azureblob_source.maintenance.audit.unfinished.is_staged", overtaken)
    assert [] == found(account)


# --- blobs ------------------------------------------------------------------------------------------------------------


def test_a_copy_of_a_revoked_blob_is_revoked_too() -> None:
    account = stream_of_days(20, overwrites=(5,))
    box(account).put(f"{STREAM}/copy.avro", b"x", BlobAttributes({ATTEMPT: f"{3:016x}"}))
    [finding] = audited(account).findings
    what = "it is a copy of flights/003.avro, which version 5 has revoked or removed"
    assert (Kind.REVOKED, f"{STREAM}/copy.avro", 3, what, "Delete it.") == (
        finding.kind, finding.name, finding.version, finding.what, finding.advice
    )  # fmt: skip


def test_a_blob_that_no_entry_names_counts_once_it_is_old() -> None:
    account = stream_of_days(20)
    name = f"{STREAM}/2026/01/01/00/00-00-12345678.avro"
    box(account).put(name, b"x", BlobAttributes({ATTEMPT: "e" * 16}))
    young = audited(account)
    assert ((), 1, True) == (young.findings, young.young, young.sound)
    account.clock.sleep(DAY)
    assert [("unnamed", name)] == found(account)
    assert [] == found(account, timedelta(days=2))


def test_entries_are_read_back_to_the_time_of_a_blob_and_not_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra_blobs, "AT_ONCE", 10)
    account = stream_of_days(60)
    box(account).put(f"{STREAM}/2026/03/01/00/00-00-12345678.avro", b"x", BlobAttributes({ATTEMPT: "e" * 16}))
    read = audited(account).read  # times of entries are of January 2026, a millisecond apart
    assert read < 30
    box(account).put(f"{STREAM}/2025/03/01/00/00-00-12345678.avro", b"x", BlobAttributes({ATTEMPT: "d" * 16}))
    assert read + 50 == audited(account).read


def written(account: MemoryAccount, log: CommitLog, batch: int) -> None:
    """A published batch of one blob, whose times are those of the account's clock."""
    blob = BlobEntry(f"{STREAM}/{batch:03d}.avro", STREAM, None, f"{batch:016x}", 1, 1, 1, 1, "f", "end")
    box(account).stage_block(blob.name, blob.block_ids[0], b"x")
    moment = datetime.fromtimestamp(account.clock.now(), UTC).isoformat(timespec="milliseconds")
    commit_and_publish(log, Draft(f"w{batch}", moment, blobs=(blob,), transaction=Transaction("q", batch)),
                       Publisher(box(account), threads=1))  # fmt: skip
    account.clock.sleep(DAY)


@pytest.fixture
def timely() -> MemoryAccount:
    """Four versions, a day apart, by one clock."""
    account = new_account()
    box(account).put(schema_name(STREAM, "f"), b"{}")
    log = log_of(account)
    for batch in range(4):
        written(account, log, batch)
    return account


def rewrite(account: MemoryAccount, batch: int) -> None:
    """Another tool writes the same blob, with the same size and metadata."""
    box(account).put(f"{STREAM}/{batch:03d}.avro", b"y", BlobAttributes({ATTEMPT: f"{batch:016x}"}))


@pytest.mark.parametrize("history", [False, True])
def test_a_blob_that_was_written_again_is_found_although_its_size_and_attempt_are_right(
    timely: MemoryAccount, *, history: bool
) -> None:
    rewrite(timely, 1)
    [finding] = audited(timely, history=history).findings
    what = "it was written again after it was published, and its blocks are not those of its entry"
    assert (Kind.ALTERED, f"{STREAM}/001.avro", 1, what) == (
        finding.kind, finding.name, finding.version, finding.what
    )  # fmt: skip


def test_nothing_shows_that_the_newest_blob_was_written_again_until_the_next_commit(timely: MemoryAccount) -> None:
    rewrite(timely, 3)
    assert [] == found(timely)
    written(timely, log_of(timely), 4)
    rewrite(timely, 3)
    assert [("altered", f"{STREAM}/003.avro")] == found(timely)


def test_changed_metadata_is_no_alteration(timely: MemoryAccount) -> None:
    blob = timely.service._containers["container"][f"{STREAM}/001.avro"]
    blob.written += 10 * DAY  # as Set Blob Metadata does
    blob.attributes = BlobAttributes({ATTEMPT: f"{1:016x}", "owner": "somebody"})
    result = audited(timely)
    assert ((), 1) == (result.findings, result.renewed)
    blob.attributes = BlobAttributes({"owner": "somebody"})
    result = audited(timely)
    assert ((), 1) == (result.findings, result.renewed)


def test_times_of_a_container_that_was_copied_show_nothing(timely: MemoryAccount) -> None:
    for name, blob in timely.service._containers["container"].items():
        blob.written = 50 * DAY + len(name) * 3600.0  # the entries before the data
    rewrite(timely, 1)
    timely.service._containers["container"][f"{STREAM}/001.avro"].written = 60 * DAY
    assert [] == found(timely)


def test_a_blob_without_attempt_and_with_other_blocks_is_altered(timely: MemoryAccount) -> None:
    box(timely).put(f"{STREAM}/001.avro", b"y")
    [finding] = audited(timely).findings
    assert "its metadata names no attempt, and its blocks are not those of its entry" == finding.what


def test_a_checkpoint_that_lacks_a_live_blob_is_found_by_the_entries() -> None:
    account = stream_of_days(20)
    log = log_of(account)
    log.refresh()
    made = log.checkpoints.find(19)
    assert made is not None
    live = pa.concat_tables([log.checkpoints.read(manifest) for manifest in made.manifests])
    log.checkpoints.put(replace(made, manifests=(log.checkpoints.write(live.slice(1), 19),)), replaces=True)
    [finding] = audited(account).findings
    what = "it has not got the blob flights/000.avro, which is live by version 0"
    assert (Kind.LOG, checkpoint_name(STREAM, 19), what) == (finding.kind, finding.name, finding.what)
    assert [] == found(account, history=True)
    checkpoints.make(log_of(account), rebuild=True)  # as it advises
    assert [] == found(account)


def test_a_checkpoint_is_not_taken_for_wrong_if_the_entry_that_removes_a_blob_is_lost() -> None:
    account = stream_of_days(20, overwrites=(5,))
    box(account).put(f"{STREAM}/003.avro", b"x", BlobAttributes({ATTEMPT: f"{3:016x}"}))
    assert [("revoked", f"{STREAM}/003.avro")] == found(account)
    box(account).delete(log_name(STREAM, 5))
    assert [("log", log_name(STREAM, 5))] == found(account)


# --- the log ----------------------------------------------------------------------------------------------------------


def test_a_missing_entry_that_a_checkpoint_covers_leaves_the_blobs_to_be_compared() -> None:
    account = stream_of_days(40)
    box(account).delete(log_name(STREAM, 20))
    box(account).delete(f"{STREAM}/007.avro")
    for history in (False, True):
        result = audited(account, history=history)
        assert 40 == result.blobs
        assert [("log", log_name(STREAM, 20)), ("missing", f"{STREAM}/007.avro")] == [
            (str(each.kind), each.name) for each in result.findings
        ]
        assert "version 20 is missing: no vacuum has removed them" == result.findings[0].what


@pytest.mark.parametrize("version", [38, 39])
def test_without_a_needed_entry_only_the_log_is_looked_at(version: int) -> None:
    account = stream_of_days(40)
    box(account).delete(hint_name(STREAM))
    for checkpoint in range(3, 40, 4):
        box(account).delete(checkpoint_name(STREAM, checkpoint))
    box(account).put(log_name(STREAM, version), b"{")
    result = audited(account)
    assert (None, None, None) == (result.blobs, result.rows, result.bytes)
    [finding] = result.findings
    assert (Kind.LOG, log_name(STREAM, version)) == (finding.kind, finding.name)
    assert "it is damaged" in finding.what


def test_an_entry_whose_totals_do_not_continue_those_before_is_found() -> None:
    account = stream_of_days(20)
    entry = log_of(account).read(12)
    put_entry(account, log_of(account).read(10), 12)
    assert [("log", log_name(STREAM, 12))] == found(account, history=True)
    put_entry(account, entry)
    assert [] == found(account, history=True)
    put_entry(account, replace(entry, blobs=()))
    findings = audited(account, history=True).findings
    assert [(12, "its totals do not continue those of version 11")] == [
        (each.version, each.what) for each in findings if each.kind is Kind.LOG
    ]


def test_entries_of_a_deleted_log_above_the_head_are_found_once_they_are_old() -> None:
    account = stream_of_days(20)
    head = log_of(account).read(19)
    put_entry(account, replace(head, log_id="another"), 25)
    assert [] == found(account)
    account.clock.sleep(DAY)
    [finding] = audited(account).findings
    assert (25, "it is an entry of another log, above the head, version 19") == (finding.version, finding.what)


def test_an_entry_below_the_boundary_is_found_once_it_is_old() -> None:
    account = stream_of_days(20)
    stray = log_of(account).read(3)
    for version in range(8):
        box(account).delete(log_name(STREAM, version))
        box(account).delete(f"{STREAM}/{version:03d}.avro")
    move_boundary(box(account), STREAM, Boundary(), Boundary(8, {}, "vacuum", 0))
    assert [] == found(account)
    put_entry(account, stray)
    assert [] == found(account)
    account.clock.sleep(DAY)
    assert [("log", log_name(STREAM, 3))] == found(account)
    assert [("log", log_name(STREAM, 3))] == found(account, history=True)


def test_a_missing_writer_schema_is_found() -> None:
    account = stream_of_days(5)
    entry = log_of(account).read(4)
    assert ("f",) == entry.schemas
    box(account).delete(schema_name(STREAM, "f"))
    assert [("log", schema_name(STREAM, "f"))] == found(account)


def test_a_stream_without_a_log_cannot_be_audited() -> None:
    account = new_account()
    box(account).put(f"{STREAM}/a.avro", b"x")
    with pytest.raises(NotFoundError, match="read the commit log"):
        audited(account)


def test_a_stream_that_is_deleted_meanwhile_cannot_be_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    account = stream_of_days(5)
    listing = Sweep.extra

    def deleting(sweep: Sweep) -> object:
        for name in list(account.service.contents("container")):
            box(account).delete(name)
        return listing(sweep)

    monkeypatch.setattr(Sweep, "extra", deleting)
    box(account).put(f"{STREAM}/x.avro", b"x")
    with pytest.raises(ConflictError, match="was deleted since"):
        audited(account)


def test_a_batch_log_is_not_audited() -> None:
    with pytest.raises(ConfigurationError, match="Audit the streams that its batches go to"):
        audit(CommitLog(box(new_account()), "_batches/q"), DAY_OLD)


def test_an_audit_on_the_emulator_sees_what_azure_shows(azurite: Azurite, container_name: str) -> None:
    options = {"path": f"{container_name}/{STREAM}", "connectionString": azurite.connection_string}
    container = connect(sink_options(options, {}).account).container(container_name)
    container.create()
    container.put(schema_name(STREAM, "f"), b"{}")
    blobs = [BlobEntry(f"{STREAM}/{n}.avro", STREAM, None, f"{n:016x}", 1, 1, 1, 1, "f", "end") for n in range(4)]
    log = CommitLog(container, STREAM)
    for batch, blob in enumerate(blobs):
        container.stage_block(blob.name, blob.block_ids[0], b"x")
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        draft = Draft(f"w{batch}", moment, blobs=(blob,), transaction=Transaction("q", batch))
        commit_and_publish(log, draft, Publisher(container))
    assert audit_stream(Location(options.pop("path"), options)).sound
    container.delete(blobs[0].name)
    container.put(blobs[1].name, b"y")
    container.put(f"{STREAM}/copy.avro", b"x", BlobAttributes({ATTEMPT: blobs[2].attempt}))
    found = audit(CommitLog(container, STREAM), DAY_OLD)
    assert [("missing", blobs[0].name), ("altered", blobs[1].name), ("doubled", f"{STREAM}/copy.avro")] == [
        (str(each.kind), each.name) for each in found.findings
    ]
