"""The options of a write as typed values, parsed on the driver before a task runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import arrow_avro
from azure_account.address import parse_address
from azure_account.names import check_attributes
from azure_account.options.settings import AccountSettings, account_settings
from azure_account.values import BlobAttributes
from azureblob_source.address import stream_address
from azureblob_source.log.entry import ATTEMPT, Transaction
from azureblob_source.options import ADD_COLUMNS, AT_LEAST_ONCE, FIXED, OF_READS, TABLE
from azureblob_source.write.commit_plan import BackupPlan
from azureblob_source.write.control_records import VALUE
from azureblob_source.write.open_blobs import BlobLimits
from azureblob_source.write.routing import Router
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from arrow_avro import AvroSchema
    from azure_account.address import Address
    from azure_account.options.option_table import ParsedOptions
    from control_messages.producer import ProducerSpec


@dataclass(frozen=True)
class SinkOptions:
    """All options of a write. Timeouts are in seconds. Pickled to the executors; its `repr` shows no secret."""

    account: AccountSettings
    address: Address
    create_container: bool
    router: Router
    limits: BlobLimits
    codec: str
    gzipped: bool
    avro_schema: AvroSchema | None
    record_name: str
    record_namespace: str | None
    value_column: str | None
    validate_datums: bool
    random_suffix: bool
    attributes: BlobAttributes
    threads: int
    queue: int
    flush_timeout: float
    close_timeout: float
    at_least_once: bool
    event_time_column: str | None
    bounds_columns: tuple[str, ...] | None
    epoch: int | None
    transaction: Transaction | None
    commit_info: str | None
    envelope_column: str | None
    emission: ProducerSpec | None
    backup: BackupPlan | None
    overwrite_mode: str | None
    keep_replaced: timedelta | None
    fixed_schema: bool
    checkpoint_interval: int
    auto_compact: bool
    iceberg_paths: str | None


def sink_options(raw: Mapping[str, str], env: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a write. `ConfigurationError` names the first invalid one, and what to change."""
    given = TABLE.parse(raw, hidden=OF_READS)
    address = stream_address(given["path"], given["container"], given["stream"])
    threads = given["threadPoolCount"]
    queue = given["blockingQueueSize"]
    age = given["maxBlobAgeMs"]
    return SinkOptions(
        account=account_settings(given, address, env),
        address=address,
        create_container=given["createContainer"],
        router=Router(address.path, given["streamColumn"], given["partitionColumn"], given["dropRoutingColumns"]),
        limits=BlobLimits(
            block_bytes=given["maxFlushThresholdSize"],
            blob_bytes=given["maxBlobSize"],
            blob_rows=given["maxMessagesPerBlob"],
            blob_age=None if age is None else age / 1000,
            # The last third is for what buffers allocate beyond their bytes, and for blocks that are being uploaded.
            memory_budget=given["memoryBudget"] * 2 // 3,
        ),
        codec=_codec(given),
        gzipped=given["compression.type"] == "gzip",
        avro_schema=_schema(given),
        record_name=given["recordName"],
        record_namespace=given["recordNamespace"],
        value_column=_value_column(given),
        validate_datums=given["validateDatums"],
        random_suffix=given["suffixRandomStringToBlobName"],
        attributes=_attributes(given),
        threads=threads,
        queue=2 * threads if queue is None else queue,
        flush_timeout=given["flushTimeoutMs"] / 1000,
        close_timeout=given["closeTimeoutMs"] / 1000,
        at_least_once=given["deliveryGuarantee"] == AT_LEAST_ONCE,
        event_time_column=given["eventTimeColumn"],
        bounds_columns=_bounds_columns(given),
        epoch=given["epoch"],
        transaction=_transaction(given),
        commit_info=given["commitInfo"],
        envelope_column=_envelope_column(given),
        emission=given["emission"],
        backup=_backup(given, address, env),
        overwrite_mode=given["partitionOverwriteMode"],
        keep_replaced=_keep_replaced(given),
        fixed_schema=_schema_evolution(given) == FIXED,
        checkpoint_interval=given["checkpointInterval"],
        auto_compact=given["autoCompact"],
        iceberg_paths=given["icebergPaths"] if given["icebergTable"] else None,
    )


def _keep_replaced(given: ParsedOptions) -> timedelta | None:
    keep: timedelta | None = given["keepReplaced"]
    if keep is not None and given["accessTier"] == "Archive":
        message = (
            "Option `keepReplaced` copies blobs, which `accessTier` = Archive does not allow. Leave one of them out."
        )
        raise ConfigurationError(message)
    return keep


