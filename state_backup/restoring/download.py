"""Download files: ranges in parallel into a file of its full size, then verified by its checksums.

Small files that share a pack are downloaded by one request, verified, and then written in parallel.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from concurrent.futures import CancelledError
from contextlib import ExitStack
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeVar

from blake3 import blake3 as new_blake3

from azure_account.documents.document import FETCHES
from foundation.disk_advice import next_step
from foundation.errors import ConfigurationError, CorruptError
from foundation.parallel import pool, results
from state_backup.index.packs import runs
from state_backup.local.place import set_time
from state_backup.local.scan import READ_BYTES
from state_backup.restoring.pieces import PieceJournal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from azure_account.container import BlobContainer
    from state_backup.index.packs import PackRange
    from state_backup.index.snapshot_index import FileBlob, FileIndex

logger = logging.getLogger("state_backup")
K = TypeVar("K")

RANGE_BYTES = 4 << 20
_FILES_AT_ONCE = 8
"""Files, or runs of a pack. Of each run up to 4 MiB are in memory, beside one range for each thread."""
_NAMED = 5
"""How many damaged files of a pack an error names."""


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
        """Download files to these paths, whose folders exist.

        At a path there must be nothing, or a file that an earlier download of the same content has begun.

        progress: is called with the bytes of each range. `NotFoundError` if a blob is gone, `CorruptError` if the bytes
        are not those that were backed up, `ConfigurationError` if the disk refuses them.
        """
        inline = {path: file for path, file in files.items() if file.data}
        alone, shared = runs({path: file for path, file in files.items() if not file.data})
        calls = chain(
            (self._files.submit(self._inline, path, file, progress) for path, file in inline.items()),
            (self._files.submit(self._file, path, file, progress) for path, file in alone.items()),
            (self._files.submit(self._run, run, progress) for run in shared),
        )
        results(calls, self._stopped.set)

    def _inline(self, path: Path, file: FileIndex, progress: Callable[[int], object]) -> None:
        _write(path, file, memoryview(file.data))
        progress(len(file.data))

    def _run(self, run: PackRange[Path], progress: Callable[[int], object]) -> None:
        """Download files that share a pack. None is written before all of them are verified."""
        if self._stopped.is_set():
            raise CancelledError
        whole = fetch_run(self._container, run)
        if len(whole) < len(run.files):
            raise _corrupt_run(run, [file.name for path, file in run.files if path not in whole])
        results(self._ranges.submit(_write, path, file, whole[path]) for path, file in run.files)
        progress(sum(file.metadata.size for _, file in run.files))

    def _file(self, path: Path, file: FileIndex, progress: Callable[[int], object]) -> None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "r+b", buffering=0):
                if file.metadata.size > self._range_bytes and not os.fstat(descriptor).st_size:
                    self._check_sizes(file)
                self._fill_verified(descriptor, path, file, progress)
                set_time(descriptor, file.metadata)
                os.fsync(descriptor)
        except OSError as error:
            raise ConfigurationError("write", str(path), str(error), next_step(error)) from error

    def _check_sizes(self, file: FileIndex) -> None:
        """`CorruptError` if a blob has not the bytes that the index says, before the disk makes room for them."""
        for blob, size in file.extents():
            found = self._container.properties(blob.blob_id)
            there = self._container.get(blob.blob_id, 0, 1).properties.size if found is None else found.size
            if there < blob.pack_offset + size:
                raise _corrupt(file, f"blob {blob.blob_id} is shorter than the file: {there:,} bytes, not {size:,}")

    def _fill_verified(self, descriptor: int, path: Path, file: FileIndex, progress: Callable[[int], object]) -> None:
        """Fill a file. If it is not what was backed up, it is fetched again: a bit may have been flipped on the way."""
        parts = list(self._parts(file))
        notes = _begun(descriptor, path, file, len(parts))
        for left in reversed(range(FETCHES)):
            try:
                self._fill(descriptor, file, parts, notes, progress)
                return _verify(descriptor, path, file)
            except CorruptError as error:
                if not left:
                    raise
                logger.warning("it is fetched again: %s", error)
            if notes is not None:
                notes.end()
            notes, progress = None, _unreported
        return None

    def _fill(
        self,
        descriptor: int,
        file: FileIndex,
        parts: Sequence[tuple[FileBlob, int, int]],
        notes: PieceJournal | None,
        progress: Callable[[int], object],
    ) -> None:
        def fetch(number: int, blob: FileBlob, start: int, length: int) -> None:
            if self._stopped.is_set():
                raise CancelledError
            if notes is not None and notes.has(number, blob.offset + start, length):
                progress(length)
                return
            data = self._container.get(blob.blob_id, blob.pack_offset + start, length).data
            if len(data) < length:
                raise _corrupt(file, f"blob {blob.blob_id} is shorter than the file")
            os.pwrite(descriptor, data, blob.offset + start)
            if notes is not None:
                notes.add(number, data)
            progress(length)

        # All have ended when this returns, so that none writes to a descriptor that is another file's by then.
        results(self._ranges.submit(fetch, number, *part) for number, part in enumerate(parts))
        if notes is not None:
            notes.end()

    def _parts(self, file: FileIndex) -> Iterator[tuple[FileBlob, int, int]]:
        """Ranges of the blobs of a file: blob, start in it, length."""
        for blob, size in file.extents():
            cuts = [*range(0, size, self._range_bytes), size]
            yield from ((blob, start, stop - start) for start, stop in pairwise(cuts))


def _unreported(_: int) -> None:
    """Bytes that were reported when they were fetched before."""


def _begun(descriptor: int, path: Path, file: FileIndex, parts: int) -> PieceJournal | None:
    """The notes of a file of several pieces: those of an earlier download, or new ones. `OSError` for another file."""
    notes = PieceJournal(descriptor, file, parts) if parts > 1 else None
    if os.fstat(descriptor).st_size:
        if notes is None or not notes.are_there:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    elif notes is not None:
        notes.begin()
    elif file.metadata.size:
        os.posix_fallocate(descriptor, 0, file.metadata.size)
    return notes


def _write(path: Path, file: FileIndex, data: memoryview) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as target:
            target.write(data)
            target.flush()
            set_time(descriptor, file.metadata)
            os.fsync(descriptor)
    except OSError as error:
        raise ConfigurationError("write", str(path), str(error), next_step(error)) from error


def _verify(descriptor: int, path: Path, file: FileIndex) -> None:
    found = new_blake3()
    os.lseek(descriptor, 0, os.SEEK_SET)
    while piece := os.read(descriptor, READ_BYTES):
        found.update(piece)
    if found.hexdigest() != file.blake3:
        raise _corrupt(file, f"the bytes restored to {path} have another checksum")


def _corrupt(file: FileIndex, cause: str) -> CorruptError:
    blobs = ", ".join(blob.blob_id for blob in file.blobs)
    return CorruptError("restore", f"file {file.name} from {blobs}", cause, "Restore an older checkpoint.")


def _corrupt_run(run: PackRange[Path], damaged: list[str]) -> CorruptError:
    names = ", ".join(damaged[:_NAMED]) + (f" and {len(damaged) - _NAMED} more" if damaged[_NAMED:] else "")
    cause = f"the bytes of {names} have another checksum, or are not there"
    return CorruptError("restore", f"files from pack {run.pack}", cause, "Restore an older checkpoint.")


def fetch_run(container: BlobContainer, run: PackRange[K]) -> dict[K, memoryview]:
    """The bytes of the files of a run, without the files that are damaged.

    If one is damaged, all are fetched again, since a bit may have been flipped on the way: a file counts as damaged
    if it was so each of `FETCHES` times. `NotFoundError` if the pack is gone.
    """
    whole: dict[K, memoryview] = {}
    for left in reversed(range(FETCHES)):
        data = container.get(run.pack, run.start, run.length).data
        whole |= {key: piece for key, file, piece in run.pieces(data) if key not in whole and _is_of(file, piece)}
        damaged = len(run.files) - len(whole)
        if not damaged:
            break
        if left:
            logger.warning("pack %s is fetched again: the bytes of %d of its files are not theirs", run.pack, damaged)
    return whole


def _is_of(file: FileIndex, data: memoryview) -> bool:
    return len(data) == file.metadata.size and new_blake3(data).hexdigest() == file.blake3
