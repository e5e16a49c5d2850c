"""A concurrent map: one call for each item, several at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


def concurrent_map(
    act: Callable[[Item], Result], items: Sequence[Item], threads: int, timeout: float | None = None
) -> list[Result]:
    """The results of `act` for each item, in order, from up to `threads` threads.

    An error of `act` is raised at once: calls that run then are not waited for, the others are cancelled.
    `concurrent.futures.TimeoutError` after `timeout` seconds. With one item or one thread the calls are made in this
    thread, without a timeout.
    """
    if min(len(items), threads) < 2:  # noqa: PLR2004 - one call at a time
        return [act(item) for item in items]
    pool = ThreadPoolExecutor(min(threads, len(items)), "azureblob")
    try:
        return list(pool.map(act, items, timeout=timeout))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
