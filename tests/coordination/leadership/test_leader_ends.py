"""How an elector ends: it is stopped, a release fails, or the listener raises or stops it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, TimeOut, on
from azure_account.retrying.retry_loop import Intercept, Request
from coordination.leadership.leader import LeaderElector
from foundation.errors import NotFoundError
from tests.coordination.leadership.electing import (
    BLOB,
    LASTING,
    QUICK,
    Gate,
    Recorder,
    blob_in,
    elector,
    ended,
    leased,
    raises,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_lease_is_released_when_on_deposed_has_returned(
    account: MemoryAccount, electors: list[LeaderElector]
) -> None:
    one, other = Recorder(), Recorder()
    while_deposed: list[bool] = []
    first = elector(electors, account, one)
    wait_for(first.leads)
    elector(electors, account, other, "other")

    def slow() -> None:
        time.sleep(0.5)
        while_deposed.append(leased(account) and not other.calls)

    one.deposed = slow
    first.stop()
    assert [True] == while_deposed
    wait_for(lambda: other.calls)


def test_stop_deposes_at_once_while_a_renewal_hangs(account: MemoryAccount, electors: list[LeaderElector]) -> None:
    recorder, gate = Recorder(), Gate()
    leader = elector(electors, account.restarted(gate), recorder)
    wait_for(leader.leads)
    gate.open.clear()
    assert gate.hangs.wait(60)
    stopping = threading.Thread(target=leader.stop)
    stopping.start()
    wait_for(lambda: recorder.kinds == ["elected", "deposed"])
    assert "it resigned" == recorder.calls[1]
    assert leased(account)
    gate.open.set()
    stopping.join(60)
    assert ended(leader)
    assert not leased(account)
    assert ["elected", "deposed"] == recorder.kinds


T = TypeVar("T")


class Deleted(Intercept):
    """Releases find that the container was deleted."""

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "release_lease":
            raise NotFoundError("the container box does not exist")
        return send()


@pytest.mark.parametrize(
    "intercept",
    [FaultInjector(on("release_lease", Refuse())), FaultInjector(on("release_lease", TimeOut())), Deleted()],
)
def test_a_release_that_fails_at_stop_is_no_failure(
    account: MemoryAccount, electors: list[LeaderElector], intercept: Intercept
) -> None:
    recorder = Recorder()
    leader = elector(electors, account.restarted(intercept), recorder)
    wait_for(leader.leads)
    leader.stop()
    assert ["elected", "deposed"] == recorder.kinds
    assert ended(leader)


def test_a_refused_release_is_logged(
    account: MemoryAccount, electors: list[LeaderElector], caplog: pytest.LogCaptureFixture
) -> None:
    leader = elector(electors, account.restarted(FaultInjector(on("release_lease", Refuse()))), Recorder())
    wait_for(leader.leads)
    leader.stop()
    assert f"the lease of box/{BLOB} is not released, and expires by itself: 403" in caplog.text


def test_a_listener_that_raises_in_on_elected_ends_the_elector_and_others_lead_at_once(
    account: MemoryAccount, electors: list[LeaderElector]
) -> None:
    recorder, other = Recorder(), Recorder()
    error = ValueError("bug")
    recorder.elected = raises(error)
    leader = elector(electors, account, recorder)
    wait_for(lambda: ended(leader))
    assert ["elected", "deposed", "failed"] == recorder.kinds
    assert error is recorder.calls[2]
    wait_for(lambda: f"one of box/{BLOB}-waits" not in {thread.name for thread in threading.enumerate()})
    assert not leased(account)
    elector(electors, account, other, "other")
    wait_for(lambda: other.calls)


@pytest.mark.parametrize("error", [ValueError("bug"), SystemExit(3)])
@pytest.mark.parametrize("how", ["stopped", "late", "refused"])
def test_a_listener_that_raises_in_on_deposed_keeps_the_lease_until_it_expires(
    account: MemoryAccount, electors: list[LeaderElector], error: BaseException, how: str
) -> None:
    recorder, gate = Recorder(), Gate()
    intercept = FaultInjector(on("renew_lease", Refuse(), skip=2)) if how == "refused" else gate
    recorder.deposed = raises(error)
    leader = elector(electors, account.restarted(intercept), recorder, timing=QUICK if how == "late" else LASTING)
    wait_for(lambda: recorder.calls)
    if how == "late":
        gate.open.clear()
        wait_for(lambda: len(recorder.calls) == 3)
        gate.open.set()
    if how == "stopped":
        leader.stop()
    wait_for(lambda: ended(leader))
    assert ["elected", "deposed", "failed"] == recorder.kinds
    cause = "AuthorizationPermissionMismatch" if how == "refused" else str(error)
    assert cause in str(recorder.calls[2])
    assert leased(account), "what it protects may still run"


def test_a_broken_lease_and_a_listener_that_raises_end_the_elector(
    account: MemoryAccount, electors: list[LeaderElector]
) -> None:
    recorder = Recorder()
    recorder.deposed = raises(ValueError("bug"))
    leader = elector(electors, account, recorder)
    wait_for(leader.leads)
    account.container("box").break_lease(BLOB)
    wait_for(lambda: ended(leader))
    assert ["elected", "deposed", "failed"] == recorder.kinds


def test_a_listener_that_raises_in_on_failure_has_the_error_logged(
    account: MemoryAccount, electors: list[LeaderElector], caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    recorder.elected, recorder.failed = raises(SystemExit(3)), raises(ValueError("second"))
    leader = elector(electors, account, recorder)
    wait_for(lambda: ended(leader))
    assert ["elected", "deposed", "failed"] == recorder.kinds
    assert "The listener raised SystemExit(3)." == str(recorder.calls[2])
    assert "second" in caplog.text


@pytest.mark.parametrize("method", ["elected", "deposed", "failed"])
def test_the_listener_may_stop_the_elector(account: MemoryAccount, electors: list[LeaderElector], method: str) -> None:
    recorder = Recorder()
    leader = LeaderElector(blob_in(account), "one", recorder, LASTING)

    def stop() -> None:
        time.sleep(0.2)  # the other thread waits for the listener by now
        leader.stop()

    setattr(recorder, method, stop)
    leader.start()
    wait_for(lambda: recorder.calls)
    if method == "deposed":
        account.container("box").break_lease(BLOB)
    if method == "failed":
        account.service._containers.clear()
    wait_for(lambda: ended(leader))
    assert ["elected", "deposed", "failed"][: 3 if method == "failed" else 2] == recorder.kinds
    if method == "elected":
        assert not leased(account)
