"""Fills a store from a stream: a query each of whose micro-batches becomes a version.

generation g ─► query with checkpoint <checkpoint>/g<g> ─► take the store over (`starting`) ─► a version for each batch
     │               bootstrap: until the source's present end ─► publish as bootstrapped ─► go on
     └ its source is truncated, and it may be rebuilt ─► next generation, read from the beginning
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import PySparkException

from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill import check_schema, open_store
from adjunct_store.spark.filling.fill_spec import FillSpec
from adjunct_store.spark.filling.query_checkpoint import CheckpointFolder
from adjunct_store.spark.filling.starting import QueryStart
from adjunct_store.spark.filling.stream_plan import StreamPlan
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.recovery import Action
from azure_account.errors import ConfigurationError
from azure_account.worker_errors import own_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from typing_extensions import Self, Unpack

    from adjunct_store.spark.filling.fill_spec import FillColumns
    from adjunct_store.versions.opening import FillTerms
    from azure_account.location import Location

logger = logging.getLogger(__name__)

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
"""What sources report when they do not have any more what the query has not read yet."""


def fill_stream(  # noqa: PLR0913 - what is filled from what, and settings
    store: Location,
    rows: DataFrame,
    *,
    checkpoint: Path | str,
    source: str | None = None,
    bootstrap: bool = False,
    output_mode: Literal["append", "update", "complete"] = "append",
    trigger: Mapping[str, Any] | None = None,
    persistent: bool = True,
    max_age: float | None = None,
    on_truncated: Literal["fail", "rebuild"] = "fail",
    rebuild: bool = False,
    keep: int = 3,
    cache_dir: Path | str | None = None,
    query_name: str | None = None,
    **columns: Unpack[FillColumns],
) -> StoreFill:
    """Start a query that applies a stream to a store: a version for each micro-batch. Makes the store if it is absent.

    columns: see `FillSpec`.
    checkpoint: a folder of this fill, which has the `checkpointLocation` of the query of each generation,
    `g<generation>`.
    source: a name of where the rows come from, by default one of the checkpoint.
    bootstrap: first read what the source has now; the store is ready when all of that is in it, and then if the source
    is empty.
    output_mode: of the query, for streams that aggregate. `update`: each batch has the groups that have changed, and
    deletes no key but those of `delete_when`. `complete`: each batch is all that the store has, so keys that it lacks
    are deleted, and the whole store is written each time.
    trigger: arguments of `DataStreamWriter.trigger`, for the time after.
    persistent: False builds the store again whenever this is called; max_age: also if its last version is older, in
    seconds.
    on_truncated: `rebuild` builds the store again when the source does not have any more what the query has not read.
    Keys that the source no longer has are removed.
    rebuild: build it again now, and replace what another source has filled.

    A fill goes on where the last one ended. What was there serves until all that the source had is in a store that is
    built again.

    Returns when Spark has started the query and looked for a first batch, and takes the store over then: the query of
    another fill ends with `FencedError`. `ConfigurationError`, which leaves the store and the other fill as they are,
    as for `fill`; also if Spark refuses the query, and if the checkpoint is not that of the query that has filled the
    store. What Spark and the source raise before the first batch is raised here.
    """
    if not rows.isStreaming:
        raise ConfigurationError("fill_stream needs a streaming DataFrame; use fill for a batch one.")
    if on_truncated not in {"fail", "rebuild"}:
        raise ConfigurationError(f"on_truncated is {on_truncated!r}: give fail or rebuild.")
    if output_mode not in {"append", "update", "complete"}:
        raise ConfigurationError(f"output_mode is {output_mode!r}: give append, update or complete.")
    if not isinstance(max_age, float | int | None):
        raise ConfigurationError(f"max_age is {max_age!r}: give seconds.")
    spec = FillSpec(**columns)
    schema = changes_of(rows, spec).schema
    _check_can_start(rows, trigger or {}, query_name)
    folder = CheckpointFolder(rows.sparkSession, str(checkpoint))
    manifest = read_manifest(store.open(), store.path)
    known = () if manifest is None else reversed(manifest.generations)
    source = source or folder.source(each.source for each in known)
    if not rebuild:
        check_schema(store, schema, source, adds=False)
    terms: FillTerms = {
        "source": source,
        "bootstrap": bootstrap,
        "persistent": persistent,
        "max_age": max_age,
        "rebuild": rebuild,
        "above": folder.last_generation(),
        "keep": keep,
    }
    plan = StreamPlan(store, rows, spec, schema, folder, terms, output_mode, trigger or {}, cache_dir, query_name)
    return StoreFill(plan, rebuild_truncated=on_truncated == "rebuild")


def _check_can_start(rows: DataFrame, trigger: Mapping[str, Any], query_name: str | None) -> None:
    """`ConfigurationError` for what Spark would refuse when the store was taken over already from a fill that runs."""
    try:
        writer = rows.writeStream
        if trigger:
            writer.trigger(**trigger)
    except (PySparkException, TypeError, ValueError) as error:
        text = f"trigger is {trigger!r}: {str(error).splitlines()[0]}. Give arguments of DataStreamWriter.trigger."
        raise ConfigurationError(text) from error
    if query_name is not None and any(query.name == query_name for query in rows.sparkSession.streams.active):
        raise ConfigurationError(f"A query with the name {query_name!r} runs. Stop it, or give another query_name.")


def _has_read_all(query: StreamingQuery) -> bool:
    """Whether a query with the trigger `availableNow` has ended by itself: its last look at the source found nothing.

    Spark does not tell that from a query that was stopped between its batches.
    """
    last = query.lastProgress
    return last is not None and "addBatch" not in last["durationMs"]


@dataclass
class _Stop:
    """Whether the fill is to end. A new query is started under the lock, so none starts after that."""

    requested: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class StoreFill(AbstractContextManager["StoreFill"]):
    """A running fill; `fill_stream` makes it. A context manager that stops it."""

    def __init__(self, plan: StreamPlan, *, rebuild_truncated: bool) -> None:
        self._plan, self._rebuild_truncated = plan, rebuild_truncated
        start = QueryStart(plan.check, plan.start_first, lambda error: rebuild_truncated and is_truncation(error))
        try:
            fill = open_store(plan.store, plan.schema, before_take_over=start.before_take_over, **plan.terms)
            self._filler = plan.filler(fill)
        except BaseException as error:
            start.abandon(error)
            raise
        self._query = start.taken_over(self._filler)
        self._stop = _Stop()
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
        return self._filler.fill.generation.number

    @property
    def active(self) -> bool:
        """Whether the fill goes on."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop the query, and wait for that. The next fill with this checkpoint goes on from there."""
        with self._stop.lock:
            self._stop.requested = True
            self._query.stop()
        self._thread.join()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the fill has ended, at most so many seconds. Whether it has. Raises the error that ended it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def exception(self) -> Exception | None:
        """The error that ended the fill, None if there is none: one of this project's, or Spark's."""
        return self._failure

    def __repr__(self) -> str:
        state = "running" if self.active else "ended" if self._failure is None else "failed"
        return f"<fill of store {self._plan.store}, generation {self.generation}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _next_query(self) -> StreamingQuery:
        return self._plan.start(self._filler)

    def _run(self) -> None:
        try:
            while self._end_of_query():
                with self._stop.lock:
                    if self._stop.requested:
                        return
                    self._query = self._next_query()
        except Exception as error:  # noqa: BLE001 - whoever waits for the fill gets it
            self._failure = error
            logger.error("the fill of store %s has ended: %s", self._plan.store.path, error)  # noqa: TRY400
        finally:
            self._filler.metrics.close()

    def _end_of_query(self) -> bool:
        """Wait until the query has ended. Whether another one is to follow. Raises the error that ended it."""
        bootstraps = self._plan.bootstraps(self._filler.fill.generation)
        failure = self._ended()
        if failure is not None:
            ours = own_error(failure)
            if not self._rebuild_truncated or not is_truncation(failure) or self._was_rebuilt_in_vain():
                raise ours or failure
            text = "store %s is built again, since its source was truncated: %s"
            logger.warning(text, self._plan.store.path, failure)
            again = self._filler.fill.build_again(above=self._plan.checkpoint.last_generation())
            self._filler = self._plan.filler(again)
            return True
        if self._stop.requested or not bootstraps:
            return False
        if not _has_read_all(self._query):
            logger.warning("the bootstrap of store %s was stopped, and so is its fill", self._plan.store.path)
            return False
        self._filler.finish_bootstrap()
        return True

    def _was_rebuilt_in_vain(self) -> bool:
        """Whether not even the first batch can be read: another generation would begin at the same place."""
        fill = self._filler.fill
        return fill.recovery.action is not Action.CONTINUE and fill.base is None

    def _ended(self) -> Exception | None:
        """The error with which the query has ended; None if it was stopped, or its input has ended."""
        try:
            self._query.awaitTermination()
        except PySparkException as error:
            return error
        return None


def is_truncation(failure: Exception) -> bool:
    """Whether a query has failed since its source does not have any more what the query has not read yet."""
    text = str(failure)
    return any(each.lower() in text.lower() for each in _TRUNCATED)
