"""The bytes of splits, fetched ahead of their reader: which ranges of a blob a split needs, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azureblob_source.read.blob_bytes import FIRST_REQUEST, BlobBytes, RangeReader
from azureblob_source.read.fetching import Fetcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from azure_account.container import BlobContainer
    from azureblob_source.read.fetching import Range, RangeQueue
    from azureblob_source.read.splits import Split

REQUEST_BYTES = 4 << 20

_AFTER_END = 5
"""The part of a split's size (two to the power) that is fetched after its end, as its last block rarely ends there."""
_ANYWHERE = 1 << 63


class SplitBytes(BlobBytes):
    """The bytes that a split needs, most of them fetched ahead."""

    def __init__(self, fetcher: Fetcher, queue: RangeQueue) -> None:
        super().__init__(fetcher.ranges, queue.blob)
        self._fetcher = fetcher
        self._queue = queue

    def forget(self, before: int) -> None:
        """Free the bytes before this place, and fetch on."""
        self._fetcher.skip(self._queue, before)
        freed = self._buffered.drop(before)
        if freed:
            self._fetcher.release(freed)

    def is_near(self, end: int) -> bool:
        """Whether the bytes up to `end` are fetched anyway, or all but one request of them."""
        return end <= self._queue.end + REQUEST_BYTES

    def read_on(self) -> None:
        """Fetch the blob to its end: the split, which begins with the blob, has all its rows."""
        start = max(self._queue.end, self._buffered.until(0))
        self._fetcher.extend(self._queue, _ranges(start, self.clip(_ANYWHERE)))

    def close(self) -> None:
        """Free all bytes, and stop fetching."""
        self._fetcher.drop(self._queue)
        self._fetcher.release(self._buffered.drop(_ANYWHERE))

    def _take_fetched(self, at: int | None = None) -> bool:
        fetched = self._fetcher.take(self._queue, at)
        if fetched is not None:
            self._keep(fetched.start, fetched.content, fetched.charge)
        return fetched is not None


class ReadAhead:
    """The bytes of splits, one split after the other. A `with` block starts the requests and ends the threads.

    Bytes that are requested or kept stay within `budget`, except for those that the reader cannot go on without.
    """

    def __init__(self, container: BlobContainer, splits: Sequence[Split], threads: int, budget: int) -> None:
        self.fetcher = Fetcher(RangeReader(container), threads, budget)
        names = [None, *(split.blob.name for split in splits)]
        self._splits = [
            (split, SplitBytes(self.fetcher, self.fetcher.add(split.blob, _plan(split, previous))))
            for split, previous in zip(splits, names[:-1], strict=True)
        ]

    def __enter__(self) -> Self:
        self.fetcher.fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fetcher.close()

    def __iter__(self) -> Iterator[tuple[Split, SplitBytes]]:
        """Each split with its bytes, which are freed when the next split is asked for."""
        for split, source in self._splits:
            yield split, source
            source.close()


def _plan(split: Split, previous: str | None) -> Iterator[Range]:
    """The ranges that a reader of the split will most probably read. It has read the header of `previous`, a blob."""
    if split.start and split.blob.name != previous:
        yield 0, FIRST_REQUEST
    stop = split.blob.size if split.end is None else min(split.end + (split.size >> _AFTER_END), split.blob.size)
    yield from _ranges(split.start, stop)


def _ranges(start: int, stop: int) -> Iterator[Range]:
    for at in range(start, stop, REQUEST_BYTES):
        yield at, min(at + REQUEST_BYTES, stop)
