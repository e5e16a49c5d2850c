"""The options of the format `azureblob`, in one table. Pure.

`write.options` and `read.options` parse them into typed values. `docs/OPTIONS.md` is printed from the table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from arrow_avro import (
    BATCH_BYTES,
    BLOCK_BYTES,
    CODECS,
    INVALID_UTF8,
    MAX_BATCH_BYTES,
    MAX_BLOCK_BYTES,
    MAX_DEPTH,
    RECURSIVE_FIELD_MAX_DEPTH,
)
from azure_account.names import TIERS
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.option_table import (
    Option,
    OptionTable,
    Parser,
    boolean,
    byte_size,
    instant,
    integer,
    interval,
    milliseconds,
    one_of,
    text,
    text_list,
)
from azure_account.values import BLOCKS_OF_A_BLOB, BYTES_OF_A_BLOCK
from azureblob_source.foreign_options import HINTS
from azureblob_source.spark_options import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from control_messages.producer import ProducerSpec

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
VIEWS = ("data", "blobs", "commits", "control", "schemas")
METADATA_COLUMNS = {"blob": "_blob", "version": "_version", "partition": "_partition"}
EARLIEST = "earliest"
LATEST = "latest"
STATIC, DYNAMIC = "static", "dynamic"
NONE = "none"
ADD_COLUMNS, FIXED = "addColumns", NONE
ICEBERG_SCHEMES = ("abfss", "abfs", "wasbs", "wasb")
MOST_BOUNDS_COLUMNS = 16
MOST_COMMIT_INFO_BYTES = 1024
FAIL = "fail"
IGNORE = "ignore"
ERROR = "error"
REPLACE = "replace"


def _names_of(known: Mapping[str, str]) -> Parser[tuple[str, ...]]:
    def read(value: str) -> tuple[str, ...]:
        names = text_list()(value)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"{unknown[0]} is not one of them")
        return tuple(dict.fromkeys(names))

    return Parser("some of " + ", ".join(f"`{name}`" for name in known), read)


def _partitions() -> Parser[re.Pattern[str]]:
    def read(value: str) -> re.Pattern[str]:
        globs = [""]
        for piece in re.findall(r"\s*,\s*|\\?.", value, re.DOTALL):
            match piece:
                case "*":
                    globs[-1] += ".*"
                case "?":
                    globs[-1] += "."
                case "\\":
                    raise ValueError("it ends with a backslash")
                case separator if separator.strip() == ",":
                    globs.append("")
                case _:
                    globs[-1] += re.escape(piece[-1])
        if not all(globs):
            raise ValueError("a value is empty")
        return re.compile("|".join(globs), re.DOTALL)

    return Parser("values or globs such as `EWR,gate-*`; a backslash makes `,`, `*`, `?` and itself plain", read)


def _bounds_columns() -> Parser[tuple[str, ...]]:
    def read(value: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(text_list()(value)))
        if len(names) > MOST_BOUNDS_COLUMNS:
            raise ValueError(f"it has {len(names)}")
        return () if names == (NONE,) else names

    return Parser(f"`{NONE}`, or names separated by commas, at most {MOST_BOUNDS_COLUMNS}", read)


def _commit_info() -> Parser[str]:
    def read(value: str) -> str:
        size = len(text()(value).encode())
        if size > MOST_COMMIT_INFO_BYTES:
            raise ValueError(f"it has {size:,} bytes")
        return value

    return Parser(f"text of at most {MOST_COMMIT_INFO_BYTES:,} bytes in UTF-8", read)


def _producer(value: str) -> ProducerSpec:
    from control_messages.producer import ProducerSpec  # noqa: PLC0415 - loads much, and few writes have a producer

    return ProducerSpec.from_json(value)


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
        Option("stream", text(), None, "The stream, if not in the path.", "Where"),
    )
)

SINK = OptionTable(
    (
        Option("streamColumn", text(), None, "Column with the stream of each row.", "Routing"),
        Option("partitionColumn", text(), None, "Column with the partition of each row.", "Routing"),
        Option(
            "dropRoutingColumns",
            boolean(),
            default=False,
            help="`true`: `streamColumn` and `partitionColumn` are not stored.",
            group="Routing",
        ),
        Option(
            "partitionOverwriteMode",
            one_of(STATIC, DYNAMIC),
            None,
            "What an overwrite with `partitionColumn` replaces; it must say so. `static`: all. `dynamic`: the "
            "partitions that its rows have; rows without one are a partition too.",
            "Routing",
        ),
        Option(
            "keepReplaced",
            interval(),
            None,
            "For how long the rows that an overwrite replaces can be read by `versionAsOf` and "
            "[restored](MAINTENANCE.md#restore); it costs a copy of each blob, on the server.",
            "Routing",
            shown_default="not at all",
        ),
        Option("codec", one_of(*CODECS), "null", "Codec of the Avro blocks in a blob.", "Encoding"),
        Option(
            "compression.type",
            one_of("none", "gzip"),
            "none",
            "Samza's compression: gzip around every Azure block.",
            "Encoding",
        ),
        Option(
            "avroSchema",
            text(),
            None,
            "Avro schema (JSON) to write with, or to read with; its names and enum symbols may have any characters.",
            "Encoding",
        ),
        Option(
            "schemaEvolution",
            one_of(ADD_COLUMNS, FIXED, FAIL, IGNORE),
            None,
            "Writes: `addColumns` lets a write add columns and make types wider, `none` refuses what would change the "
            "stream's columns. Streaming reads, when a writer adds a column: `fail` stops the query before the first "
            "row with it, and a restart reads the column; `ignore` leaves the column out.",
            "Encoding",
            shown_default=f"`{ADD_COLUMNS}` (writes), `{FAIL}` (streaming reads)",
        ),
        Option("recordName", text(), "row", "Name of the record in an inferred schema.", "Encoding"),
        Option("recordNamespace", text(), None, "Namespace of the record in an inferred schema.", "Encoding"),
        Option(
            "valueColumn",
            text(),
            None,
            "Binary column of rows that are encoded in Avro already, by `avroSchema`. Only this column is written.",
            "Encoding",
        ),
        Option(
            "validateDatums",
            boolean(),
            default=True,
            help="Validate each value of `valueColumn` against `avroSchema`.",
            group="Encoding",
        ),
        Option(
            "maxFlushThresholdSize",
            byte_size(1, BYTES_OF_A_BLOCK),
            10 << 20,
            "Uncompressed bytes of an Azure block, at which it is staged.",
            "Blobs",
        ),
        Option(
            "maxBlobSize",
            byte_size(1, BYTES_OF_A_BLOCK * BLOCKS_OF_A_BLOB),
            None,
            "Uncompressed bytes of a blob at most.",
            "Blobs",
            shown_default="no limit",
        ),
        Option("maxMessagesPerBlob", integer(1), None, "Rows of a blob at most.", "Blobs", shown_default="no limit"),
        Option(
            "maxBlobAgeMs",
            milliseconds(),
            None,
            "Age at which the next row goes to a new blob.",
            "Blobs",
            shown_default="no limit",
        ),
        Option(
            "suffixRandomStringToBlobName",
            boolean(),
            default=True,
            help="Add eight random characters to each blob's name, which makes it unique.",
            group="Blobs",
        ),
        Option("metadata.*", text(), None, "Metadata of every blob.", "Blobs"),
        Option("tags.*", text(), None, "Index tags of every blob, at most 10. They need the tag permission.", "Blobs"),
        Option("accessTier", one_of(*TIERS), None, "Access tier of every blob.", "Blobs"),
        Option(
            "boundsColumns",
            _bounds_columns(),
            None,
            "Columns whose least and greatest value in each blob the log keeps. If a task has more than 16 partitions, "
            "only of the first of them.",
            "Blobs",
            shown_default=f"the first {MOST_BOUNDS_COLUMNS} of numbers, times or strings",
        ),
        Option(
            "memoryBudget",
            byte_size(1 << 20),
            128 << 20,
            "Memory of a task: two thirds for its open blobs, the rest for blocks being uploaded.",
            "Uploading",
        ),
        Option("threadPoolCount", integer(1, 64), 2, "Upload threads of a task.", "Uploading"),
        Option(
            "blockingQueueSize",
            integer(0),
            None,
            "Blocks of a task that wait for an upload thread at most.",
            "Uploading",
            shown_default="2 × threads",
        ),
        Option("flushTimeoutMs", milliseconds(), 180_000, "Time limit for a task's last uploads.", "Uploading"),
        Option(
            "checkpointInterval",
            integer(1),
            64,
            "Versions from one checkpoint of the log to the next: a read gets the newest one and the entries since.",
            "Guarantee",
        ),
        Option(
            "autoCompact",
            boolean(),
            default=False,
            help="`true`: before each checkpoint of the log the writer joins blobs below 8 MiB to larger ones, as "
            "[`compact`](MAINTENANCE.md#compact) does: 512 blobs and 32 MiB at a time.",
            group="Blobs",
        ),
        Option(
            "icebergTable",
            boolean(),
            default=False,
            help="`true`: each checkpoint of the log is also an [Iceberg table](ICEBERG.md).",
            group="Iceberg",
        ),
        Option(
            "icebergPaths",
            one_of(*ICEBERG_SCHEMES),
            ICEBERG_SCHEMES[0],
            "Scheme of the paths in its metadata.",
            "Iceberg",
        ),
        Option(
            "closeTimeoutMs", milliseconds(), 300_000, "Time limit for publishing the blobs of a batch.", "Uploading"
        ),
        Option(
            "deliveryGuarantee",
            one_of(EXACTLY_ONCE, AT_LEAST_ONCE),
            EXACTLY_ONCE,
            "`exactly-once`: the commit publishes the blobs. `at-least-once`: a task publishes its own, as in Samza.",
            "Guarantee",
        ),
        Option(
            "eventTimeColumn",
            text(),
            None,
            "Timestamp column. The log keeps its range for each blob, for `startTime` and `endTime` of reads.",
            "Guarantee",
        ),
        Option(
            "checkpointBackup",
            text(),
            None,
            "Folder of the backup, as `container/path`: each batch of a streaming query backs its checkpoint up before "
            "it is committed. `checkpointLocation` is then on a disk of the driver, and may be lost with it.",
            "Guarantee",
        ),
        Option("epoch", integer(0), None, "Fencing token: a writer of a lower epoch is refused.", "Guarantee"),
        Option(
            "commitInfo",
            _commit_info(),
            None,
            "What the log says of each version of this write: the view `commits` and the command `log` show it.",
            "Guarantee",
        ),
        Option("txnAppId", text(), None, "With `txnVersion`: makes a `df.write` idempotent.", "Guarantee"),
        Option("txnVersion", integer(0), None, "Number of the write within `txnAppId`, rising.", "Guarantee"),
        Option(
            "envelopeColumn",
            text(),
            None,
            "Binary column of envelopes. Control messages are written after all other rows of the task, and listed in "
            "the log.",
            "Control messages",
        ),
        Option(
            "emission",
            Parser("the JSON of a `control_messages` `ProducerSpec`", _producer),
            None,
            "The sink adds the watermarks of these tasks. The rows have the columns `partition` (int), `value` "
            "(binary, envelopes), `task` (int or string) and `eventTime` (timestamp); the first two are stored.",
            "Control messages",
        ),
    )
)

SOURCE = OptionTable(
    (
        Option("view", one_of(*VIEWS), "data", "The rows, or a table about the stream.", "Reading"),
        Option(
            "generations",
            one_of("all", "newest"),
            "all",
            "Of the view `control`: all, or the newest and what is read with it, back from the head of the log to the "
            "end of the stream before it.",
            "Reading",
        ),
        Option("columns", text_list(), None, "Columns to read.", "Reading", shown_default="all"),
        Option(
            "bodySchema",
            text(),
            None,
            "Avro schema (JSON) of the events of Event Hubs Capture: column `Body`, each value of which is one datum "
            "of it without a header, is read as a struct.",
            "Reading",
            shown_default="`Body` is binary",
        ),
        Option(
            "metadataColumns",
            _names_of(METADATA_COLUMNS),
            (),
            "Add the columns `_blob`, `_version`, `_partition`, which name the source of each row.",
            "Reading",
            shown_default="none",
        ),
        Option("startTime", instant(), None, "Leave out blobs that have no row at or after this time.", "Reading"),
        Option("endTime", instant(), None, "Leave out blobs that have no row before this time.", "Reading"),
        Option(
            "partitions",
            _partitions(),
            None,
            "Read only these values of `partitionColumn`. In a glob, `*` is any text, and `?` one character.",
            "Reading",
            shown_default="all",
        ),
        Option(
            "ignoreCorruptBlobs",
            boolean(),
            default=False,
            help="Leave out damaged blobs, or parts of them, and count them; also adopted blobs that were deleted or "
            "replaced since. Rows that do not fit the schema are still an error.",
            group="Reading",
        ),
        Option(
            "allowOverwrites",
            boolean(),
            default=False,
            help="Read adopted blobs that were replaced since as they are, at a request for each blob. What a "
            "streaming query has read is not read again.",
            group="Reading",
        ),
        Option(
            "logPath",
            text(),
            None,
            "Folder of the log, as `container/path`, of an adopted folder that may not be written to.",
            "Reading",
        ),
        Option(
            "ignoreExtension",
            boolean(),
            default=False,
            help="A folder that other programs write: read blobs whatever their names end in, not only `.avro` and "
            "`.avro.gz`.",
            group="Reading",
        ),
        Option("maxPartitionBytes", byte_size(), 32 << 20, "Stored bytes of a Spark partition at most.", "Reading"),
        Option(
            INVALID_UTF8,
            one_of(ERROR, REPLACE),
            ERROR,
            "A string that is not UTF-8 is an error, or its invalid bytes are read as U+FFFD, as Java reads them.",
            "Reading",
        ),
        Option(
            RECURSIVE_FIELD_MAX_DEPTH,
            integer(-1, MAX_DEPTH),
            -1,
            "Levels of a record that contains itself: 1 leaves out what is within itself. Below 1 such a column is an "
            "error.",
            "Reading",
        ),
        Option(
            MAX_BLOCK_BYTES,
            byte_size(),
            BLOCK_BYTES,
            "Bytes of an Avro block at most, stored or decompressed; a larger one is an error.",
            "Reading",
        ),
        Option(
            MAX_BATCH_BYTES,
            byte_size(1 << 20),
            BATCH_BYTES,
            "Memory for decoding one batch of rows: a batch has as many rows as fit.",
            "Reading",
        ),
        Option(
            "publishTimeoutMs",
            milliseconds(),
            120_000,
            "Time to wait for a committed batch that is not published yet.",
            "Reading",
        ),
        Option(
            "versionAsOf", integer(0), None, "Read the stream as of this version.", "Batch reads", shown_default="head"
        ),
        Option(
            "timestampAsOf",
            instant(),
            None,
            "Read the stream as of the last version that was committed up to this time.",
            "Batch reads",
        ),
        Option(
            "pushFilters",
            boolean(),
            default=False,
            help="Apply filters to blobs and rows before Spark does (`docs/internals/decisions/0008-filters.md`).",
            group="Batch reads",
        ),
        Option(
            "startingVersion", _version(), None, "First version to read.", "Streaming reads", shown_default="`earliest`"
        ),
        Option(
            "startingTimestamp",
            instant(),
            None,
            "Read from the first version that was committed at this time or later.",
            "Streaming reads",
        ),
        Option(
            "maxBlobsPerTrigger",
            integer(1),
            1000,
            "Blobs of a micro-batch at most; a micro-batch has at least one version.",
            "Streaming reads",
        ),
        Option(
            "maxBytesPerTrigger",
            byte_size(),
            None,
            "Stored bytes of a micro-batch at most; a micro-batch has at least one version.",
            "Streaming reads",
            shown_default="no limit",
        ),
        Option(
            "adoptFolder",
            boolean(),
            default=False,
            help="`true`: follow [a folder that other programs write](READING.md#folders-of-other-programs). Each "
            "trigger adds its new blobs to a log, which `startingVersion` or `startingTimestamp` begins.",
            group="Streaming reads",
        ),
        Option(
            "minBlobAgeMs",
            milliseconds(0),
            60_000,
            "With `adoptFolder`: a blob is read if it was not modified for so long, so that none is half written.",
            "Streaming reads",
        ),
        Option(
            "countRows",
            boolean(),
            default=False,
            help="With `adoptFolder`: read each new blob twice, so that the log has the number of its rows, which an "
            "Iceberg table needs.",
            group="Streaming reads",
        ),
    )
)

TABLE = WHERE + OWN + ACCOUNT_OPTIONS + SINK + SOURCE + OptionTable((), HINTS)

# Groups whose options are not suggested for a misspelt option of a write, and of a read.
OF_READS = ("Reading", "Batch reads", "Streaming reads")
OF_WRITES = ("Routing", "Blobs", "Uploading", "Guarantee", "Iceberg", "Control messages")
