"""The options of a read as typed values. Pure.

They are parsed on the driver, before the first task runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import arrow_avro
from arrow_avro import INVALID_UTF8, MAX_BATCH_BYTES, MAX_BLOCK_BYTES, RECURSIVE_FIELD_MAX_DEPTH, ReadLimits
from azure_account.options.settings import AccountSettings, account_settings
from azureblob_source.address import log_place, stream_address
from azureblob_source.log.times import microseconds
from azureblob_source.options import EARLIEST, FAIL, IGNORE, OF_WRITES, REPLACE, SOURCE, TABLE
from azureblob_source.read.blobs import BlobSelection
from azureblob_source.spark_options import refuse_table
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from arrow_avro import AvroSchema
    from azure_account.address import Address
    from azure_account.options.option_table import ParsedOptions
    from azure_account.values import Relocation


@dataclass(frozen=True)
class SourceOptions:
    """All options of a read. Timeouts are in seconds."""

    account: AccountSettings
    address: Address
    stream: str
    view: str
    newest_generation: bool
    columns: tuple[str, ...] | None
    metadata_columns: tuple[str, ...]
    avro_schema: AvroSchema | None
    body_schema: AvroSchema | None
    selection: BlobSelection
    ignore_corrupt: bool
    allow_overwrites: bool
    any_extension: bool
    recursion: int
    split_bytes: int
    limits: ReadLimits
    publish_timeout: float
    push_filters: bool
    version: int | None
    as_of_time: datetime | None
    starting_version: int | str
    starting_time: datetime | None
    max_blobs: int
    max_bytes: int | None
    has_limits: bool
    schema_evolution: str
    log_place: tuple[Relocation, ...]
    adopt_folder: bool
    min_blob_age: float
    count_rows: bool


def source_options(raw: Mapping[str, str], env: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """The options of a read. If `streaming` is known, options of the other kind of read are refused."""
    refuse_table(raw)
    given = TABLE.parse(raw, hidden=OF_WRITES)
    if streaming is not None:
        _refuse("Batch reads" if streaming else "Streaming reads", given)
    address = stream_address(given["path"], given["container"], given["stream"])
    if address.path is None:
        message = f"No stream is named to read from container {address.container!r}. Load `container/stream`."
        raise ConfigurationError(message)
    for one, other in (("startingVersion", "startingTimestamp"), ("versionAsOf", "timestampAsOf")):
        if {one, other} <= given.given:
            raise ConfigurationError(f"Options `{one}` and `{other}` exclude each other. Set one.")
    if given["generations"] == "newest" and given["view"] != "control":
        raise ConfigurationError("Option `generations` is for the view `control`. Leave it out here.")
    if given["partitions"] is not None and given["view"] != "data":
        raise ConfigurationError(
            "Option `partitions` is for the rows: filter the view by its column `partition` instead."
        )
    return SourceOptions(
        account=account_settings(given, address, env),
        address=address,
        stream=address.path,
        view=given["view"],
        newest_generation=given["generations"] == "newest",
        columns=given["columns"],
        metadata_columns=given["metadataColumns"],
        avro_schema=_schema(given, "avroSchema"),
        body_schema=_schema(given, "bodySchema"),
        selection=_selection(given),
        ignore_corrupt=given["ignoreCorruptBlobs"],
        allow_overwrites=given["allowOverwrites"],
        any_extension=given["ignoreExtension"],
        recursion=max(given[RECURSIVE_FIELD_MAX_DEPTH], 0),
        split_bytes=given["maxPartitionBytes"],
        limits=ReadLimits(
            given[MAX_BLOCK_BYTES],
            given[MAX_BATCH_BYTES],
            replace_invalid_utf8=given[INVALID_UTF8] == REPLACE,
        ),
        publish_timeout=given["publishTimeoutMs"] / 1000,
        push_filters=given["pushFilters"],
        version=given["versionAsOf"],
        as_of_time=given["timestampAsOf"],
        starting_version=EARLIEST if given["startingVersion"] is None else given["startingVersion"],
        starting_time=given["startingTimestamp"],
        max_blobs=given["maxBlobsPerTrigger"],
        max_bytes=given["maxBytesPerTrigger"],
        has_limits=not {"maxBlobsPerTrigger", "maxBytesPerTrigger"}.isdisjoint(given.given),
        schema_evolution=_schema_evolution(given, streaming=streaming),
        log_place=log_place(given["logPath"], address),
        adopt_folder=given["adoptFolder"],
        min_blob_age=given["minBlobAgeMs"] / 1000,
        count_rows=given["countRows"],
    )


def _schema_evolution(given: ParsedOptions, *, streaming: bool | None) -> str:
    evolution: str = given["schemaEvolution"] or FAIL
    if streaming is False and "schemaEvolution" in given.given:
        raise ConfigurationError(_ELSEWHERE.format("schemaEvolution", "spark.readStream and writes"))
    if evolution not in (FAIL, IGNORE):
        raise ConfigurationError(
            f"Option `schemaEvolution` is {evolution}, which is for writes: set `{FAIL}` or `{IGNORE}`."
        )
    return evolution


_ELSEWHERE = "Option `{}` belongs to {}. Leave it out here."


def _refuse(group: str, given: ParsedOptions) -> None:
    for option in SOURCE.options:
        if option.group == group and option.name in given.given:
            right = "spark.read" if group == "Batch reads" else "spark.readStream"
            raise ConfigurationError(_ELSEWHERE.format(option.name, right))


def _selection(given: ParsedOptions) -> BlobSelection:
    moments = (given[name] for name in ("startTime", "endTime"))
    start, end = (None if moment is None else microseconds(moment) for moment in moments)
    if start is not None and end is not None and start >= end:
        raise ConfigurationError("Option `startTime` is not before `endTime`, so nothing can be read. Change one.")
    return BlobSelection((start, end), given["partitions"], by_version="version" in given["metadataColumns"])


def _schema(given: ParsedOptions, option: str) -> AvroSchema | None:
    written: str | None = given[option]
    return None if written is None else arrow_avro.parse(written, reading=True, option=option)
