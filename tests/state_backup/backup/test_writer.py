"""Backups of one writer, of two of which one is replaced, and of one beside a sweep."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.memory.faults import Crash, FaultInjector, LostAnswer, ProcessDied, Refuse, on
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.errors import ConfigurationError, ConflictError, CorruptError, FencedError, NotFoundError
from state_backup.backup.settings import TaskIdentity, WriterHandover, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.restoring.restore import checkpoints, restore
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.state_backup.states import STATE, TREES, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_account.memory.account import MemoryAccount
    from state_backup.backup.writer import StateWriter
    from state_backup.record.record import Checkpoint

T = TypeVar("T")
OWNER = TaskIdentity("flights", task_name="task-3")


def opened(account: MemoryAccount, **settings: int) -> StateWriter:
    return open_state(state_in(account.container("box")), OWNER, WriterSettings(**settings))  # type: ignore[arg-type]


def back_up(writer: StateWriter, tmp_path: Path, tree: int) -> Checkpoint:
    return writer.back_up({"store": write(tmp_path / f"live-{tree}", TREES[tree])}, {"input": str(tree)})


def test_the_last_two_checkpoints_can_be_restored_and_nothing_else_is_kept(tmp_path: Path) -> None:
    account = new_account()
    writer = opened(account)
    ids = [back_up(writer, tmp_path, tree).id for tree in range(4)]
    assert sorted(ids) == ids
    found = checkpoints(state_in(account.container("box")))
    assert [ids[3], ids[2]] == [each.id for each in found]
    for number in (2, 3):
        restored = restore(
            state_in(account.container("box")),
            {"store": tmp_path / "restored"},
            checkpoint_id=str(ids[number]),
        )
        assert {"input": str(number)} == restored.checkpoint.offsets
        assert equal(tmp_path / "restored", TREES[number])
    before = len(list(account.container("box").list()))
    check_no_orphans(account.container("box"))
    assert before == len(list(account.container("box").list())), "the writer has deleted it all"
    with pytest.raises(
        NotFoundError,
        match=f"there is no checkpoint {ids[0]} with store; there are: {ids[3]} with store; {ids[2]} with store",
    ):
        restore(
            state_in(account.container("box")),
            {"store": tmp_path / "restored"},
            checkpoint_id=str(ids[0]),
        )


def test_checkpoints_that_are_named_stay_until_they_are_not_named_any_more(tmp_path: Path) -> None:
    account = new_account()
    container, writer = account.container("box"), opened(account)
    ids = [str(back_up(writer, tmp_path, tree).id) for tree in (0, 3)]
    for tree, keep, expected in [
        (1, {ids[0], "1-1", "x"}, [2, 1, 0]),
        (2, ids[:1], [3, 2, 0]),
        (1, ids[:2], [4, 3, 0]),
    ]:
        live = write(tmp_path / "live", TREES[tree])
        ids.append(str(writer.back_up({"store": live}, {"input": str(tree)}, keep=keep).id))
        assert [ids[number] for number in expected] == [str(each.id) for each in checkpoints(state_in(container))]
        restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=ids[0])
        assert equal(tmp_path / "restored", TREES[0])
        before = len(list(container.list()))
        check_no_orphans(container)
        assert before == len(list(container.list())), "the writer has deleted what no checkpoint needs"
        writer = opened(account)
    back_up(writer, tmp_path, 2)
    assert 2 == len(checkpoints(state_in(container)))
    check_no_orphans(container)


class TwoAtOnce(Intercept):
    """Each request for a snapshot index waits for another one."""

    def __init__(self) -> None:
        self.met = threading.Barrier(2)

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "get" and "/index/" in request.name:
            self.met.wait(30)
        return send()


def test_the_indexes_of_many_checkpoints_are_read_at_the_same_time(tmp_path: Path) -> None:
    """Of a store whose readers were killed hundreds stay, and each task that writes it reads them all."""
    account = new_account()
    writer = opened(account, keep=4)
    for tree in range(4):
        back_up(writer, tmp_path, tree)
    assert 4 == len(opened(account.restarted(TwoAtOnce()), threads=2).checkpoints)


@pytest.mark.usefixtures("no_packs")
def test_blobs_of_a_checkpoint_have_no_ttl_and_only_new_ones_are_asked(tmp_path: Path) -> None:
    faults = FaultInjector()
    account = new_account()
    writer = opened(account.restarted(faults))
    back_up(writer, tmp_path, 0)
    container = account.container("box")
    tags = {blob.name: container.tags(blob.name) for blob in container.list()}
    assert [{}] * len(tags) == list(tags.values())
    before = faults.count
    back_up(writer, tmp_path, 1)
    asked = [each for each in faults.attempts[before:] if each.operation == "set_tags"]
    assert 3 == len(asked), "2.sst, CURRENT and the index"


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize("listed", [True, False])
def test_a_state_is_opened_without_taking_ttls_off_again(tmp_path: Path, listed: bool) -> None:
    """A listing shows which blobs have one; to an identity that may not list tags, `settled` says which have none."""
    account, faults = new_account(), FaultInjector(*([] if listed else [on("list_tags", Refuse(), times=100)]))
    container = account.restarted(faults).container("box")

    def asked(settled: str) -> int:
        before = faults.count
        assert open_state(state_in(container), OWNER, prior=WriterHandover(settled=settled)).settled
        return sum(each.operation == "set_tags" for each in faults.attempts[before:])

    writer = opened(account.restarted(FaultInjector(on("set_tags", Refuse(), times=3, skip=4))))
    first = str(back_up(writer, tmp_path, 0).id)
    assert writer.settled
    second = str(back_up(writer, tmp_path, 1).id)
    assert not writer.settled, "no TTL of the second backup could be taken off"
    assert 3 == asked(first), "2.sst, CURRENT and the index"
    assert 0 == asked(second)
    assert [0 if listed else 7] * 2 == [asked(""), asked("1-1")]


def test_a_store_that_has_not_changed_costs_one_write(tmp_path: Path) -> None:
    faults = FaultInjector()
    writer = opened(new_account().restarted(faults))
    first = back_up(writer, tmp_path, 0)
    live, before = tmp_path / "live-0", faults.count
    second = writer.back_up({"store": live})
    assert first.indexes == second.indexes
    assert ["put"] == [each.operation for each in faults.attempts[before:]]


def test_stores_are_committed_together_and_one_can_be_left_out(tmp_path: Path) -> None:
    account = new_account()
    writer = opened(account)
    a, b = write(tmp_path / "a", TREES[0]), write(tmp_path / "b", TREES[1])
    writer.back_up({"a": a, "b": b})
    for _ in range(2):
        writer.back_up({"b": b}, leave_out=["a"])
    with pytest.raises(NotFoundError, match="there is no checkpoint with a; there are"):
        restore(state_in(account.container("box")), {"a": tmp_path / "restored"})
    restore(state_in(account.container("box")), {"b": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[1])
    check_no_orphans(account.container("box"))


def test_a_writer_that_was_replaced_commits_and_deletes_nothing(tmp_path: Path) -> None:
    account = new_account()
    old = opened(account)
    back_up(old, tmp_path, 0)
    new = opened(account)
    with pytest.raises(FencedError, match=r"epoch 2 has taken it over from epoch 1. Stop this writer"):
        back_up(old, tmp_path, 3)
    back_up(new, tmp_path, 1)
    back_up(new, tmp_path, 2)
    with pytest.raises(FencedError):
        back_up(old, tmp_path, 3)
    for _ in range(2):
        restore(state_in(account.container("box")), {"store": tmp_path / "restored"})
        assert equal(tmp_path / "restored", TREES[2])
        check_no_orphans(account.container("box"))


def test_an_epoch_that_is_given_must_not_be_lower(tmp_path: Path) -> None:
    account = new_account()
    opened(account, epoch=7)
    opened(account, epoch=7)
    with pytest.raises(FencedError, match="epoch 7 has taken it over from epoch 6"):
        opened(account, epoch=6)


@pytest.mark.usefixtures("no_packs")
def test_a_backup_beside_a_sweep_uploads_again_what_was_condemned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    writer = opened(account)
    back_up(writer, tmp_path, 0)
    commit = writer._commit

    def late(new: object, checkpoint: Checkpoint) -> bool:
        monkeypatch.undo()
        plan = plan_sweep(state_in(account.container("box")), min_age=0)
        assert 3 == sweep(state_in(account.container("box")), plan)
        return commit(new, checkpoint)  # type: ignore[arg-type]

    monkeypatch.setattr(writer, "_commit", late)
    back_up(writer, tmp_path, 1)
    assert "a sweep has condemned blobs of a backup of flights/task-3: it is repeated" in caplog.text
    restore(state_in(account.container("box")), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[1])
    check_no_orphans(account.container("box"))


def test_a_young_upload_is_left_alone_by_a_sweep(tmp_path: Path) -> None:
    account = new_account()
    writer = opened(account)
    back_up(writer, tmp_path, 0)
    account.container("box").put(f"{STATE}/files/of-a-backup-at-work", b"1")
    plan = plan_sweep(state_in(account.container("box")))
    assert ({}, {f"{STATE}/files/of-a-backup-at-work": 86400.0}) == (plan.waste, plan.young)
    account.clock.advance(25 * 3600)  # type: ignore[attr-defined]
    assert 1 == sweep(
        state_in(account.container("box")),
        plan_sweep(state_in(account.container("box"))),
    )


def test_a_sweep_stops_at_an_index_that_cannot_be_read(tmp_path: Path) -> None:
    account = new_account()
    checkpoint = back_up(opened(account), tmp_path, 0)
    container = account.container("box")
    container.put(checkpoint.indexes["store"], b"{}")
    with pytest.raises(CorruptError, match="is damaged"):
        plan_sweep(state_in(container), min_age=0)
    container.delete(checkpoint.indexes["store"])
    with pytest.raises(NotFoundError):
        plan_sweep(state_in(container), min_age=0)


def test_a_sweep_of_an_old_plan_deletes_nothing(tmp_path: Path) -> None:
    account = new_account()
    writer = opened(account)
    back_up(writer, tmp_path, 0)
    container = account.container("box")
    container.put(f"{STATE}/files/waste", b"1")
    plan = plan_sweep(state_in(container), min_age=0)
    back_up(writer, tmp_path, 1)
    with pytest.raises(ConflictError, match=r"has changed its record meanwhile. Run it again"):
        sweep(state_in(container), plan)
    assert container.properties(f"{STATE}/files/waste") is not None


@pytest.mark.parametrize("operation", ["put", "commit_block_list", "set_tags", "delete"])
def test_a_lost_answer_changes_nothing(tmp_path: Path, operation: str) -> None:
    for skip in range(6):
        account = new_account()
        writer = opened(account.restarted(FaultInjector(on(operation, LostAnswer(), skip=skip))))
        for tree in range(4):
            back_up(writer, tmp_path, tree)
        restore(state_in(account.container("box")), {"store": tmp_path / "restored"})
        assert equal(tmp_path / "restored", TREES[3])
        check_no_orphans(account.container("box"))


@pytest.mark.parametrize("operation", ["set_tags", "delete"])
def test_a_clean_up_that_fails_is_taken_up_by_the_next_backup(
    tmp_path: Path, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    writer = opened(account.restarted(FaultInjector(on(operation, Refuse(), times=3))))
    for tree in range(4):
        back_up(writer, tmp_path, tree)
    assert "the clean-up of flights/task-3 goes on with the next backup" in caplog.text
    writer.back_up({"store": tmp_path / "live-3"})
    container = account.container("box")
    assert [] == list(plan_sweep(state_in(container), min_age=0).waste)
    assert not any(container.tags(blob.name) for blob in container.list())


def test_what_a_failed_backup_has_uploaded_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    account = new_account()
    writer = opened(account)
    back_up(writer, tmp_path, 0)
    broken = write(tmp_path / "broken", {"a": b"new", "b": b"newer"})
    (broken / "link").symlink_to("a")
    with pytest.raises(ConfigurationError, match="link is a symbolic link"):
        writer.back_up({"first": write(tmp_path / "first", TREES[3]), "store": broken})
    assert plan_sweep(state_in(account.container("box")), min_age=0).waste
    back_up(writer, tmp_path, 1)
    assert not plan_sweep(state_in(account.container("box")), min_age=0).waste


@pytest.mark.usefixtures("no_packs")
def test_what_a_writer_that_died_has_uploaded_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    account = new_account()
    back_up(opened(account), tmp_path, 0)
    dying = FaultInjector(on("put", Crash(), name=lambda name: name.endswith("checkpoint.json"), skip=1))
    with pytest.raises(ProcessDied):
        back_up(opened(account.restarted(dying)), tmp_path, 3)
    container = account.container("box")
    assert 2 < len(plan_sweep(state_in(container), min_age=0).waste)
    back_up(opened(account), tmp_path, 1)
    assert not plan_sweep(state_in(container), min_age=0).waste


def test_nothing_is_taken_for_waste_while_an_index_cannot_be_read(tmp_path: Path) -> None:
    account = new_account()
    first = back_up(opened(account), tmp_path, 3)
    container = account.container("box")
    before = {blob.name for blob in container.list()}
    container.put(first.indexes["store"], b"damaged")
    back_up(opened(account), tmp_path, 1)
    assert before <= {blob.name for blob in container.list()}, "the index may be brought back by hand"


def test_less_than_two_checkpoints_are_not_enough() -> None:
    with pytest.raises(ConfigurationError, match=r"keep of \w+ is 1: give a whole number of at least 2"):
        opened(new_account(), keep=1)


def test_an_older_checkpoint_is_restored_if_the_newest_has_lost_a_blob(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    writer = opened(account)
    back_up(writer, tmp_path, 0)
    newest = back_up(writer, tmp_path, 1)
    container = account.container("box")
    older = checkpoints(state_in(container))[1]
    index = plan_sweep(state_in(container), min_age=0).in_use
    (only_new, *_) = [blob for blob, ids in index.items() if ids == (str(newest.id),) and "/files/" in blob]
    container.delete(only_new)
    with caplog.at_level(logging.WARNING):
        restored = restore(state_in(container), {"store": tmp_path / "restored"})
    assert older == restored.checkpoint
    assert equal(tmp_path / "restored", TREES[0])
    assert f"checkpoint {newest.id} of {STATE} is not whole, an older one is tried" in caplog.text
    assert only_new in caplog.text
    with pytest.raises(NotFoundError, match=only_new):
        restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=str(newest.id))
    assert equal(tmp_path / "restored", TREES[0]), "a failed restore changes nothing"
