"""What is decided before a write's first task runs: options and the rows' schema are validated, and become a plan.

prepare_write ─► WritePlan ─┬──────────────► tasks: `staging.stage`
                            └─ of_commit ──► driver: `batch.BatchCommitter`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

import arrow_avro
from azure_account import connect
from azureblob_source.options import DYNAMIC
from azureblob_source.write.column_bounds import ColumnBounds
from azureblob_source.write.commit_plan import CommitPlan
from azureblob_source.write.control_records import VALUE, is_binary, stored_rows
from azureblob_source.write.destination import ensure_container, logs_of
from azureblob_source.write.open_blobs import BlobFormat
from azureblob_source.write.options import sink_options
from azureblob_source.write.stream_gate import StreamGate
from control_messages.producer import PRODUCER_METADATA, ProducerSpec
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import StructType

    from arrow_avro import AvroSchema
    from azure_account.address import Address
    from azure_account.options.settings import AccountSettings
    from azureblob_source.log.stream_notes import LogFacts
    from azureblob_source.write.options import SinkOptions
    from foundation.clock import Clock


@dataclass(frozen=True)
class WritePlan:
    """What all tasks of one write share, validated on the driver against the schema of the rows.

    arrow: the columns that are routed and stored: all of the rows', unless option `emission` is set.
    sequence: with option `emission`, of the watermarks that are added: the time of this write (ms).
    facts: what was found of the log of the stream that the path names.
    task: the number of the Spark task that has this copy of the plan.
    """

    options: SinkOptions
    arrow: pa.Schema
    avro: AvroSchema
    sequence: int | None = None
    facts: LogFacts | None = None
    task: int = 0

    @property
    def blob_format(self) -> BlobFormat:
        """How the blobs are serialized."""
        codec = arrow_avro.codec(self.options.codec)
        return BlobFormat(self.avro.json, self.avro.fingerprint, codec, self.options.gzipped)

    @property
    def partition_column(self) -> str | None:
        """The column that rows are routed to partitions by, if they are stored with it."""
        router = self.options.router
        stored = self.options.value_column is None and not router.drop_columns
        return router.partition_column if stored else None

    @property
    def column_bounds(self) -> ColumnBounds:
        """What finds the bounds of columns. `ConfigurationError` if one that option `boundsColumns` names has none."""
        stored = self.options.router.written_schema(self.arrow)
        return ColumnBounds.of(stored, self.avro, self.options.bounds_columns, self.partition_column)

    @property
    def of_commit(self) -> CommitPlan:
        """The part that the commit needs."""
        options = self.options
        return CommitPlan(
            account=options.account,
            address=options.address,
            stream=options.router.stream,
            rows_name_streams=options.router.stream_column is not None,
            schema_json=self.avro.json,
            schema=self.avro.fingerprint,
            attributes=options.attributes,
            close_timeout=options.close_timeout,
            unique_names=options.random_suffix,
            at_least_once=options.at_least_once,
            epoch=options.epoch,
            transaction=options.transaction,
            checkpoint_interval=options.checkpoint_interval,
            auto_compact=options.auto_compact,
            iceberg_paths=options.iceberg_paths,
            fixed_schema=options.fixed_schema,
            overwrite_partitions=options.overwrite_mode == DYNAMIC,
            keep_replaced=options.keep_replaced,
            facts=self.facts,
            commit_info=options.commit_info,
            backup=options.backup,
        )


def prepare_write(
    raw: Mapping[str, str],
    schema: StructType,
    env: Mapping[str, str],
    *,
    overwrite: bool,
    streaming: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> WritePlan:
    """Validate a write before its first task runs, and create its containers if they are absent.

    Rows for one stream must fit it. Spark calls this in each micro-batch of a streaming query; containers and stream
    are looked at once a minute then.
    """
    options = _with_producer(raw, env, schema)
    if streaming and options.transaction is not None:  # one micro-batch would be written, and all others dropped
        raise ConfigurationError(
            "Options `txnAppId` and `txnVersion` are for df.write: a streaming query is identified by its checkpoint "
            "and its batch ids. Leave them out here, or set them on the df.write within `foreachBatch`."
        )
    if options.backup is not None:
        if not streaming:
            raise ConfigurationError(
                "Option `checkpointBackup` is for `writeStream`: a df.write, also within `foreachBatch`, has no "
                "checkpoint. Use `state_backup.spark.back_up_checkpoint` there."
            )
        from azureblob_source.write.checkpoint_backup import check  # noqa: PLC0415 - few queries have one

        check(options.backup)
    if overwrite:
        _check_overwrite(options, streaming=streaming)
    plan = replace(plan_for_rows(options, arrow_avro.arrow_of(schema)), sequence=clock.now_ns() // 1_000_000)
    for place in (options,) if options.backup is None else (options, options.backup):
        key, now = (place.account, place.address.container), clock.monotonic()
        if not streaming or now - _seen.get(key, -_SEEN_SECONDS) >= _SEEN_SECONDS:
            ensure_container(connect(place.account).container(place.address.container), create=options.create_container)
            _seen[key] = now
    replaces_all = overwrite and options.overwrite_mode != DYNAMIC
    return _checked_for_its_stream(plan, clock, overwrite=replaces_all, streaming=streaming)


def _checked_for_its_stream(plan: WritePlan, clock: Clock, *, overwrite: bool, streaming: bool) -> WritePlan:
    """The plan with what was found of the log. `ConfigurationError` if the rows do not fit the stream.

    Which streams `streamColumn` names is known in the tasks only.
    """
    options = plan.options
    stream = options.router.stream
    if stream is None or options.router.stream_column is not None:
        return plan
    logs = logs_of(plan.of_commit, connect(options.account).container(options.address.container))
    key, now = (options.account, options.address, plan.avro.fingerprint, options.fixed_schema), clock.monotonic()
    if not streaming or now - _checked.get(key, -_SEEN_SECONDS) >= _SEEN_SECONDS:
        logs(stream).refresh()
        StreamGate(plan.of_commit, logs).check(stream, overwrite=overwrite)
        _checked[key] = now
    return replace(plan, facts=logs(stream).facts())


def _with_producer(raw: Mapping[str, str], env: Mapping[str, str], schema: StructType) -> SinkOptions:
    """The options, with `emission` from the column that `control_messages.spark.emit` has marked."""
    marked = {
        field.name: field.metadata[PRODUCER_METADATA] for field in schema.fields if PRODUCER_METADATA in field.metadata
    }
    if not marked:
        return sink_options(raw, env)
    if VALUE not in marked:
        raise ConfigurationError(
            f"Column {VALUE!r} is not as `emit(by_sink=True)` has made it, so no watermarks would be written. Compute "
            "the payload before `emit`, and write its result as it is."
        )
    producer = marked[VALUE]
    given = any(name.lower() == "emission" for name in raw)
    options = sink_options(raw if given else {**raw, "emission": producer}, env)
    if options.emission != ProducerSpec.from_json(producer):
        raise ConfigurationError(
            f"Option `emission` is of another producer than the rows, which were made for {producer}. Leave the "
            "option out: `emit` has marked the rows."
        )
    return options


def _check_overwrite(options: SinkOptions, *, streaming: bool) -> None:
    if options.router.stream_column is not None:
        raise ConfigurationError(
            "Mode `overwrite`, and output mode `complete`, replace one stream, but option `streamColumn` names many. "
            "Name the stream in the path, or append."
        )
    mode, has_partitions = options.overwrite_mode, options.router.partition_column is not None
    if mode == DYNAMIC and not has_partitions:
        raise ConfigurationError(
            "Option `partitionOverwriteMode` is dynamic, but the rows have no partitions: name their column as option "
            "`partitionColumn`, or set the mode to `static` to replace the whole stream."
        )
    if mode is None and has_partitions and not streaming:
        raise ConfigurationError(
            "Mode `overwrite` with option `partitionColumn` must say what it replaces: a Python data source cannot see "
            "Spark's setting spark.sql.sources.partitionOverwriteMode. Set option `partitionOverwriteMode` to "
            "`dynamic` for the partitions that the rows have, to `static` for the whole stream, or append."
        )


_SEEN_SECONDS = 60.0
_seen: dict[tuple[AccountSettings, str], float] = {}
"""When this process last checked that a container exists, by its monotonic clock."""
_checked: dict[tuple[AccountSettings, Address, str, bool], float] = {}
"""When it last compared the rows of a schema with their stream."""


def plan_for_rows(options: SinkOptions, rows: pa.Schema) -> WritePlan:
    """Validate the options against the schema of the rows. `ConfigurationError` names the option that does not fit."""
    if options.emission is not None:
        rows = stored_rows(options.emission, rows)
    options.router.check(rows)
    written = options.router.written_schema(rows)
    if options.event_time_column is not None:
        _check_column("eventTimeColumn", options.event_time_column, written, pa.types.is_timestamp, "a timestamp")
    if options.value_column is not None:
        _check_column("valueColumn", options.value_column, written, is_binary, "binary")
    if options.envelope_column is not None:
        _check_column("envelopeColumn", options.envelope_column, written, is_binary, "binary")
    if options.value_column is not None and options.avro_schema is not None:
        _check_names(options.avro_schema)
        return WritePlan(options, rows, options.avro_schema)
    if not len(written):
        message = "No column is left to write. Select another column too, or set `dropRoutingColumns` to false."
        raise ConfigurationError(message)
    avro = options.avro_schema or arrow_avro.infer(
        written, name=options.record_name, namespace=options.record_namespace
    )
    _check_names(avro)
    arrow_avro.check_writable(written, avro)
    plan = WritePlan(options, rows, avro)
    _ = plan.column_bounds  # an error of its option is one of the driver
    return plan


def _check_names(avro: AvroSchema) -> None:
    if arrow_avro.names_alike(avro) is not None:
        from azureblob_source.write.schema_evolution import check_names  # noqa: PLC0415 - few writes have such names

        check_names(avro)


def _check_column(
    option: str, column: str, schema: pa.Schema, fits: Callable[[pa.DataType], bool], expected: str
) -> None:
    if schema.get_field_index(column) < 0:
        message = f"Option `{option}` names column {column!r}; the rows to write have {', '.join(schema.names)}."
        raise ConfigurationError(message)
    kind = schema.field(column).type
    if not fits(kind):
        message = f"Option `{option}`: column {column!r} is {kind}, it must be {expected}. Cast it in the query."
        raise ConfigurationError(message)
