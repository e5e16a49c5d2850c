"""Restores of a checkpoint that newer ones drop meanwhile, that is damaged, or that has not all stores."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.errors import ConflictError, NotFoundError
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.restoring.restore import RestoreSettings, checkpoints, restore
from tests.state_backup.states import STATE, TREES, equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = {f"base{number}": b"base %d" % number for number in range(6)}
RECORD = f"{STATE}/checkpoint.json"


class Backups:
    """Backups of a directory that has files which never change, and one that always does."""

    def __init__(self, folder: Path) -> None:
        self.account, self._folder, self.made = new_account(), folder, 0
        self._writer = open_state(
            state_in(self.account.container("box")), TaskIdentity("flights"), WriterSettings(keep=2)
        )

    def add(self, number: int) -> None:
        for _ in range(number):
            self.made += 1
            self._writer.back_up({"store": write(self._folder, self.tree)})

    @property
    def tree(self) -> dict[str, Any]:
        return {**BASE, "zz": b"newest %d" % self.made}


class Overtaking(Intercept):
    """Before the downloads of these numbers, so many backups are made that the one that is restored is dropped."""

    def __init__(self, backups: Backups, *at: int) -> None:
        self._backups, self._at, self.downloads = backups, at, Counter[str]()

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        if request.operation == "get" and "/files/" in request.name:
            self.downloads[request.name] += 1
            if self.downloads.total() in self._at:
                self._backups.add(3)
        return send()


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_an_overtaken_restore_keeps_what_it_has_downloaded(tmp_path: Path, mode: int) -> None:
    backups = Backups(tmp_path / "live")
    backups.add(1)
    target = write(tmp_path / "restored", {"base0": BASE["base0"], "old": b"old"})
    (target / "base0").chmod(mode)
    overtaking = Overtaking(backups, 6, 7)
    restored = restore(
        state_in(backups.account.restarted(overtaking).container("box")),
        {"store": target},
        settings=RestoreSettings(threads=1),
    )
    assert 7 == backups.made
    assert equal(target, backups.tree)
    assert {0o644} == {path.stat().st_mode & 0o777 for path in target.iterdir()}
    assert {1} == {path.stat().st_nlink for path in target.iterdir()}
    assert (1, 6) == (restored.downloaded_files, restored.kept_files)
    assert 5 + 3 == overtaking.downloads.total()
    assert {1} == set(overtaking.downloads.values())
    assert {"live", "restored"} == {path.name for path in tmp_path.iterdir()}


def test_an_older_checkpoint_uses_what_was_downloaded_of_one_that_is_damaged(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "live")
    backups.add(2)
    container = backups.account.container("box")
    (damaged,) = [blob for blob in container.list(f"{STATE}/files/") if container.get(blob.name).data == b"newest 2"]
    container.put(damaged.name, b"x" * damaged.size)
    counting = Overtaking(backups)
    restored = restore(
        state_in(backups.account.restarted(counting).container("box")),
        {"store": tmp_path / "r"},
        settings=RestoreSettings(threads=1),
    )
    assert 1 == len(restored.passed_over)
    assert equal(tmp_path / "r", {**BASE, "zz": b"newest 1"})
    assert {1} == {number for name, number in counting.downloads.items() if name != damaged.name}
    assert {"live", "r"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.usefixtures("no_packs")
def test_a_restore_that_is_overtaken_too_often_leaves_nothing(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "live")
    backups.add(1)
    overtaken = backups.account.restarted(Overtaking(backups, *range(6, 20))).container("box")
    with pytest.raises(ConflictError, match="faster than they could be read"):
        restore(state_in(overtaken), {"store": tmp_path / "r"}, settings=RestoreSettings(threads=1))
    assert {"live"} == {path.name for path in tmp_path.iterdir()}


def test_newer_checkpoints_without_the_store_are_reported_as_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    older = writer.back_up({"agg": write(tmp_path / "live", TREES[0]), "db": tmp_path / "live"})
    newest = writer.back_up({"agq": write(tmp_path / "live", TREES[1]), "db": tmp_path / "live"}, leave_out=["agg"])
    with caplog.at_level(logging.WARNING):
        restored = restore(state_in(container), {"agg": tmp_path / "a", "db": tmp_path / "d"})
    assert (older, {str(newest.id): "it has no store agg"}) == (restored.checkpoint, restored.passed_over)
    assert f"checkpoint {newest.id} of {STATE} has not all stores, an older one is tried: it has no store agg" in (
        caplog.text
    )
    assert {} == restore(state_in(container), {"db": tmp_path / "d"}).passed_over
    chosen = restore(state_in(container), {"agg": tmp_path / "a"}, checkpoint_id=str(older.id))
    assert {} == chosen.passed_over


def test_a_state_that_has_lost_its_record_is_no_wrong_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    account = new_account()
    open_state(state_in(account.container("box")), TaskIdentity("flights")).back_up(
        {"store": write(tmp_path / "l", TREES[0])}
    )
    account.container("box").delete(RECORD)
    refusing = account.restarted(FaultInjector(on("undelete", Refuse("501 NotImplemented"), times=99))).container("box")
    with pytest.raises(NotFoundError) as caught:
        restore(state_in(refusing), {"store": tmp_path / "r"})
    assert f"it has blobs, but its record {RECORD} was deleted, and cannot be undeleted (501" in str(caught.value)
    assert str(caught.value).endswith("Bring that blob back, from a soft-deleted or earlier version, and run it again.")
    with pytest.raises(NotFoundError, match="there are: none. Check the name"):
        restore(Location.in_container(refusing, f"{STATE}0"), {"store": tmp_path / "r"})
    assert "" == caplog.text


def test_a_blob_of_a_state_that_is_gone_is_no_wrong_name(tmp_path: Path) -> None:
    account: MemoryAccount = new_account()
    container = account.container("box")
    open_state(state_in(container), TaskIdentity("flights")).back_up({"store": write(tmp_path / "l", TREES[0])})
    (only,) = checkpoints(state_in(container))
    container.delete(only.indexes["store"])
    for id_ in (None, str(only.id)):
        with pytest.raises(NotFoundError, match=r"`verify` lists") as caught:
            restore(state_in(container), {"store": tmp_path / "r"}, checkpoint_id=id_)
        assert "Check the name" not in str(caught.value)
        assert only.indexes["store"] in str(caught.value)
