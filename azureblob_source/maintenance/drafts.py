"""What maintenance appends to a log begins as this draft."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from azure_account.clock import utc
from azureblob_source.log.entry import Draft

if TYPE_CHECKING:
    from azure_account.clock import Clock


def new_draft(clock: Clock, epoch: int | None) -> Draft:
    """A draft with a write id of its own, the time, and the epoch of the stream's writer."""
    return Draft(uuid.uuid4().hex, utc(clock).isoformat(timespec="milliseconds"), epoch=epoch)
