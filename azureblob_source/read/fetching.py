"""Ranges of blobs, fetched by a few threads before they are needed, within a budget of bytes.

    planned ──► requested ──► taken ──► released

`Fetcher` alone keeps this state, and only the thread that reads calls it; the threads of its pool make requests and
nothing else. The budget counts ranges from their request to their release.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from azure_account.values import BlobContent
    from azureblob_source.read.blob_bytes import RangeReader
    from azureblob_source.read.blobs import StreamBlob

Range: TypeAlias = "tuple[int, int]"
"""The bytes [start, end) of a blob."""

_LEAST_CHARGE = 1 << 16  # so that the budget bounds the number of small requests too


@dataclass(frozen=True, slots=True)
class Fetched:
    """A range that has arrived, and what to release when its bytes are freed."""

    start: int
    content: BlobContent
    charge: int


@dataclass(frozen=True, slots=True)
class _Request:
    start: int
    end: int
    answer: Future[BlobContent]


@dataclass(eq=False, slots=True)
class RangeQueue:
    """Ranges of one blob in the order in which they will be read. Only `Fetcher` changes it."""

    blob: StreamBlob
    planned: deque[Range] = field(default_factory=deque)
    requested: deque[_Request] = field(default_factory=deque)
    end: int = 0
    """Where the last range ends that was ever planned."""


class Fetcher:
    """Fetches the ranges of several queues, one queue after the other.

    Its budget bounds what is requested and not yet released, except that a range is always fetched if it is the only
    one, or if the reader asks for it.
    """

    def __init__(self, ranges: RangeReader, threads: int, budget: int) -> None:
        self.charged = 0
        """Bytes that count for the budget at present."""
        self.ranges = ranges
        self._budget = budget
        self._queues: deque[RangeQueue] = deque()
        self._pool = ThreadPoolExecutor(threads, "azureblob-read")

    def add(self, blob: StreamBlob, planned: Iterable[Range]) -> RangeQueue:
        """A queue after the others. Nothing is requested yet."""
        queue = RangeQueue(blob)
        _plan(queue, planned)
        self._queues.append(queue)
        return queue

    def fill(self) -> None:
        """Request as many ranges as the budget allows."""
        while self._queues:
            queue = self._queues[0]
            if not queue.planned:
                self._queues.popleft()
            elif self.charged and self.charged + _charge(*queue.planned[0]) > self._budget:
                return
            else:
                self._request(queue)

    def take(self, queue: RangeQueue, at: int | None = None) -> Fetched | None:
        """The queue's next range, as soon as it has arrived, if it holds the byte at `at` (None: any).

        None if it does not, or if none is left. Errors are those of `RangeReader.read`.
        """
        if not queue.requested and queue.planned:
            self._request(queue)
        if not queue.requested or not (at is None or queue.requested[0].start <= at < queue.requested[0].end):
            return None
        first = queue.requested.popleft()
        return Fetched(first.start, first.answer.result(), _charge(first.start, first.end))

    def skip(self, queue: RangeQueue, before: int) -> None:
        """The requested ranges of the queue that end before this place, or there, are not needed any more."""
        while queue.requested and queue.requested[0].end <= before:
            self._drop_first(queue)

    def extend(self, queue: RangeQueue, more: Iterable[Range]) -> None:
        """Fetch more ranges of this queue before those of the next one."""
        _plan(queue, more)
        if not self._queues or self._queues[0] is not queue:
            self._queues.appendleft(queue)
        self.fill()

    def drop(self, queue: RangeQueue) -> None:
        """No range of the queue is needed any more."""
        queue.planned.clear()
        while queue.requested:
            self._drop_first(queue)

    def release(self, charge: int) -> None:
        """Bytes that were charged are freed: request as many more."""
        self.charged -= charge
        self.fill()

    def close(self) -> None:
        """End the threads, without a wait for requests that are under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _request(self, queue: RangeQueue) -> None:
        start, end = queue.planned.popleft()
        self.charged += _charge(start, end)
        answer = self._pool.submit(self.ranges.read, queue.blob, start, end - start)
        queue.requested.append(_Request(start, end, answer))

    def _drop_first(self, queue: RangeQueue) -> None:
        first = queue.requested.popleft()
        first.answer.cancel()
        self.release(_charge(first.start, first.end))


def _plan(queue: RangeQueue, ranges: Iterable[Range]) -> None:
    queue.planned.extend(ranges)
    queue.end = max((queue.end, *(end for _, end in queue.planned)))


def _charge(start: int, end: int) -> int:
    """What a range counts for in the budget."""
    return max(end - start, _LEAST_CHARGE)
