"""Fills a store from DataFrames: each becomes one published version, written by a task for each partition."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from adjunct_store.metrics import LastVersion, StoreMetrics
from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill_spec import FillSpec
from adjunct_store.spark.filling.partition_writer import REPORT, PartitionReport, PartitionWriter
from adjunct_store.spark.filling.settings import FillSettings
from adjunct_store.versions.manifest_store import open_fill, read_manifest
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.transitions import Publication, continued
from azure_account.location import Location
from foundation.arguments import checked
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import ConfigurationError, FencedError, NotFoundError
from foundation.worker_errors import own_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.versions.manifest import Version
    from adjunct_store.versions.manifest_store import Fill

logger = logging.getLogger("adjunct_store")

BATCH_SOURCE = "batch"
"""The source of a store that is filled by `fill`, unless another one is named."""


@dataclass(frozen=True)
class FillResult:
    """What a fill did with a batch. The counts are 0 for a batch that was published before.

    version: the published version.
    upserts: rows that set the value of a key.
    deletes: rows that deleted a key.
    ignored: keys whose row was older than what the store had.
    nulls: rows that were left out since a key column is null.
    """

    version: Version
    upserts: int = 0
    deletes: int = 0
    ignored: int = 0
    nulls: int = 0


@checked
def fill(store: Location, rows: DataFrame, spec: FillSpec, settings: FillSettings = FillSettings()) -> FillResult:
    """Apply the rows of a batch DataFrame to a store, and publish the result as one version.

    store: where the store is. It is made if it is absent, and so is its container.
    rows: a batch DataFrame with the columns that `spec` names.
    spec: which columns are keys and values, what orders rows and what deletes, how many partitions the store has.
    settings: source, rebuild, versions to keep, cache directory.

    The fill takes the store over: another fill of it ends with `FencedError` at its next batch.

    `ConfigurationError` before anything is written if a column is missing or of a type that is not possible, or if the
    store has other columns or another source. `ConfigurationError`, and no version is published, if a key is null, or
    if two rows of a key contradict each other.
    """
    if rows.isStreaming:
        raise ConfigurationError("Function fill needs a batch DataFrame; use fill_stream for a streaming one.")
    schema = changes_of(rows, spec).schema
    source = settings.source or BATCH_SOURCE
    if not settings.rebuild:
        check_schema(store, schema, source, adds=True)
    terms = FillRequirements(
        source, schema.partitions, rebuild=settings.rebuild, adds=True, keep=settings.keep, epoch=settings.epoch
    )
    opened = open_fill(store, schema.to_json(), terms)
    batch = 0 if opened.base is None else opened.base.batch + 1
    return VersionWriter(store, opened, spec, schema, settings.cache_dir).run(rows, batch, bootstrapped=True)


@dataclass
class VersionWriter:
    """Writes the versions of one generation, one after the other.

    fill: the fill that owns the store.
    replaces: whether the rows of a batch replace all that the store has; else they change it.
    before_publish: is called with the number of each batch that is written and not published yet, or published before.
    """

    location: Location
    fill: Fill
    spec: FillSpec
    schema: StoreSchema
    cache_dir: Path | str | None = None
    replaces: bool = False
    before_publish: Callable[[int], None] = lambda _: None
    clock: Clock = SYSTEM_CLOCK

    @property
    def metrics(self) -> StoreMetrics:
        """The metrics of the store."""
        return StoreMetrics(self.location.container, self.location.path)

    def run(self, rows: DataFrame, batch: int, *, bootstrapped: bool = False, sealed: bool = False) -> FillResult:
        """Apply the rows, and publish. The batch that was published last is not applied again.

        `FencedError` if another fill has taken the store over. `ConfigurationError` for an earlier batch: Spark repeats
        the last one only, so the query goes on from an older copy of its checkpoint, and may have other rows in it.
        """
        base = self.fill.base
        if base is not None and batch <= base.batch and not sealed:
            if batch < base.batch:
                raise _older_checkpoint(self.location, batch, base.batch)
            self.before_publish(batch)  # of a checkpoint that was restored: this machine has it from now on
            return FillResult(base)
        begun = self.clock.monotonic()
        try:
            with self.metrics.measured("fillSeconds"):
                filled = self._run(rows, batch, bootstrapped=bootstrapped, sealed=sealed)
        except FencedError:
            self.metrics.close()
            raise
        for name, number in (
            ("upserts", filled.upserts),
            ("deletes", filled.deletes),
            ("olderIgnored", filled.ignored),
            ("nullKeys", filled.nulls),
        ):
            self.metrics.count(name, number)
        logger.info(
            "store %s: version %d is published, with batch %d: %d upserts, %d deletes, %d older ones ignored, "
            "%d rows with null keys; %d entries, %d bytes, in %.2f s",
            self.location.path, filled.version.number, batch, filled.upserts, filled.deletes, filled.ignored,
            filled.nulls, filled.version.entries, filled.version.bytes, self.clock.monotonic() - begun,
        )  # fmt: skip
        return filled

    @property
    def _base(self) -> Version | None:
        """The version that the next batch changes; None if it begins with nothing."""
        return None if self.replaces else self.fill.base

    def _run(self, rows: DataFrame, batch: int, *, bootstrapped: bool, sealed: bool) -> FillResult:
        base = self._base
        reports = self._written(rows, batch)
        nulls = sum(each.nulls for each in reports)
        if nulls and self.spec.null_keys == "fail":
            cause = f"{nulls} rows have a null in a key column ({', '.join(self.spec.keys)})"
            step = 'Filter them, or leave them out by null_keys="skip". Nothing was published.'
            raise ConfigurationError("fill", f"store {self.location}", cause, step)
        entries, size, tombstones = (
            sum(getattr(each, name) for each in reports) + (0 if base is None else getattr(base, name))
            for name in ("entries", "bytes", "tombstones")
        )
        checkpoints = {each.partition: each.checkpoint for each in reports if each.checkpoint}
        new = Publication(batch, checkpoints, entries, size, bootstrapped, sealed, self.replaces, tombstones=tombstones)
        self.before_publish(batch)
        version = self._publish(new)
        return FillResult(
            version,
            sum(each.upserts for each in reports),
            sum(each.deletes for each in reports),
            sum(each.ignored for each in reports),
            nulls,
        )

    def finish_bootstrap(self) -> Version:
        """Publish what is there as bootstrapped: all that the source had is in it, which may be nothing."""
        base = self.fill.base
        if base is None:
            return self._publish(Publication(-1, {}, 0, 0, bootstrapped=True, replaces=self.replaces))
        new = Publication(base.batch, {}, base.entries, base.bytes, bootstrapped=True, replaces=self.replaces)
        return self._publish(new)

    def _publish(self, new: Publication) -> Version:
        base = self.fill.base
        with self.metrics.measured("publishSeconds"):
            version = self.fill.publish(new)
        self.metrics.count("versionsPublished", int(base is None or version.number != base.number))
        sizes = version.entries, version.tombstones, version.bytes
        bootstrapped = self.fill.generation.bootstrapped
        last = LastVersion(version.number, version.batch, *sizes, bootstrapped, self.clock.monotonic())
        self.metrics.show(last, self.clock)
        return version

    def _written(self, rows: DataFrame, batch: int) -> list[PartitionReport]:
        """Write the partitions that have rows, in tasks."""
        changes = changes_of(rows, self.spec)
        _check_same(self.location, self.schema.to_json(), changes.schema.to_json())
        base = () if self._base is None else self._base.checkpoints
        writer = PartitionWriter(
            location=self.location,
            generation=self.fill.generation.number,
            schema=self.schema,
            epoch=self.fill.epoch,
            source=self.fill.generation.source,
            batch=batch,
            base=dict(enumerate(base)),
            in_use={each: self.fill.in_use(each) for each in range(self.schema.partitions)},
            allow_nulls=self.spec.null_keys == "skip",
            cache_dir=None if self.cache_dir is None else str(self.cache_dir),
        )
        try:
            with own_errors():
                found = changes.by_partition().mapInArrow(writer.write, REPORT).collect()
        except NotFoundError:
            self.fill.clean_up()  # is fenced, if another fill has taken the store over and deleted this generation
            raise
        return [PartitionReport(**row.asDict()) for row in found]


def _older_checkpoint(store: Location, batch: int, published: int) -> ConfigurationError:
    cause = f"batch {batch} comes, and batch {published} was published: the query's checkpoint is an older copy"
    step = f"Bring back the checkpoint of batch {published}. If it is lost, start once with rebuild=True, and a new"
    step += " checkpoint that begins with all rows of the source. Nothing was changed."
    return ConfigurationError("fill", f"store {store.path}", cause, step)


def check_schema(store: Location, schema: StoreSchema, source: str, *, adds: bool) -> None:
    """`ConfigurationError` if the generation that a fill would continue has another schema. adds: see `continued`."""
    manifest = read_manifest(store.prepare(), store.path)
    current = None if manifest is None else continued(manifest, source, adds=adds).current
    if current is not None and current.source == source:
        _check_same(store, current.schema, schema.to_json())


def _check_same(store: Location, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for part in ("keys", "values", "partitions", "order_by"):
        if stored[part] != given[part]:
            cause = f"its {part} are {_text(stored[part])}, those of this fill are {_text(given[part])}"
            change = f"Give partitions={stored[part]}" if part == "partitions" else "Cast or rename the columns"
            step = f"{change}, or build the store again from its whole source (rebuild=True)."
            raise ConfigurationError("fill", f"store {store.path}", cause, step)


def _text(part: Any) -> str:
    """A part of a schema in a message: columns with their types."""
    columns = part["fields"] if isinstance(part, dict) else part
    if not isinstance(columns, list):
        return str(columns) or "none"
    return ", ".join(f"{each['name']} {_type(each['type'])}" for each in columns)


def _type(kind: Any) -> str:
    """A type of a key, or of Avro without what all have: that it may be null."""
    if isinstance(kind, list):
        kind = next(each for each in kind if each != "null")
    return str(kind.get("logicalType", kind["type"]) if isinstance(kind, dict) else kind)
