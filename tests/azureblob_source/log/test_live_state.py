"""By which checkpoint a read begins, and that it finds what the entries say whatever has become of checkpoints."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from azure_account.values import BlobAttributes
from azureblob_source.log import live_state
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, to_json
from azureblob_source.log.hint import put_hint
from azureblob_source.log.naming import checkpoint_name, hint_name, log_name, log_version, metadata_prefix
from azureblob_source.log.stream_notes import LogFacts
from azureblob_source.read.snapshot import take_snapshot
from foundation.errors import NotFoundError
from tests.azureblob_source.log.checkpoint.stored_logs import (
    STREAM,
    Requests,
    checkpoint,
    entry,
    live,
    live_by_entries,
    put_entries,
)
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from azure_account.retrying.retry_loop import Request


@pytest.fixture
def account() -> MemoryAccount:
    return new_account()


@pytest.fixture
def container(account: MemoryAccount) -> BlobContainer:
    """A log of 60 versions, with checkpoints at 19 and 39."""
    found = account.container("container")
    put_entries(found, range(60))
    for version in (19, 39):
        checkpoint(found, version)
    return found


def base_of(container: BlobContainer, version: int | None = None) -> int | None:
    """The version of the checkpoint by which a new process reads."""
    state = live_state.live_state(CommitLog(container, STREAM), version)
    return None if state.base is None else state.base.version


def manifests(container: BlobContainer) -> list[str]:
    return [blob.name for blob in container.list(f"{metadata_prefix(STREAM)}m-")]


@pytest.mark.parametrize(
    ("version", "base"), [(59, 39), (40, 39), (39, 39), (38, 19), (19, 19), (18, None), (5, None), (None, 39)]
)
def test_a_read_begins_at_the_newest_checkpoint_up_to_its_version(
    container: BlobContainer, version: int | None, base: int | None
) -> None:
    assert base == base_of(container, version)
    assert [*range(60 if version is None else version + 1)] == live(container, 59 if version is None else version)


def test_of_few_entries_no_checkpoint_is_looked_for(account: MemoryAccount, container: BlobContainer) -> None:
    for version, of_checkpoints in ((live_state.FEW_ENTRIES - 1, 0), (live_state.FEW_ENTRIES + 3, 2)):
        requests = Requests()
        log = CommitLog(account.restarted(requests).container("container"), STREAM)
        log.notes.checkpoint = 39
        live_state.live_state(log, version)
        found = [each for each in requests.of_checkpoints() if each[0] in ("get", "list")]
        assert of_checkpoints == len(found)


def test_no_entry_before_the_checkpoint_is_read(account: MemoryAccount, container: BlobContainer) -> None:
    requests = Requests()
    log = CommitLog(account.restarted(requests).container("container"), STREAM)
    assert 59 == live_state.live_state(log).last.version
    read = {log_version(name) for of, name in requests.made if of == "get"} - {None}
    assert {0, *range(39, 60)} == read, "that of the oldest shows that the hint is of this log"


def test_without_a_hint_a_checkpoint_of_a_long_log_is_found_by_a_listing(
    container: BlobContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    container.delete(hint_name(STREAM))
    assert base_of(container) is None, "59 entries are few enough to be read"
    monkeypatch.setattr(live_state, "MANY_ENTRIES", 59)
    assert 39 == base_of(container)
    assert [*range(60)] == live(container, 59)


@pytest.mark.parametrize("hint", [0, 18, 20, 38, 40, 59, 60, 10**19])
def test_a_wrong_hint_costs_a_listing_at_most(container: BlobContainer, hint: int) -> None:
    put_hint(container, STREAM, hint)
    assert 39 == base_of(container)
    assert [*range(60)] == live(container, 59)


def test_an_old_hint_is_as_good(container: BlobContainer) -> None:
    put_hint(container, STREAM, 19)
    assert 19 == base_of(container)
    assert [*range(60)] == live(container, 59)


@pytest.mark.parametrize("left", [b"", b"Obj", None])
def test_a_list_that_cannot_be_read_gives_way_to_an_older_one(
    container: BlobContainer, left: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    name = checkpoint_name(STREAM, 39)
    if left is None:
        container.delete(name)
    else:
        container.put(name, left)
    with caplog.at_level(logging.WARNING):
        assert 19 == base_of(container)
    assert (left is not None) == (f"{name} is ignored, the log is read instead" in caplog.text)
    assert [*range(60)] == live(container, 59)


def test_after_a_few_lists_that_cannot_be_read_the_log_is_read(container: BlobContainer) -> None:
    for version in range(20, 50):
        container.put(checkpoint_name(STREAM, version), b"x")
    assert base_of(container) is None
    assert [*range(60)] == live(container, 59)


@pytest.mark.parametrize("left", [b"", b"Obj", None])
def test_a_manifest_that_cannot_be_read_is_said_and_the_log_is_read(
    container: BlobContainer, left: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    for name in manifests(container):
        if left is None:
            container.delete(name)
        else:
            container.put(name, left)
    with caplog.at_level(logging.WARNING):
        assert [*range(60)] == live(container, 59)
    assert "the checkpoint of version 39 is ignored, the log is read instead" in caplog.text


def test_entries_that_take_the_place_of_deleted_ones_are_read(container: BlobContainer) -> None:
    """The newest were deleted by hand, and the log goes on at a version that has a checkpoint."""
    for version in range(30, 60):
        container.delete(log_name(STREAM, version))
    for version in range(30, 45):
        container.put(log_name(STREAM, version), to_json(entry(version, f"again{version}")))
    assert base_of(container) is None
    assert [*range(45)] == live(container, 44)
    checkpoint(container, 44)
    assert 44 == base_of(container)


def test_a_checkpoint_of_another_log_is_none(container: BlobContainer) -> None:
    foreign = container.get(checkpoint_name(STREAM, 39)).data
    for blob in list(container.list(f"{STREAM}/")):
        container.delete(blob.name)
    for version in range(50):
        own = entry(version, f"v{version}")
        container.put(log_name(STREAM, version), to_json(own).replace(b'"logId":"w0"', b'"logId":"v0"'))
    container.put(checkpoint_name(STREAM, 39), foreign)
    put_hint(container, STREAM, 39)
    assert base_of(container) is None
    assert [*range(50)] == live(container, 49)


@pytest.mark.parametrize("first", [5, 19, 25, 39, 45, 59])
def test_what_a_vacuum_removes_while_it_is_read_is_missing_as_without_a_checkpoint(
    account: MemoryAccount, container: BlobContainer, first: int
) -> None:
    def vacuum(request: Request) -> None:
        if request.operation == "get" and log_version(request.name) == 50:
            requests.before = lambda _: None
            move_boundary(container, STREAM, Boundary(), Boundary(first))
            for version in range(first):
                container.delete(log_name(STREAM, version))

    requests = Requests(vacuum)
    assert [*range(first, 60)] == live(account.restarted(requests).container("container"), 59)
    assert [*range(first, 60)] == live(container, 59) == live_by_entries(container, 59)


@pytest.mark.parametrize("gone", [range(5), range(19), range(25), range(45)])
def test_of_a_log_that_was_shortened_by_hand_what_is_left_is_read(container: BlobContainer, gone: range) -> None:
    for version in gone:
        container.delete(log_name(STREAM, version))
    assert [*range(gone.stop, 60)] == live(container, 59) == live_by_entries(container, 59)


def test_an_entry_in_the_middle_is_missed_only_where_it_is_needed(container: BlobContainer) -> None:
    container.delete(log_name(STREAM, 10))
    assert [*range(60)] == live(container, 59)
    with pytest.raises(NotFoundError, match=r"it was deleted by hand"):
        live_by_entries(container, 59)
    container.delete(log_name(STREAM, 50))
    with pytest.raises(NotFoundError, match=r"it was deleted by hand"):
        live(container, 59)
    assert [*range(46)] == live(container, 45)


@pytest.mark.parametrize("first", [0, 10])
def test_a_read_by_a_checkpoint_asks_for_the_oldest_entry_once(
    account: MemoryAccount, container: BlobContainer, first: int
) -> None:
    move_boundary(container, STREAM, Boundary(), Boundary(first, {}, "w"))
    for version in range(first):
        container.delete(log_name(STREAM, version))
    publish(container, 59)
    requests = Requests()
    found = take_snapshot(CommitLog(account.restarted(requests).container("container"), STREAM), None)
    assert [*range(first, 60)] == [blob.version for blob in found.blobs]
    assert ("get", "list") in requests.of_checkpoints()
    assert 1 == sum(name == log_name(STREAM, first) for _, name in requests.made)


def test_where_the_oldest_entries_are_gone_one_thread_alone_changes_what_the_log_knows(
    container: BlobContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(5):
        container.delete(log_name(STREAM, version))
    publish(container, 59)
    threads: list[threading.Thread] = []
    look = CommitLog.refresh_boundary

    def looked(log: CommitLog) -> Boundary:
        threads.append(threading.current_thread())
        return look(log)

    log = CommitLog(container, STREAM, facts=LogFacts(59, "w59"))
    monkeypatch.setattr(CommitLog, "refresh_boundary", looked)
    assert [*range(5, 60)] == [blob.version for blob in take_snapshot(log, None).blobs]
    assert {threading.main_thread()} == set(threads)


def publish(container: BlobContainer, version: int) -> None:
    for blob in entry(version).blobs:
        container.put(blob.name, b"x", BlobAttributes({ATTEMPT: blob.attempt}))
