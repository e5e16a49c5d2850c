"""`make demo`: a query writes the flights of 2013 to a stream partitioned by origin; then all rows are verified.

The account is that of `AZURE_STORAGE_CONNECTION_STRING` if it is set, else an Azurite that is started for the demo.
The exit code is 0 if the rows that `spark.read` reads, and those that fastavro reads from the listed blobs, equal the
input. `--log INFO` prints what the connector logs, as docs/LOGGING.md shows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tools.azurite import AzuriteMissingError, running_azurite
from tools.flights import flights
from tools.spark_session import UNBOUNDED_BYTES_PER_BATCH, local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STREAM = "flights"
FILES = 12
FILES_PER_BATCH = 2

LOGGING = """
import logging

logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
logging.getLogger("azureblob_source").setLevel("{level}")
"""
"""What each Python process that Spark starts imports as `sitecustomize`."""

console = Console(width=max(100, Console().width))


def main() -> int:
    """Run the demo. The exit code is 0 if every row was written exactly once."""
    parser = argparse.ArgumentParser(description="Stream a year of flights into blobs, and read them back.")
    parser.add_argument("--log", metavar="LEVEL", default="WARNING", type=str.upper, help="such as INFO")
    level = parser.parse_args().log
    try:
        with _account() as (connection_string, place), tempfile.TemporaryDirectory() as folder:
            log_in_workers(Path(folder) / "logging", level)
            return _run(connection_string, place, Path(folder))
    except AzuriteMissingError as error:
        console.print(f"[red]{error}")
        return 1


@contextmanager
def _account() -> Iterator[tuple[str, str]]:
    given = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    if given:
        yield given, "the account of AZURE_STORAGE_CONNECTION_STRING"
        return
    with running_azurite() as azurite:
        yield azurite.connection_string, f"Azurite at {azurite.endpoint}"


def _run(connection_string: str, place: str, folder: Path) -> int:
    container = f"demo-{uuid.uuid4().hex[:8]}"
    console.rule("[bold]azureblob: flights of 2013 → Azure Blob Storage")
    rows = flights()
    write_input(rows, folder / "input")
    console.print(f"input      {rows.num_rows:,} flights of {rows.num_columns} columns, {FILES} files")
    console.print(f"account    {place}")
    console.print(f"target     {container}/{STREAM}, partitioned by origin\n")
    with console.status("starting Spark"):
        spark = local_spark("azureblob demo", max_bytes_per_batch=UNBOUNDED_BYTES_PER_BATCH)
    options = {"connectionSecret": connection_string}
    started = time.monotonic()
    query = stream_flights(spark, folder, f"{container}/{STREAM}", options)
    follow(query, rows.num_rows)
    elapsed = time.monotonic() - started
    blobs = read_without_spark(connection_string, container)
    show_blobs(blobs, elapsed)
    show_commits(spark, f"{container}/{STREAM}", options)
    same = verify(spark, rows, f"{container}/{STREAM}", options, blobs)
    spark.stop()
    return 0 if same else 1


def log_in_workers(folder: Path, level: str) -> None:
    """Have the processes that Spark starts from now on print what the connector logs on standard error."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(LOGGING.format(level=level))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def write_input(table: pa.Table, folder: Path) -> None:
    """Write the flights as Parquet files, which the query reads a few at a time."""
    folder.mkdir()
    rows = -(-table.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * rows, rows), folder / f"{number:02d}.parquet")


def stream_flights(spark: SparkSession, folder: Path, target: str, options: dict[str, str]) -> StreamingQuery:
    """Start the query. This is all the code that a user writes."""
    source = str(folder / "input")
    return (
        spark.readStream.schema(spark.read.parquet(source).schema)
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .parquet(source)
        .writeStream.format("azureblob")
        .options(**options)
        .option("partitionColumn", "origin")
        .option("codec", "zstandard")
        .option("eventTimeColumn", "time_hour")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(target)
    )


