"""What is done when a damaged blob is skipped: a warning that names it, and one more in a counter."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import metrics

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter

    from azure_account.account import BlobContainer
    from azure_account.errors import CorruptError

logger = logging.getLogger(__name__)


def skip(container: BlobContainer, damage: CorruptError) -> None:
    """Tell that what `damage` tells of is skipped. The counter has the groups `aggregate` and `system`."""
    logger.warning("Skipped because of option ignoreCorruptBlobs: %s", damage)
    for group in ({"group": "aggregate"}, {"group": "system", "name": container.name}):
        _counter().add(1, group)


@lru_cache
def _counter() -> Counter:
    meter = metrics.get_meter("azureblob")
    return meter.create_counter(
        "azureblob.corruptBlobs", "{blob}", "damaged blobs, or parts of them, that were skipped"
    )