def _schema_evolution(given: ParsedOptions) -> str:
    evolution: str = given["schemaEvolution"] or ADD_COLUMNS
    if evolution not in (ADD_COLUMNS, FIXED):
        message = (
            f"Option `schemaEvolution` is {evolution}, which is for streaming reads: set `{ADD_COLUMNS}` or `{FIXED}`."
        )
        raise ConfigurationError(message)
    return evolution


def _backup(given: ParsedOptions, stream: Address, env: Mapping[str, str]) -> BackupPlan | None:
    where: str | None = given["checkpointBackup"]
    if where is None:
        return None
    location: str | None = given["checkpointLocation"]
    if location is None:
        raise ConfigurationError(
            "Option `checkpointBackup` is for streaming queries: set option `checkpointLocation` of `writeStream` "
            "beside it, a directory of the driver's machine (Spark does not pass its setting of that name on)."
        )
    address = parse_address(where)
    if not address.path:
        raise ConfigurationError(f"Option `checkpointBackup` ({where}) names no state: give `container/path`.")
    nested = _is_below(address.path, stream.path) or _is_below(stream.path, address.path)
    if address.container == stream.container and nested:
        raise ConfigurationError(
            f"Option `checkpointBackup` ({where}): the state and the stream {stream} would share a folder. Choose "
            "another one, such as `checkpoints/<query>`."
        )
    return BackupPlan(account_settings(given, address, env), address, location)


def _is_below(path: str | None, folder: str | None) -> bool:
    return path is not None and folder is not None and f"{path}/".startswith(f"{folder}/")


def _codec(given: ParsedOptions) -> str:
    codec: str = given["codec"]
    if codec != "null" and given["compression.type"] == "gzip":
        message = (
            f"Option `codec` is {codec} and `compression.type` is gzip: the bytes would be compressed twice. Set one."
        )
        raise ConfigurationError(message)
    return codec


def _schema(given: ParsedOptions) -> AvroSchema | None:
    written: str | None = given["avroSchema"]
    return None if written is None else arrow_avro.parse(written)


def _value_column(given: ParsedOptions) -> str | None:
    column: str | None = given["valueColumn"]
    if column is not None and given["avroSchema"] is None:
        message = f"Option `valueColumn` ({column}) holds encoded datums: set their schema as option `avroSchema`."
        raise ConfigurationError(message)
    return column


def _envelope_column(given: ParsedOptions) -> str | None:
    """The column of envelopes: with option `emission` it is `value`."""
    column: str | None = given["envelopeColumn"]
    if given["emission"] is not None:
        if column not in (None, VALUE):
            raise ConfigurationError(
                f"Options `envelopeColumn` ({column}) and `emission` disagree: with `emission` the envelopes are in "
                f"column {VALUE!r}. Leave `envelopeColumn` out."
            )
        if given["streamColumn"] is not None:
            message = "Option `emission` is for one stream: name it in the path, and leave `streamColumn` out."
            raise ConfigurationError(message)
        column = VALUE
    if column is not None and given["valueColumn"] is not None:
        raise ConfigurationError(
            f"Option `valueColumn` holds Avro datums, but {column!r} holds envelopes (`envelopeColumn` or `emission`). "
            "Leave `valueColumn` out: an envelope is stored as bytes."
        )
    return column


def _bounds_columns(given: ParsedOptions) -> tuple[str, ...] | None:
    """Names of columns; None for the first that can have bounds."""
    names: tuple[str, ...] | None = given["boundsColumns"]
    if given["valueColumn"] is None:
        return names
    if names:
        raise ConfigurationError(
            f"Option `boundsColumns` names {names[0]}, but `valueColumn` holds rows that are encoded already, whose "
            "columns the sink does not see. Leave `boundsColumns` out."
        )
    return ()


def _transaction(given: ParsedOptions) -> Transaction | None:
    app, version = given["txnAppId"], given["txnVersion"]
    if (app is None) != (version is None):
        raise ConfigurationError("Options `txnAppId` and `txnVersion` belong together: set both or none.")
    return None if app is None else Transaction(app, version)


def _attributes(given: ParsedOptions) -> BlobAttributes:
    metadata: dict[str, str] = given["metadata.*"]
    reserved = next((key for key in metadata if key.lower() == ATTEMPT), None)
    if reserved is not None:
        message = f"Option `metadata.{reserved}`: the sink stores its attempt id under this key. Choose another."
        raise ConfigurationError(message)
    attributes = BlobAttributes(metadata, given["tags.*"], given["accessTier"])
    try:
        check_attributes(attributes)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Change option `metadata.*` or `tags.*`.") from None
    return attributes
