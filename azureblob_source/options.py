"""The options of the format `azureblob`: one table. Pure.

`write.options` and `read.options` make typed values of it. `docs/OPTIONS.md` is printed from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.account import BLOCKS_OF_A_BLOB, BYTES_OF_A_BLOCK
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.option_table import (
    Option,
    OptionTable,
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
from azureblob_source.avro.limits import BATCH_BYTES, BLOCK_BYTES, MAX_BATCH_BYTES, MAX_BLOCK_BYTES
from azureblob_source.foreign_options import HINTS
from control_messages.producer import ProducerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
VIEWS = ("data", "blobs", "commits", "control", "schemas")
METADATA_COLUMNS = {"blob": "_blob", "version": "_version", "partition": "_partition"}
EARLIEST = "earliest"
LATEST = "latest"
FAIL = "fail"
IGNORE = "ignore"


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
            "maxFlushThresholdSize", byte_size(1, BYTES_OF_A_BLOCK), 10 << 20, "Uncompressed bytes of a block.", "Blobs"
        ),
        Option(
            "maxBlobSize",
            byte_size(1, BYTES_OF_A_BLOCK * BLOCKS_OF_A_BLOB),
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
            Parser("the JSON of a `control_messages` `ProducerSpec`", ProducerSpec.from_json),
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
OF_READS = ("Reading", "Batch reads", "Streaming reads")
OF_WRITES = ("Routing", "Blobs", "Uploading", "Guarantee", "Control messages")
