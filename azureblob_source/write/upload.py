"""Stages the blocks of `open_blobs` in background threads, through a bounded queue.

When the queue is full the caller uploads the block itself, which bounds memory. A failure is raised by the next call,
not only at the end.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foundation.errors import TransientError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from azure_account.container import BlobContainer
    from azureblob_source.write.open_blobs import BlobFormat, SealedBlock


@dataclass(frozen=True)
class Staged:
    """What blocks have: bytes as stored, and rows."""

    size: int = 0
    rows: int = 0


@dataclass
class BlockUploader:
    """Stages blocks into `container` with `threads` threads and at most `queue` blocks waiting.

    deadline: in seconds. A context manager: its exit cancels uploads that have not started, so call `drain` before.
    """

    container: BlobContainer
    blob_format: BlobFormat
    threads: int = 2
    queue: int = 4
    deadline: float = 180.0
    staged: dict[str, Staged] = field(default_factory=dict)
    """What is staged so far, by blob."""

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads, "azureblob-upload")
        self._places = threading.BoundedSemaphore(self.threads + self.queue)
        self._lock = threading.Lock()
        self._pending: set[Future[None]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def submit(self, block: SealedBlock) -> None:
        """Stage `block`, in the background unless the queue is full. Raises the first failure of an earlier block."""
        self._raise_failure()
        if not self._places.acquire(blocking=False):
            self._stage(block)
            return
        future = self._pool.submit(self._stage, block)
        self._pending.add(future)
        future.add_done_callback(lambda _: self._places.release())

    def drain(self) -> None:
        """Wait until every submitted block is staged. `TransientError` if that takes longer than `deadline`."""
        _, waiting = wait(self._pending, self.deadline, FIRST_EXCEPTION)
        self._raise_failure()
        if waiting:
            raise TransientError(
                "upload",
                f"{len(waiting)} blocks to {self.container.url}",
                "the time allowed by `flushTimeoutMs` is over",
                "Spark runs the task again. Raise the option if the connection is slow.",
                elapsed=self.deadline,
            )

    def _raise_failure(self) -> None:
        for future in [each for each in self._pending if each.done()]:
            self._pending.discard(future)
            future.result()

    def _stage(self, block: SealedBlock) -> None:
        data = block.render(self.blob_format)
        self.container.stage_block(block.blob, block.id, data)
        with self._lock:
            before = self.staged.get(block.blob, Staged())
            self.staged[block.blob] = Staged(before.size + len(data), before.rows + block.rows)
