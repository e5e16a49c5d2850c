"""Download files: ranges in parallel into a file of its full size, then verified by its checksums."""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import CancelledError
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING

from azure_account.document_store import FETCHES
from azure_account.errors import ConfigurationError, CorruptError, describe
from state_backup.local.advice import next_step
from state_backup.local.place import set_time
from state_backup.local.scan import READ_BYTES, ExpectedChecksum
from state_backup.threads import pool, results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typing_extensions import Self

    from azure_account.account import BlobContainer
    from state_backup.index.snapshot_index import FileBlob, FileIndex

logger = logging.getLogger(__name__)

RANGE_BYTES = 4 << 20
_FILES_AT_ONCE = 4


class Downloader:
    """Downloads from one container. A context manager: its threads end with the block."""

    def __init__(self, container: BlobContainer, *, threads: int = 16, range_bytes: int = RANGE_BYTES) -> None:
        self._container, self._range_bytes = container, range_bytes
        self._stopped = threading.Event()
        self._closing = ExitStack()
        self._ranges = self._closing.enter_context(pool(threads, "download-range"))
        self._files = self._closing.enter_context(pool(min(threads, _FILES_AT_ONCE), "download-file"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what is being downloaded."""
        self._closing.close()

    def files(self, files: dict[Path, FileIndex], progress: Callable[[int], object] = lambda _: None) -> None:
        """Download files to these paths, whose folders exist. The paths must not exist.

        progress: is called with the bytes of each range. `NotFoundError` if a blob is gone, `CorruptError` if the bytes
        are not those that were backed up, `ConfigurationError` if the disk refuses them.
        """
        calls = (self._files.submit(self._file, path, file, progress) for path, file in files.items())
        results(calls, self._stopped.set)

    def _file(self, path: Path, file: FileIndex, progress: Callable[[int], object]) -> None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "r+b", buffering=0):
                if file.metadata.size > self._range_bytes:
                    self._check_sizes(file)
                if file.metadata.size:
                    os.posix_fallocate(descriptor, 0, file.metadata.size)
                self._fill_verified(descriptor, path, file, progress)
                set_time(descriptor, file.metadata)
                os.fsync(descriptor)
        except OSError as error:
            raise ConfigurationError(describe("write", str(path), str(error), next_step(error))) from error

    def _check_sizes(self, file: FileIndex) -> None:
        """`CorruptError` if a blob has not the bytes that the index says, before the disk makes room for them."""
        for blob, size in file.extents():
            there = self._container.get(blob.blob_id, 0, 1).properties.size
            if there < size:
                raise _corrupt(file, f"blob {blob.blob_id} is shorter than the file: {there:,} bytes, not {size:,}")

    def _fill_verified(self, descriptor: int, path: Path, file: FileIndex, progress: Callable[[int], object]) -> None:
        """Fill a file. If it is not what was backed up, it is fetched again: a bit may have been flipped on the way."""
        for left in reversed(range(FETCHES)):
            try:
                self._fill(descriptor, file, progress)
                _verify(descriptor, path, file)
            except CorruptError as error:  # noqa: PERF203 - a download takes longer
                if not left:
                    raise
                logger.warning("it is fetched again: %s", error)
                progress = _unreported
            else:
                return

    def _fill(self, descriptor: int, file: FileIndex, progress: Callable[[int], object]) -> None:
        def fetch(blob: FileBlob, start: int, length: int) -> None:
            if self._stopped.is_set():
                raise CancelledError
            data = self._container.get(blob.blob_id, start, length).data
            if len(data) < length:
                raise _corrupt(file, f"blob {blob.blob_id} is shorter than the file")
            os.pwrite(descriptor, data, blob.offset + start)
            progress(length)

        # All have ended when this returns, so that none writes to a descriptor that is another file's by then.
        results(self._ranges.submit(fetch, *part) for part in self._parts(file))

    def _parts(self, file: FileIndex) -> Iterator[tuple[FileBlob, int, int]]:
        """Ranges of the blobs of a file: blob, start in it, length."""
        for blob, size in file.extents():
            cuts = [*range(0, size, self._range_bytes), size]
            yield from ((blob, start, stop - start) for start, stop in pairwise(cuts))


def _unreported(_: int) -> None:
    """Bytes that were reported when they were fetched before."""


def _verify(descriptor: int, path: Path, file: FileIndex) -> None:
    expected = ExpectedChecksum(file.checksum, file.blake3)
    os.lseek(descriptor, 0, os.SEEK_SET)
    while piece := os.read(descriptor, READ_BYTES):
        expected.update(piece)
    if not expected.matches:
        raise _corrupt(file, f"the bytes restored to {path} have another checksum")


def _corrupt(file: FileIndex, cause: str) -> CorruptError:
    blobs = ", ".join(blob.blob_id for blob in file.blobs)
    return CorruptError(describe("restore", f"file {file.name} from {blobs}", cause, "Restore an older checkpoint."))
