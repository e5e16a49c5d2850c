"""The options of the format `azureblob`: one table, and the typed values that come of it. Pure.

Strings become types here, on the driver, before the first task runs. `docs/OPTIONS.md` is printed from the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from azure_account.account import BlobAttributes
from azure_account.account_options import ACCOUNT_OPTIONS
from azure_account.errors import ConfigurationError
from azure_account.names import check_attributes
from azure_account.option_table import (
    Option,
    OptionTable,
    ParsedOptions,
    Parser,
    boolean,
    byte_size,
    instant,
    integer,
    milliseconds,
    one_of,
    positive_integer,
    text,
    text_list,
)
from azure_account.settings import AccountSettings, account_settings
from azureblob_source.avro import schema as avro_schema
from azureblob_source.avro.limits import BATCH_BYTES, BLOCK_BYTES, MAX_BATCH_BYTES, MAX_BLOCK_BYTES, ReadLimits
from azureblob_source.foreign_options import HINTS
from azureblob_source.location import Location, parse_location
from azureblob_source.log.entry import ATTEMPT, Transaction
from azureblob_source.write.control_records import VALUE
from azureblob_source.write.open_blobs import MAX_BLOCKS, Limits
from azureblob_source.write.routing import Router
from control_messages.emission import Emission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureblob_source.avro.schema import AvroSchema

CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
VIEWS = ("data", "blobs", "commits", "control", "schemas")
METADATA_COLUMNS = {"blob": "_blob", "version": "_version", "partition": "_partition"}
EARLIEST = "earliest"
LATEST = "latest"
FAIL = "fail"
IGNORE = "ignore"
_MAX_AZURE_BLOCK = 4000 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def _names_of(known: Mapping[str, str]) -> Parser[tuple[str, ...]]:
    def read(value: str) -> tuple[str, ...]:
        names = text_list()(value)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"{unknown[0]} is none of them")
        return tuple(dict.fromkeys(names))

    return Parser("some of " + ", ".join(f"`{name}`" for name in known), read)


def _version() -> Parser[int | str]:
    def read(value: str) -> int | str:
        if value.lower() in (EARLIEST, LATEST):
            return value.lower()
        return integer(0)(value)

    return Parser(f"`{EARLIEST}`, `{LATEST}` or a version", read)


WHERE = OptionTable(
    (
        Option("path", text(), None, "Container and stream, as `container/stream` or a URL.", "Where"),
        Option("container", text(), None, "The container, if not in the path.", "Where"),
        Option(
            "createContainer",
            boolean(),
            default=True,
            help="`true`: a write creates the container if it does not exist, and warns. `false`: such a write fails.",
            group="Where",
        ),
        Option("stream", text(), None, "The stream, if not in the path.", "Where"),
        Option("checkpointLocation", text(), None, "Spark's own option of a streaming query; not used here.", "Where"),
    )
)

SINK = OptionTable(
    (
        Option("streamColumn", text(), None, "Column that names the stream of each row.", "Routing"),
        Option("partitionColumn", text(), None, "Column that names the partition of each row.", "Routing"),
        Option("dropRoutingColumns", boolean(), default=False, help="Do not store these columns.", group="Routing"),
        Option("codec", one_of(*CODECS), "null", "Avro codec of the blocks inside a blob.", "Encoding"),
        Option(
            "compression.type", one_of("none", "gzip"), "none", "Gzip around every Azure block, as Samza.", "Encoding"
        ),
        Option(
            "avroSchema",
            text(),
            None,
            "Avro schema (JSON) to write with, or to read as; then with names and enum symbols of any characters.",
            "Encoding",
        ),
        Option("recordName", text(), "row", "Name of the record in an inferred schema.", "Encoding"),
        Option("recordNamespace", text(), None, "Its namespace.", "Encoding"),
        Option("valueColumn", text(), None, "Binary column of encoded Avro datums, written as they are.", "Encoding"),
        Option("validateDatums", boolean(), default=True, help="Check each such datum.", group="Encoding"),
        Option(
            "maxFlushThresholdSize", byte_size(1, _MAX_AZURE_BLOCK), 10 << 20, "Uncompressed bytes of a block.", "Blobs"
        ),
        Option(
            "maxBlobSize",
            byte_size(1, _MAX_AZURE_BLOCK * MAX_BLOCKS),
            None,
            "Uncompressed bytes of a blob.",
            "Blobs",
            shown_default="no limit",
        ),
        Option("maxMessagesPerBlob", positive_integer(), None, "Rows of a blob.", "Blobs", shown_default="no limit"),
        Option(
            "maxBlobAgeMs", milliseconds(), None, "Age at which a blob is rolled.", "Blobs", shown_default="no limit"
        ),
        Option("suffixRandomStringToBlobName", boolean(), default=True, help="Make every name unique.", group="Blobs"),
        Option("metadata.*", text(), None, "Metadata of every blob.", "Blobs"),
        Option("tags.*", text(), None, "Index tags of every blob, at most 10. Needs the tag permission.", "Blobs"),
        Option("accessTier", one_of("Hot", "Cool", "Cold", "Archive"), None, "Access tier of every blob.", "Blobs"),
        Option(
            "memoryBudget", byte_size(1 << 20), 128 << 20, "Bytes that all open blobs of a task share.", "Uploading"
        ),
        Option("threadPoolCount", positive_integer(64), 2, "Upload threads of a task.", "Uploading"),
        Option(
            "blockingQueueSize", integer(0), None, "Blocks waiting for them.", "Uploading", shown_default="2 × threads"
        ),
        Option("flushTimeoutMs", milliseconds(), 180_000, "Time to finish a task's uploads.", "Uploading"),
        Option("closeTimeoutMs", milliseconds(), 300_000, "Time to publish a batch's blobs.", "Uploading"),
        Option("deliveryGuarantee", one_of(EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE, "Who publishes.", "Guarantee"),
        Option("eventTimeColumn", text(), None, "Timestamp column whose range is kept for each blob.", "Guarantee"),
        Option("epoch", integer(0), None, "Fencing token: writers of a lower epoch are refused.", "Guarantee"),
        Option("txnAppId", text(), None, "With txnVersion: makes a `df.write` idempotent.", "Guarantee"),
        Option("txnVersion", integer(0), None, "Rising number of the write within txnAppId.", "Guarantee"),
        Option(
            "envelopeColumn",
            text(),
            None,
            "Binary column of envelopes. Control messages in it go behind all rows of the task, and into the log.",
            "Control messages",
        ),
        Option(
            "emission",
            Parser("the JSON of a `control_messages` `Emission`", Emission.from_json),
            None,
            "The sink adds the watermarks of these tasks. Rows are `partition` (int), `value` (binary, envelopes), "
            "`task` (int or string) and `eventTime` (timestamp); the first two are stored.",
            "Control messages",
        ),
    )
)

SOURCE = OptionTable(
    (
        Option("view", one_of(*VIEWS), "data", "The rows, or a table about the stream.", "Reading"),
        Option("columns", text_list(), None, "Columns to read.", "Reading", shown_default="all"),
        Option(
            "metadataColumns",
            _names_of(METADATA_COLUMNS),
            (),
            "Adds `_blob`, `_version`, `_partition`: where each row is from.",
            "Reading",
            shown_default="none",
        ),
        Option("startTime", instant(), None, "Leave out blobs that hold nothing at or after this time.", "Reading"),
        Option("endTime", instant(), None, "Leave out blobs that hold nothing before this time.", "Reading"),
        Option(
            "ignoreCorruptBlobs",
            boolean(),
            default=False,
            help="Skip damaged blobs, and count them. Rows that do not fit are never skipped.",
            group="Reading",
        ),
        Option("maxPartitionBytes", byte_size(), 32 << 20, "Stored bytes that a task reads at most.", "Reading"),
        Option(
            MAX_BLOCK_BYTES,
            byte_size(),
            BLOCK_BYTES,
            "Bytes of one Avro block, stored or inflated, that are read at most; a larger one is an error.",
            "Reading",
        ),
        Option(
            MAX_BATCH_BYTES,
            byte_size(1 << 20),
            BATCH_BYTES,
            "Memory for one batch of rows while it is decoded: a batch has as many rows as fit.",
            "Reading",
        ),
        Option("publishTimeoutMs", milliseconds(), 120_000, "Wait for a batch that is being published.", "Reading"),
        Option(
            "versionAsOf", integer(0), None, "Read the stream as of this version.", "Batch reads", shown_default="head"
        ),
        Option(
            "pushFilters",
            boolean(),
            default=False,
            help="Apply filters before rows go to Spark. Read `docs/decisions/0008-filters.md` first.",
            group="Batch reads",
        ),
        Option(
            "startingVersion", _version(), None, "First version to read.", "Streaming reads", shown_default="`earliest`"
        ),
        Option(
            "startingTimestamp",
            instant(),
            None,
            "Read from the first version committed then or later.",
            "Streaming reads",
        ),
        Option(
            "maxBlobsPerTrigger",
            positive_integer(),
            1000,
            "Blobs of a micro-batch; one version at least.",
            "Streaming reads",
        ),
        Option(
            "maxBytesPerTrigger",
            byte_size(),
            None,
            "Stored bytes of a micro-batch; one version at least.",
            "Streaming reads",
            shown_default="no limit",
        ),
        Option(
            "schemaEvolution",
            one_of(FAIL, IGNORE),
            FAIL,
            "When a writer adds a column: `fail` stops the query before the first such row, and a restart reads the "
            "column; `ignore` leaves the column out.",
            "Streaming reads",
        ),
    )
)

TABLE = WHERE + ACCOUNT_OPTIONS + SINK + SOURCE + OptionTable((), HINTS)

# Not offered to those who misspell an option of the other side.
_OF_READS = ("Reading", "Batch reads", "Streaming reads")
_OF_WRITES = ("Routing", "Blobs", "Uploading", "Guarantee", "Control messages")


@dataclass(frozen=True)
class SinkOptions:
    """Everything a write needs. Timeouts are seconds. Pickled to the executors; its `repr` shows no secret."""

    account: AccountSettings
    location: Location
    create_container: bool
    router: Router
    limits: Limits
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
    epoch: int | None
    transaction: Transaction | None
    envelope_column: str | None
    emission: Emission | None


@dataclass(frozen=True)
class SourceOptions:
    """Everything a read needs. Timeouts are seconds; `between` is [start, end) in microseconds since 1970 UTC."""

    account: AccountSettings
    location: Location
    stream: str
    view: str
    columns: tuple[str, ...] | None
    metadata_columns: tuple[str, ...]
    avro_schema: AvroSchema | None
    between: tuple[int | None, int | None]
    ignore_corrupt: bool
    part_bytes: int
    limits: ReadLimits
    publish_timeout: float
    push_filters: bool
    version: int | None
    starting_version: int | str
    starting_time: datetime | None
    max_blobs: int
    max_bytes: int | None
    has_limits: bool
    schema_evolution: str


def sink_options(raw: Mapping[str, str], env: Mapping[str, str]) -> SinkOptions:
    """The options of a write. `ConfigurationError` names the first option that is wrong, and the next step."""
    given = TABLE.parse(raw, beside=_OF_READS)
    location = _location(given)
    threads = given["threadPoolCount"]
    queue = given["blockingQueueSize"]
    age = given["maxBlobAgeMs"]
    return SinkOptions(
        account=account_settings(given, location.account, env, url_endpoint=location.endpoint),
        location=location,
        create_container=given["createContainer"],
        router=Router(location.stream, given["streamColumn"], given["partitionColumn"], given["dropRoutingColumns"]),
        limits=Limits(
            block_bytes=given["maxFlushThresholdSize"],
            blob_bytes=given["maxBlobSize"],
            blob_rows=given["maxMessagesPerBlob"],
            blob_age=None if age is None else age / 1000,
            # The last third is for what buffers allocate beyond their bytes, and for blocks on their way out.
            memory=given["memoryBudget"] * 2 // 3,
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
        epoch=given["epoch"],
        transaction=_transaction(given),
        envelope_column=_envelope_column(given),
        emission=given["emission"],
    )


def source_options(raw: Mapping[str, str], env: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """The options of a read. `streaming`, if that is known, refuses the options of the other kind of read."""
    given = TABLE.parse(raw, beside=_OF_WRITES)
    if streaming is not None:
        _refuse("Batch reads" if streaming else "Streaming reads", given)
    location = _location(given)
    if location.stream is None:
        message = f"no stream is named to read from container {location.container!r}. Load `container/stream`."
        raise ConfigurationError(message)
    if {"startingVersion", "startingTimestamp"} <= given.given:
        raise ConfigurationError("options `startingVersion` and `startingTimestamp` are two answers. Give one.")
    return SourceOptions(
        account=account_settings(given, location.account, env, url_endpoint=location.endpoint),
        location=location,
        stream=location.stream,
        view=given["view"],
        columns=given["columns"],
        metadata_columns=given["metadataColumns"],
        avro_schema=_schema(given, reading=True),
        between=_time_range(given),
        ignore_corrupt=given["ignoreCorruptBlobs"],
        part_bytes=given["maxPartitionBytes"],
        limits=ReadLimits(given[MAX_BLOCK_BYTES], given[MAX_BATCH_BYTES]),
        publish_timeout=given["publishTimeoutMs"] / 1000,
        push_filters=given["pushFilters"],
        version=given["versionAsOf"],
        starting_version=EARLIEST if given["startingVersion"] is None else given["startingVersion"],
        starting_time=given["startingTimestamp"],
        max_blobs=given["maxBlobsPerTrigger"],
        max_bytes=given["maxBytesPerTrigger"],
        has_limits=not {"maxBlobsPerTrigger", "maxBytesPerTrigger"}.isdisjoint(given.given),
        schema_evolution=given["schemaEvolution"],
    )


def _refuse(group: str, given: ParsedOptions) -> None:
    for option in SOURCE.options:
        if option.group == group and option.name in given.given:
            right = "spark.read" if group == "Batch reads" else "spark.readStream"
            raise ConfigurationError(f"option `{option.name}` belongs to {right}. Leave it out here.")


def _time_range(given: ParsedOptions) -> tuple[int | None, int | None]:
    start, end = (_microseconds(given[name]) for name in ("startTime", "endTime"))
    if start is not None and end is not None and start >= end:
        raise ConfigurationError("option `startTime` is not before `endTime`, so nothing can be read. Change one.")
    return start, end


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


def _location(given: ParsedOptions) -> Location:
    return parse_location(given["path"], given["container"], given["stream"])


def _codec(given: ParsedOptions) -> str:
    codec: str = given["codec"]
    if codec != "null" and given["compression.type"] == "gzip":
        message = (
            f"option `codec` is {codec} and `compression.type` is gzip: the bytes would be compressed twice. Leave one."
        )
        raise ConfigurationError(message)
    return codec


def _schema(given: ParsedOptions, *, reading: bool = False) -> AvroSchema | None:
    written: str | None = given["avroSchema"]
    return None if written is None else avro_schema.parse(written, reading=reading)


def _value_column(given: ParsedOptions) -> str | None:
    column: str | None = given["valueColumn"]
    if column is not None and given["avroSchema"] is None:
        message = f"option `valueColumn` ({column}) holds encoded datums: give their schema as option `avroSchema`."
        raise ConfigurationError(message)
    return column


def _envelope_column(given: ParsedOptions) -> str | None:
    """The column of envelopes; of an emission it is `value`, and the emission speaks of one stream."""
    column: str | None = given["envelopeColumn"]
    if given["emission"] is not None:
        if column not in (None, VALUE):
            message = f"options `envelopeColumn` ({column}) and `emission` disagree: its envelopes are in {VALUE!r}."
            raise ConfigurationError(message)
        if given["streamColumn"] is not None:
            message = "option `emission` speaks of one stream: name it in the path and leave out `streamColumn`."
            raise ConfigurationError(message)
        column = VALUE
    if column is not None and given["valueColumn"] is not None:
        message = (
            f"option `valueColumn` holds Avro datums, but {column!r} holds envelopes (`envelopeColumn` or `emission`). "
            "Leave `valueColumn` out: an envelope is stored as bytes."
        )
        raise ConfigurationError(message)
    return column


def _transaction(given: ParsedOptions) -> Transaction | None:
    app, version = given["txnAppId"], given["txnVersion"]
    if (app is None) != (version is None):
        message = "options `txnAppId` and `txnVersion` belong together: give both or none."
        raise ConfigurationError(message)
    return None if app is None else Transaction(app, version)


_METADATA_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAG_TEXT = re.compile(r"[A-Za-z0-9 +\-./:=_]*")
_MAX_TAGS, _MAX_TAG_KEY, _MAX_TAG_VALUE = 10, 128, 256


def _attributes(given: ParsedOptions) -> BlobAttributes:
    metadata: dict[str, str] = given["metadata.*"]
    tags: dict[str, str] = given["tags.*"]
    for key, value in metadata.items():
        if key.lower() == ATTEMPT:
            message = f"option `metadata.{key}`: the sink marks its own blobs by this key. Choose another."
            raise ConfigurationError(message)
        if not _METADATA_KEY.fullmatch(key) or not value.isascii() or not value.isprintable():
            message = f"option `metadata.{key}`: Azure takes a C# identifier as key and printable ASCII as value."
            raise ConfigurationError(message)
    if len(tags) > _MAX_TAGS:
        message = f"options `tags.*`: {len(tags)} tags are given, Azure allows {_MAX_TAGS}."
        raise ConfigurationError(message)
    for key, value in tags.items():
        if len(key) > _MAX_TAG_KEY or len(value) > _MAX_TAG_VALUE or not _TAG_TEXT.fullmatch(key + value):
            message = f"option `tags.{key}`: Azure allows letters, digits, space and + - . / : = _ in a tag."
            raise ConfigurationError(message)
    attributes = BlobAttributes(metadata, tags, given["accessTier"])
    check_attributes(attributes)
    return attributes
