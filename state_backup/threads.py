"""Calls that are made by several threads; with one thread, by the caller itself, at once and in order."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

S = TypeVar("S")
T = TypeVar("T")


def pool(threads: int, name: str) -> Executor:
    """An executor of so many threads. One thread is the caller's: `submit` makes the call."""
    return ThreadPoolExecutor(threads, name) if threads > 1 else _Caller()


def mapped(act: Callable[[S], T], items: Iterable[S], threads: int, name: str) -> list[T]:
    """What the call gives for each of the items, in order."""
    with pool(threads, name) as executor:
        return results([executor.submit(act, item) for item in items])


def results(calls: Sequence[Future[T]], stop: Callable[[], object] = lambda: None) -> list[T]:
    """The results of submitted calls, in order.

    After an error of one, or Ctrl-C, `stop` is called, those that have not begun are cancelled, those that run are
    waited for, then it is raised: no call goes on behind the caller's back.
    """
    try:
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


class _Caller(Executor):
    """Makes each call when it is submitted."""

    def submit(self, act: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The call, which has been made."""
        call: Future[T] = Future()
        try:
            call.set_result(act(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised by `result`, as of a thread
            call.set_exception(error)
        return call
