"""What users write, with types: each entry point of the packages, as the guides call it. `make typed` checks it.

It is never run. `mypy --strict` and pyright see it beside the installed wheel, without this checkout.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import arrow_avro
import azure_account
import pyspark_azureblob
from adjunct_store.spark import (
    AdjunctStore,
    AdjunctStores,
    FillSpec,
    JoinColumns,
    JoinSettings,
    StreamFill,
    StreamFillSettings,
    fill,
    fill_data_sets,
    fill_stream,
    join,
    load_data_set,
    lookup,
    release_pins,
    task_reader,
    wait_until_ready,
)
from azure_account import AzureBlobError, Location
from azureblob_source.epochs import open_epoch
from azureblob_source.reverts import revert_batches
from control_messages.spark import (
    AzureBlobTransport,
    BoundedRun,
    EmitColumns,
    EndingQuery,
    EventTimeProcessor,
    ProducerSpec,
    forward,
    partition_of,
    process,
    reconcile,
    run_bounded,
    run_until_end,
    start_bounded,
    stop_at_end,
    why_held,
)
from coordination import CheckpointStore, JobCoordinator, LeaderElector, LeaseLock, LeaseTiming, open_account
from coordination.spark import LeaderQuery, TaskQueries
from state_backup import (
    MayBeEmpty,
    TaskIdentity,
    WriterSettings,
    checkpoints,
    open_state,
    restore,
    rocksdb_checkpoint,
    set_keep,
    verify,
)
from state_backup.spark import back_up_checkpoint, restore_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

ACCOUNT = {"accountName": "myaccount"}
JOB = Location("coordination/flights", ACCOUNT)


def stores(spark: SparkSession, planes: DataFrame, flights: DataFrame) -> int:
    """Fill adjunct stores, join with them and look up."""
    store = Location("mycontainer/stores/planes", ACCOUNT)
    spec = FillSpec(keys=["tailnum"], values=["seats"], order_by="at", delete_when="op = 'D'")
    filled = fill(store, planes, spec)
    join(flights, store, on=["tailnum"], how="anti").show()
    columns = JoinColumns(["seats"], prefix="plane_", indicator="is_known")
    join(flights, store, on={"tailnum": "tail"}, columns=columns, settings=JoinSettings(shuffle=True)).show()
    load_data_set(store, planes, spec).version.number.bit_length()
    print(fill_data_sets(store, spark, Location("mycontainer/planes", ACCOUNT), parsed, spec))
    seats = lookup(store, "tailnum", streaming=False).seats
    flights.where(seats > 100).show()
    release_pins(store)
    return filled.upserts + filled.deletes + filled.ignored


def parsed(messages: DataFrame) -> DataFrame:
    """The columns of a store."""
    return messages.select(F.from_json(F.col("value").cast("string"), "tail string").alias("plane")).select("plane.*")


def views(store: Location) -> list[Mapping[str, Any]]:
    """What a task looks up."""
    view = task_reader(store, streaming=False).view()
    return [value for _, value in view.prefix("JFK")]


def filled_stream(store: Location, changes: DataFrame, spec: FillSpec) -> StreamFill:
    """A fill that runs on."""
    running = fill_stream(store, changes, spec, checkpoint="/mnt/c", settings=StreamFillSettings(bootstrap=True))
    print(wait_until_ready(store, timeout=600, progress=print).number)
    named = AdjunctStores({"price": AdjunctStore(store, spec)}, source="/mnt/events")
    changes.writeStream.foreachBatch(lambda rows, batch: named.process(rows, batch).show()).start()
    return running


class Days(EventTimeProcessor):
    """A processor of the user's."""

    schema = "day bigint, flights bigint"
    event_time = "departure"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.open = handle.getMapState("open", "day bigint", "flights bigint")

    def on_messages(self, partition: int, messages: pd.DataFrame, watermark: int | None) -> None:
        print(partition, len(messages), watermark)

    def on_watermark(self, partition: int, watermark: int) -> Iterator[pd.DataFrame]:
        yield self.days(watermark)

    def on_end(self, partition: int) -> Iterator[pd.DataFrame]:
        yield self.days(None)

    def days(self, last: int | None) -> pd.DataFrame:
        return pd.DataFrame({"day": [last]})


def messages(spark: SparkSession, flights: DataFrame) -> None:
    """Control messages from a bounded job to the next one."""
    producer = ProducerSpec("by-dest", partitions=8, tasks=["EWR", "JFK"], lateness_ms=1000)
    columns = EmitColumns(event_time="departure", task="origin", partition=partition_of(producer, "dest"))
    stream = AzureBlobTransport(Location("container/by-dest", ACCOUNT))
    run_bounded(flights, producer, columns, stream, "checkpoints/flights")
    flow = reconcile(stream.read(spark), "by-dest")
    counts = ProducerSpec("counts", partitions=4, tasks=8)
    envelopes = forward(process(flow, Days()), counts, value=F.lit("x"), partition=partition_of(counts, "day"))
    query = stream.write_stream(envelopes).option("checkpointLocation", "checkpoints/counts").start()
    for held in why_held("checkpoints/counts"):
        print(held)
    run_until_end(query)


