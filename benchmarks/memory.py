"""Peak memory of one Spark task with many partitions, as the system sees it, each under a Spark of its own.

What is measured is the largest Python process of Spark (`VmHWM`): the worker that writes the rows, with all that Spark
imports and buffers there. The rows change their partition one by one, which is the worst order: every batch touches all
partitions that it can, and all blobs grow side by side.

The blocks go over HTTP to a server that drops them: the emulator's time to stage a block rises with the number of
blobs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from benchmarks.flights import PARTITION, spread
from benchmarks.process_tree import largest_worker
from benchmarks.report import Report
from tools.azurite import local_azurite
from tools.flights import flights
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from tools.azurite import Azurite

LIMITS_MIB = {1: None, 1_000: 300}
"""Partitions of the task, and what its worker may hold at most (MiB)."""

_CONNECTION = "BENCHMARK_CONNECTION_STRING"
_MIB = 1 << 20
_EMPTY = b'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs /><NextMarker /></EnumerationResults>'


def run(rounds: int, copies: int) -> list[Report]:
    """One table: a line per number of partitions. Peaks hardly vary: `rounds` above 3 are not run."""
    with dropping_server() as azurite:
        lines = [_line(azurite, partitions, min(rounds, 3), copies) for partitions in LIMITS_MIB]
    title = f"Peak memory of one task, {flights().num_rows * copies:,} flights"
    return [
        Report(title, lines, "`VmHWM` of Spark's largest Python worker, MiB; `one row`: after it has written one row")
    ]


@contextmanager
def dropping_server() -> Iterator[Azurite]:
    """A storage account that accepts everything and keeps nothing."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Drop)
    threading.Thread(target=server.serve_forever, name="dropping-server", daemon=True).start()
    try:
        yield local_azurite(server.server_port, server.server_port)
    finally:
        server.shutdown()
        server.server_close()


class _Drop(BaseHTTPRequestHandler):
    """Answers `201 Created` to every `PUT`; nothing else is there."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_PUT(self) -> None:
        """Read the body and drop it."""
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            left -= len(self.rfile.read(min(left, _MIB)))
        self.send_response(HTTPStatus.CREATED)
        self.send_header("ETag", '"0"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        """No blob is there."""
        self.send_response(HTTPStatus.NOT_FOUND)
        self.send_header("x-ms-error-code", "BlobNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """Nor is one listed."""
        if "comp=list" not in self.path:
            self.do_HEAD()
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(_EMPTY)))
        self.end_headers()
        self.wfile.write(_EMPTY)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's signature
        """Say nothing."""


def _line(azurite: Azurite, partitions: int, rounds: int, copies: int) -> dict[str, str | float]:
    with tempfile.TemporaryDirectory() as folder:
        rows = spread(flights(), partitions)
        for copy in range(copies):
            pq.write_table(rows, Path(folder) / f"flights-{copy}.parquet")
        measured = [_child(azurite, folder, f"memory-{partitions}-{turn}") for turn in range(rounds)]
    worst = max(measured, key=lambda each: each["peak"])
    limit = LIMITS_MIB[partitions]
    return {
        "partitions": partitions,
        "one row": worst["one row"],
        "peak": worst["peak"],
        "limit": "-" if limit is None else str(limit),
        "seconds": worst["seconds"],
    }


def _child(azurite: Azurite, folder: str, container: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.memory", folder, container]
    environment = {**os.environ, _CONNECTION: azurite.connection_string}
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return measured


def main(folder: str, container: str) -> None:
    """The measured Spark, with one core: write the rows of a folder by one task, then print the figures as JSON."""
    spark = local_spark("memory of a task", cores=1)
    rows = spark.read.parquet(folder).coalesce(1)
    sink = {"connectionString": os.environ[_CONNECTION], "partitionColumn": PARTITION}

    def write(some: DataFrame, stream: str) -> float:
        some.write.format("azureblob").options(**sink).mode("append").save(f"{container}/{stream}")
        return largest_worker()

    one_row = write(rows.limit(1), "first")
    begin = time.perf_counter()
    most = write(rows, "flights")
    print(json.dumps({"one row": one_row, "peak": most, "seconds": time.perf_counter() - begin}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
