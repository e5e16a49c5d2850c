"""For tests with threads: an account in memory with a clock that runs, and coordinators that are stopped at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.memory.account import MemoryAccount
from foundation.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordination.processors.coordinator import JobCoordinator


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount(clock=Clock())
    account.container("box").create()
    return account


@pytest.fixture
def started() -> Iterator[list[JobCoordinator]]:
    coordinators: list[JobCoordinator] = []
    yield coordinators
    for coordinator in coordinators:
        coordinator.stop()
