"""The five tasks of the pipeline. This is what a user writes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark import (
    FillSpec,
    JoinColumns,
    JoinSettings,
    StreamFillSettings,
    fill_stream,
    join,
    wait_until_ready,
)
from azureblob_source.epochs import open_epoch
from control_messages.spark import (
    AzureBlobTransport,
    EmitColumns,
    control_envelopes,
    emit,
    forward,
    partition_of,
    process,
    reconcile,
    start_bounded,
    stop_at_end,
)
from demo.pipeline.operators import DAY, DailyTotals, FlightsAndWeather
from demo.pipeline.places import PRODUCERS
from state_backup.spark import restore_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from adjunct_store.spark import StreamFill
    from control_messages.spark import BoundedRun, EndingQuery
    from coordination.spark import TaskQuery
    from demo.pipeline.places import Places

READY_SECONDS = 300.0
_FLIGHTS = "id bigint, origin string, time_hour timestamp, tailnum string"
_WEATHER = "origin string, time_hour timestamp, wind_speed double"
_PLANES = "tailnum string, seats bigint, revision bigint"
_JOINED = "id bigint, origin string, time bigint, tailnum string, wind double, seats bigint, revision bigint"


class Tasks:
    """What `TaskQueries` calls for each task of a driver."""

    def __init__(self, spark: SparkSession, places: Places) -> None:
        self._spark, self._places = spark, places
        self._runs: dict[str, BoundedRun] = {}
        self._starts: dict[str, Callable[[int], TaskQuery]] = {
            "planes": self._planes,
            "weather": self._weather,
            "flights": self._flights,
            "joined": self._joined,
            "days": self._days,
        }

    def prepare(self, task: str, epoch: int) -> None:
        """Refuse the driver that had the task before, then fetch its checkpoint."""
        if task == "planes":
            return
        open_epoch(self._places.stream(task), epoch)
        restore_checkpoint(self._places.backup(task), self._places.checkpoint(task))
        if task == "joined":
            wait_until_ready(self._places.planes, timeout=READY_SECONDS)

    def start(self, task: str, epoch: int) -> TaskQuery:
        """Start the query of a task."""
        return self._starts[task](epoch)

    def finish(self, task: str, epoch: int) -> None:
        """Announce the end of the two streams that are read from files. Those that follow pass it on."""
        if task == "weather":
            self._runs.pop(task).finish(self._spark)
        if task == "flights":
            producer = PRODUCERS[task]
            end = control_envelopes(self._spark, producer, producer.end_of_stream())
            self._transport(task, epoch).append(end)

    def _planes(self, epoch: int) -> StreamFill:
        """A store that changes while it is read."""
        changes = self._files("planes", _PLANES, per_batch=1)
        spec = FillSpec(keys=["tailnum"], values=["seats", "revision"], order_by="revision")
        settings = StreamFillSettings(
            epoch=epoch,
            bootstrap=True,
            trigger={"processingTime": "3 seconds"},
            source="planes",
            checkpoint_backup=self._places.backup("planes"),
        )
        checkpoint = self._places.checkpoint("planes")
        return fill_stream(self._places.planes, changes, spec, checkpoint=checkpoint, settings=settings)

    def _weather(self, epoch: int) -> BoundedRun:
        """A bounded job: it writes the weather that is there, then the end of its stream."""
        run = start_bounded(
            self._files("weather", _WEATHER, per_batch=2).withColumn("value", F.to_json(F.struct("*"))),
            PRODUCERS["weather"],
            _from_files("weather"),
            self._transport("weather", epoch),
            self._places.checkpoint("weather"),
        )
        self._runs["weather"] = run
        return run

    def _flights(self, epoch: int) -> TaskQuery:
        """A streaming job, which ends when all flights have arrived."""
        flights = self._files("flights", _FLIGHTS, per_batch=4).withColumn("value", F.to_json(F.struct("*")))
        envelopes = emit(flights, PRODUCERS["flights"], _from_files("flights"), by_sink=True)
        return InputThatEnds(self._started("flights", envelopes, epoch), self._places.all_have_arrived)

    def _joined(self, epoch: int) -> EndingQuery:
        """Flights with the weather of their hour and the plane as it is then."""
        hour = F.unix_millis("row.time_hour").alias("hour")
        streams = [
            self._flow("flights", _FLIGHTS, "row.id", "row.origin", "row.tailnum", hour),
            self._flow("weather", _WEATHER, "row.origin", "row.wind_speed", hour),
        ]
        flow = join(
            process(streams, FlightsAndWeather()),
            self._places.planes,
            on=["tailnum"],
            columns=JoinColumns(["seats", "revision"]),
            settings=JoinSettings(cache_dir=self._places.disk / "cache"),
        )
        names = [each.split()[0] for each in _JOINED.split(", ")]
        producer = PRODUCERS["joined"]
        envelopes = forward(
            flow, producer, value=F.to_json(F.struct(*names)), partition=partition_of(producer, "origin")
        )
        return stop_at_end(self._started("joined", envelopes, epoch))

    def _days(self, epoch: int) -> EndingQuery:
        """The totals of each day, once it is over."""
        day = (F.col("row.time") - F.pmod("row.time", F.lit(DAY))).alias("day")
        flow = self._flow("joined", _JOINED, "row.origin", "row.wind", "row.seats", day)
        totals = process(flow, DailyTotals()).where("type = 'message'")
        rows = totals.select("origin", F.timestamp_millis("day").alias("day"), "flights", "seats", "wind")
        writer = rows.writeStream.format("azureblob").options(**self._places.account, **self._options("days", epoch))
        writer = writer.option("checkpointLocation", self._places.checkpoint("days"))
        return stop_at_end(writer.start(self._places.stream("days").where))

    def _files(self, name: str, schema: str, *, per_batch: int) -> DataFrame:
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch)
        return reader.parquet(str(self._places.arrivals / name))

    def _flow(self, name: str, schema: str, *columns: str | Column) -> DataFrame:
        """A stream of the pipeline, reconciled, with these columns of its rows."""
        flow = reconcile(self._transport(name).read(self._spark), name)
        row = F.from_json(F.col("message").cast("string"), schema)
        return flow.withColumn("row", row).select("*", *columns).drop("row")

    def _started(self, name: str, envelopes: DataFrame, epoch: int) -> StreamingQuery:
        writer = self._transport(name, epoch).write_stream(envelopes)
        return writer.option("checkpointLocation", self._places.checkpoint(name)).start()

    def _transport(self, name: str, epoch: int | None = None) -> AzureBlobTransport:
        writing = {} if epoch is None else self._options(name, epoch)
        return AzureBlobTransport(self._places.stream(name), {"maxBlobsPerTrigger": "40"}, writing)

    def _options(self, task: str, epoch: int) -> dict[str, str]:
        return {"epoch": str(epoch), "checkpointBackup": self._places.backup(task).where}


def _from_files(name: str) -> EmitColumns:
    return EmitColumns("time_hour", task="origin", partition=partition_of(PRODUCERS[name], "origin"))


class InputThatEnds:
    """A query on files that is stopped when it has read all of them, which a file announces."""

    def __init__(self, query: StreamingQuery, complete: Path) -> None:
        self._query, self._complete = query, complete
        self._told_to_stop, self._has_read_all = threading.Event(), False
        threading.Thread(target=self._stop_at_end, name="end-of-input", daemon=True).start()

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it runs."""
        return self._query.isActive

    def exception(self) -> Exception | None:
        """What the query has failed with; an error, too, if something has stopped it before it has read all."""
        failure: Exception | None = self._query.exception()
        if failure is None and not (self._query.isActive or self._has_read_all or self._told_to_stop.is_set()):
            return RuntimeError("The query was stopped before it has read all files.")
        return failure

    def stop(self) -> None:
        """Stop it before the end of its input."""
        self._told_to_stop.set()
        self._query.stop()

    def _stop_at_end(self) -> None:
        while not self._complete.exists():
            if self._told_to_stop.wait(1) or not self._query.isActive:
                return
        self._query.processAllAvailable()
        self._has_read_all = self._query.isActive
        self._query.stop()
