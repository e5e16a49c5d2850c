"""The last test: it waits for what was staged when the first one began."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from azure_account.values import Done
from tests.live.account import AZURE
from tests.live.rows import row

if TYPE_CHECKING:
    from tests.features.place import Place
    from tests.live.account import Tried

STAGED_SECONDS = float(os.environ.get("LIVE_STAGED_SECONDS", "900"))
"""How long staged blocks are left alone, of the seven days that Azure promises."""


@row("blocks that were staged a while ago")
def test_staged_blocks_are_there_after_a_while(tried: Tried, staged: tuple[Place, float]) -> None:
    place, since = staged
    seconds = STAGED_SECONDS if tried.kind == AZURE else 0.0
    time.sleep(max(0.0, since + seconds - time.monotonic()))
    [listed] = place.container.list(uncommitted=True)
    assert ("slow", False) == (listed.name, listed.committed)
    assert isinstance(place.container.commit_block_list("slow", ["1"]), Done)
