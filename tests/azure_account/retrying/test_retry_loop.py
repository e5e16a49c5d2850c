"""The outcome or error of every failed attempt, on the in-memory account with scripted faults."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.container import BlobContainer
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import (
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    NumberedAttempt,
    Reset,
    Throttle,
    TimeOut,
    Unreachable,
    always,
    at,
    on,
)
from azure_account.retrying.policy import RetryPolicy
from azure_account.values import IF_ABSENT, Condition, Conflict, Done, Entity, Missing, Outcome, Unknown
from foundation.clock import ManualClock
from foundation.errors import ConflictError, NotFoundError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE = str(uuid.uuid4())
UNANSWERED: list[Fault] = [TimeOut(), Reset(), LostAnswer()]
NO_EFFECT: list[Fault] = [Throttle(), Unreachable()]


def prepared(*scripts: Callable[[NumberedAttempt], Fault | None]) -> tuple[MemoryAccount, BlobContainer, FaultInjector]:
    """An account with the container `data`, the blob `old`, the staged block `b/01` and the table `rows`."""
    account = MemoryAccount()
    container = account.container("data")
    container.create()
    container.put("old", b"old")
    container.stage_block("b", "01", b"data")
    account.table("rows").create()
    faults = FaultInjector(*scripts)
    failing = account.restarted(faults)
    return account, failing.container("data"), faults


@pytest.mark.parametrize("fault", UNANSWERED + NO_EFFECT)
def test_an_unconditional_write_is_repeated_until_it_is_done(fault: Fault) -> None:
    account, container, faults = prepared(on("put", fault, times=2), on("commit_block_list", fault, times=2))
    assert isinstance(container.put("new", b"1"), Done)
    assert isinstance(container.commit_block_list("b", ["01"]), Done)
    assert {"b": b"data", "new": b"1", "old": b"old"} == account.service.contents("data")
    assert 6 == faults.count


def test_the_first_attempt_that_reaches_nothing_is_logged_once_in_each_outage(caplog: pytest.LogCaptureFixture) -> None:
    _, container, _ = prepared(on("put", Unreachable(), times=3), on("delete", Unreachable(), times=2))
    container.put("new", b"1")
    assert 1 == len(caplog.records)
    assert "WARNING" == caplog.records[0].levelname
    assert caplog.text.rstrip().endswith("it is tried again for 120 s. Check the network and the option endpoint.")
    assert "Put blob data/new: " in caplog.text
    container.delete("new")
    assert 2 == len(caplog.records)


@pytest.mark.parametrize("fault", [*UNANSWERED, Throttle()])
def test_an_attempt_that_reaches_the_service_is_not_logged(fault: Fault, caplog: pytest.LogCaptureFixture) -> None:
    _, container, _ = prepared(on("put", fault, times=2))
    container.put("new", b"1")
    assert [] == caplog.records


@pytest.mark.parametrize("fault", UNANSWERED + NO_EFFECT)
def test_staging_and_reading_are_repeated(fault: Fault) -> None:
    _, container, _ = prepared(*(on(operation, fault) for operation in ("stage_block", "get", "list", "properties")))
    container.stage_block("b", "02", b"more")
    assert b"old" == container.get("old").data
    assert ["old"] == [blob.name for blob in container.list()]
    assert container.properties("nothing") is None


@pytest.mark.parametrize("fault", UNANSWERED)
def test_a_conditional_write_whose_answer_is_lost_is_unknown_and_not_repeated(fault: Fault) -> None:
    account, container, faults = prepared(always(fault))
    row = Entity("p", "r", {})
    table = account.restarted(faults).table("rows")
    outcomes = [
        container.put("new", b"1", condition=IF_ABSENT),
        container.put("old", b"1", condition=Condition(if_match='"0x1"')),
        container.put("old", b"1", lease_id=LEASE),
        container.commit_block_list("b", ["01"], condition=IF_ABSENT),
        container.delete("old", condition=Condition(if_match='"0x1"')),
        table.insert(row),
        table.replace(row, condition=Condition(if_match="x")),
    ]
    assert [Unknown] * 7 == [type(outcome) for outcome in outcomes]
    assert 7 == faults.count
    assert (fault == LostAnswer()) == ("new" in account.service.contents("data"))


@pytest.mark.parametrize("fault", NO_EFFECT)
def test_a_conditional_write_that_had_no_effect_is_repeated(fault: Fault) -> None:
    _, container, faults = prepared(on("put", fault, times=3))
    assert isinstance(container.put("new", b"1", condition=IF_ABSENT), Done)
    assert isinstance(container.put("new", b"2", condition=IF_ABSENT), Conflict)
    assert 5 == faults.count


def test_a_write_that_is_throttled_and_then_loses_its_answer_is_unknown() -> None:
    _, container, faults = prepared(on("put", Throttle()), on("put", LostAnswer(), times=1))
    assert isinstance(container.put("new", b"1", condition=IF_ABSENT), Unknown)
    assert 2 == faults.count


def test_a_conditional_write_throttled_for_too_long_is_transient_and_had_no_effect() -> None:
    account, container, _ = prepared(always(Throttle()))
    with pytest.raises(TransientError, match="Put blob data/new failed after 11 attempts"):
        container.put("new", b"1", condition=IF_ABSENT)
    assert "new" not in account.service.contents("data")


@pytest.mark.parametrize("fault", [*UNANSWERED, *NO_EFFECT])
def test_leases_are_never_repeated(fault: Fault) -> None:
    _, container, faults = prepared(always(fault))
    outcomes = [
        container.acquire_lease("old", LEASE, 15),
        container.renew_lease("old", LEASE),
        container.release_lease("old", LEASE),
        container.break_lease("old"),
    ]
    assert [Unknown] * 4 == [type(outcome) for outcome in outcomes]
    assert 4 == faults.count


def test_a_repeated_delete_that_finds_nothing_is_done() -> None:
    _, container, _ = prepared(on("delete", LostAnswer()))
    assert Done() == container.delete("old")
    assert isinstance(container.delete("old"), Missing)


def test_a_failed_condition_after_a_lost_answer_is_unknown() -> None:
    account, container, _ = prepared()

    def lease_it(attempt: NumberedAttempt) -> Fault | None:
        if attempt.number == 1:
            return LostAnswer()
        account.container("data").acquire_lease("old", LEASE, 15)
        return None

    container = account.restarted(FaultInjector(lease_it)).container("data")
    assert isinstance(container.put("old", b"1"), Unknown)


def test_a_missing_block_or_blob_is_missing_after_a_lost_answer_too() -> None:
    _, container, _ = prepared(on("commit_block_list", TimeOut()), on("set_tags", TimeOut()))
    assert isinstance(container.commit_block_list("b", ["99"]), Missing)
    assert isinstance(container.set_tags("absent", {}), Missing)


def test_definite_answers_are_not_repeated() -> None:
    _, container, faults = prepared()
    with pytest.raises(NotFoundError):
        container.get("absent")
    with pytest.raises(ConflictError):
        container.get("old", if_match='"0x1"')
    assert 2 == faults.count


def test_delays_follow_retry_after_and_the_policy() -> None:
    clock = ManualClock()
    faults = FaultInjector(on("put", Throttle(retry_after=20)), on("put", Throttle(), times=1))
    account = MemoryAccount(clock=clock, intercept=faults, policy=RetryPolicy(jitter=0))
    container = account.container("data")
    container.create()
    started = clock.now()
    container.put("blob", b"1")
    assert 20 + 1.0 == clock.now() - started


def test_exhausted_retries_are_an_error_with_attempts_time_cause_and_next_step() -> None:
    account = MemoryAccount(intercept=FaultInjector(always(TimeOut())), policy=RetryPolicy(max_attempts=3, jitter=0))
    with pytest.raises(TransientError) as caught:
        account.container("data").create()
    assert (
        "Create container data failed after 3 attempts, 1.5 s: no answer within the time limit. "
        "Check the network and the state of the storage service, then run the operation again."
    ) == str(caught.value)


def test_an_effect_can_come_after_later_attempts() -> None:
    account, container, faults = prepared(on("put", LateEffect(attempts=2)))
    assert isinstance(container.put("new", b"1", condition=IF_ABSENT), Unknown)
    assert container.properties("new") is None
    assert container.properties("new") is not None
    faults.apply_late_effects()
    assert b"1" == account.service.contents("data")["new"]


ANY_FAULT = st.sampled_from([None, *UNANSWERED, *NO_EFFECT, LateEffect(1), LateEffect(2)])


@given(st.lists(ANY_FAULT, max_size=12), st.lists(st.booleans(), min_size=1, max_size=6))
def test_an_outcome_never_contradicts_the_storage(script: list[Fault | None], conditional: list[bool]) -> None:
    account, _, _ = prepared()
    faults = FaultInjector(lambda attempt: script[attempt.number - 1] if attempt.number <= len(script) else None)
    container = account.restarted(faults).container("data")
    for number, only_if_absent in enumerate(conditional):
        name = f"n{number}"
        outcome: Outcome
        try:
            outcome = container.put(name, b"1", condition=IF_ABSENT) if only_if_absent else container.put(name, b"1")
        except TransientError:
            continue
        there = name in account.service.contents("data")
        match outcome:
            case Done():
                assert there
            case Conflict() | Missing():
                pytest.fail("there is no other writer")
            case Unknown():
                assert only_if_absent


def test_every_throttled_or_unanswered_attempt_is_counted_once() -> None:
    account = MemoryAccount(intercept=FaultInjector(at(2, Throttle()), at(3, TimeOut()), at(5, LostAnswer())))
    container = account.container("box")
    container.create()
    container.put("a", b"1")
    container.put("b", b"1", condition=IF_ABSENT)
    assert 3 == container.failed_attempts


def test_each_attempt_that_is_repeated_or_read_back_is_a_line_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "azure_account")
    _, container, _ = prepared(on("put", Throttle(), times=2))
    container.put("new", b"1")
    assert [] == caplog.records
    caplog.set_level("DEBUG", "azure_account")
    _, container, _ = prepared(on("put", Throttle(), times=2), on("commit_block_list", LostAnswer()))
    container.put("new", b"1")
    assert isinstance(container.commit_block_list("b", ["01"], condition=IF_ABSENT), Unknown)
    throttled, again, lost = (record.getMessage() for record in caplog.records)
    assert throttled.startswith("Put blob data/new: ")
    assert ["attempt 1", "attempt 2"] == [line.split("; ")[1].split(",")[0] for line in (throttled, again)]
    assert lost.endswith("; what it did is found by reading")
