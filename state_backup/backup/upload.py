"""Upload files: small ones in packs, up to 4 MiB by one request; others in blocks, made visible by one request.

Each block is read once, added to the checksums of its file, and staged by a thread. At most `threads` blocks and packs,
and one block of each file that is being read, are in memory; a block has 4 MiB, or a 50,000th of a file above 195 GiB.

A file whose bytes are not those that were scanned is an error, and no
blob is made of it. A blob is created, never replaced: a request that takes effect late does not bring its TTL back.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from blake3 import blake3 as new_blake3

from azure_account.readback import request_and_read_back
from azure_account.values import BLOCKS_OF_A_BLOB, IF_ABSENT, Missing
from foundation.errors import ConfigurationError, ConflictError, TransientError
from foundation.parallel import pool, results
from state_backup.index.packs import grouped
from state_backup.index.snapshot_index import FileBlob
from state_backup.local.scan import SNAPSHOT_STEP, open_file
from state_backup.record.ttl import WITH_TTL, WITHOUT_TAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from io import FileIO
    from pathlib import Path
    from typing import Self

    from azure_account.container import BlobContainer
    from azure_account.values import BlobAttributes, Bytes, Outcome
    from state_backup.index.dir_diff import Blobs, Content, LocalFile

logger = logging.getLogger("state_backup")
T = TypeVar("T")

BLOCK_BYTES = 4 << 20
_FILES_AT_ONCE = 4
_UPLOADS = 3
"""How often a file is uploaded if its staged blocks are deleted meanwhile."""
_LOOKED_AT = 64
"""How many of the last blocks are asked for an error before the next one is read."""
_SMALL = 4 << 20
"""Files up to this size (bytes) are put in one request."""


class _BlocksGoneError(Exception):
    """The blocks that were staged for a blob are not there any more, nor is the blob."""


class FileUploader:
    """Uploads to one container. A context manager: its threads end with the block."""

    def __init__(
        self,
        container: BlobContainer,
        new_name: Callable[[], str],
        *,
        threads: int = 16,
        block_bytes: int = BLOCK_BYTES,
        tags_refused: bool = False,
    ) -> None:
        self._container, self._new_name, self._block_bytes = container, new_name, block_bytes
        self.tags_refused: bool = tags_refused
        """Whether the service refuses tags: then blobs get no TTL."""
        self.without_tags: set[str] = set()
        """Blobs that got no TTL, because tags are refused."""
        self._noting = threading.Lock()
        self._stopped = threading.Event()
        self._slots = threading.BoundedSemaphore(threads)
        self._closing = ExitStack()
        self._blocks = self._closing.enter_context(pool(threads, "upload-block"))
        self._files = self._closing.enter_context(pool(min(threads, _FILES_AT_ONCE), "upload-file"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what is being uploaded."""
        self._closing.close()

    def files(
        self, root: Path, files: Sequence[LocalFile], progress: Callable[[int], object] = lambda _: None
    ) -> dict[Content, Blobs]:
        """Upload files below `root` under new names, each content once. Returns their blobs, by content.

        progress: is called with the bytes of each block that was uploaded. `ConflictError` for a file that has changed
        since it was scanned. After an error some blobs may be there, which no checkpoint names.
        """
        uploaded = results((self._submit(root, group, progress) for group in grouped(files)), self._stopped.set)
        return {content: blobs for stored in uploaded for content, blobs in stored.items()}

    def put(self, blob: str, data: Bytes) -> None:
        """Put a small blob."""
        self._create(blob, partial(self._container.put, blob, data, condition=IF_ABSENT))

    def _submit(
        self, root: Path, group: tuple[LocalFile, ...], progress: Callable[[int], object]
    ) -> Future[dict[Content, Blobs]]:
        """Begin to upload what shares a blob. What is put in one request takes the place of a block."""
        if len(group) == 1 and group[0].metadata.size > min(_SMALL, self._block_bytes):
            return self._files.submit(self._file, root, group[0], progress)
        return self._with_slot(lambda: self._put_group(root, group, progress))

    def _with_slot(self, act: Callable[[], T]) -> Future[T]:
        """Have a thread act when fewer than `threads` blocks and packs are in memory."""
        self._slots.acquire()
        call = self._blocks.submit(act)
        call.add_done_callback(lambda _: self._slots.release())  # also of one that is cancelled before it begins
        return call

    def _put_group(
        self, root: Path, group: tuple[LocalFile, ...], progress: Callable[[int], object]
    ) -> dict[Content, Blobs]:
        if self._stopped.is_set():
            raise CancelledError
        data = bytearray(sum(file.metadata.size for file in group))
        begins = [0, *accumulate(file.metadata.size for file in group)]
        for file, begin in zip(group, begins, strict=False):
            _read_into(memoryview(data)[begin : begin + file.metadata.size], root, file)
        blob = self._new_name()
        self.put(blob, data)
        progress(len(data))
        if len(group) == 1:
            return {group[0].content: (FileBlob(blob, 0),)}
        return {file.content: (FileBlob(blob, 0, at, len(data)),) for file, at in zip(group, begins, strict=False)}

    def _file(self, root: Path, file: LocalFile, progress: Callable[[int], object]) -> dict[Content, Blobs]:
        for _ in range(_UPLOADS):
            try:
                return {file.content: (FileBlob(self._uploaded(root, file, progress), 0),)}
            except _BlocksGoneError:
                logger.warning("the staged blocks of %s were deleted, by a sweep: it is uploaded again", file.path)
        cause = f"the staged blocks of {file.path} were deleted {_UPLOADS} times before they were committed"
        step = "Run sweeps with a minimum age that is above the time of an upload."
        raise ConflictError("upload", f"directory {root}", cause, step)

    def _uploaded(self, root: Path, file: LocalFile, progress: Callable[[int], object]) -> str:
        """Upload a file under a new name. `_BlocksGoneError` if its blocks are not there any more."""
        blob = self._new_name()
        found = new_blake3()
        staged: list[Future[None]] = []
        try:
            for piece in self._pieces(root, file):
                if self._stopped.is_set():
                    raise CancelledError
                found.update(piece)
                staged.append(self._stage(blob, len(staged), piece, progress))
                if any(each.done() and each.exception() for each in staged[-_LOOKED_AT:]):
                    break
        finally:
            results(staged)
        if found.hexdigest() != file.blake3:
            raise _changed(root, file)
        ids = [_block_id(number) for number in range(len(staged))]
        self._create(blob, partial(self._container.commit_block_list, blob, ids, condition=IF_ABSENT))
        return blob

    def _stage(self, blob: str, number: int, piece: bytes, progress: Callable[[int], object]) -> Future[None]:
        def stage() -> None:
            self._container.stage_block(blob, _block_id(number), piece)
            progress(len(piece))

        return self._with_slot(stage)

    def _pieces(self, root: Path, file: LocalFile) -> Iterator[bytes]:
        with _opened(root, file) as source:
            size = max(self._block_bytes, -(-file.metadata.size // BLOCKS_OF_A_BLOB))
            while piece := source.read(size):
                yield piece

    def _create(self, blob: str, request: Callable[[BlobAttributes], Outcome]) -> None:
        """Make a request that creates a blob, which gets the TTL's tag unless tags are refused.

        A blob of its name, which nobody else has, is its effect.
        """
        tagged = False

        def create() -> Outcome:
            nonlocal tagged
            if self.tags_refused:
                return request(WITHOUT_TAGS)
            try:
                answer = request(WITH_TTL)
                tagged = True
            except ConfigurationError as refused:
                answer = request(WITHOUT_TAGS)
                self._note_refusal(refused)
            return answer

        def read_back(answer: object) -> bool | None:
            if self._container.properties(blob) is not None:
                return True
            if isinstance(answer, Missing):
                raise _BlocksGoneError
            return None

        def unresolved(answer: object) -> TransientError:
            cause = f"it stays unknown whether it was written ({answer})"
            return TransientError("upload", f"blob {blob}", cause, "Run the backup again.")

        request_and_read_back(create, read_back, unresolved)
        if not tagged:  # else the blob may be that of an earlier request, of which the answer was lost
            self.without_tags.add(blob)

    def _note_refusal(self, refused: ConfigurationError) -> None:
        with self._noting:
            first, self.tags_refused = not self.tags_refused, True
        if first:
            text = "index tags are refused in %s, so blobs get no TTL, and only `sweep` deletes leftovers: %s"
            logger.warning(text, self._container.url, refused)


def read_file(root: Path, file: LocalFile) -> bytes:
    """The bytes of a file. `ConflictError` if it is not the one that was scanned."""
    data = bytearray(file.metadata.size)
    _read_into(memoryview(data), root, file)
    return bytes(data)


def _read_into(space: memoryview, root: Path, file: LocalFile) -> None:
    """Read a whole file. `ConflictError` if it is not the one that was scanned."""
    with _opened(root, file) as source:
        read = 0
        while length := source.readinto(space[read:]):
            read += length
        longer = source.read(1)
    if read != len(space) or longer or new_blake3(space).hexdigest() != file.blake3:
        raise _changed(root, file)


@contextmanager
def _opened(root: Path, file: LocalFile) -> Iterator[FileIO]:
    """A file that is read. `ConflictError` if it is no file any more, `ConfigurationError` if the disk refuses it."""
    try:
        descriptor = open_file(f"{root}/{file.path}")
    except OSError as error:
        raise _changed(root, file) from error
    with os.fdopen(descriptor, "rb", buffering=0) as source:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _changed(root, file)
        try:
            yield source
        except OSError as error:
            cause = f"{file.path} cannot be read ({error})"
            raise ConfigurationError("back up directory", str(root), cause, "Change that.") from error


def _changed(root: Path, file: LocalFile) -> ConflictError:
    cause = f"{file.path} has changed since its checksum was computed"
    return ConflictError("back up directory", str(root), cause, SNAPSHOT_STEP)


def _block_id(number: int) -> str:
    return f"{number:05}"
