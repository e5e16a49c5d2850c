"""Adopted blobs that other programs have replaced since: as they are when a read is planned.

log ─► blobs ─► a HEAD of each adopted one ─► those that were replaced, with their ETags and sizes of now ─► splits
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azure_account.container import BlobContainer
    from azureblob_source.read.blobs import StreamBlob

logger = logging.getLogger("azureblob_source")

_THREADS = 16


def as_they_are(container: BlobContainer, blobs: Iterable[StreamBlob]) -> list[StreamBlob]:
    """The blobs, in order, the adopted ones with the ETag and the size that they have now.

    All splits of a blob are of one version of it then. One that is gone stays as the log names it: to read it is an
    error.
    """

    def now(blob: StreamBlob) -> StreamBlob:
        there = container.properties(blob.name)
        return blob if there is None or there.etag == blob.etag else replace(blob, etag=there.etag, size=there.size)

    planned = list(blobs)
    if not any(blob.adopted for blob in planned):  # a log adopts in all its entries, or in none
        return planned
    found = concurrent_map(now, planned, _THREADS, after_error="abandon")
    replaced = sum(each is not before for each, before in zip(found, planned, strict=True))
    if replaced:
        logger.info("%s: %d adopted blobs were replaced since, and are read as they are", container.name, replaced)
    return found
