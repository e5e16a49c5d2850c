"""Fetch files that share a pack by one request, and find those whose bytes are not theirs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from blake3 import blake3 as new_blake3

from azure_account.documents.document import FETCHES

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from state_backup.index.packs import PackRange
    from state_backup.index.snapshot_index import FileIndex

K = TypeVar("K")

logger = logging.getLogger("state_backup")


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
    """Whether these are the bytes of a file."""
    return len(data) == file.metadata.size and new_blake3(data).hexdigest() == file.blake3
