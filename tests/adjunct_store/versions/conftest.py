"""The account of the tests of versions."""

from __future__ import annotations

import pytest

from azure_account.container import BlobContainer
from azure_account.memory.account import MemoryAccount
from tests.adjunct_store.stores import new_account


@pytest.fixture
def account() -> MemoryAccount:
    return new_account()


@pytest.fixture
def container(account: MemoryAccount) -> BlobContainer:
    return account.container("box")
