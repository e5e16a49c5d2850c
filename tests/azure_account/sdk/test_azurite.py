from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.connect import connect
from azure_account.errors import ConfigurationError
from azure_account.memory.service import OpenAnswers
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.settings import account_settings
from tests.azure_account.contract import (
    BlobContract,
    BlockContract,
    ContainerContract,
    LeaseContract,
    ListContract,
    TableContract,
    container,
    open_answers,
    table,
)

if TYPE_CHECKING:
    from azure_account.account import BlobContainer, StorageAccount
    from tools.azurite import Azurite

__all__ = ["container", "table"]


def connected(**options: str) -> StorageAccount:
    return connect(account_settings(ACCOUNT_OPTIONS.parse({"maxAttempts": "2", **options}), None, {}))


@pytest.fixture
def account(azurite: Azurite) -> StorageAccount:
    return connected(connectionString=azurite.connection_string)


class TestContainer(ContainerContract):
    pass


class TestBlocks(BlockContract):
    pass


class TestBlobs(BlobContract):
    pass


class TestListing(ListContract):
    pass


class TestLeases(LeaseContract):
    pass


class TestTables(TableContract):
    pass


def test_a_wrong_key_is_an_error_that_names_the_option(azurite: Azurite) -> None:
    account = connected(endpoint=azurite.endpoint, accountKey="AAAA")
    with pytest.raises(ConfigurationError, match="Check accountKey"):
        account.container("abc").create()


def test_a_wrong_signature_is_an_error_that_does_not_show_it(azurite: Azurite) -> None:
    account = connected(endpoint=azurite.endpoint, sasToken="?sv=2026-02-06&sp=rw&sig=S3CR3T")
    with pytest.raises(ConfigurationError, match="Check sasToken") as caught:
        account.container("abc").create()
    assert "S3CR3T" not in str(caught.value)


def test_an_account_without_table_endpoint_says_which_option_to_give(azurite: Azurite) -> None:
    account = connected(endpoint=azurite.endpoint, accountKey=azurite.account_key)
    with pytest.raises(ConfigurationError, match="give tableEndpoint"):
        account.table("abc")


def test_what_the_emulator_answers_where_nobody_has_checked_azure(container: BlobContainer) -> None:
    assert OpenAnswers(list_before_condition=False, delete_keeps_blocks=True) == open_answers(container)
