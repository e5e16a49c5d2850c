"""One call for each of several items, several at a time."""

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
    """What `act` gives for each item, in order; the first error as soon as it is known, without a wait for the rest.

    `concurrent.futures.TimeoutError` when it takes longer than `timeout` (s), which needs two items and two threads.
    """
    if min(len(items), threads) < 2:  # noqa: PLR2004 - nothing to do side by side
        return [act(item) for item in items]
    pool = ThreadPoolExecutor(min(threads, len(items)), "azureblob")
    try:
        return list(pool.map(act, items, timeout=timeout))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
