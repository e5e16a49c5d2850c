"""Peak memory of one task with many partitions, each measured in a process of its own that ends with its task.

The process imports what a Python worker of Spark imports and reads its rows, batch by batch, from Arrow's stream
format, as the worker does. The rows change their partition one by one, which is the worst order: every batch touches
all partitions that it can, and all blobs grow side by side.

The blocks go over HTTP to a server that drops them: the emulator's time to stage a block rises with the number of
blobs, to minutes for 10,000.
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
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.flights import PARTITION, repeated, spread, write_stream
from benchmarks.peak import peak
from benchmarks.report import Report
from tools.azurite import local_azurite
from tools.flights import flights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.azurite import Azurite

LIMITS_MIB = {1: None, 1_000: 300, 10_000: 512}
"""Partitions of the task, and what its process may hold at most (MiB)."""

_CONNECTION = "BENCHMARK_CONNECTION_STRING"
_MIB = 1 << 20


def run(rounds: int, copies: int) -> list[Report]:
    """One table: a line per number of partitions. Peaks hardly vary: `rounds` above 3 are not run."""
    with dropping_server() as azurite:
        lines = [_line(azurite, partitions, min(rounds, 3), copies) for partitions in LIMITS_MIB]
    title = f"Peak memory of one task, {flights().num_rows * copies:,} flights"
    return [Report(title, lines, "Resident memory of the process, MiB; `before` is after its imports, before its rows")]


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
    """Answers `201 Created` to every `PUT`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_PUT(self) -> None:
        """Read the body and drop it."""
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            left -= len(self.rfile.read(min(left, _MIB)))
        self.send_response(HTTPStatus.CREATED)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's signature
        """Say nothing."""


def _line(azurite: Azurite, partitions: int, rounds: int, copies: int) -> dict[str, str | float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flights.arrows"
        write_stream(file, repeated(spread(flights(), partitions), copies))
        told = [_child(azurite, file, f"memory-{partitions}-{turn}") for turn in range(rounds)]
    worst = max(told, key=lambda each: each["peak"])
    limit = LIMITS_MIB[partitions]
    return {
        "partitions": partitions,
        "before": worst["before"],
        "peak": worst["peak"],
        "limit": "-" if limit is None else str(limit),
        "blocks": worst["blocks"],
        "seconds": worst["seconds"],
    }


def _child(azurite: Azurite, file: Path, container: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.memory", str(file), container]
    environment = {**os.environ, _CONNECTION: azurite.connection_string}
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, float] = json.loads(answer.stdout)
    return told


def main(file: str, container: str) -> None:
    """The measured process: write the rows of `file`, then tell the figures as JSON."""
    import azureblob_source.write.sink  # noqa: F401, PLC0415 - for its weight, which a worker has too
    from benchmarks.writer import open_container, plan_of, stage_batches  # noqa: PLC0415

    with pa.OSFile(file) as source, pa.ipc.open_stream(source) as rows:
        options = {"path": f"{container}/flights", "partitionColumn": PARTITION}
        plan = plan_of(os.environ[_CONNECTION], options, rows.schema)
        open_container(plan).create()
        before, begin = peak(), time.perf_counter()
        staged = stage_batches(plan, rows)
    seconds = time.perf_counter() - begin
    told = {"before": before, "peak": peak(), "blocks": staged.metrics["blockUploads"], "seconds": seconds}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
