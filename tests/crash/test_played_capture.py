"""A folder that is written as Event Hubs Capture does is followed while the follower is killed: each event once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.crash.played_capture import Play

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_each_event_of_a_folder_is_copied_once_while_followers_are_killed(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    """`python -m tests.crash.played_capture` plays it for 20 minutes."""
    play = Play(azurite, container_name, tmp_path, random.Random(7))
    found = play.run(12, 5.0, (0.5, 5.0), least=2)
    assert found["queries killed"] > 1
    assert found["commands killed"] > 1
    assert found["late blobs"] >= 1
