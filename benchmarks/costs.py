"""What a streaming micro-batch costs in requests, beside peers: the streaming job of `benchmarks.kills`, without kills.

    python -m benchmarks costs

A proxy counts what reaches the storage account; the checkpoint of the query is on the local disk. Then a job reads what
is there. Prices are those of `benchmarks.year`; what a request costs goes by its kind, as Azure bills it:
https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from azure.storage.blob import BlobServiceClient

from benchmarks.counting_proxy import counting_proxy
from benchmarks.kills.lives import Job, jars
from benchmarks.kills.section import FILES, write_input
from benchmarks.kills.sinks import Sink
from benchmarks.report import Report
from benchmarks.year import PRICES
from tools.azurite import local_azurite, running_azurite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.azurite import Azurite

WARM_UP = 6
"""Batches before those that are measured."""
_SECONDS = 1800.0
MONTH = 30 * 1440
_KINDS = {"PUT": "write", "POST": "write", "LIST": "write", "DELETE": "delete"}
"""Price of a method; that of all others, among them leases and properties (`SET`), is that of a read."""
_SHOWN = ("PUT", "LIST", "GET", "HEAD", "SET", "DELETE")


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - numbered rows, once
    """Two tables: of writes and of reads, a line for each sink."""
    writes: list[dict[str, str | float]] = []
    reads: list[dict[str, str | float]] = []
    with tempfile.TemporaryDirectory() as folder:
        packages = jars(Path(folder))
    for sink in Sink:
        batches = _batches(sink)
        with (
            tempfile.TemporaryDirectory() as folder,
            running_azurite() as azurite,
            counting_proxy(azurite.blob_port) as proxy,
        ):
            write_input(Path(folder) / "input", WARM_UP + batches + 1)
            job = Job(sink, Path(folder), local_azurite(proxy.port, proxy.port), proxy, packages)
            made = _of_a_batch(job, azurite, batches)
            writes.append({"sink": sink.value, "batches": batches, **_line(made)})
            job.run()
            proxy.take_requests()
            job.run("read")
            files = FILES * (WARM_UP + batches + 1)
            reads.append({"sink": sink.value, "files": files, **_line(proxy.take_methods())})
            print(writes[-1], reads[-1], sep="\n", file=sys.stderr, flush=True)
    return [
        Report(
            f"Requests of a micro-batch of {FILES} tasks",
            [{**line, "USD a month": float(line["USD for 10,000"]) * MONTH / 10_000} for line in writes],
            "Means; a trigger each minute; a listing is priced as a write, deletes are free",
        ),
        Report("Requests of a batch read", reads),
    ]


def _batches(sink: Sink) -> int:
    """As many as there are between checkpoints of its log: our 64, or two of Delta and of Spark's `avro`, ten each."""
    return 64 if sink is Sink.OURS else 20


def _of_a_batch(job: Job, azurite: Azurite, batches: int) -> Counter[str]:
    """The requests of the measured batches, by method, for one batch."""
    if job.sink in (Sink.BY_UUID, Sink.BY_BATCH):
        BlobServiceClient.from_connection_string(azurite.connection_string).create_container(job.sink.container)
    with job.life():
        _wait(job, WARM_UP)
        job.proxy.take_methods()
        _wait(job, WARM_UP + batches)
        made = job.proxy.take_methods()
    return Counter({method: number / batches for method, number in made.items()})


def _wait(job: Job, batches: int) -> None:
    deadline = time.monotonic() + _SECONDS
    while job.ended("commits") < batches:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{job.sink.value} has made {job.ended('commits')} of {batches} batches")
        time.sleep(0.001)


def _line(made: Mapping[str, float]) -> dict[str, str | float]:
    """The requests by method, and the price of 10,000 such batches or reads (USD)."""
    kinds: Counter[str] = Counter()
    for method, number in made.items():
        kinds[_KINDS.get(method, "read")] += number  # type: ignore[assignment]
    price = sum(PRICES[kind] * number for kind, number in kinds.items())
    shown = {method: made.get(method, 0) for method in _SHOWN}
    if others := set(made) - set(_SHOWN):
        raise AssertionError(f"requests of another kind: {others}")
    return {**shown, "requests": sum(made.values()), "USD for 10,000": price}
