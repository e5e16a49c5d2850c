"""Calls that are made by several threads; with one thread, by the caller itself, at once and in order.

After an error, calls that have not begun are cancelled. Those that run are waited for, so that no call goes on behind
the caller's back, unless the caller of `concurrent_map` says "abandon".
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from foundation.errors import AzureBlobError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_threads(threads: int) -> None:
    """`ConfigurationError` for a number of threads that can do nothing."""
    if threads < 1:
        raise ConfigurationError(f"threads is {threads}; it must be at least 1.")


def pool(threads: int, name: str) -> Executor:
    """An executor with a number of threads. One thread is the caller's: `submit` makes the call.

    `ConfigurationError` for less than one.
    """
    check_threads(threads)
    return ThreadPoolExecutor(threads, name) if threads > 1 else _InlineExecutor()


def concurrent_map(
    act: Callable[[Item], Result],
    items: Sequence[Item],
    threads: int,
    *,
    after_error: Literal["wait", "abandon"],
    timeout: float | None = None,
) -> list[Result]:
    """The results of `act` for each item, in order. With one item or one thread, this thread makes the calls.

    after_error: whether calls that run then are waited for before the error is raised, or are abandoned: their requests
    may still be made. timeout: seconds for them all, where several threads make them, then
    `concurrent.futures.TimeoutError`; only for calls that may be abandoned.
    """
    check_threads(threads)
    threads = min(threads, len(items))
    if threads < 2:  # noqa: PLR2004 - one call at a time
        return [act(item) for item in items]
    executor = ThreadPoolExecutor(threads, "azureblob")
    if after_error == "wait":
        with executor:
            return results(executor.submit(act, item) for item in items)
    try:
        return list(executor.map(act, items, timeout=timeout))
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def both(one: Callable[[], Item], other: Callable[[], Result], threads: int = 2) -> tuple[Item, Result]:
    """The results of two calls, which are made at once by two threads. After an error the other one is abandoned."""
    acts: list[Callable[[], Any]] = [one, other]
    first, second = concurrent_map(lambda act: act(), acts, threads, after_error="abandon")
    return first, second


@dataclass
class BulkResult:
    """The blobs for which an act has succeeded, and those for which it has failed, with the error if there was one.

    in_a_row: failures since the last success.
    """

    done: set[str] = field(default_factory=set)
    failed: dict[str, AzureBlobError | None] = field(default_factory=dict)
    in_a_row: int = 0

    @property
    def errors(self) -> list[AzureBlobError]:
        """The errors of the act, for the blobs that have one."""
        return [error for error in self.failed.values() if error is not None]


def act_on_each(
    act: Callable[[str], bool],
    blobs: Sequence[str],
    threads: int,
    *,
    give_up: int | None = None,
    ends: type[AzureBlobError] | tuple[()] = (),
    fatal: type[AzureBlobError] | tuple[()] = (),
) -> BulkResult:
    """Act on each of the blobs, in order. One that fails keeps no other back.

    give_up: number of failures in a row after which the rest is left as it is; by default it is not.
    ends: an error after which the rest is left as it is.
    fatal: an error that ends it all, and is raised.
    """
    acted, noting, ended = BulkResult(), threading.Lock(), threading.Event()

    def attempt(blob: str) -> None:
        if ended.is_set() or (give_up is not None and acted.in_a_row >= give_up):
            return
        error = None
        try:
            done = act(blob)
        except fatal:
            raise
        except AzureBlobError as raised:
            done, error = False, raised
            if isinstance(raised, ends):
                ended.set()
        with noting:
            acted.in_a_row = 0 if done else acted.in_a_row + 1
            if done:
                acted.done.add(blob)
            else:
                acted.failed[blob] = error

    concurrent_map(attempt, blobs, threads, after_error="wait")
    return acted


def results(submitted: Iterable[Future[Result]], stop: Callable[[], object] = lambda: None) -> list[Result]:
    """The results of submitted calls, in order. An iterable that submits them is read here.

    After an error of one, or Ctrl-C, `stop` is called, and what was submitted is cancelled or waited for.
    """
    are_made = isinstance(submitted, Sequence)
    calls: list[Future[Result]] = list(submitted) if are_made else []
    failed: list[Future[Result]] = []

    def note(call: Future[Result]) -> None:
        if not call.cancelled() and call.exception() is not None:
            failed.append(call)

    try:
        for call in submitted:
            if not are_made:
                calls.append(call)
            call.add_done_callback(note)
            if failed:  # no other call is submitted
                failed[0].result()
        wait(calls, return_when=FIRST_EXCEPTION)
        for call in calls:
            if call.done():
                call.result()
        return [call.result() for call in calls]
    except BaseException:
        stop()
        raise
    finally:
        wait([call for call in calls if not call.cancel()])


class _InlineExecutor(Executor):
    """Makes each call when it is submitted."""

    def submit(self, act: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """The call, which has been made."""
        call: Future[Result] = Future()
        try:
            call.set_result(act(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised by `result`, as of a thread
            call.set_exception(error)
        return call
