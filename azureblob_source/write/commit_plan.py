"""What the commit of a write needs to know of it. Pure.

Spark commits in a process of its own. This module loads neither Arrow nor an encoder, so such a process starts sooner
than one that loads a `WritePlan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from azure_account.address import Address
    from azure_account.options.settings import AccountSettings
    from azure_account.values import BlobAttributes
    from azureblob_source.log.entry import Transaction
    from azureblob_source.log.stream_notes import LogFacts


@dataclass(frozen=True)
class BackupPlan:
    """Where the checkpoint of a query is backed up (option `checkpointBackup`), and where it is."""

    account: AccountSettings
    address: Address
    location: str


@dataclass(frozen=True)
class CommitPlan:
    """A write as the driver commits it. Its `repr` shows no secret.

    stream: the one that all rows without a stream of their own go to.
    rows_name_streams: option `streamColumn` is set.
    schema_json, schema: of the writer, and its fingerprint.
    transaction: that of option `txnAppId`; a streaming query has another one for each micro-batch.
    checkpoint_interval: versions from one checkpoint of the log to the next.
    auto_compact: small blobs are joined before each checkpoint.
    iceberg_paths: the scheme of paths in the Iceberg table of the stream; None if none is made.
    fixed_schema: option `schemaEvolution` is `none`.
    overwrite_partitions: an overwrite replaces only the partitions that its rows have.
    keep_replaced: for how long an overwrite keeps what it removes.
    facts: what was found of the log of `stream` before the first task.
    commit_info: what the log says of each version that is committed.
    backup: of the query's checkpoint, before each commit.
    """

    account: AccountSettings
    address: Address
    stream: str | None
    rows_name_streams: bool
    schema_json: str
    schema: str
    attributes: BlobAttributes
    close_timeout: float
    unique_names: bool
    at_least_once: bool
    epoch: int | None
    transaction: Transaction | None
    checkpoint_interval: int
    auto_compact: bool = False
    iceberg_paths: str | None = None
    fixed_schema: bool = False
    overwrite_partitions: bool = False
    keep_replaced: timedelta | None = None
    facts: LogFacts | None = None
    commit_info: str | None = None
    backup: BackupPlan | None = None
