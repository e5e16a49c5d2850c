"""Leadership in threads: who is called, and when, if requests hang or are refused, or the lease is broken."""

from __future__ import annotations

import threading
import time

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from coordination import metrics
from coordination.leadership.leader import LeaderElector
from foundation.errors import ConfigurationError
from tests.coordination.leadership.electing import BLOB, QUICK, Gate, Recorder, elector, leased, wait_for
from tests.exported import exporting


def test_a_leader_that_stops_is_followed_at_once(account: MemoryAccount, electors: list[LeaderElector]) -> None:
    one, other = Recorder(), Recorder()
    first = elector(electors, account, one)
    wait_for(first.leads)
    polls = FaultInjector()
    second = elector(electors, account.restarted(polls), other, "other")
    wait_for(lambda: polls.count >= 10)
    assert (True, False) == (first.leads(), second.leads())
    assert (first.epoch, None) == (one.calls[0], second.epoch)

    first.stop()
    wait_for(second.leads)
    assert [first_epoch := one.calls[0], "it resigned"] == one.calls
    assert isinstance(first_epoch, int)
    assert [first_epoch + 1] == other.calls


def test_a_renewal_that_hangs_ends_the_term_in_time_and_its_answer_does_not_bring_it_back(
    account: MemoryAccount, electors: list[LeaderElector]
) -> None:
    recorder, gate = Recorder(), Gate()
    leader = elector(electors, account.restarted(gate), recorder, timing=QUICK)
    wait_for(leader.leads)
    gate.open.clear()
    wait_for(lambda: len(recorder.calls) == 2)
    assert not leader.leads()
    assert "the lease was not renewed in time" == recorder.calls[1]

    gate.open.set()
    wait_for(lambda: len(recorder.calls) == 3)
    first, _, second = recorder.calls
    assert isinstance(first, int)
    assert isinstance(second, int)
    assert second > first, "it is elected again, in an epoch of its own"


def test_a_refused_request_stops_the_elector(account: MemoryAccount, electors: list[LeaderElector]) -> None:
    recorder = Recorder()
    leader = elector(electors, account.restarted(FaultInjector(on("renew_lease", Refuse(), skip=2))), recorder)
    wait_for(lambda: len(recorder.calls) == 3)
    assert isinstance(recorder.calls[0], int)
    assert "AuthorizationPermissionMismatch" in str(recorder.calls[1])
    assert isinstance(recorder.calls[2], ConfigurationError)
    assert not leader.leads()


def test_terms_are_counted_with_the_reason_of_their_end(
    account: MemoryAccount, electors: list[LeaderElector], monkeypatch: pytest.MonkeyPatch
) -> None:
    with exporting(monkeypatch, metrics.METERS) as exported:
        recorder, gate = Recorder(), Gate()
        leader = elector(electors, account.restarted(gate), recorder, timing=QUICK)
        wait_for(leader.leads)
        gate.open.clear()
        wait_for(lambda: exported.of("termsEnded", reason="late"))
        gate.open.set()
        wait_for(leader.leads)
        account.container("box").break_lease(BLOB)
        wait_for(lambda: exported.of("termsEnded", reason="taken"))
        wait_for(leader.leads)
        leader.stop()
        refused = Recorder()
        elector(electors, account.restarted(FaultInjector(on("renew_lease", Refuse()))), refused, "two")
        wait_for(lambda: len(refused.calls) == 3)
        reasons = {
            reason: exported.of("termsEnded", reason=reason, job=BLOB) for reason in ("late", "taken", "resigned")
        }
        assert {"late", "taken", "resigned"} == {reason for reason, count in reasons.items() if count >= 1}
        assert exported.of("termsBegun", processor="one") == sum(reasons.values()) >= 3
        assert 1 == exported.of("termsEnded", reason="refused", processor="two")


def test_a_renewal_that_hangs_past_the_deadline_is_waited_for(
    account: MemoryAccount, electors: list[LeaderElector], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, gate = Recorder(), Gate()
    leader = elector(electors, account.restarted(gate), recorder, timing=QUICK)
    wait_for(leader.leads)
    gate.open.clear()
    wait_for(lambda: len(recorder.calls) == 2)
    waits: list[float | None] = []
    wait = leader._changed.wait

    def recorded(seconds: float | None = None) -> bool:
        waits.append(seconds)
        return wait(seconds)

    monkeypatch.setattr(leader._changed, "wait", recorded)
    time.sleep(0.3)  # a thread that does not wait as it should would have done so often by now
    gate.open.set()
    assert len(waits) <= 2, "nothing is due while there is no term"


def test_stop_returns_although_the_listener_hangs_and_says_so(
    account: MemoryAccount, electors: list[LeaderElector], caplog: pytest.LogCaptureFixture
) -> None:
    may_return = threading.Event()

    class Hangs(Recorder):
        def on_deposed(self, reason: str) -> None:
            may_return.wait(60)
            super().on_deposed(reason)

    leader = elector(electors, account, Hangs())
    wait_for(leader.leads)
    try:
        leader.stop(within=0.2)
        assert "has not ended for 0 s: its listener hangs" in caplog.text
        assert leased(account, BLOB), "what it protects may run on"
        wait_for(lambda: "waits for its listener, which has been deposed, since" in caplog.text)
    finally:
        may_return.set()
