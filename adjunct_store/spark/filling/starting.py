"""Starts the query of a fill before the store is taken over: what Spark refuses leaves the other fill alone.

checkpoint fits ─► query starts ─► its first batch waits ─► the store is taken over ─► the batch goes on
                               └► it finds no data, or has ended ─┘
refused by any of these: the query is stopped, and nothing was taken over
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from adjunct_store.spark.filling.query_checkpoint import java_cause
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import ConfigurationError, ConflictError
from foundation.worker_errors import own_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from adjunct_store.spark.filling.fill import VersionWriter
    from adjunct_store.versions.opening import TakeoverPlan

MOST_SECONDS = 60.0
"""For so long a query may look for its first batch; then it takes the store over without one."""
_POLL = 0.02
_WAITS = "Waiting"
"""How the status of a query begins that has looked at its source and found nothing, or waits for its trigger."""


class BatchGate:
    """Where the batches of a query wait until the store is taken over. fill_batch: what is done with them then."""

    def __init__(self, fill_batch: Callable[[VersionWriter, DataFrame, int], None]) -> None:
        self._fill_batch = fill_batch
        self._writer: Future[VersionWriter] = Future()
        self.reached: threading.Event = threading.Event()
        """Spark has planned a batch."""

    def run(self, rows: DataFrame, batch: int) -> None:
        """Fill a batch once the store is taken over: for `foreachBatch`."""
        self.reached.set()
        self._fill_batch(self._writer.result(), rows, batch)

    def open(self, writer: VersionWriter) -> None:
        """The batches go on."""
        self._writer.set_result(writer)

    def close(self, error: BaseException) -> None:
        """The batches fail."""
        self._writer.set_exception(error)


class QueryStart:
    """The first query of a fill, which is started while another fill may still have the store.

    check: raises if the fill must not go on with an opening. start: checks it, then starts the query of its generation,
    with a gate for its batches. tolerates: whether a query that fails at once with this error does not count as
    refused, since the fill will see to it.
    """

    def __init__(
        self,
        check: Callable[[TakeoverPlan], None],
        start: Callable[[TakeoverPlan], tuple[StreamingQuery, BatchGate]],
        tolerates: Callable[[Exception], bool],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._check, self._start, self._tolerates, self._clock = check, start, tolerates, clock
        self._started: tuple[int, StreamingQuery, BatchGate] | None = None

    def before_take_over(self, opening: TakeoverPlan) -> str:
        """Start the query, and wait until Spark has taken it: for `open_fill`. Returns its id.

        Raises what Spark or the source raises.
        """
        number = opening.generation.number
        if self._started is not None and self._started[0] != number:
            self.abandon(ConflictError("Another fill has begun another generation."))
        if self._started is None:
            self._started = number, *self._start(opening)
        else:
            self._check(opening)
        _, query, gate = self._started
        end = self._clock.monotonic() + MOST_SECONDS
        while query.isActive and not gate.reached.is_set() and self._clock.monotonic() < end:
            if query.status["message"].startswith(_WAITS):
                break
            self._clock.sleep(_POLL)
        failure = query.exception()
        if failure is not None and not self._tolerates(failure):
            raise own_error(failure) or failure
        return str(query.id)

    def taken_over(self, writer: VersionWriter) -> StreamingQuery:
        """The store is taken over: the query goes on."""
        assert self._started is not None  # noqa: S101 - `open_fill` calls `before_take_over`
        _, query, gate = self._started
        gate.open(writer)
        return query

    def abandon(self, error: BaseException) -> None:
        """Stop the query, if there is one. Its batch fails with the error."""
        if self._started is not None:
            _, query, gate = self._started
            self._started = None
            gate.close(error)
            query.stop()


def refusal(store: str, error: Py4JJavaError | PySparkException) -> ConfigurationError:
    """The error for a query that Spark does not start."""
    step = "Change the stream or its checkpoint folder as Spark says."
    if isinstance(error, PySparkException) and "OUTPUT_MODE" in str(error):
        step = 'Give output_mode="update" or "complete", or the stream a watermark.'
    text = f"{step} The store is as it was, and so is a fill that has it."
    return ConfigurationError("start", f"the fill of store {store}", f"Spark refuses it: {java_cause(error)}", text)
