"""When checkpoints are made, by what, at which price, and that a batch never fails for one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.memory.faults import Crash, Fault, FaultInjector, LostAnswer, ProcessDied, Refuse, TimeOut, on
from azureblob_source.log import checkpointing
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.checkpoint import building
from azureblob_source.log.checkpoint.table_columns import TableColumns
from azureblob_source.log.checkpointing import make_checkpoint
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.hint import hinted, put_hint
from azureblob_source.log.naming import checkpoint_name, checkpoint_version, hint_name, log_name, metadata_prefix
from tests.azureblob_source.log.checkpoint.stored_logs import (
    STREAM,
    Requests,
    checkpoint,
    live,
    live_by_entries,
    put_entries,
)
from tests.azureblob_source.log.committing import ROWS, rows
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from azure_account.memory.faults import NumberedAttempt
    from azureblob_source.log.entry import LogEntry


class Writer:
    """A process that writes batches of a row each, and makes a checkpoint every four versions."""

    def __init__(self, account: MemoryAccount, seed: int = 0, **options: Any) -> None:
        self.container = account.container("container")
        self.plan = plan_of(ROWS, checkpointInterval=4, **options)
        self.seed = seed
        self.committer = committer(self.container, self.plan, seed)

    def write(self, batch: int, *, overwrite: bool = False) -> list[LogEntry]:
        staged = stage_rows(self.container, self.plan, [rows([batch])], seed=1000 * self.seed + batch)
        return self.committer.commit([staged], Transaction("q", batch), overwrite=overwrite)


@pytest.fixture
def account() -> MemoryAccount:
    return new_account()


@pytest.fixture
def container(account: MemoryAccount) -> BlobContainer:
    return account.container("container")


def made(container: BlobContainer) -> list[int]:
    """The versions of the checkpoints."""
    listed = (checkpoint_version(blob.name) for blob in container.list(metadata_prefix(STREAM)))
    return [version for version in listed if version is not None]


def manifests(container: BlobContainer) -> list[str]:
    return [blob.name for blob in container.list(f"{metadata_prefix(STREAM)}m-")]


# --- when -------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_made_every_few_versions_whoever_writes(
    container: BlobContainer, account: MemoryAccount
) -> None:
    for batch in range(14):
        Writer(account, seed=batch % 3).write(batch)
    assert [3, 7, 11] == made(container)
    assert 11 == hinted(container, STREAM)
    for version in range(14):
        assert [*range(version + 1)] == live(container, version)


def test_one_that_is_due_at_an_entry_of_no_batch_is_made_at_the_batch_after_it(
    container: BlobContainer, account: MemoryAccount
) -> None:
    """A job that is started for each batch opens an epoch each time: at every other version."""
    Writer(account).write(0)
    for batch in range(1, 7):
        writer = Writer(account, epoch=batch)
        log = writer.committer.logs(STREAM)
        append_epoch(log, Draft(f"e{batch}", "2026-01-01T00:00:00+00:00", epoch=batch), writer.committer.publisher)
        (entry,) = writer.write(batch)
        assert 2 * batch == entry.version
    assert [4, 8, 12] == made(container)


def test_a_repeated_batch_makes_the_checkpoint_that_its_dead_driver_owed(
    container: BlobContainer, account: MemoryAccount
) -> None:
    for batch in range(3):
        Writer(account).write(batch)
    dying = FaultInjector(lambda attempt: Crash() if "/_iceberg/" in attempt.name else None)
    with pytest.raises(ProcessDied):
        Writer(account.restarted(dying)).write(3)
    assert ([], [0, 1, 2, 3]) == (made(container), live(container, 3))
    Writer(account, seed=1).write(3)
    assert [3] == made(container)


def test_an_overwrite_begins_the_checkpoints_anew(container: BlobContainer, account: MemoryAccount) -> None:
    for batch in range(5):
        Writer(account).write(batch)
    Writer(account).write(5, overwrite=True)
    for batch in (6, 7, 8):
        Writer(account).write(batch)
    found = CommitLog(container, STREAM).checkpoints.find(7)
    assert found is not None
    assert (5, 3, ()) == (found.since, found.blobs, found.removers)
    assert [5, 6, 7, 8] == live(container, 8)


# --- the price --------------------------------------------------------------------------------------------------------


def test_a_commit_that_makes_a_checkpoint_makes_three_requests_more(account: MemoryAccount) -> None:
    requests = Requests()
    writer, counts = Writer(account.restarted(requests)), []
    for batch in range(16):
        requests.made.clear()
        writer.write(batch)
        counts.append(len(requests.made))
        parts = [("put", "manifest"), ("put", "list"), ("put", "hint")] if batch % 4 == 3 and batch > 3 else []
        assert parts == requests.of_checkpoints() or batch in (0, 3)
    assert [counts[6] + 3] * 3 == [counts[7], counts[11], counts[15]]


def test_a_process_that_has_put_none_of_the_entries_reads_each_once(
    container: BlobContainer, account: MemoryAccount
) -> None:
    put_entries(container, range(100))
    checkpoint(container, 63)
    requests = Requests()
    checkpoint(account.restarted(requests).container("container"), 99)
    read = [name for of, name in requests.made if of == "get" and name.startswith(f"{STREAM}/_log/0")]
    assert sorted(log_name(STREAM, version) for version in (*range(63, 100), 99)) == sorted(read)
    of_parts = [("get", "hint"), ("get", "list"), ("get", "manifest"), ("put", "manifest")]
    assert [*of_parts, ("put", "list"), ("put", "hint")] == requests.of_checkpoints()


def test_a_step_within_a_commit_reads_a_thousand_entries_at_most(
    container: BlobContainer, account: MemoryAccount
) -> None:
    put_entries(container, range(2300))
    for expected in (999, 1999, 2299):
        requests = Requests()
        log = CommitLog(account.restarted(requests).container("container"), STREAM)
        found = make_checkpoint(log, log.read(2299), most=checkpointing._MOST_ENTRIES)
        assert found is not None
        assert expected == found.version
        assert len([of for of, name in requests.made if of == "get" and "/_log/0" in name]) <= 1010
    assert [999, 1999, 2299] == made(container)
    assert [*range(2300)] == live(container, 2299)


def test_what_is_too_far_for_a_commit_is_left_to_the_command(
    container: BlobContainer, caplog: pytest.LogCaptureFixture
) -> None:
    put_entries(container, range(60))
    checkpoint(container, 49)
    for name in manifests(container):
        container.delete(name)
    with caplog.at_level(logging.WARNING):
        assert checkpoint(container, 59, most=20) is None
    assert "version 59 is too far for a checkpoint within a commit; run the command `checkpoint`" in caplog.text
    found = checkpoint(container, 59)
    assert found is not None
    assert (59, 60) == (found.version, found.blobs)


# --- by what ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["list", "manifest", "hint", "wrong hint", "all"])
def test_a_writer_takes_an_older_base_or_begins_anew(container: BlobContainer, damage: str) -> None:
    put_entries(container, range(60))
    checkpoint(container, 19)
    before = manifests(container)
    checkpoint(container, 39)
    (newest,) = {*manifests(container)} - {*before}
    if damage in ("list", "all"):
        container.put(checkpoint_name(STREAM, 39), b"")
    if damage in ("manifest", "all"):
        container.put(newest, b"")
    if damage in ("hint", "all"):
        container.delete(hint_name(STREAM))
    if damage == "wrong hint":
        put_hint(container, STREAM, 77)
    found = checkpoint(container, 59)
    assert found is not None
    assert (59, 60) == (found.version, found.blobs)
    assert 59 == hinted(container, STREAM)
    assert [*range(60)] == live(container, 59) == live_by_entries(container, 59)


def test_the_checkpoint_at_a_version_is_not_made_again(container: BlobContainer, account: MemoryAccount) -> None:
    put_entries(container, range(30))
    first = checkpoint(container, 29)
    requests = Requests()
    assert first == checkpoint(account.restarted(requests).container("container"), 29)
    assert [] == [of for of, _ in requests.made if of == "put"]


def test_a_rebuilt_checkpoint_is_of_the_entries_alone(container: BlobContainer) -> None:
    put_entries(container, range(40))
    checkpoint(container, 19)
    forged = CommitLog(container, STREAM)
    made_of_19 = make_checkpoint(forged, forged.read(39))
    assert made_of_19 is not None
    wrong = building.begun([forged.read(39)], forged.checkpoints, TableColumns({}, lambda _: None))
    forged.checkpoints.put(wrong, replaces=True)
    assert [39] == live(container, 39), "so a checkpoint is believed if nothing shows that it is wrong"
    log = CommitLog(container, STREAM)
    make_checkpoint(log, log.read(39), rebuild=True)
    assert [*range(40)] == live(container, 39)


@pytest.mark.parametrize("first", [10, 25, 45])
def test_what_a_vacuum_has_removed_is_in_no_later_checkpoint(container: BlobContainer, first: int) -> None:
    put_entries(container, range(60))
    checkpoint(container, 39)
    move_boundary(container, STREAM, Boundary(), Boundary(first))
    for version in range(first):
        container.delete(log_name(STREAM, version))
    found = checkpoint(container, 59)
    assert found is not None
    assert (60 - first, first) == (found.blobs, found.oldest)
    assert [*range(first, 60)] == live(container, 59)


def test_an_entry_that_a_vacuum_has_removed_by_now_needs_no_checkpoint(container: BlobContainer) -> None:
    put_entries(container, range(60))
    log = CommitLog(container, STREAM)
    last = log.read(30)
    move_boundary(container, STREAM, Boundary(), Boundary(45))
    log.refresh_boundary()
    assert make_checkpoint(log, last, most=1000) is None
    assert [] == made(container)


# --- two writers ------------------------------------------------------------------------------------------------------


def test_of_two_writers_the_first_one_puts_the_checkpoint(
    container: BlobContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "OPEN_BLOBS", 5)
    put_entries(container, range(40))
    checkpoint(container, 9)
    one, other = CommitLog(container, STREAM), CommitLog(container, STREAM)
    one.notes.checkpoint, other.notes.checkpoint = 9, -1
    first = make_checkpoint(one, one.read(39))
    stored = container.get(checkpoint_name(STREAM, 39)).data
    second = make_checkpoint(other, other.read(39))
    assert first is not None
    assert second is not None
    assert [each.name for each in first.manifests] != [each.name for each in second.manifests]
    assert stored == container.get(checkpoint_name(STREAM, 39)).data
    assert [*range(40)] == live(container, 39)


def test_a_checkpoint_that_cannot_be_read_is_not_in_the_way(container: BlobContainer) -> None:
    put_entries(container, range(40))
    container.put(checkpoint_name(STREAM, 39), b"x")
    checkpoint(container, 39)
    assert [*range(40)] == live(container, 39)
    assert 39 == hinted(container, STREAM)


# --- failures ---------------------------------------------------------------------------------------------------------


class _AtPart:
    """A fault at the requests for parts of checkpoints, from the n-th after the commit on."""

    def __init__(self, number: int, fault: Fault) -> None:
        self.number, self.fault, self.seen, self.committed = number, fault, 0, False

    def __call__(self, attempt: NumberedAttempt) -> Fault | None:
        self.committed |= (attempt.operation, attempt.name) == ("put", log_name(STREAM, 7))
        is_part = "/_iceberg/" in attempt.name or attempt.name.endswith("_checkpoint.json")
        self.seen += self.committed and is_part
        return self.fault if self.committed and is_part and self.seen >= self.number else None


@pytest.mark.parametrize("fault", [Refuse(), TimeOut(), LostAnswer()], ids=["refused", "timed out", "lost"])
@pytest.mark.parametrize("number", range(1, 6))
def test_no_failure_of_a_request_fails_the_batch(
    account: MemoryAccount, number: int, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    container = account.container("container")
    for batch in range(7):
        Writer(account).write(batch)
    script = _AtPart(number, fault)
    with caplog.at_level(logging.WARNING):
        (entry,) = Writer(account.restarted(FaultInjector(script))).write(7)
    assert 7 == entry.version
    assert script.seen >= number
    if isinstance(fault, Refuse):
        assert "no checkpoint is made at version 7" in caplog.text
    assert [*range(8)] == live(container, 7) == live_by_entries(container, 7)
    for batch in range(8, 12):
        Writer(account).write(batch)
    assert 11 in made(container)
    assert [*range(12)] == live(container, 11)


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_writer_that_dies_at_any_request_of_a_checkpoint_leaves_the_stream_as_it_is(*, after_effect: bool) -> None:
    for number in range(1, 20):
        account = new_account()
        container = account.container("container")
        for batch in range(7):
            Writer(account).write(batch)
        dying = Writer(account.restarted(FaultInjector(_AtPart(number, Crash(after_effect)))))
        try:
            dying.write(7)
        except ProcessDied:
            assert [*range(8)] == live(container, 7)
        else:
            assert 6 == number
            break
        for batch in range(7, 12):
            Writer(account, seed=1).write(batch)
        assert 11 in made(container)
        for version in range(12):
            assert [*range(version + 1)] == live(container, version) == live_by_entries(container, version)
    else:
        pytest.fail("it always dies")


def test_an_error_of_another_kind_does_not_fail_the_batch_either(
    account: MemoryAccount, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(building, "begun", fails)
    with caplog.at_level(logging.WARNING):
        for batch in range(4):
            Writer(account).write(batch)
    assert "flights: no checkpoint is made at version 3: ZeroDivisionError('a mistake')" in caplog.text
    assert any(record.exc_info for record in caplog.records)


def test_a_list_whose_put_is_not_known_to_be_executed_is_not_hinted_at(
    container: BlobContainer, account: MemoryAccount
) -> None:
    put_entries(container, range(30))
    lost = FaultInjector(on("put", LostAnswer(), name=lambda name: "snap-" in name))
    checkpoint(account.restarted(lost).container("container"), 29)
    assert -1 == hinted(container, STREAM)
    assert [*range(30)] == live(container, 29)
