"""Waiting until committed batches are published: which blobs are not visible yet, and for how long a read waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azureblob_source.log.live import is_visible
from foundation.errors import TransientError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.container import BlobContainer
    from azureblob_source.log.entry import BlobEntry
    from foundation.clock import Clock

_AT_ONCE = 64


def not_visible(container: BlobContainer, blobs: Sequence[BlobEntry]) -> list[BlobEntry]:
    """The blobs that are not visible yet. Adopted ones are: no request is made for them."""
    blobs = [blob for blob in blobs if not blob.adopted]
    names = [blob.name for blob in blobs]
    found = concurrent_map(container.properties, names, _AT_ONCE, after_error="abandon")
    return [blob for blob, there in zip(blobs, found, strict=True) if not is_visible(blob, there)]


@dataclass
class PublicationWait:
    """Since when one reader has waited for batches. `timeout` is in seconds."""

    timeout: float
    clock: Clock
    _version: int | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    def end(self) -> None:
        """What was waited for is published."""
        self._version = None

    def go_on(self, what: str, *, version: int = 0, otherwise: str = "") -> None:
        """The reader waits, since it first waited for this version. `TransientError` if that is too long ago.

        what: it cannot read. otherwise: what else its user can do.
        """
        if self._version != version:
            self._version, self._since = version, self.clock.monotonic()
        waited = self.clock.monotonic() - self._since
        if waited >= self.timeout:
            cause = "its batch is committed but its writer has not published it"
            step = "Start the writer again, which finishes the batch, or run `python -m azureblob_source repair`"
            raise TransientError("read", what, cause, f"{step}{otherwise}.", elapsed=waited)
