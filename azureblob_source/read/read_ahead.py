"""Bytes of blobs, fetched ahead of whoever reads them: ranged GETs on a few threads, in order, within a budget.

The reader's thread plans and takes; the pool's threads only fetch. What is held (fetched or under way, and not yet
forgotten by the reader) stays within the budget, except for what the reader cannot go on without.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from azure_account.errors import ConflictError, CorruptError, NotFoundError, describe
from azureblob_source.avro.files.buffered_ranges import BufferedRanges
from azureblob_source.avro.files.gzipped import GunzippedSource, is_gzip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from typing_extensions import Self

    from azure_account.account import BlobContainer, BlobContent
    from azureblob_source.avro.files.container_file import Source
    from azureblob_source.read.blobs import StreamBlob
    from azureblob_source.read.splits import Part

PIECE_BYTES = 4 << 20
FIRST_LOOK = 1 << 14
"""Bytes that nearly always hold a file's header."""

_LEAST_CHARGE = 1 << 16  # so that the budget bounds the number of small requests too
_SLACK = 5  # a part's share (two to the power) that is fetched behind its end, as its last block rarely ends there
_ANYWHERE = 1 << 63


class Gets:
    """GETs of one container that see a blob as the first of them has seen it, or as its ETag says. Thread-safe."""

    def __init__(self, container: BlobContainer) -> None:
        self._container = container
        self._etags: dict[str, str] = {}

    def __call__(self, blob: StreamBlob, start: int, length: int) -> BlobContent:
        """A range, cut at the blob's end.

        `NotFoundError` if the blob is gone, `ConflictError` if it is another one, `CorruptError` if its size is not
        that of the log.
        """
        known = blob.etag or self._etags.get(blob.name)
        try:
            content = self._container.get(blob.name, start, length, if_match=known)
        except NotFoundError as error:
            raise self._gone(blob) from error
        except ConflictError as error:
            # A condition on a blob that is gone fails in the same way, at least in Azurite.
            raise (self._changed(blob) if self._container.properties(blob.name) else self._gone(blob)) from error
        if self._etags.setdefault(blob.name, content.properties.etag) != content.properties.etag:
            raise self._changed(blob)
        if blob.version is not None and content.properties.size != blob.size:
            raise CorruptError(
                describe(
                    "read",
                    f"blob {blob.name} in {self._container.url}",
                    f"it ends at byte {content.properties.size}, by the log it has {blob.size} bytes",
                    "Restore the blob, or skip it with option ignoreCorruptBlobs.",
                )
            )
        return content

    def _gone(self, blob: StreamBlob) -> NotFoundError:
        return NotFoundError(
            describe(
                "read",
                f"blob {blob.name} in {self._container.url}",
                "the blob is gone; an overwrite of the stream, or a vacuum, deletes the blobs of earlier versions",
                "Load the DataFrame again, without `versionAsOf`, to read the stream as it is now. Start a streaming "
                "query anew, with a new checkpoint. If the blob was deleted by hand, restore it, or take it out of the "
                "log: `python -m azureblob_source repair … --leave-out-missing`.",
            )
        )

    def _changed(self, blob: StreamBlob) -> ConflictError:
        return ConflictError(
            describe(
                "read",
                f"blob {blob.name} in {self._container.url}",
                "the blob was replaced by another since the read began",
                "Read again when nobody writes to it.",
            )
        )


class BlobBytes:
    """A `Source` over one blob: bytes are fetched when they are asked for, a little more than that."""

    def __init__(self, gets: Gets, blob: StreamBlob) -> None:
        self.blob = blob
        self._gets = gets
        self._size: int | None = None
        self._pieces = BufferedRanges()

    def clip(self, end: int) -> int:
        """`end`, or the blob's size."""
        if self._size is None:
            self._first()
        return min(end, self._size or 0)

    def read(self, start: int, end: int) -> memoryview:
        """The bytes `[start, end)`. Those far ahead, with a gap before them, are not kept."""
        while (at := self._pieces.until(start)) < end:
            self._approach(at)
            if self._pieces.until(start) > at:
                continue
            if at == start and self._pieces.is_far(start):
                return memoryview(self._gets(self.blob, start, end - start).data)
            self._fetch(at, end - at + FIRST_LOOK)
        return self._pieces.view(start, end)

    def forget(self, before: int) -> None:
        """Let go of what lies before."""
        self._pieces.drop(before)

    def is_near(self, end: int) -> bool:
        """Whether they are held."""
        return self._pieces.until(0) >= end

    def peek(self, start: int, end: int) -> memoryview | None:
        """The bytes by a request of their own, unless they are held. They are not kept."""
        end = self.clip(end)
        if end <= start or self._pieces.until(start) >= end:
            return self._pieces.view(start, end)
        return memoryview(self._gets(self.blob, start, end - start).data)

    def _first(self) -> None:
        self._fetch(0, FIRST_LOOK)

    def _approach(self, at: int) -> None:
        """Take what was fetched ahead, if it holds the byte at `at`."""

    def _fetch(self, at: int, length: int) -> None:
        self._keep(at, self._gets(self.blob, at, length))

    def _keep(self, start: int, content: BlobContent, charge: int = 0) -> None:
        self._size = content.properties.size
        self._pieces.add(start, content.data, charge)


