"""The task writer without Spark: Arrow batches in, staged blocks out, on one thread and its two upload threads.

Into the emulator, and nowhere (blocks are encoded, compressed and dropped): what lies between is HTTP.
"""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from azure_account import connect
from azure_account.memory.account import MemoryAccount
from azure_account.memory.service import MemoryService
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import WritePlan, plan_for_rows
from azureblob_source.write.staging import stage
from benchmarks.emulator import drop
from benchmarks.flights import repeated
from benchmarks.report import Report
from benchmarks.rounds import alternate
from tools.azurite import running_azurite
from tools.flights import flights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from azure_account import BlobContainer
    from azure_account.values import Bytes
    from azureblob_source.write.staged_task import StagedTask
    from tools.azurite import Azurite

SHAPES: Mapping[str, Mapping[str, str]] = {
    "uncompressed": {},
    "snappy": {"codec": "snappy"},
    "zstandard": {"codec": "zstandard"},
    "by origin": {"partitionColumn": "origin"},
}


def plan_of(connection_string: str, options: Mapping[str, str], rows: pa.Schema) -> WritePlan:
    """What Spark's driver would send to its tasks for these options."""
    return plan_for_rows(sink_options({**options, "connectionString": connection_string}, env={}), rows)


def stage_batches(plan: WritePlan, batches: pa.RecordBatchReader, container: BlobContainer | None = None) -> StagedTask:
    """What one task does with its rows; they go to `container` instead of the plan's own, which must exist."""
    return stage(
        batches,
        plan,
        container or open_container(plan),
        names=BlobIds(os.urandom, suffixed=True),
    )


def open_container(plan: WritePlan) -> BlobContainer:
    """The container that the plan names."""
    return connect(plan.options.account).container(plan.options.address.container)


class Nowhere(MemoryService):
    """A storage account that takes blocks and keeps nothing."""

    def stage_block(self, container: str, blob: str, block_id: str, data: Bytes) -> None:
        """Drop it."""


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and seconds of processor time of this process (user and system, all threads)."""

    wall: float
    processor: float


def run(rounds: int, copies: int) -> list[Report]:
    """One table: all shapes, into the emulator and nowhere."""
    rows = flights().num_rows * copies
    with running_azurite() as azurite:
        containers = (f"writer-{number}" for number in itertools.count())
        contenders: dict[str, Callable[[], Cost]] = {}
        for name, options in SHAPES.items():
            contenders[name] = partial(_into_emulator, azurite, options, copies, containers)
            contenders[f"{name}, nowhere"] = partial(_nowhere, azurite, options, copies)
        costs = alternate("writer", contenders, rounds)
    lines = [_line(name, rows, each) for name, each in costs.items()]
    return [Report(f"Task writer without Spark, {rows:,} flights", lines, "CPU of this process alone, all its threads")]


def _into_emulator(azurite: Azurite, options: Mapping[str, str], copies: int, containers: Iterator[str]) -> Cost:
    container = next(containers)
    plan = plan_of(azurite.connection_string, {**options, "path": f"{container}/flights"}, flights().schema)
    open_container(plan).create()
    cost = _cost(lambda: stage_batches(plan, repeated(flights(), copies)))
    drop(azurite, container)
    return cost


def _nowhere(azurite: Azurite, options: Mapping[str, str], copies: int) -> Cost:
    plan = plan_of(azurite.connection_string, {**options, "path": "nowhere/flights"}, flights().schema)
    return _cost(
        lambda: stage_batches(plan, repeated(flights(), copies), MemoryAccount(Nowhere()).container("nowhere"))
    )


def _cost(act: Callable[[], StagedTask]) -> Cost:
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    act()
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _line(name: str, rows: int, costs: list[Cost]) -> dict[str, str | float]:
    return {
        "path": name,
        "K rows/s": rows / statistics.median(cost.wall for cost in costs) / 1e3,
        "CPU s per M rows": statistics.median(cost.processor for cost in costs) / rows * 1e6,
    }
