"""Locks: held by one, lost, waited for in vain, and interrupted."""

from __future__ import annotations

import time

import pytest

from azure_account.errors import ConfigurationError, ConflictError, FencedError
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Faults, Refuse, TimeOut, on
from coordination.leadership.leader import LeaseLock
from tests.coordination.leadership.electing import BLOB, QUICK, ended, leased, raises


def test_a_lock_is_held_by_one_and_renewed(account: MemoryAccount) -> None:
    container = account.container("box")
    with LeaseLock(container, BLOB, "one", QUICK) as lock:
        with pytest.raises(
            ConflictError,
            match=r"Acquire lock box/jobs/flights failed after 1.5 s: another process has it \(LeaseAlreadyPresent",
        ):
            LeaseLock(container, BLOB, "other", QUICK, timeout=1.5).__enter__()
        lock.check()
    with LeaseLock(container, BLOB, "other", QUICK, timeout=5) as after:
        assert lock.epoch + 1 == after.epoch


def test_a_lock_that_is_lost_says_so_at_once_and_stays_lost(account: MemoryAccount) -> None:
    container = account.container("box")
    with LeaseLock(container, BLOB, "one", QUICK) as lock:
        container.break_lease(BLOB)
        assert lock.lost.wait(5)
        with pytest.raises(FencedError, match=rf"Lock box/{BLOB} of epoch {lock.epoch} is lost: stop"):
            lock.check()
        with LeaseLock(container, BLOB, "other", QUICK, timeout=5) as other:
            time.sleep(0.3)
            other.check()
            with pytest.raises(FencedError):
                lock.check()


def test_a_lock_that_cannot_be_had_raises_the_cause(account: MemoryAccount) -> None:
    refused = account.restarted(Faults(on("acquire_lease", Refuse()))).container("box")
    with pytest.raises(ConfigurationError, match="AuthorizationPermissionMismatch"):
        LeaseLock(refused, BLOB, "one", QUICK).__enter__()


def test_a_lock_that_times_out_without_an_answer_does_not_blame_another_process(account: MemoryAccount) -> None:
    silent = account.restarted(Faults(on("acquire_lease", TimeOut(), times=1000))).container("box")
    with pytest.raises(ConflictError, match=r"failed after 0.5 s: storage gave no answer") as raised:
        LeaseLock(silent, BLOB, "one", QUICK, timeout=0.5).__enter__()
    assert "another process" not in str(raised.value)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit()])
def test_a_lock_that_is_interrupted_while_it_waits_is_not_acquired_later(
    account: MemoryAccount, monkeypatch: pytest.MonkeyPatch, interrupt: BaseException
) -> None:
    container = account.container("box")
    waiting = LeaseLock(container, BLOB, "other", QUICK)
    monkeypatch.setattr(waiting._answered, "wait", lambda _: raises(interrupt)())
    with LeaseLock(container, BLOB, "one", QUICK), pytest.raises(type(interrupt)):
        waiting.__enter__()
    assert ended(waiting._elector)
    assert not leased(account)
    time.sleep(0.3)
    assert not leased(account)
