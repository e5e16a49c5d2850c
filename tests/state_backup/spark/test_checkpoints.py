"""The backup of a query's checkpoint in the background; the query is a stand-in that writes such files."""

from __future__ import annotations

import json
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, Refuse, on
from azure_account.memory.service import MemoryService
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.errors import ConfigurationError, ConflictError, CorruptError, FencedError, NotFoundError
from state_backup import checkpoints, open_state
from state_backup.backup.settings import TaskIdentity
from state_backup.local.claim import claimed
from state_backup.record.names import StateNames
from state_backup.spark import CheckpointBackup, back_up_checkpoint, restore_checkpoint
from state_backup.spark.checkpoints import CheckpointSettings
from state_backup.spark.writers import note_openings, openings_of
from tests.state_backup.spark.checkpoint_files import QUERY, batch_files, write_files
from tests.state_backup.states import STATE, new_account, state_in
from tools import reporting

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer

T = TypeVar("T")
wait_for = partial(reporting.wait_for, seconds=60, poll=0.01)


class Query:
    """Looks like a StreamingQuery whose checkpoint is in a directory."""

    def __init__(self, location: Path, id_: str = QUERY) -> None:
        self.location, self.isActive, self.stopped, self.id = location, True, 0, id_
        if not location.exists():
            write_files(location, {"metadata": json.dumps({"id": id_})})

    def commit(self, *batches: int) -> None:
        for batch in batches:
            write_files(self.location, batch_files(batch))

    def stop(self) -> None:
        self.stopped += 1
        self.isActive = False


@pytest.fixture
def container() -> BlobContainer:
    return new_account().container("box")


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "ck")


def attach(query: Query, container: BlobContainer, **settings: float) -> CheckpointBackup:
    given = CheckpointSettings(**{"every": 0.01, **settings})  # type: ignore[arg-type]
    return back_up_checkpoint(query, state_in(container), query.location, given)


def wait_for_batch(backup: CheckpointBackup, batch: int) -> None:
    wait_for(lambda: backup.batch == batch)


def batches(container: BlobContainer) -> list[str]:
    return [each.offsets["spark.batch"] for each in checkpoints(state_in(container))]


