"""Owners of documents on Azurite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.connect import connect
from tests.azure_account.documents.owner_contract import TestOwner
from tests.azure_account.settings_of import settings_of

if TYPE_CHECKING:
    from azure_account.account import StorageAccount
    from tools.azurite import Azurite

__all__ = ["TestOwner"]


@pytest.fixture
def account(azurite: Azurite) -> StorageAccount:
    return connect(settings_of({"connectionString": azurite.connection_string}))