RUNS: dict[str, BoundedRun] = {}


def start_run(airport: str, epoch: int) -> BoundedRun:
    """A bounded run, as a task of a coordinated job."""
    producer = ProducerSpec(airport, partitions=2, tasks=[airport])
    columns = EmitColumns(event_time="departure", partition=partition_of(producer, "dest"), task=F.lit(airport))
    stream = AzureBlobTransport(Location(f"c/{airport}", ACCOUNT), write_options={"epoch": str(epoch)})
    RUNS[airport] = start_bounded(flights_of(airport), producer, columns, stream, f"/mnt/checkpoints/{airport}")
    return RUNS[airport]


def start(airport: str, epoch: int) -> EndingQuery:
    """The query of one task."""
    open_epoch(Location(f"mycontainer/{airport}", ACCOUNT), epoch)
    rows: DataFrame = flights_of(airport)
    return stop_at_end(rows.writeStream.format("azureblob").options(**ACCOUNT).start(f"mycontainer/{airport}"))


def flights_of(airport: str) -> DataFrame: ...  # type: ignore[empty-body]


def prepare(airport: str, epoch: int) -> None:
    """What comes before the start."""
    print(epoch, restore_checkpoint(Location(f"c/{airport}", ACCOUNT), f"/mnt/checkpoints/{airport}"))


def finish(airport: str, epoch: int) -> None:
    """Announce the end."""
    print(epoch)
    RUNS.pop(airport).finish(SparkSession.active())


def coordinated() -> None:
    """Drivers that share tasks, and one that leads."""
    runs = TaskQueries(start_run, prepare=prepare, finish=finish, end_when_done=True)
    runs.end(within=20)
    queries = TaskQueries(start, prepare=prepare)
    queries.run(JobCoordinator(JOB, tasks=["EWR"], listener=queries, processor=socket.gethostname()))
    query = LeaderQuery(lambda epoch: start("EWR", epoch))
    query.run(LeaderElector(JOB, socket.gethostname(), query))


class Workers:
    """A listener without Spark."""

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        print(dict(tasks))

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        print(sorted(tasks))

    def on_coordinator_stop(self) -> None:
        print("stopped")

    def on_coordinator_failure(self, error: Exception) -> None:
        print(error)


def workers() -> None:
    """A job without Spark, its lock and its checkpoints."""
    coordinator = JobCoordinator(JOB, tasks=["a"], listener=Workers(), processor="worker-1")
    coordinator.start()
    coordinator.stop()
    with LeaseLock(JOB, "driver-1", timeout=60, timing=LeaseTiming()) as lock:
        lock.check()
        print(lock.epoch)
    store = CheckpointStore(open_account(ACCOUNT).table("offsets"))
    store.create()
    offsets = store.begin("daily", epoch=7).offsets
    store.write("daily", 7, {**offsets, "flights/0": "1042"})


def state(db: Any) -> list[str]:
    """Directories backed up and restored."""
    place = Location("mycontainer/states/task-3", ACCOUNT)
    directories = {"aggregates": Path("/mnt/state/aggregates")}
    writer = open_state(place, TaskIdentity("flights", task_name="task-3"), WriterSettings(keep=3))
    if writer.newest is not None:
        print(restore(place, directories).checkpoint.offsets["kafka"], verify(place))
    checkpoint = writer.back_up(directories, {"kafka.flights.3": "1042"})
    writer.back_up({"aggregates": MayBeEmpty("/mnt/state/aggregates")}, checkpoint.offsets)
    with rocksdb_checkpoint(db) as directory:
        writer.back_up({"counts": directory}, {}, trust_times=True)
    set_keep(place, 2)
    return [str(each.id) for each in checkpoints(place)]


def query_backup(query: StreamingQuery) -> int | None:
    """A query's checkpoint, backed up while it runs."""
    with back_up_checkpoint(query, JOB, "/mnt/checkpoints/totals") as backup:
        query.awaitTermination()
    return backup.batch


def account_and_log(spark: SparkSession) -> list[int]:
    """The account, the log and Avro."""
    spark.dataSource.register(pyspark_azureblob.DefaultSource)
    try:
        restored = restore_checkpoint(Location("mycontainer/backups/flights", ACCOUNT), "/mnt/checkpoints/flights")
        if restored.query is not None and restored.batch is not None:
            print(revert_batches(Location("mycontainer/flights", ACCOUNT), restored.query, restored.batch))
    except AzureBlobError as error:
        print(error.operation, error.target, error.cause, error.next_step, error.attempts + 1)
    container = azure_account.open_account(ACCOUNT).container("mycontainer")
    print(container.url)
    schema = arrow_avro.parse('"long"')
    return [arrow_avro.SYNC_SIZE, len(schema.json)]
