from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from azure_account.connect import connect
from azure_account.memory.service import ServiceAssumptions
from azure_account.values import Done
from foundation.errors import ConfigurationError
from tests.azure_account.contract import (
    TestBlobs,
    TestBlocks,
    TestContainer,
    TestCopies,
    TestLeases,
    TestListing,
    TestTables,
    observed_behaviour,
)
from tests.azure_account.settings_of import settings_of

if TYPE_CHECKING:
    from azure_account.account import StorageAccount
    from azure_account.container import BlobContainer
    from tools.azurite import Azurite

__all__ = ["TestBlobs", "TestBlocks", "TestContainer", "TestCopies", "TestLeases", "TestListing", "TestTables"]


def connected(**options: str) -> StorageAccount:
    return connect(settings_of({"maxAttempts": "2", **options}))


@pytest.fixture
def account(azurite: Azurite) -> StorageAccount:
    return connected(connectionString=azurite.connection_string)


def test_a_wrong_key_is_an_error_that_names_the_option(azurite: Azurite) -> None:
    account = connected(endpoint=azurite.endpoint, accountKey="AAAA")
    with pytest.raises(ConfigurationError, match="Check accountKey"):
        account.container("abc").create()


def test_a_wrong_signature_is_an_error_that_names_the_option_and_not_the_signature(azurite: Azurite) -> None:
    account = connected(endpoint=azurite.endpoint, sasToken="?sv=2026-02-06&sp=rw&sig=S3CR3T00")
    with pytest.raises(ConfigurationError, match="Check sasToken") as caught:
        account.container("abc").create()
    assert "S3CR3T" not in str(caught.value)


def test_a_table_without_endpoint_is_an_error_that_names_the_option(azurite: Azurite) -> None:
    account = connected(endpoint=azurite.endpoint, accountKey=azurite.account_key)
    with pytest.raises(ConfigurationError, match="give tableEndpoint"):
        account.table("abc")


def test_a_sas_is_also_the_signature_of_the_source_of_a_copy(azurite: Azurite, container: BlobContainer) -> None:
    sas = generate_account_sas(
        azurite.account_name,
        azurite.account_key,
        ResourceTypes(object=True),
        AccountSasPermissions(read=True, write=True, create=True),
        datetime.now(UTC) + timedelta(hours=1),
    )
    by_sas = connected(endpoint=azurite.endpoint, sasToken=sas).container(container.name)
    source = by_sas.put("a/source %.avro", b"data")
    assert isinstance(source, Done)
    assert isinstance(by_sas.copy("copy", "a/source %.avro", source_etag=source.etag), Done)
    assert b"data" == container.get("copy").data


def test_the_emulator_gives_these_answers_where_azure_has_not_been_checked(container: BlobContainer) -> None:
    assert ServiceAssumptions(list_before_condition=False, delete_keeps_blocks=True) == observed_behaviour(container)


def test_the_emulator_refuses_an_undelete_at_once(container: BlobContainer) -> None:
    container.put("blob", b"data")
    container.delete("blob")
    before = container.failed_attempts
    with pytest.raises(
        ConfigurationError, match=r"(?i)undelete blob .*/blob failed: 50[01] APINotImplemented.* emulator"
    ):
        container.undelete("blob")
    assert before == container.failed_attempts
