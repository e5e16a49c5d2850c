"""A fresh container and a fresh table of the `account` that a module defines as a fixture."""

from __future__ import annotations

import uuid

import pytest

from azure_account.account import StorageAccount
from azure_account.container import BlobContainer
from azure_account.table import Table


@pytest.fixture
def container(account: StorageAccount) -> BlobContainer:
    created = account.container(f"c{uuid.uuid4().hex}")
    assert created.create()
    return created


@pytest.fixture
def table(account: StorageAccount) -> Table:
    created = account.table(f"t{uuid.uuid4().hex}")
    assert created.create()
    return created
