"""Fills a store from a stream: a query each of whose micro-batches becomes a version.

generation g ─► query with checkpoint <checkpoint>/g<g> ─► take the store over (`starting`) ─► a version for each batch
     │               bootstrap: until the source's present end ─► publish as bootstrapped ─► go on
     └ its source is truncated, and it may be rebuilt ─► next generation, read from the beginning
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill import check_schema
from adjunct_store.spark.filling.fill_backup import FillBackup
from adjunct_store.spark.filling.fill_spec import FillSpec
from adjunct_store.spark.filling.query_checkpoint import CheckpointFolder
from adjunct_store.spark.filling.settings import StreamFillSettings
from adjunct_store.spark.filling.starting import QueryStart
from adjunct_store.spark.filling.stream_plan import StreamPlan
from adjunct_store.versions.manifest_store import open_fill, read_manifest
from azure_account.location import Location
from foundation.arguments import checked
from foundation.errors import ConfigurationError
from foundation.worker_errors import own_error

if TYPE_CHECKING:
    from typing import Self

    from pyspark.sql.streaming.query import StreamingQuery


logger = logging.getLogger("adjunct_store")

_TRUNCATED = (
    "KAFKA_DATA_LOSS",
    "failOnDataLoss",
    "some data may have been lost",
    "OffsetOutOfRange",
    "start the query with a new checkpoint",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_VERSION_NOT_CONTIGUOUS",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
)
"""Parts of what sources report when rows were removed that the query has not read yet."""


@checked
def fill_stream(
    store: Location,
    rows: DataFrame,
    spec: FillSpec,
    *,
    checkpoint: Path | str,
    settings: StreamFillSettings = StreamFillSettings(),
) -> StreamFill:
    """Start a query that fills a store from a stream: each micro-batch is published as a version.

    store: where the store is. It is made if it is absent, and so is its container.
    rows: a streaming DataFrame with the columns that `spec` names.
    spec: which columns are keys and values, what orders rows and what deletes, how many partitions the store has.
    checkpoint: a folder of this fill, on any file system of Spark, or with `checkpoint_backup` on a disk of the driver.
    The query of each generation has its `checkpointLocation` in it, `g<generation>`.
    settings: bootstrap, output mode, trigger, when the store is rebuilt, and those of every fill.

    The fill continues where the last one with this checkpoint ended. While it rebuilds a store, readers get the old
    versions until all that the source had is published.

    Returns when Spark has started the query and looked for a first batch. Only then the fill takes the store over, and
    another fill of it ends with `FencedError`. Until then every error leaves the store and the other fill as they are:
    `ConfigurationError` as for `fill`, if Spark refuses the query, and if the checkpoint belongs to another query than
    the one that has filled the store; and whatever Spark and the source raise before the first batch.
    """
    if not rows.isStreaming:
        raise ConfigurationError("Function fill_stream needs a streaming DataFrame; use fill for a batch one.")
    schema = changes_of(rows, spec).schema
    _check_can_start(rows, settings)
    folder = CheckpointFolder(rows.sparkSession, str(checkpoint))
    where = settings.checkpoint_backup
    backup = None if where is None else FillBackup(where, folder, settings.epoch)
    manifest = read_manifest(store.prepare(), store.path)
    known = () if manifest is None else reversed(manifest.generations)
    source = settings.source or folder.source(each.source for each in known)
    if not settings.rebuild:
        check_schema(store, schema, source, adds=False)
    return StreamFill(StreamPlan(store, source, rows, spec, schema, folder, backup, settings))


def _check_can_start(rows: DataFrame, settings: StreamFillSettings) -> None:
    """`ConfigurationError` for settings that Spark would refuse after the store was taken over from another fill."""
    trigger, name = settings.trigger, settings.query_name
    try:
        writer = rows.writeStream
        if trigger:
            writer.trigger(**trigger)
    except (PySparkException, TypeError, ValueError) as error:
        text = f"Argument trigger: {trigger!r} is not possible: {str(error).splitlines()[0]}."
        raise ConfigurationError(f"{text} Give arguments of DataStreamWriter.trigger.") from error
    if name is not None and any(query.name == name for query in rows.sparkSession.streams.active):
        raise ConfigurationError(
            f"Argument query_name: a query named {name!r} is running. Stop it, or give another name."
        )


def _has_read_all(query: StreamingQuery) -> bool:
    """Whether a query with the trigger `availableNow` has ended by itself: its last request to the source found no row.

    Spark reports a query that was stopped between two batches in the same way.
    """
    last = query.lastProgress
    return last is not None and "addBatch" not in last["durationMs"]


class StreamFill(AbstractContextManager["StreamFill"]):
    """A running fill; `fill_stream` makes it. A context manager that stops it."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._rebuild_truncated = rebuild_truncated = plan.settings.on_truncated == "rebuild"
        start = QueryStart(plan.check, plan.start_first, lambda error: rebuild_truncated and is_truncation(error))
        try:
            schema = plan.schema.to_json()
            fill = open_fill(plan.store, schema, plan.terms, before_take_over=start.before_take_over)
            self._writer = plan.writer(fill)
        except BaseException as error:
            start.abandon(error)
            raise
        self._query = start.taken_over(self._writer)
        self._stopping = False
        self._lock = threading.Lock()  # new queries are started under it, so none starts after `stop`
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"fill-{plan.store.path}", daemon=True)
        self._thread.start()

    @property
    def query(self) -> StreamingQuery:
        """The query that runs now, or ran last: with `bootstrap` there is one for the bootstrap, and one after it."""
        return self._query

    @property
    def generation(self) -> int:
        """The generation that is being filled."""
        return self._writer.fill.generation.number

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether the fill is running."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop the query and wait until it has ended. The next fill with this checkpoint continues from there."""
        with self._lock:
            self._stopping = True
            self._query.stop()
        self._thread.join()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the fill has ended; returns whether it has. Raises the error that ended it.

        timeout: seconds; by default without a limit.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def exception(self) -> Exception | None:
        """The error of this project or of Spark that ended the fill; None if it runs or was stopped."""
        return self._failure

    def __repr__(self) -> str:
        state = "running" if self.isActive else "ended" if self._failure is None else "failed"
        return f"<fill of store {self._plan.store}, generation {self.generation}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            while self._end_of_query():
                with self._lock:
                    if self._stopping:
                        return
                    self._query = self._plan.start(self._writer)
        except Exception as error:  # noqa: BLE001 - whoever waits for the fill gets it
            self._failure = error
            logger.error("The fill of store %s has ended: %s", self._plan.store.path, error)  # noqa: TRY400
        finally:
            self._writer.metrics.close()

    def _end_of_query(self) -> bool:
        """Wait until the query has ended; returns whether another query follows. Raises the error that ended it."""
        bootstraps = self._plan.bootstraps(self._writer.fill.generation)
        failure = self._ended()
        if failure is not None:
            ours = own_error(failure)
            if not self._rebuild_truncated or not is_truncation(failure) or self._rebuild_has_failed():
                raise ours or failure
            text = "Store %s is rebuilt, since its source was truncated: %s"
            logger.warning(text, self._plan.store.path, failure)
            again = self._writer.fill.build_again(above=self._plan.checkpoint.last_generation())
            self._writer = self._plan.writer(again)
            return True
        if self._stopping or not bootstraps:
            return False
        if not _has_read_all(self._query):
            logger.warning("The fill of store %s ends, since its bootstrap was stopped", self._plan.store.path)
            return False
        self._writer.finish_bootstrap()
        return True

    def _rebuild_has_failed(self) -> bool:
        """Whether a rebuild could not read its first batch: another rebuild would begin at the same place."""
        fill = self._writer.fill
        return not fill.continues and fill.base is None

    def _ended(self) -> Exception | None:
        """The error with which the query has ended; None if it was stopped, or its input has ended."""
        try:
            self._query.awaitTermination()
        except PySparkException as error:
            return error
        return None


def is_truncation(failure: Exception) -> bool:
    """Whether a query has failed because its source has removed rows that the query has not read yet."""
    text = str(failure)
    return any(each.lower() in text.lower() for each in _TRUNCATED)
