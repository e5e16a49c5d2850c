"""Undelete blobs that were deleted by mistake, where the account has soft delete."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from azure_account.values import Done
from foundation.errors import AzureBlobError, ConfigurationError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azure_account.container import BlobContainer

logger = logging.getLogger("azure_account")


def undelete(container: BlobContainer, blobs: Iterable[str], threads: int = 1) -> tuple[str, ...]:
    """Undelete those of the blobs that are gone, and take their TTL off. Returns those that are back.

    An account that refuses it, or has no soft delete, brings none back; a refusal is logged.
    """
    found, refused = try_undelete(container, blobs, threads)
    if refused is not None:
        logger.warning("deleted blobs cannot be brought back in %s: %s", container.url, refused)
    return found


def try_undelete(
    container: BlobContainer, blobs: Iterable[str], threads: int = 1
) -> tuple[tuple[str, ...], ConfigurationError | None]:
    """Undelete, and return the blobs that are back, and a refusal, which is not logged: they may never have existed."""
    refused: list[ConfigurationError] = []

    def back(blob: str) -> bool:
        try:
            return (
                container.properties(blob) is None
                and isinstance(container.undelete(blob), Done)
                and container.properties(blob) is not None
            )
        except ConfigurationError as error:
            refused.append(error)
            return False

    wanted = list(blobs)
    are_back = concurrent_map(back, wanted, threads, after_error="wait")
    found = tuple(blob for blob, is_back in zip(wanted, are_back, strict=True) if is_back)
    for blob in found:
        logger.warning("blob %s/%s was gone, and is undeleted", container.name, blob)
        _take_ttl_off(container, blob)
    return found, refused[0] if refused else None


def _take_ttl_off(container: BlobContainer, blob: str) -> None:
    """A lifecycle rule that has deleted the blob would do it again."""
    try:
        if container.tags(blob):
            container.set_tags(blob, {})
    except AzureBlobError as error:
        logger.warning("whether undeleted blob %s has a TTL is unknown: %s", blob, error)
