"""Electors that are stopped after the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordination.leadership.leader import LeaderElector


@pytest.fixture
def electors() -> Iterator[list[LeaderElector]]:
    started: list[LeaderElector] = []
    yield started
    for elector in started:
        elector.stop()
