"""One Azure storage account: its blobs and tables, credentials and retries, and an in-memory account for tests.

`open_account(options)` returns a `StorageAccount`. `azure_account.memory` has one in memory, whose requests fail
by a script if wanted. The Azure SDK is imported by `connect`, not before.

    account      the port: an account, with its containers (module `container`) and tables (module `table`)
    values       what the port takes and returns
    address      container and path of a URL or of `container/path`
    names        what Azure accepts as a name
    options/     options and environment become typed settings
    documents/   JSON documents in blobs: format, conditional writes, one owner
    undelete     blobs that were deleted by mistake
    service      one request to the storage, and its failures
    retrying/    repeats requests, and turns failures into outcomes
    sdk/         the service on the Azure SDK
    memory/      the service in memory, and scripted faults
    connect      one account per process and settings
    location     container, path and account as one value
    cli/         what the command lines of all packages share
"""

from __future__ import annotations

from azure_account.account import StorageAccount
from azure_account.connect import connect, open_account
from azure_account.container import BlobContainer
from azure_account.location import Location
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.settings import AccountSettings, account_settings
from azure_account.table import Table
from azure_account.values import (
    ALWAYS,
    IF_ABSENT,
    BlobAttributes,
    BlobContent,
    BlobProperties,
    Condition,
    Conflict,
    Done,
    Entity,
    Missing,
    Outcome,
    Unknown,
)
from foundation.errors import (
    AzureBlobError,
    ConfigurationError,
    ConflictError,
    CorruptError,
    FencedError,
    NotFoundError,
    TransientError,
)

__all__ = [
    "ACCOUNT_OPTIONS",
    "ALWAYS",
    "IF_ABSENT",
    "AccountSettings",
    "AzureBlobError",
    "BlobAttributes",
    "BlobContainer",
    "BlobContent",
    "BlobProperties",
    "Condition",
    "ConfigurationError",
    "Conflict",
    "ConflictError",
    "CorruptError",
    "Done",
    "Entity",
    "FencedError",
    "Location",
    "Missing",
    "NotFoundError",
    "Outcome",
    "StorageAccount",
    "Table",
    "TransientError",
    "Unknown",
    "account_settings",
    "connect",
    "open_account",
]
