"""What maintenance appends to a log begins as this draft."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from azureblob_source.log.entry import Draft
from foundation.clock import utc

if TYPE_CHECKING:
    from foundation.clock import Clock


def new_draft(clock: Clock, epoch: int | None) -> Draft:
    """A draft with a write id of its own, the time, and the epoch of the stream's writer."""
    return Draft(uuid.uuid4().hex, utc(clock).isoformat(timespec="milliseconds"), epoch=epoch)
