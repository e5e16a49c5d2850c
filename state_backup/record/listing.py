"""List the blobs of a state, and which of them have the TTL's tag: one request for thousands of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties


def listed(
    container: BlobContainer, prefixes: Sequence[str], *, uncommitted: bool = False
) -> tuple[list[BlobProperties], ConfigurationError | None]:
    """The blobs with these prefixes, with their tags. An error if tags are refused: then they are without.

    uncommitted: also those that have staged blocks only.
    """

    def blobs(*, tags: bool) -> list[BlobProperties]:
        return [blob for prefix in prefixes for blob in container.list(prefix, uncommitted=uncommitted, tags=tags)]

    try:
        return blobs(tags=True), None
    except ConfigurationError as refused:
        return blobs(tags=False), refused
