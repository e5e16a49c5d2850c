"""An account in memory with a clock that runs, for tests with threads."""

from __future__ import annotations

import pytest

from azure_account.memory.account import MemoryAccount
from foundation.clock import Clock


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount(clock=Clock())
    account.container("box").create()
    return account