def follow(query: StreamingQuery, rows: int) -> None:
    """Show the query's progress until it ends. Raises its error."""
    columns = (TextColumn("streaming"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[batches]} batches"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("rows", total=rows, batches=0)
        while not query.awaitTermination(1):
            _advance(progress, task, query)
        _advance(progress, task, query)


def _advance(progress: Progress, task: Any, query: StreamingQuery) -> None:
    done = [batch for batch in query.recentProgress if batch["numInputRows"]]
    progress.update(task, completed=sum(batch["numInputRows"] for batch in done), batches=len(done))


def read_without_spark(connection_string: str, container: str) -> dict[str, tuple[int, list[dict[str, Any]]]]:
    """Size and rows of every data blob, read with the Azure SDK and fastavro only."""
    client = ContainerClient.from_connection_string(connection_string, container)
    blobs = {}
    for blob in client.list_blobs(name_starts_with=f"{STREAM}/"):
        if "/_" not in blob.name:
            with tempfile.TemporaryFile() as file:
                client.download_blob(blob.name).readinto(file)
                file.seek(0)
                blobs[blob.name] = (blob.size, list(fastavro.reader(file)))
    return blobs


def show_blobs(blobs: dict[str, tuple[int, list[dict[str, Any]]]], elapsed: float) -> None:
    """Print blobs, rows and bytes by partition, and the speed."""
    table = Table("partition", "blobs", "rows", "bytes", title="blobs by partition", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    by_partition: dict[str, list[tuple[int, int]]] = {}
    for name, (size, rows) in blobs.items():
        by_partition.setdefault(name.split("/")[1], []).append((size, len(rows)))
    for partition, parts in sorted(by_partition.items()):
        table.add_row(partition, f"{len(parts)}", f"{sum(r for _, r in parts):,}", f"{sum(s for s, _ in parts):,}")
    stored, total = sum(size for size, _ in blobs.values()), sum(len(rows) for _, rows in blobs.values())
    table.add_section()
    table.add_row("all", f"{len(blobs)}", f"{total:,}", f"{stored:,}")
    console.print(table)
    console.print(f"{total / elapsed:,.0f} rows/s over {elapsed:.1f} s, the start of the query included\n")


def show_commits(spark: SparkSession, target: str, options: dict[str, str]) -> None:
    """Print the stream's commits, from the view `commits`."""
    history = spark.read.format("azureblob").options(**options).option("view", "commits").load(target)
    table = Table("version", "batch", "time (UTC)", "blobs", "rows", "bytes", title="commits", title_justify="left")
    for column in table.columns:
        column.justify = "right"
    rows = history.orderBy("version").collect()
    for row in rows:
        moment = row.timestamp.strftime("%H:%M:%S.%f")[:-3]
        cells = (f"{row.blobs}", f"{row.rows:,}", f"{row.bytes:,}")
        table.add_row(str(row.version), str(row.transactionVersion), moment, *cells)
    console.print(table)
    seconds = (rows[-1].timestamp - rows[0].timestamp).total_seconds()
    if seconds:
        console.print(f"{sum(row.rows for row in rows[1:]) / seconds:,.0f} rows/s from the first commit to the last\n")


def verify(
    spark: SparkSession,
    table: pa.Table,
    target: str,
    options: dict[str, str],
    blobs: dict[str, tuple[int, list[dict[str, Any]]]],
) -> bool:
    """Whether the output equals the input, row for row, read in two ways."""
    expected = Counter(tuple(row.values()) for row in table.to_pylist())
    with console.status("comparing with fastavro"):
        by_fastavro = Counter(tuple(row.values()) for _, rows in blobs.values() for row in rows)
    with console.status("comparing with spark.read"):
        frame = spark.read.format("azureblob").options(**options).load(target)
        by_spark = Counter(tuple(row.values()) for row in frame.toArrow().to_pylist())
    return _verdict("fastavro over the listed blobs", by_fastavro, expected) & _verdict(
        "spark.read.format('azureblob')", by_spark, expected
    )


def _verdict(reader: str, found: Counter[Any], expected: Counter[Any]) -> bool:
    if found == expected:
        console.print(f"[green]✓[/] {reader}: {found.total():,} rows, equal to the input row for row")
        return True
    lost, extra = (expected - found).total(), (found - expected).total()
    console.print(f"[red]✗[/] {reader}: {lost:,} rows of the input are missing, {extra:,} are not in the input")
    return False


if __name__ == "__main__":
    sys.exit(main())
