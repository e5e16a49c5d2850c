"""Bytes of blobs by ranged GETs, kept for as long as they are needed. All ranges of a blob are of the same blob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrow_avro import BufferedRanges, GunzippedSource, is_gzip
from foundation.errors import ConflictError, CorruptError, NotFoundError

if TYPE_CHECKING:
    from arrow_avro import Source
    from azure_account.container import BlobContainer
    from azure_account.values import BlobContent
    from azureblob_source.read.blobs import StreamBlob

FIRST_REQUEST = 1 << 14
"""Bytes that nearly always hold a file's header."""
_REPLACED = "Read it as it is (`allowOverwrites`), or leave such blobs out, which counts them: `ignoreCorruptBlobs`."
_LEFT_OUT = "Restore it (versioning, soft delete), or leave such blobs out, which counts them: `ignoreCorruptBlobs`."


class RangeReader:
    """Reads ranges of a container's blobs. Thread-safe.

    The first range pins a blob, unless its ETag is known already: every later range is of the same blob.
    """

    def __init__(self, container: BlobContainer) -> None:
        self._container = container
        self._etags: dict[str, str] = {}

    def read(self, blob: StreamBlob, start: int, length: int) -> BlobContent:
        """A range, cut at the blob's end.

        `NotFoundError` if the blob is gone, `ConflictError` if it has been replaced, `CorruptError` if its size is not
        the one in the log.
        """
        known = blob.etag or self._etags.get(blob.name)
        try:
            content = self._container.get(blob.name, start, length, if_match=known)
        except NotFoundError as error:
            raise self._gone(blob) from error
        except ConflictError as error:
            # A conditional GET of a blob that is gone fails in the same way, at least in Azurite.
            raise (self._replaced(blob) if self._container.properties(blob.name) else self._gone(blob)) from error
        if self._etags.setdefault(blob.name, content.properties.etag) != content.properties.etag:
            raise self._replaced(blob)
        if blob.version is not None and content.properties.size != blob.size:
            raise CorruptError(
                "read",
                f"blob {blob.name} in {self._container.url}",
                f"it ends at byte {content.properties.size}, by the log it has {blob.size} bytes",
                "Restore the blob, or skip it with option ignoreCorruptBlobs.",
            )
        return content

    def _gone(self, blob: StreamBlob) -> NotFoundError:
        if blob.adopted:
            place, cause = f"blob {blob.name} in {self._container.url}", "it was deleted since it was adopted"
            return NotFoundError("read", place, cause, _LEFT_OUT)
        return NotFoundError(
            "read",
            f"blob {blob.name} in {self._container.url}",
            "the blob is gone; an overwrite of the stream, or a vacuum, deletes the blobs of earlier versions",
            "Load the DataFrame again, without `versionAsOf`, to read the stream as it is now. Start a streaming "
            "query with a new checkpoint. If the blob was deleted by hand, restore it, or take it out of the "
            "log: `python -m azureblob_source repair … --leave-out-missing`.",
        )

    def _replaced(self, blob: StreamBlob) -> ConflictError:
        if blob.adopted:
            place, cause = f"blob {blob.name} in {self._container.url}", "it was replaced since it was adopted"
            return ConflictError("read", place, cause, _REPLACED)
        return ConflictError(
            "read",
            f"blob {blob.name} in {self._container.url}",
            "the blob was replaced by another since the read began",
            "Read again when nobody writes to it.",
        )


class BlobBytes:
    """A `Source` over one blob: bytes are requested when they are read, with `FIRST_REQUEST` bytes more."""

    def __init__(self, ranges: RangeReader, blob: StreamBlob) -> None:
        self.blob = blob
        self._ranges = ranges
        self._size: int | None = None
        self._buffered = BufferedRanges()

    def clip(self, end: int) -> int:
        """`end`, or the blob's size."""
        if self._size is None and not self._take_fetched():
            self._request(0, FIRST_REQUEST)
        return min(end, self._size or 0)

    def read(self, start: int, end: int) -> memoryview:
        """The bytes `[start, end)`. They are not kept if there is a gap between the kept bytes and `start`."""
        while (at := self._buffered.until(start)) < end:
            if self._take_fetched(at):
                continue
            if at == start and self._buffered.is_far(start):
                return self._unkept(start, end)
            self._request(at, end - at + FIRST_REQUEST)
        return self._buffered.view(start, end)

    def forget(self, before: int) -> None:
        """Free the bytes before this place."""
        self._buffered.drop(before)

    def is_near(self, end: int) -> bool:
        """Whether the bytes up to `end` are kept."""
        return self._buffered.until(0) >= end

    def peek(self, start: int, end: int) -> memoryview | None:
        """The bytes `[start, end)`, cut at the blob's end: if they are not kept, by a request for just them."""
        end = self.clip(end)
        if end <= start or self._buffered.until(start) >= end:
            return self._buffered.view(start, end)
        return self._unkept(start, end)

    def _take_fetched(self, at: int | None = None) -> bool:  # noqa: ARG002 - nothing is fetched ahead here
        """Keep the next range that was fetched ahead, if there is one and it holds the byte at `at` (None: any)."""
        return False

    def _unkept(self, start: int, end: int) -> memoryview:
        return memoryview(self._ranges.read(self.blob, start, end - start).data)

    def _request(self, start: int, length: int) -> None:
        self._keep(start, self._ranges.read(self.blob, start, length))

    def _keep(self, start: int, content: BlobContent, charge: int = 0) -> None:
        self._size = content.properties.size
        self._buffered.add(start, content.data, charge)


def without_gzip(source: BlobBytes) -> Source:
    """The bytes of the Avro file: `source` itself, or the bytes that it is the gzip of."""
    return GunzippedSource(source, source.blob.name) if is_gzip(source.read(0, source.clip(2))) else source
