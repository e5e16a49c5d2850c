"""The ground under the connector: one storage account, its blobs and tables, credentials, errors, and a fake of it.

`connect(account_settings(…))` gives a `StorageAccount`. `azure_account.memory` has one in memory,
which scripted faults can make fail. Nothing here imports the Azure SDK before an account is connected.
"""

from __future__ import annotations

from azure_account.account import (
    ALWAYS,
    IF_ABSENT,
    BlobAttributes,
    BlobContainer,
    BlobContent,
    BlobProperties,
    Condition,
    Conflict,
    Done,
    Entity,
    Missing,
    Outcome,
    StorageAccount,
    Table,
    Unknown,
)
from azure_account.connect import connect
from azure_account.errors import (
    AzureBlobError,
    ConfigurationError,
    ConflictError,
    CorruptError,
    FencedError,
    NotFoundError,
    TransientError,
)
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.settings import AccountSettings, account_settings

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
    "Missing",
    "NotFoundError",
    "Outcome",
    "StorageAccount",
    "Table",
    "TransientError",
    "Unknown",
    "account_settings",
    "connect",
]