def test_each_batch_that_is_seen_is_backed_up_and_the_last_one_when_the_query_ends(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    with attach(query, container) as backup:
        assert 0 == backup.behind
        query.commit(0)
        wait_for(lambda: backup.batch == 0)
        query.commit(1, 2)
        wait_for(lambda: backup.batch == 2)
        query.commit(3)
        query.stop()
    assert (3, 0) == (backup.batch, backup.behind)
    assert "3" == batches(container)[0]
    restored = restore_checkpoint(state_in(container), tmp_path / "elsewhere" / "ck")
    assert 3 == restored.batch
    found = {path.name for path in (tmp_path / "elsewhere/ck/commits").iterdir()}
    assert {"0", "1", "2", "3"} == found
    assert not (tmp_path / "ck.snapshot").exists()


def test_a_query_that_runs_on_after_close_is_backed_up_to_then(query: Query, container: BlobContainer) -> None:
    query.commit(0)
    with attach(query, container, every=3600):
        query.commit(1)
    assert query.isActive
    assert "1" == batches(container)[0]


def test_a_backup_that_must_be_there_and_is_not_is_an_error(container: BlobContainer, query: Query) -> None:
    missing = MemoryAccount().container("absent")
    for where in (state_in(container), state_in(missing)):
        assert restore_checkpoint(where, query.location).restored is None
        with pytest.raises(NotFoundError, match=r"state .*/flights/task-3 has no backup. Check the names"):
            restore_checkpoint(where, query.location, required=True)
    query.commit(0)
    with attach(query, container):
        query.stop()
    assert 0 == restore_checkpoint(state_in(container), query.location, required=True).batch


def test_without_a_backup_nothing_is_restored(container: BlobContainer, query: Query) -> None:
    assert restore_checkpoint(state_in(container), query.location).batch is None
    query.commit(0)
    found = restore_checkpoint(state_in(container), query.location)
    assert (0, None) == (found.batch, found.restored)


@pytest.mark.parametrize("soft_delete", [None, 86_400.0])
def test_a_record_that_was_deleted_comes_back_or_is_an_error(
    query: Query, tmp_path: Path, soft_delete: float | None
) -> None:
    """Else the query would begin anew in silence, and another one could take the state."""
    container = MemoryAccount(MemoryService(soft_delete=soft_delete)).container("box")
    container.create()
    query.commit(0)
    attach(query, container).close()
    container.delete(StateNames(STATE).record)
    other = Query(tmp_path / "other", "another")
    if soft_delete is None:
        for act in (
            lambda: restore_checkpoint(state_in(container), tmp_path / "new"),
            lambda: attach(other, container),
        ):
            with pytest.raises(ConflictError, match="it has blobs, but .* was deleted"):
                act()
    else:
        assert 0 == restore_checkpoint(state_in(container), tmp_path / "new").batch
        container.delete(StateNames(STATE).record)
        with pytest.raises(ConfigurationError, match="it has a backup of query"):
            attach(other, container)


def test_a_machine_that_was_the_last_keeps_its_directory_with_its_newer_batches(
    query: Query, container: BlobContainer
) -> None:
    query.commit(0)
    attach(query, container).close()
    query.commit(1)
    found = restore_checkpoint(state_in(container), str(query.location))
    assert (1, None) == (found.batch, found.restored)


def test_a_machine_that_was_replaced_gets_the_batches_of_the_other_one(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    attach(query, container).close()
    query.commit(1, 2, 3)
    other = Query(tmp_path / "other")
    assert 0 == restore_checkpoint(state_in(container), other.location).batch
    other.commit(1)
    attach(other, container).close()
    assert 1 == restore_checkpoint(state_in(container), query.location).batch
    assert not (query.location / "commits" / "2").exists()


def test_batches_that_were_never_backed_up_are_discarded_on_request_only(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    attach(query, container).close()
    copy = tmp_path / "copy"
    shutil.copytree(query.location, copy)
    write_files(copy, batch_files(1))
    with pytest.raises(ConflictError, match=r"it has batch 1, the backup has batch 0.*discard_newer"):
        restore_checkpoint(state_in(container), copy)
    assert 0 == restore_checkpoint(state_in(container), copy, discard_newer=True).batch


def test_checkpoints_of_two_queries_are_not_mixed(query: Query, container: BlobContainer, tmp_path: Path) -> None:
    query.commit(0)
    attach(query, container).close()
    other = Query(tmp_path / "other", "another")
    other.commit(0)
    write_files(other.location, {"metadata": '{"id":"another"}'})
    with pytest.raises(ConfigurationError, match="it has a backup of query 4eb42515.*, this is query another"):
        attach(other, container)
    with pytest.raises(ConflictError, match="it is of query another, the backup is of query 4eb42515"):
        restore_checkpoint(state_in(container), other.location)


def test_a_directory_that_is_no_checkpoint_is_left_alone(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    attach(query, container).close()
    write_files(tmp_path / "other", {"precious.csv": "1,2"})
    with pytest.raises(ConflictError, match="it is no checkpoint of Spark, the backup is of query"):
        restore_checkpoint(state_in(container), tmp_path / "other")
    assert (tmp_path / "other" / "precious.csv").read_text() == "1,2"
    assert 0 == restore_checkpoint(state_in(container), tmp_path / "other", discard_newer=True).batch


def test_a_checkpoint_of_another_query_that_has_finished_no_batch_is_kept_under_another_name(
    query: Query, container: BlobContainer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two drivers begin a query: the one that was lost before its first backup must not stop for ever."""
    query.commit(0)
    attach(query, container).close()
    files = {"metadata": '{"id":"another"}', "offsets/0": "v1"}
    write_files(tmp_path / "lost", files)
    assert 0 == restore_checkpoint(state_in(container), tmp_path / "lost").batch
    assert (tmp_path / "lost" / "commits" / "0").exists()
    assert "it is kept as" in caplog.text
    assert all((tmp_path / "lost.of-another" / name).read_text() == text for name, text in files.items())


def test_batches_after_a_restore_are_not_discarded_because_of_a_backup_before_it(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    attach(query, container).close()
    other = Query(tmp_path / "other")
    restore_checkpoint(state_in(container), other.location)
    other.commit(1)
    attach(other, container).close()
    assert 1 == restore_checkpoint(state_in(container), query.location).batch
    query.commit(2, 3)  # and dies before it backs up
    with pytest.raises(ConflictError, match="it has batch 3, the backup has batch 1.*without this restore"):
        restore_checkpoint(state_in(container), query.location)
    assert (query.location / "commits" / "3").exists()
    attach(query, container).close()  # as the error says
    assert 3 == restore_checkpoint(state_in(container), query.location).batch


def test_an_older_backup_does_not_take_the_place_of_newer_batches_if_the_newest_is_not_whole(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0, 1, 2, 3)
    attach(query, container).close()
    copies: dict[int, Path] = {}
    for batch in (3, 5):
        query.commit(*range(4, batch + 1))
        shutil.copytree(query.location, copies.setdefault(batch, tmp_path / f"{batch}"))
    query.commit(6, 7)
    attach(query, container).close()
    assert ["7", "3"] == batches(container)
    container.put(checkpoints(state_in(container))[0].indexes["checkpoint"], b"damaged")
    with pytest.raises(CorruptError):
        restore_checkpoint(state_in(container), copies[5])
    assert (copies[5] / "commits" / "5").exists()
    assert 3 == restore_checkpoint(state_in(container), copies[3]).batch
    assert 3 == restore_checkpoint(state_in(container), copies[5], discard_newer=True).batch


@pytest.mark.parametrize("found", ["none", "another"])
def test_only_the_checkpoint_of_the_query_is_backed_up(query: Query, container: BlobContainer, found: str) -> None:
    query.commit(0)
    if found == "none":
        shutil.rmtree(query.location)
    else:
        write_files(query.location, {"metadata": '{"id":"another"}'})
    with pytest.raises(ConfigurationError, match=f"it has a checkpoint of query {found}, this is query 4eb42515"):
        attach(query, container)
    assert [] == list(container.list())


def test_a_query_whose_state_another_writer_takes_over_is_stopped(query: Query, container: BlobContainer) -> None:
    query.commit(0)
    backup = attach(query, container)
    wait_for(lambda: backup.batch == 0)
    open_state(state_in(container), TaskIdentity("other"))
    query.commit(1)
    wait_for(lambda: query.stopped)
    with pytest.raises(FencedError):
        backup.close()
    assert ["0"] == batches(container)


def test_a_backup_that_fails_is_tried_again_and_the_failure_shows(query: Query) -> None:
    full = threading.Event()
    faults = FaultInjector(lambda attempt: Refuse() if full.is_set() and attempt.operation == "put" else None)
    query.commit(0)
    with attach(query, new_account().restarted(faults).container("box")) as backup:
        wait_for(lambda: backup.batch == 0)
        full.set()
        query.commit(1)
        wait_for(lambda: backup.failure)
        assert 1 == backup.behind
        full.clear()
        wait_for(lambda: backup.batch == 1 and backup.failure is None)


TORN = ["", "\0" * 30, "v1", "v1\n", 'v1\n{"nextBatchWater', "v"]


@pytest.mark.parametrize("name", ["commits/2", "offsets/2", "offsets/3"])
@pytest.mark.parametrize("text", TORN)
def test_a_torn_newest_batch_is_replaced_from_the_backup(
    query: Query, container: BlobContainer, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A loss of power leaves files empty that were written last; Spark does not start from such a checkpoint."""
    query.commit(0, 1, 2)
    attach(query, container).close()
    write_files(query.location, {"offsets/3": batch_files(3)["offsets/3"], name: text})
    found = restore_checkpoint(state_in(container), query.location)
    assert 2 == found.batch
    assert found.restored is not None
    assert f"is torn, as after a loss of power: {name}" in caplog.text
    assert batch_files(2)["commits/2"] == (query.location / "commits/2").read_text()
    found = restore_checkpoint(state_in(container), query.location)
    assert 2 == found.batch


def test_torn_metadata_are_replaced_from_the_backup(query: Query, container: BlobContainer) -> None:
    query.commit(0)
    attach(query, container).close()
    write_files(query.location, {"metadata": ""})
    assert 0 == restore_checkpoint(state_in(container), query.location).batch
    assert batch_files(0)["metadata"] == (query.location / "metadata").read_text()


def test_whole_batches_are_not_discarded_together_with_a_torn_one(query: Query, container: BlobContainer) -> None:
    query.commit(0)
    attach(query, container).close()
    query.commit(1, 2)
    write_files(query.location, {"commits/2": ""})
    with pytest.raises(
        ConflictError, match=r"commits/2 is torn.*batch 1 is whole, the backup has 0\. Delete commits/2,"
    ):
        restore_checkpoint(state_in(container), query.location)
    (query.location / "commits/2").unlink()
    found = restore_checkpoint(state_in(container), query.location)
    assert (1, None) == (found.batch, found.restored)
    write_files(query.location, {"commits/2": ""})
    assert 0 == restore_checkpoint(state_in(container), query.location, discard_newer=True).batch


def test_a_directory_with_torn_metadata_that_another_machine_has_backed_up_since_is_kept_or_discarded_on_request(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    """The error must not say to do what has just failed."""
    query.commit(0)
    attach(query, container).close()
    there = Query(tmp_path / "there" / "ck")
    write_files(there.location, {"metadata": ""})
    with pytest.raises(
        ConflictError, match=r"no checkpoint of Spark.*or discard what is there \(`discard_newer=True`\)"
    ):
        restore_checkpoint(state_in(container), there.location)
    assert 0 == restore_checkpoint(state_in(container), there.location, discard_newer=True).batch


@pytest.mark.parametrize("name", ["commits/1", "offsets/1"])
@pytest.mark.parametrize("text", TORN)
def test_a_torn_batch_is_not_backed_up(query: Query, container: BlobContainer, name: str, text: str) -> None:
    query.commit(0)
    backup = attach(query, container)
    wait_for(lambda: backup.batch == 0)
    write_files(query.location, {**batch_files(1), name: text})
    with pytest.raises(CorruptError, match=f"{name} failed"):
        backup.close()
    assert ["0"] == batches(container)


@pytest.mark.parametrize("left", [None, {}, {"commits/7": "v1"}, {"metadata": '{"id":"another"}', "commits/7": "v1"}])
@pytest.mark.parametrize("batch", [None, 0])
def test_a_checkpoint_that_has_vanished_is_a_failure_that_close_raises(
    query: Query, container: BlobContainer, left: dict[str, str] | None, batch: int | None
) -> None:
    """As when its disk is unmounted, or its folder deleted, under the query; Spark may make parts of it anew."""
    if batch is not None:
        query.commit(batch)
    backup = attach(query, container)
    wait_for(lambda: backup.batch == batch)
    shutil.rmtree(query.location)
    if left is not None:
        query.location.mkdir()
        write_files(query.location, left)
    wait_for(lambda: backup.failure)
    with pytest.raises(ConflictError, match=rf"back up checkpoint .*ck failed: .* of query {QUERY} any more"):
        backup.close()
    assert (["0"] if batch == 0 else []) == batches(container)


def test_a_checkpoint_that_is_back_is_backed_up_on(query: Query, container: BlobContainer, tmp_path: Path) -> None:
    query.commit(0)
    with attach(query, container) as backup:
        wait_for(lambda: backup.batch == 0)
        query.location.rename(tmp_path / "unmounted")
        wait_for(lambda: backup.failure)
        (tmp_path / "unmounted").rename(query.location)
        query.commit(1)
        wait_for(lambda: backup.batch == 1 and backup.failure is None)


def test_a_query_whose_checkpoint_has_vanished_is_stopped_after_the_time_that_was_given(
    query: Query, container: BlobContainer
) -> None:
    query.commit(0)
    backup = attach(query, container, stop_after=1)
    wait_for(lambda: backup.batch == 0)
    shutil.rmtree(query.location)
    wait_for(lambda: query.stopped)
    with pytest.raises(ConflictError):
        backup.close()


class Outage(Intercept):
    """From a moment on requests of some operations get no answer until the outage is over."""

    def __init__(self, *operations: str) -> None:
        self.operations, self.begun, self.over, self.met = operations, threading.Event(), threading.Event(), 0

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if self.begun.is_set() and request.operation in self.operations:
            self.met += 1
            assert self.over.wait(60)
        return send()


@pytest.mark.parametrize("operation", ["set_tags", "delete", "put"])
def test_a_query_is_stopped_in_time_whatever_the_backup_waits_for(query: Query, operation: str) -> None:
    """Also the clean-up after a commit: as long as it waits, no newer batch is backed up."""
    outage = Outage(operation)
    query.commit(0)
    account = new_account()
    backup = attach(query, account.restarted(outage).container("box"), stop_after=1)
    for batch in (0, 1, 2):  # the next one has something to delete
        query.commit(batch)
        wait_for_batch(backup, batch)
    outage.begun.set()
    try:
        query.commit(3)
        wait_for(lambda: query.stopped)
        assert outage.met
        assert not outage.over.is_set()
    finally:
        outage.over.set()
    backup.close()
    assert "3" == batches(account.container("box"))[0]


def test_a_query_can_be_stopped_when_it_is_not_backed_up_for_long(query: Query, container: BlobContainer) -> None:
    query.commit(0)
    write_files(query.location, {"offsets/0": "v1\n{}\n{not json"})
    backup = attach(query, container, stop_after=0.05)
    wait_for(lambda: query.stopped)
    assert backup.behind == 1
    with pytest.raises(CorruptError, match="offsets/0 failed"):
        backup.close()


@pytest.mark.parametrize("location", ["abfss://box@account.dfs.core.windows.net/ck", ""])
def test_only_checkpoints_on_local_disks_are_backed_up(location: str, container: BlobContainer) -> None:
    with pytest.raises(ConfigurationError, match="it is not on a local disk"):
        restore_checkpoint(state_in(container), location)


def test_a_uri_of_a_local_disk_is_a_path(query: Query, container: BlobContainer) -> None:
    query.commit(0)
    assert 0 == restore_checkpoint(state_in(container), f"file://{query.location}").batch


def test_a_disk_that_was_set_back_gets_what_it_had_backed_up(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    shutil.copytree(query.location, tmp_path / "image")
    query.commit(1)
    attach(query, container).close()
    shutil.rmtree(query.location)
    shutil.copytree(tmp_path / "image", query.location)
    assert 1 == restore_checkpoint(state_in(container), query.location).batch
    assert (query.location / "commits" / "1").exists()


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_machine_that_dies_while_it_opens_the_state_keeps_its_batches(query: Query, after_effect: bool) -> None:
    account = new_account()
    query.commit(0)
    attach(query, account.container("box")).close()
    query.commit(1)
    dies = on("put", Crash(after_effect=after_effect), name=lambda name: name.endswith("checkpoint.json"))
    with pytest.raises(ProcessDied):
        attach(query, account.restarted(FaultInjector(dies)).container("box"))
    found = restore_checkpoint(state_in(account.container("box")), query.location)
    assert (1, None) == (found.batch, found.restored)


def test_a_damaged_note_of_this_machine_does_not_count(
    query: Query, container: BlobContainer, caplog: pytest.LogCaptureFixture
) -> None:
    query.commit(0)
    attach(query, container).close()
    (query.location.parent / "ck.backup.json").write_text("[]")
    assert 0 == restore_checkpoint(state_in(container), query.location).batch
    assert "ck.backup.json is damaged" in caplog.text


def test_the_last_batch_is_backed_up_when_the_session_has_gone(query: Query, container: BlobContainer) -> None:
    class Gone(Query):
        @property
        def isActive(self) -> bool:  # noqa: N802 - Spark's name
            raise ConnectionRefusedError("JVM")

        @isActive.setter
        def isActive(self, value: bool) -> None:  # noqa: N802 - Spark's name
            """It cannot be known."""

    gone = Gone(query.location)
    gone.commit(0, 1)
    attach(gone, container).close()
    assert "1" == batches(container)[0]


class Stubborn(Query):
    """Cannot be stopped before the third attempt, as when its batch takes longer than `stopTimeout`."""

    attempts = 3

    def stop(self) -> None:
        self.stopped += 1
        if self.stopped < self.attempts:
            raise TimeoutError("the stream thread has not stopped within spark.sql.streaming.stopTimeout")
        self.isActive = False


def test_a_query_that_cannot_be_stopped_is_stopped_again_when_another_writer_has_its_state(
    tmp_path: Path, container: BlobContainer, caplog: pytest.LogCaptureFixture
) -> None:
    query = Stubborn(tmp_path / "ck")
    query.commit(0)
    backup = attach(query, container)
    wait_for(lambda: backup.batch == 0)
    open_state(state_in(container), TaskIdentity("other"))
    query.commit(1)
    wait_for(lambda: not query.isActive)
    with pytest.raises(FencedError):
        backup.close()
    assert 3 == query.stopped
    assert 2 == caplog.text.count("cannot be stopped, it is tried again while it runs: the stream thread")


def test_close_does_not_wait_for_a_query_that_cannot_be_stopped(tmp_path: Path, container: BlobContainer) -> None:
    query = Stubborn(tmp_path / "ck")
    query.commit(0)
    backup = attach(query, container, every=3600)
    wait_for(lambda: backup.batch == 0)
    open_state(state_in(container), TaskIdentity("other"))
    query.commit(1)
    with pytest.raises(FencedError):
        backup.close()
    assert (1, True) == (query.stopped, query.isActive)


def test_a_query_that_cannot_be_stopped_is_backed_up_on_and_stopped_again(
    tmp_path: Path, container: BlobContainer
) -> None:
    query = Stubborn(tmp_path / "ck")
    query.attempts = 1_000_000
    query.commit(0)
    write_files(query.location, {"offsets/0": "v1\n{}\n{not json"})
    backup = attach(query, container, stop_after=0.05)
    wait_for(lambda: query.stopped >= 2)
    query.commit(0)
    wait_for(lambda: backup.batch == 0)
    backup.close()


@pytest.mark.parametrize(
    ("store", "offsets"),
    [
        ("checkpoint", {}),
        ("checkpoint", {"spark.batch": "0"}),
        ("checkpoint", {"spark.batch": "x", "spark.query": QUERY}),
        ("aggregates", {"spark.batch": "0", "spark.query": QUERY}),
    ],
)
def test_a_state_that_something_else_has_backed_up_is_refused_before_anything_is_restored(
    query: Query, container: BlobContainer, tmp_path: Path, store: str, offsets: dict[str, str]
) -> None:
    query.commit(0)
    open_state(state_in(container), TaskIdentity("other")).back_up({store: query.location}, offsets)
    refused = pytest.raises(ConfigurationError, match="is no backup of back_up_checkpoint.*restored by `restore`")
    with refused:
        restore_checkpoint(state_in(container), tmp_path / "new", discard_newer=True)
    with refused:
        restore_checkpoint(state_in(container), query.location, discard_newer=True)
    with refused:
        attach(query, container)
    assert {"ck"} == {path.name for path in tmp_path.iterdir()}


def test_an_older_checkpoint_of_something_else_is_refused_too(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    writer = open_state(state_in(container), TaskIdentity("other"))
    writer.back_up({"checkpoint": query.location})
    writer.back_up({"checkpoint": query.location}, {"spark.batch": "0", "spark.query": QUERY})
    with pytest.raises(ConfigurationError, match="is no backup of back_up_checkpoint"):
        restore_checkpoint(state_in(container), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_directory_of_somebody_else_that_has_the_name_of_the_snapshot_stays(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    write_files(tmp_path / "ck.snapshot", {"precious": "1"})
    with pytest.raises(ConfigurationError, match=r"ck\.snapshot is there, and was not made by state_backup"):
        attach(query, container)
    assert "1" == (tmp_path / "ck.snapshot" / "precious").read_text()
    assert [] == list(container.list())


def test_a_snapshot_that_a_killed_process_has_left_is_replaced(
    query: Query, container: BlobContainer, tmp_path: Path
) -> None:
    query.commit(0)
    with claimed(tmp_path / "ck.snapshot.lock", [tmp_path / "ck.snapshot"]):
        write_files(tmp_path / "ck.snapshot", {"left": "1"})
    assert {"ck", "ck.snapshot", "ck.snapshot.lock"} == {path.name for path in tmp_path.iterdir()}
    attach(query, container).close()
    assert {"ck", "ck.backup.json"} == {path.name for path in tmp_path.iterdir()}
    restore_checkpoint(state_in(container), tmp_path / "new")
    assert not (tmp_path / "new" / "left").exists()


def test_openings_that_a_newer_release_has_noted_are_not_taken_for_damaged(tmp_path: Path) -> None:
    note_openings(tmp_path / "ck", ["a", "b"])
    assert ["a", "b"] == openings_of(tmp_path / "ck")
    (tmp_path / "ck.backup.json").write_text('{"format-version": 2, "opening": "b"}')
    with pytest.raises(ConfigurationError, match="so it needs a newer release"):
        openings_of(tmp_path / "ck")
    (tmp_path / "ck.backup.json").write_text('{"openings": ["a"]}')
    assert [] == openings_of(tmp_path / "ck")