class PartBytes(BlobBytes):
    """The bytes that a part needs, which `ReadAhead` fetches ahead in this order: `planned` ranges (start, end)."""

    def __init__(self, ahead: ReadAhead, blob: StreamBlob, planned: Iterable[tuple[int, int]]) -> None:
        super().__init__(ahead.gets, blob)
        self.planned = deque(planned)
        self._horizon = max((end for _, end in self.planned), default=0)
        self.coming: deque[tuple[int, int, Future[BlobContent]]] = deque()
        self._ahead = ahead

    def forget(self, before: int) -> None:
        """Let go of what lies before, and fetch on."""
        while self.coming and self.coming[0][1] <= before:
            self._skip()
        freed = self._pieces.drop(before)
        if freed:
            self._ahead.release(freed)

    def is_near(self, end: int) -> bool:
        """Whether the bytes up to `end` are planned to be fetched, or nearly so."""
        return end <= self._horizon + PIECE_BYTES

    def read_on(self) -> None:
        """The part, which begins with the blob, goes on to its end."""
        ends = [end for _, end, _ in self.coming] + [end for _, end in self.planned]
        rest = list(_ranges(max(ends, default=self._pieces.until(0)), self.clip(_ANYWHERE)))
        if rest:
            self.planned.extend(rest)
            self._horizon = rest[-1][1]
            self._ahead.hurry(self)

    def close(self) -> None:
        """Nothing more of it is needed."""
        self.planned.clear()
        while self.coming:
            self._skip()
        self._ahead.release(self._pieces.drop(_ANYWHERE))

    def _first(self) -> None:
        if self._next() is None:
            super()._first()
        else:
            self._take()

    def _approach(self, at: int) -> None:
        following = self._next()
        if following is not None and following[0] <= at < following[1]:
            self._take()

    def _next(self) -> tuple[int, int] | None:
        if not self.coming and self.planned:
            self._ahead.submit(self)
        return self.coming[0][:2] if self.coming else None

    def _take(self) -> None:
        start, end, future = self.coming.popleft()
        self._keep(start, future.result(), charge_of(start, end))

    def _skip(self) -> None:
        start, end, future = self.coming.popleft()
        future.cancel()
        self._ahead.release(charge_of(start, end))


class ReadAhead:
    """The bytes of parts, one after the other. Use it in a `with` block, which ends its threads."""

    def __init__(self, container: BlobContainer, parts: Sequence[Part], threads: int, budget: int) -> None:
        self.gets = Gets(container)
        self._budget, self._held = budget, 0
        self._pool = ThreadPoolExecutor(threads, "azureblob-read")
        names = [None, *(part.blob.name for part in parts)]
        self._parts = [
            (part, PartBytes(self, part.blob, _plan(part, with_header=part.blob.name != before)))
            for part, before in zip(parts, names[:-1], strict=True)
        ]
        self._waiting = deque(source for _, source in self._parts)

    def __enter__(self) -> Self:
        self._fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __iter__(self) -> Iterator[tuple[Part, PartBytes]]:
        """Each part with its bytes, which are let go of when the next is asked for."""
        for part, source in self._parts:
            yield part, source
            source.close()

    def submit(self, source: PartBytes) -> None:
        """Fetch the next range of a part, whatever is held."""
        start, end = source.planned.popleft()
        self._held += charge_of(start, end)
        source.coming.append((start, end, self._pool.submit(self.gets, source.blob, start, end - start)))

    def release(self, charge: int) -> None:
        """So much is held no longer."""
        self._held -= charge
        self._fill()

    def hurry(self, source: PartBytes) -> None:
        """A part needs more than was planned, before the next one."""
        if not self._waiting or self._waiting[0] is not source:
            self._waiting.appendleft(source)
        self._fill()

    def _fill(self) -> None:
        while self._waiting:
            planned = self._waiting[0].planned
            if not planned:
                self._waiting.popleft()
            elif self._held and self._held + charge_of(*planned[0]) > self._budget:
                return
            else:
                self.submit(self._waiting[0])


def charge_of(start: int, end: int) -> int:
    """What the request for a range counts for in the budget."""
    return max(end - start, _LEAST_CHARGE)


def _plan(part: Part, *, with_header: bool) -> Iterator[tuple[int, int]]:
    """The ranges that a reader of the part will most probably ask for."""
    if part.start and with_header:
        yield 0, FIRST_LOOK
    stop = part.blob.size if part.end is None else min(part.end + (part.size >> _SLACK), part.blob.size)
    yield from _ranges(part.start, stop)


def _ranges(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for at in range(start, stop, PIECE_BYTES):
        yield at, min(at + PIECE_BYTES, stop)


def plain(source: BlobBytes) -> Source:
    """The bytes of the Avro file: the blob's, or what they are the gzip of."""
    return GunzippedSource(source, source.blob.name) if is_gzip(source.read(0, source.clip(2))) else source
