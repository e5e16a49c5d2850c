"""Restores of one directory at the same time, and names beside it that are not a restore's."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.errors import ConfigurationError, ConflictError, TransientError
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.local import place
from state_backup.local.claim import claimed
from state_backup.restoring.restore import RestoreSettings, materialise, restore
from tests.adjunct_store.host.processes import forked
from tests.state_backup.dying import dying, state_of
from tests.state_backup.states import TREES, equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.account import MemoryAccount

NAMES = (".restoring", ".downloaded", ".replaced")


@pytest.fixture
def account(tmp_path: Path) -> MemoryAccount:
    """A state with one checkpoint, of the last tree but one."""
    account = new_account()
    open_state(state_in(account.container("box")), TaskIdentity("flights")).back_up(
        {"store": write(tmp_path / "live", TREES[2])}
    )
    shutil.rmtree(tmp_path / "live")
    return account


class Waiting(Intercept):
    """Stops at the first download of a file until it may go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        if request.operation == "get" and "/files/" in request.name:
            self.reached.set()
            assert self.go_on.wait(30)
        return send()


def test_a_second_restore_of_a_directory_waits_and_then_finds_all_files(account: MemoryAccount, tmp_path: Path) -> None:
    target, waiting, results = write(tmp_path / "restored", TREES[0]), Waiting(), []
    first = threading.Thread(
        target=lambda: results.append(restore(state_in(account.restarted(waiting).container("box")), {"store": target}))
    )
    first.start()
    assert waiting.reached.wait(30)
    with pytest.raises(TransientError, match=rf"lock .*restored\.restore\.lock failed.*: process {os.getpid()} has it"):
        restore(
            state_in(account.container("box")),
            {"store": target},
            settings=RestoreSettings(lock_timeout=0.02),
        )
    assert equal(target, TREES[0])
    second = threading.Thread(
        target=lambda: results.append(restore(state_in(account.container("box")), {"store": target}))
    )
    second.start()
    waiting.go_on.set()
    first.join()
    second.join()
    assert [2, 0] == [each.downloaded_files for each in results]
    assert equal(target, TREES[2])
    assert ["restored"] == [path.name for path in tmp_path.iterdir()]


def test_restores_of_the_same_directories_in_another_order_do_not_wait_for_each_other(tmp_path: Path) -> None:
    account = new_account()
    live = write(tmp_path / "live", TREES[1])
    open_state(state_in(account.container("box")), TaskIdentity("flights")).back_up({"a": live, "b": live})
    failed: list[Exception] = []

    def run(*stores: str) -> None:
        try:
            for _ in range(5):
                restore(
                    state_in(account.container("box")),
                    {store: tmp_path / f"to-{store}" for store in stores},
                )
        except Exception as error:  # noqa: BLE001 - the thread has no caller
            failed.append(error)

    threads = [threading.Thread(target=run, args=stores) for stores in (("a", "b"), ("b", "a"), ("b",))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [] == failed
    assert {"live", "to-a", "to-b"} == {path.name for path in tmp_path.iterdir()}


def test_a_directory_that_another_process_has_made_meanwhile_is_not_made_again(
    account: MemoryAccount, tmp_path: Path
) -> None:
    waiting, errors = Waiting(), list[str]()
    container = account.restarted(waiting).container("box")
    id_ = str(restore(state_in(account.container("box")), {"store": tmp_path / "r"}).checkpoint.id)

    def second() -> None:
        try:
            materialise(state_in(account.container("box")), "store", id_, tmp_path / "new")
        except ConfigurationError as error:
            errors.append(str(error))

    first = threading.Thread(target=materialise, args=(state_in(container), "store", id_, tmp_path / "new"))
    other = threading.Thread(target=second)
    first.start()
    assert waiting.reached.wait(30)
    other.start()
    waiting.go_on.set()
    first.join()
    other.join()
    assert 1 == len(errors)
    assert "it exists" in errors[0]
    assert equal(tmp_path / "new", TREES[2])


@pytest.mark.parametrize("ending", NAMES)
def test_what_somebody_else_has_made_under_a_name_of_a_restore_stays_and_is_named(
    account: MemoryAccount, tmp_path: Path, ending: str
) -> None:
    target = write(tmp_path / "db", TREES[0])
    precious = write(tmp_path / f"db{ending}", {"precious": b"1"})
    with pytest.raises(ConfigurationError, match=rf"db\{ending} is there, and was not made by state_backup\. Move it"):
        restore(state_in(account.container("box")), {"store": target})
    assert equal(precious, {"precious": b"1"})
    assert equal(target, TREES[0])
    assert {"db", f"db{ending}"} == {path.name for path in tmp_path.iterdir()}


def test_a_file_of_another_program_in_the_place_of_the_lock_stays(account: MemoryAccount, tmp_path: Path) -> None:
    (tmp_path / "db.restore.lock").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"db\.restore\.lock failed: it is the file of another program"):
        restore(state_in(account.container("box")), {"store": tmp_path / "db"})
    assert "mine" == (tmp_path / "db.restore.lock").read_text()


