"""An account in memory with a clock that runs, and electors that are stopped after the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.clock import SystemClock
from azure_account.memory.account import MemoryAccount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordination.leadership.leader import LeaderElector


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount(clock=SystemClock())
    account.container("box").create()
    return account


@pytest.fixture
def electors() -> Iterator[list[LeaderElector]]:
    started: list[LeaderElector] = []
    yield started
    for elector in started:
        elector.stop()
