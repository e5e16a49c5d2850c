"""A stream and how it fills a store: the query of each generation, and what its batches do."""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from adjunct_store.spark.filling.fill import VersionWriter
from adjunct_store.spark.filling.starting import BatchGate, refusal
from adjunct_store.versions.manifest import VisibleFrom
from adjunct_store.versions.opening import FillRequirements
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.spark.filling.fill_backup import FillBackup
    from adjunct_store.spark.filling.fill_spec import FillSpec
    from adjunct_store.spark.filling.query_checkpoint import CheckpointFolder
    from adjunct_store.spark.filling.settings import StreamFillSettings
    from adjunct_store.versions.manifest import Generation
    from adjunct_store.versions.manifest_store import Fill
    from adjunct_store.versions.opening import TakeoverPlan
    from azure_account.location import Location

_NO_DATA_INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"
_starting = threading.Lock()


@dataclass(frozen=True)
class StreamPlan:
    """A stream, and how it fills a store. backup: of its checkpoints; None if they are not backed up."""

    store: Location
    source: str
    rows: DataFrame
    spec: FillSpec
    schema: StoreSchema
    checkpoint: CheckpointFolder
    backup: FillBackup | None
    settings: StreamFillSettings

    @property
    def terms(self) -> FillRequirements:
        """What the fill asks of the store."""
        settings = self.settings
        return FillRequirements(
            self.source,
            self.schema.partitions,
            bootstrap=settings.bootstrap,
            persistent=settings.persistent,
            max_age=settings.max_age,
            rebuild=settings.rebuild,
            above=self.checkpoint.last_generation(),
            keep=settings.keep,
            epoch=settings.epoch,
        )

    def writer(self, fill: Fill) -> VersionWriter:
        """Writes a version for each batch of the query."""
        writer = VersionWriter(self.store, fill, self.spec, self.schema, self.settings.cache_dir)
        writer.replaces = self.settings.output_mode == "complete"
        if self.backup is not None:
            writer.before_publish = partial(self.backup.back_up, fill.generation.number)
        return writer

    def bootstraps(self, generation: Generation) -> bool:
        """Whether the next query reads what the source has now, and then ends."""
        waiting = self.settings.bootstrap or generation.serves is VisibleFrom.BOOTSTRAPPED
        return waiting and not generation.bootstrapped

    def check(self, opening: TakeoverPlan) -> None:
        """`ConfigurationError` unless the query that filled a generation has written its checkpoint."""
        published = -1 if opening.base is None else opening.base.batch
        number, query = opening.generation.number, opening.generation.query
        found = self.checkpoint.state(number)
        if self.backup is not None and published < 0 and found.committed < 0:
            return  # nothing is backed up, and nothing is published: any query can begin
        misfit = found.misfit(published, query)
        if misfit:
            step = "Bring back the checkpoint with which the store was filled, or give its folder."
            step += " If it is lost, start once with rebuild=True, which needs all rows of the source."
            checkpoint = f"store {self.store.path} with checkpoint {self.checkpoint.path}"
            raise ConfigurationError("fill", checkpoint, misfit, f"{step} Nothing was changed.")

    def start_first(self, opening: TakeoverPlan) -> tuple[StreamingQuery, BatchGate]:
        """Start the query of a generation that is not taken over yet, after a check of its checkpoint.

        `ConfigurationError` as of `check`, and if Spark refuses the query.
        """
        if opening.continues and self.backup is not None:
            self.backup.restore(opening.generation.number)
        self.check(opening)
        gate = BatchGate(_fill_batch)
        return self._started(opening.generation, gate), gate

    def start(self, writer: VersionWriter) -> StreamingQuery:
        """Start the next query of a fill that has its store. `ConfigurationError` if Spark refuses it."""
        gate = BatchGate(_fill_batch)
        gate.open(writer)
        return self._started(writer.fill.generation, gate)

    def _started(self, generation: Generation, gate: BatchGate) -> StreamingQuery:
        writer = self.rows.writeStream.option("checkpointLocation", self.checkpoint.location(generation.number))
        writer = writer.outputMode(self.settings.output_mode).foreachBatch(gate.run)
        bootstraps = self.bootstraps(generation)
        trigger = {"availableNow": True} if bootstraps else self.settings.trigger
        if trigger:
            writer = writer.trigger(**trigger)
        if self.settings.query_name is not None:
            writer = writer.queryName(self.settings.query_name)
        try:
            with _reporting_that_there_is_nothing(self.rows.sparkSession) if bootstraps else nullcontext():
                return writer.start()
        except (PySparkException, Py4JJavaError) as error:
            raise refusal(self.store.path, error) from error


@contextmanager
def _reporting_that_there_is_nothing(spark: SparkSession) -> Iterator[None]:
    """A query that is started in the block reports progress also when it finds no data: see `_has_read_all`."""
    with _starting:
        before = spark.conf.get(_NO_DATA_INTERVAL, None)
        spark.conf.set(_NO_DATA_INTERVAL, "0")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_NO_DATA_INTERVAL)
            else:
                spark.conf.set(_NO_DATA_INTERVAL, before)


def _fill_batch(writer: VersionWriter, rows: DataFrame, batch: int) -> None:
    writer.run(rows, batch)
