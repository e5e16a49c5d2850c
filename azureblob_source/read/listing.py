"""Lists a folder without a log. With `startTime`, by the times in names, without the names of earlier days.

hub/0/2024/…  ─► hub/0/2026/11/26/…    the listing begins again at the first name of each partition that counts
hub/1/2024/…  ─► hub/1/2026/11/26/…
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from azureblob_source.log.name_places import name_place
from azureblob_source.log.times import UNIX_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties

SLACK = timedelta(days=2)
"""How much earlier than its rows the time in a blob's name may be: a name can have days only, of another time zone."""


def listed(container: BlobContainer, folder: str, start: int | None) -> Iterator[BlobProperties]:
    """The blobs of a folder, in name order.

    start: of the rows that are read, in microseconds since 1970 UTC; None for all. Blobs are left out by whose names
    their rows are more than `SLACK` before it. A service that can begin at a name lists none of these.
    """
    prefix = f"{folder}/"
    if start is None:
        yield from container.list(prefix)
        return
    first, at = UNIX_EPOCH + timedelta(microseconds=start) - SLACK, prefix
    while at:
        begin, at = at, ""
        for blob in container.list(prefix, start_from=begin):
            later = _later(blob.name, first)
            if later is None:
                yield blob
            elif container.lists_from_name:
                at = later
                break


def _later(name: str, first: datetime) -> str | None:
    """The first name of the partition that counts, if this one is earlier."""
    place = name_place(name)
    if place.moment is None:
        return None
    later = place.at(first, len(place.spans))  # of the same day, if the name has days only
    return later if name < later else None