@pytest.mark.parametrize("ending", [*NAMES, ".restore.lock"])
def test_a_store_is_not_restored_to_a_name_of_a_restore(account: MemoryAccount, tmp_path: Path, ending: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"db\{ending} failed: names that end in"):
        restore(state_in(account.container("box")), {"store": tmp_path / f"db{ending}"})
    with pytest.raises(ConfigurationError, match=rf"db\{ending} failed: names that end in"):
        materialise(state_in(account.container("box")), "store", "1-1", tmp_path / f"db{ending}")


def test_a_lock_file_that_is_deleted_while_it_is_waited_for_is_not_taken_for_the_claim(tmp_path: Path) -> None:
    """Many that wait for one lock file, which each of them deletes: never two of them at once."""
    inside, most = list[int](), list[int]()

    def work() -> None:
        for _ in range(50):
            with claimed(tmp_path / "lock", ()):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [1] * 200 == most
    assert [] == list(tmp_path.iterdir())


def test_a_forked_child_of_a_process_that_has_the_claim_leaves_the_lock_file(tmp_path: Path) -> None:
    with ExitStack() as claims:
        claims.enter_context(claimed(tmp_path / "lock", ()))
        assert 0 == forked(claims.close)
        assert ["lock"] == [path.name for path in tmp_path.iterdir()]
    assert [] == list(tmp_path.iterdir())


def test_a_directory_that_is_made_anew_after_a_crash_between_two_renames_is_a_conflict(
    account: MemoryAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_backup.local.linux._renameat2", None)
    target, at = write(tmp_path / "db", TREES[0]), 0
    old, container = state_of(target), account.container("box")
    while target.exists() and at < 100:
        at += 1
        with dying(tmp_path, at):
            restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
    target.mkdir()  # as a program with create_if_missing does
    for _ in range(2):
        with pytest.raises(ConflictError, match=rf"{target} was {target}\.replaced already; another program"):
            restore(state_in(container), {"store": target})
    assert old == state_of(tmp_path / "db.replaced")
    target.rmdir()
    refusing = account.restarted(FaultInjector(on("get", Refuse(), times=99))).container("box")
    with pytest.raises(ConfigurationError, match="403"):
        restore(state_in(refusing), {"store": target})
    assert old == state_of(target)
    restore(state_in(container), {"store": target})
    assert equal(target, TREES[2])
    assert ["db"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP])
def test_without_hard_links_files_are_copied(
    account: MemoryAccount, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "db"
    restore(state_in(account.container("box")), {"store": target})
    (target / "CURRENT").write_bytes(b"changed")
    monkeypatch.setattr(os, "link", lambda *_, **__: fails(number))
    restored = restore(state_in(account.container("box")), {"store": target})
    assert (1, 2) == (restored.downloaded_files, restored.kept_files)
    assert equal(target, TREES[2])


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "Make room"),
        (errno.EDQUOT, "Make room"),
        (errno.EMFILE, "Raise the limit of open files"),
        (errno.EBUSY, "below a mount point and not itself one"),
        (errno.EROFS, "that this user can write to"),
        (errno.EIO, "See what is wrong with the disk"),
    ],
)
def test_the_next_step_after_an_error_of_the_disk_fits_the_error(
    account: MemoryAccount, tmp_path: Path, number: int, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "db"
    restore(state_in(account.container("box")), {"store": target})
    (target / "2.sst").chmod(0o600)
    before = state_of(target)
    monkeypatch.setattr(shutil, "copyfile", lambda *_, **__: fails(number))
    with pytest.raises(ConfigurationError, match=step):
        restore(state_in(account.container("box")), {"store": target})
    assert before == state_of(target)
    assert ["db"] == [path.name for path in tmp_path.iterdir()]


def test_a_mount_point_is_refused_before_anything_is_read_or_written(account: MemoryAccount) -> None:
    with pytest.raises(
        ConfigurationError, match="restore /proc failed: it is a mount point.* below a mount point and not itself one"
    ):
        restore(state_in(account.container("box")), {"store": Path("/proc")})


@pytest.mark.parametrize("alike", [True, False])
def test_a_file_that_is_there_has_the_permissions_of_the_backup_and_keeps_its_time_if_it_is_linked(
    account: MemoryAccount, tmp_path: Path, alike: bool
) -> None:
    target = tmp_path / "db"
    restore(state_in(account.container("box")), {"store": target})
    (file,) = target.glob("2.sst")
    mode = file.stat().st_mode
    os.utime(file, (1_000_000, 1_000_000))
    file.chmod(mode if alike else 0o600)
    assert mode == file.stat().st_mode or not alike
    restore(state_in(account.container("box")), {"store": target})
    assert (mode, alike) == (file.stat().st_mode, file.stat().st_mtime == 1_000_000)


def fails(number: int) -> None:
    raise OSError(number, os.strerror(number))


def test_names_are_exchanged_where_the_system_can(tmp_path: Path) -> None:
    new, old = write(tmp_path / "db.restoring", TREES[0]), write(tmp_path / "db", TREES[1])
    inode = new.stat().st_ino
    place.switch(old)
    assert inode == old.stat().st_ino
    place.discard(old)
    assert ["db"] == [path.name for path in tmp_path.iterdir()]
