"""Locks: held by one, lost, waited for in vain, and interrupted."""

from __future__ import annotations

import time

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, TimeOut, on
from coordination.leadership.leader import LeaseLock
from foundation.errors import ConfigurationError, ConflictError, FencedError
from tests.coordination.leadership.electing import BLOB, LASTING, blob_in, ended, leased, raises


def test_a_lock_is_held_by_one_and_renewed(account: MemoryAccount) -> None:
    with LeaseLock(blob_in(account), "one", LASTING) as lock:
        with pytest.raises(
            ConflictError,
            match=r"acquire lock box/jobs/flights failed after \d+\.\d s: another process has it \(LeaseAlreadyPresent",
        ):
            LeaseLock(blob_in(account), "other", LASTING, timeout=1.5).__enter__()
        lock.check()
    with LeaseLock(blob_in(account), "other", LASTING, timeout=60) as after:
        assert lock.epoch + 1 == after.epoch


def test_a_lock_that_is_lost_says_so_at_once_and_stays_lost(account: MemoryAccount) -> None:
    container = account.container("box")
    with LeaseLock(blob_in(account), "one", LASTING) as lock:
        container.break_lease(BLOB)
        assert lock.lost.wait(60)
        with pytest.raises(FencedError, match=rf"Lock box/{BLOB} of epoch {lock.epoch} is lost: stop"):
            lock.check()
        with LeaseLock(blob_in(account), "other", LASTING, timeout=60) as other:
            time.sleep(0.3)  # several polls, none of which brings the lock back
            other.check()
            with pytest.raises(FencedError):
                lock.check()


def test_a_lock_that_cannot_be_had_raises_the_cause(account: MemoryAccount) -> None:
    refused = account.restarted(FaultInjector(on("acquire_lease", Refuse())))
    with pytest.raises(ConfigurationError, match="AuthorizationPermissionMismatch"):
        LeaseLock(blob_in(refused), "one", LASTING).__enter__()


def test_a_lock_that_times_out_without_an_answer_does_not_blame_another_process(account: MemoryAccount) -> None:
    silent = account.restarted(FaultInjector(on("acquire_lease", TimeOut(), times=1000)))
    with pytest.raises(ConflictError, match=r"failed after \d+\.\d s: storage gave no answer") as raised:
        LeaseLock(blob_in(silent), "one", LASTING, timeout=0.5).__enter__()
    assert "another process" not in str(raised.value)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit()])
def test_a_lock_that_is_interrupted_while_it_waits_is_not_acquired_later(
    account: MemoryAccount, monkeypatch: pytest.MonkeyPatch, interrupt: BaseException
) -> None:
    waiting = LeaseLock(blob_in(account), "other", LASTING)
    monkeypatch.setattr(waiting._answered, "wait", lambda _: raises(interrupt)())
    with LeaseLock(blob_in(account), "one", LASTING), pytest.raises(type(interrupt)):
        waiting.__enter__()
    assert ended(waiting._elector)
    assert not leased(account)
    time.sleep(0.3)  # an elector that went on would have the lease by now
    assert not leased(account)
