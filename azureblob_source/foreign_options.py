"""Hints for options of Delta, Auto Loader, Iceberg, Kafka and Spark's file sources: what to set instead. Pure.

For these names the usual hint, the option of the nearest spelling, would mislead: that one means something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azureblob_source.spark_options import NO_TABLE, SEVERAL_PATHS

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOBS = "`maxBlobsPerTrigger` is its name here."
_BYTES = "`maxBytesPerTrigger` is its name here."
_CORRUPT = "`ignoreCorruptBlobs` is its name here."
_CODEC = "`codec` compresses the blocks within a blob, `compression.type` (`gzip`) the whole blob."
_BLOB_SIZE = "`maxBlobSize` is its name here."
_SCHEMA = "Set `avroSchema` to the Avro schema to read with, in JSON."
_START = "`startingVersion` is its name here: `earliest`, `latest` or a version."
_AS_OF_VERSION = "Versions are numbers: the view `commits` lists them, `versionAsOf` reads one."
_ONLY_ROWS = "Leave it out: a streaming read returns appended rows, and the rows of an overwrite as new rows."
_SUPERSET = "Leave it out: writers may add columns, and a read uses the superset of their schemas."
_WHOLE = (
    "Mode `overwrite` with `partitionColumn` and `partitionOverwriteMode` = `dynamic` replaces the partitions that its "
    "rows have: make what is replaced alone a partition, and write all of its rows."
)
_GAP = (
    "Leave it out: a query fails if an overwrite or a vacuum has deleted blobs that it has not read. Start it with a "
    "new checkpoint then."
)
_AVRO = "Leave it out: blobs are Avro files, which contain their schema."
_LISTING = "Leave it out: the path names one stream, and its log names the blobs."
_NO_LIFETIME = "Leave it out: blobs stay until `python -m azureblob_source vacuum` or an overwrite deletes them."
_EVOLUTION = (
    "`schemaEvolution` is the nearest here: `fail` stops the query before a new column, and a restart reads it; "
    "`ignore` leaves the column out."
)
_KEY = "Set the key as `accountAccessKey`, which Spark masks in plans."
_SAS = "Set the SAS as `sasToken`."

_NAMES: Mapping[str, tuple[str, ...]] = {
    _BLOBS: (
        "maxFilesPerTrigger",
        "cloudFiles.maxFilesPerTrigger",
        "streaming-max-files-per-micro-batch",
        "maxOffsetsPerTrigger",
    ),
    _BYTES: ("cloudFiles.maxBytesPerTrigger",),
    _CORRUPT: ("ignoreCorruptFiles",),
    _CODEC: ("compression", "compressionLevel", "compression-codec", "write.avro.compression-codec"),
    _BLOB_SIZE: ("target-file-size-bytes", "maxFileSize", "delta.targetFileSize"),
    "`maxMessagesPerBlob` is its name here.": ("maxRecordsPerFile",),
    "`maxPartitionBytes` is its name here.": ("split-size",),
    "`partitionColumn` is its name here.": ("partitionBy", "partitionColumns"),
    "`boundsColumns` is its name here.": ("dataSkippingStatsColumns", "delta.dataSkippingStatsColumns"),
    _SCHEMA: ("avroSchemaUrl", "cloudFiles.schemaHints", "schemaHints"),
    _START: ("startingOffsets", "cloudFiles.includeExistingFiles"),
    "`startingTimestamp` is its name here.": ("stream-from-timestamp", "startingOffsetsByTimestamp"),
    _AS_OF_VERSION: ("snapshot-id", "branch", "tag"),
    "`timestampAsOf` is its name here.": ("as-of-timestamp",),
    "`startTime` and `endTime` leave out blobs by the times of their rows.": ("modifiedAfter", "modifiedBefore"),
    "`stream` is its name here, or the last part of the path.": ("topic", "subscribe"),
    _ONLY_ROWS: (
        "ignoreChanges",
        "ignoreDeletes",
        "skipChangeCommits",
        "readChangeFeed",
        "readChangeData",
        "endingVersion",
        "endingTimestamp",
        "start-snapshot-id",
        "end-snapshot-id",
        "streaming-skip-overwrite-snapshots",
        "streaming-skip-delete-snapshots",
        "withEventTimeOrder",
    ),
    _SUPERSET: ("mergeSchema", "overwriteSchema", "merge-schema"),
    _WHOLE: ("replaceWhere", "replaceUsing", "replaceOn"),
    _GAP: ("failOnDataLoss", "ignoreMissingFiles"),
    _EVOLUTION: (
        "cloudFiles.schemaEvolutionMode",
        "schemaEvolutionMode",
        "schemaTrackingLocation",
        "cloudFiles.rescuedDataColumn",
        "rescuedDataColumn",
    ),
    _AVRO: (
        "cloudFiles.format",
        "cloudFiles.inferColumnTypes",
        "cloudFiles.schemaLocation",
        "inferSchema",
        "header",
        "delimiter",
        "sep",
        "multiLine",
        "mode",
        "positionalFieldMatching",
        "datetimeRebaseMode",
    ),
    _LISTING: (
        "recursiveFileLookup",
        "pathGlobFilter",
        "basePath",
        "latestFirst",
        "maxFileAge",
        "fileNameOnly",
        "maxCachedFiles",
        "cloudFiles.useNotifications",
        "cloudFiles.useIncrementalListing",
        "cloudFiles.backfillInterval",
        "cloudFiles.allowOverwrites",
        "cloudFiles.partitionColumns",
    ),
    _NO_LIFETIME: ("cleanSource", "sourceArchiveDir", "cloudFiles.cleanSource", "retention"),
    "`commitInfo` is its name here.": ("userMetadata",),
    NO_TABLE: ("location", "dbtable", "catalog"),
    SEVERAL_PATHS: ("paths",),
    _KEY: ("fs.azure.account.key",),
    _SAS: ("fs.azure.sas.fixed.token",),
}

HINTS: Mapping[str, str] = {name.lower(): sentence for sentence, names in _NAMES.items() for name in names}
"""The hint for each option of another source, by its name in lower case."""
