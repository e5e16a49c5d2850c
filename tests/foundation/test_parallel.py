"""Calls by several threads: their order, and what is waited for, cancelled or abandoned after an error."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures import TimeoutError as FuturesTimeoutError
from typing import Literal

import pytest

from foundation.errors import AzureBlobError, ConfigurationError, TransientError
from foundation.parallel import act_on_each, concurrent_map, pool, results
from tools.reporting import wait_for

AfterError = Literal["wait", "abandon"]


@pytest.mark.parametrize("after_error", ["wait", "abandon"])
@pytest.mark.parametrize("threads", [1, 4])
def test_results_are_in_the_order_of_the_items(threads: int, after_error: AfterError) -> None:
    assert [number * 2 for number in range(100)] == concurrent_map(
        lambda number: number * 2, range(100), threads, after_error=after_error
    )


@pytest.mark.parametrize("after_error", ["wait", "abandon"])
@pytest.mark.parametrize(("items", "threads"), [([1], 4), ([1, 2, 3], 1)])
def test_one_item_or_one_thread_is_the_callers(items: list[int], threads: int, after_error: AfterError) -> None:
    made = concurrent_map(lambda _: threading.get_ident(), items, threads, after_error=after_error)
    assert [threading.get_ident()] * len(items) == made


@pytest.mark.parametrize("after_error", ["wait", "abandon"])
def test_no_thread_can_do_nothing(after_error: AfterError) -> None:
    with pytest.raises(ConfigurationError, match="threads is 0; it must be at least 1"):
        concurrent_map(str, [1, 2], 0, after_error=after_error)


class OneFails:
    """Of calls for the numbers 0 and 1 the first fails as soon as the second has begun, which ends when it may."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, number: int) -> None:
        if number == 0:
            assert self.begun.wait(60)
            raise ValueError("the first")
        self.begun.set()
        assert self.may_end.wait(60)
        self.ended.set()


def test_a_running_call_is_waited_for_before_the_error_is_raised() -> None:
    act, raised = OneFails(), threading.Event()

    def call() -> None:
        with pytest.raises(ValueError, match="the first"):
            concurrent_map(act, [0, 1], 2, after_error="wait")
        assert act.ended.is_set()
        raised.set()

    calling = threading.Thread(target=call)
    calling.start()
    assert act.begun.wait(60)
    assert not raised.wait(0.05)
    act.may_end.set()
    calling.join(60)
    assert raised.is_set()


def test_a_running_call_that_is_abandoned_keeps_no_error_back() -> None:
    act = OneFails()
    with pytest.raises(ValueError, match="the first"):
        concurrent_map(act, [0, 1], 2, after_error="abandon")
    assert not act.ended.is_set()
    act.may_end.set()
    assert act.ended.wait(60)


def test_calls_that_take_longer_than_the_timeout_are_abandoned() -> None:
    may_end = threading.Event()
    with pytest.raises(FuturesTimeoutError):
        concurrent_map(lambda _: may_end.wait(60), [1, 2], 2, after_error="abandon", timeout=0.01)
    may_end.set()


@pytest.mark.parametrize("threads", [1, 4])
def test_after_an_error_no_other_call_begins(threads: int) -> None:
    calls: list[int] = []

    def act(number: int) -> None:
        calls.append(number)
        if number == 5:
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, CancelledError)):
        concurrent_map(act, range(5000), threads, after_error="wait")
    assert len(calls) < 1000


def end_when_cancelled(call: Future[None], may_end: threading.Event) -> None:
    """Set the event when the call, the last of many, was cancelled."""

    def end() -> None:
        wait_for(call.cancelled, 60, poll=0.001)
        may_end.set()

    threading.Thread(target=end).start()


def test_calls_that_were_submitted_before_an_error_is_seen_are_not_made_either() -> None:
    may_end = threading.Event()
    made: list[int] = []

    def fail() -> None:
        raise ValueError("the first")

    def act(number: int) -> None:
        made.append(number)
        may_end.wait(60)

    with pool(2, "test") as executor:
        first = executor.submit(fail)
        wait([first])
        calls = [first, *(executor.submit(act, number) for number in range(100))]
        end_when_cancelled(calls[-1], may_end)
        with pytest.raises(ValueError, match="the first"):
            results(calls)
    assert len(made) <= 2


def test_after_an_error_calls_that_have_not_begun_are_not_made_and_the_others_have_ended() -> None:
    begun, may_fail, may_end = threading.Event(), threading.Event(), threading.Event()
    made, ended = list[int](), list[int]()

    def act(number: int) -> None:
        made.append(number)
        if number == 0:
            begun.wait(60)
            may_fail.wait(60)
            raise ValueError("the first")
        if number == 1:
            begun.set()
        may_end.wait(60)
        ended.append(number)

    with pool(2, "test") as executor:
        calls = [executor.submit(act, number) for number in range(100)]
        end_when_cancelled(calls[-1], may_end)
        may_fail.set()
        with pytest.raises(ValueError, match="the first"):
            results(calls)
        assert 1 in ended
    assert len(made) < 100


def test_one_thread_is_the_callers() -> None:
    with pool(1, "test") as executor:
        assert [threading.get_ident()] * 3 == results([executor.submit(threading.get_ident) for _ in range(3)])


def act_on(name: str) -> bool:
    if name == "refused":
        raise ConfigurationError("refused")
    if name == "no answer":
        raise TransientError("no answer")
    return name != "changed"


@pytest.mark.parametrize("threads", [1, 4])
def test_a_blob_that_fails_keeps_no_other_back(threads: int) -> None:
    acted = act_on_each(act_on, ["a", "refused", "changed", "b"], threads)
    assert {"a", "b"} == acted.done
    assert ["refused"] == [str(error) for error in acted.errors]
    assert {"refused", "changed"} == set(acted.failed)


@pytest.mark.parametrize("ends", [TransientError, AzureBlobError])
def test_an_error_that_ends_leaves_the_rest_as_it_is(ends: type[AzureBlobError]) -> None:
    acted = act_on_each(act_on, ["a", "no answer", "b"], 1, ends=ends)
    assert ({"a"}, {"no answer"}) == (acted.done, set(acted.failed))


def test_so_many_failures_in_a_row_leave_the_rest_as_it_is() -> None:
    blobs = ["refused", "a", "refused", "changed", "b"]
    assert {"a"} == act_on_each(act_on, blobs, 1, give_up=2).done
    assert {"a", "b"} == act_on_each(act_on, blobs, 1, give_up=3).done


def test_a_fatal_error_is_raised() -> None:
    with pytest.raises(TransientError, match="no answer"):
        act_on_each(act_on, ["a", "no answer", "b"], 2, fatal=TransientError)
