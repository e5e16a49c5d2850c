"""The bytes of splits, fetched by a few threads before they are needed, within a budget of bytes.

    planned ──► requested ──► kept ──► released

Only the thread that reads changes this; the threads of the pool make requests and nothing else. The budget counts
ranges from their request to their release.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from arrow_avro import SYNC_SIZE
from azureblob_source.read.blob_bytes import FIRST_REQUEST, BlobBytes, RangeReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    from azure_account.container import BlobContainer
    from azure_account.values import BlobContent
    from azureblob_source.read.splits import Split

Range: TypeAlias = "tuple[int, int]"
"""The bytes [start, end) of a blob."""

REQUEST_BYTES = 4 << 20

_AFTER_END = 5
"""The part of a split's size (two to the power) that is fetched after its end, as its last block rarely ends there."""
_ANYWHERE = 1 << 63
_LEAST_CHARGE = 1 << 16  # so that the budget bounds the number of small requests too


@dataclass(frozen=True, slots=True)
class _Request:
    start: int
    end: int
    answer: Future[BlobContent]


class SplitBytes(BlobBytes):
    """The bytes that a split needs, most of them fetched ahead. `planned` are the ranges that are not requested yet."""

    def __init__(self, ahead: ReadAhead, split: Split, planned: Iterable[Range]) -> None:
        super().__init__(ahead.ranges, split.blob)
        self._ahead = ahead
        self.planned: deque[Range] = deque(planned)
        self._requested: deque[_Request] = deque()
        self._planned_to = max((end for _, end in self.planned), default=0)

    def forget(self, before: int) -> None:
        """Free the bytes before this place, and fetch on."""
        while self._requested and self._requested[0].end <= before:
            first = self._requested.popleft()
            first.answer.cancel()
            self._ahead.release(_charge(first.start, first.end))
        if freed := self._buffered.drop(before):
            self._ahead.release(freed)

    def is_near(self, end: int) -> bool:
        """Whether the bytes up to `end` are fetched anyway, or all but one request of them."""
        return end <= self._planned_to + REQUEST_BYTES

    def read_on(self) -> None:
        """Fetch the blob to its end: the split, which begins with the blob, has all its rows."""
        end = self.clip(_ANYWHERE)
        self.planned.extend(_ranges(max(self._planned_to, self._buffered.until(0)), end))
        self._planned_to = max(self._planned_to, end)
        self._ahead.fill(self)

    def close(self) -> None:
        """Free all bytes, and stop fetching."""
        self.planned.clear()
        self.forget(_ANYWHERE)

    def request(self) -> None:
        """Request the next range that is planned, whatever the budget allows."""
        start, end = self.planned.popleft()
        self._requested.append(_Request(start, end, self._ahead.submit(self, start, end)))

    def _take_fetched(self, at: int | None = None) -> bool:
        if not self._requested and self.planned:
            self.request()
        if not self._requested or not (at is None or self._requested[0].start <= at < self._requested[0].end):
            return False
        first = self._requested.popleft()
        self._keep(first.start, first.answer.result(), _charge(first.start, first.end))
        return True


class ReadAhead:
    """The bytes of splits, one split after the other. A `with` block starts the requests and ends the threads.

    Bytes that are requested or kept stay within `budget`, except for those that the reader cannot go on without.
    """

    def __init__(self, container: BlobContainer, splits: Sequence[Split], threads: int, budget: int) -> None:
        self.ranges: RangeReader = RangeReader(container)
        self.charged: int = 0
        """Bytes that count for the budget at present."""
        self._budget = budget
        self._pool = ThreadPoolExecutor(threads, "azureblob-read")
        names = [None, *(split.blob.name for split in splits)]
        self._splits = [
            (split, SplitBytes(self, split, _plan(split, previous)))
            for split, previous in zip(splits, names[:-1], strict=True)
        ]
        self._waiting = deque(source for _, source in self._splits)

    def __enter__(self) -> Self:
        self.fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __iter__(self) -> Iterator[tuple[Split, SplitBytes]]:
        """Each split with its bytes, which are freed when the next split is asked for."""
        for split, source in self._splits:
            yield split, source
            source.close()

    def fill(self, before_others: SplitBytes | None = None) -> None:
        """Request as many ranges as the budget allows, one at least if none is requested or kept."""
        if before_others is not None:
            self._waiting.appendleft(before_others)
        while self._waiting:
            source = self._waiting[0]
            if not source.planned:
                self._waiting.popleft()
            elif self.charged and self.charged + _charge(*source.planned[0]) > self._budget:
                return
            else:
                source.request()

    def submit(self, source: SplitBytes, start: int, end: int) -> Future[BlobContent]:
        """Request a range, which counts for the budget from now on."""
        self.charged += _charge(start, end)
        return self._pool.submit(self.ranges.read, source.blob, start, end - start)

    def release(self, charge: int) -> None:
        """Bytes that were charged are freed: request as many more."""
        self.charged -= charge
        self.fill()


def _plan(split: Split, previous: str | None) -> Iterator[Range]:
    """The ranges that a reader of the split will most probably read. It has read the header of `previous`, a blob."""
    has_header = not split.start or split.blob.name == previous
    if split.blob.part is not None:
        yield from _plan_of_part(split, has_header=has_header)
        return
    if not has_header:
        yield 0, FIRST_REQUEST
    stop = split.blob.size if split.end is None else min(split.end + (split.size >> _AFTER_END), split.blob.size)
    yield from _ranges(split.start, stop)


def _plan_of_part(split: Split, *, has_header: bool) -> Iterator[Range]:
    """The ranges of a split whose blocks are known: with the marker before them, and nothing after them."""
    start, stop = split.start - SYNC_SIZE, split.start + split.size
    if not has_header and start > FIRST_REQUEST:
        yield 0, FIRST_REQUEST
    elif not has_header:
        start = 0
    yield from _ranges(start, stop)


def _ranges(start: int, stop: int) -> Iterator[Range]:
    for at in range(start, stop, REQUEST_BYTES):
        yield at, min(at + REQUEST_BYTES, stop)


def _charge(start: int, end: int) -> int:
    """What a range counts for in the budget."""
    return max(end - start, _LEAST_CHARGE)
