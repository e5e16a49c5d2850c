"""The memory of Spark while something runs, of its Java and of the Python workers, and their processor time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.peak import peak_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_MIB = 1 << 20
_SECONDS = 0.25


@dataclass
class Memory:
    """MiB at most: heap in use in the driver's Java, garbage included; all Python workers; the largest of them.

    Of pages that forked workers share each has its part (PSS on Linux).
    """

    heap: float = 0.0
    workers: float = 0.0
    worker: float = 0.0


def processor_seconds() -> float:
    """Processor seconds of Spark's JVM and its Python workers so far, without the emulator's."""
    jvms = [process for process in psutil.Process().children() if process.name() == "java"]
    processes = [*jvms, *(worker for jvm in jvms for worker in jvm.children(recursive=True))]
    return sum(sum(process.cpu_times()[:4]) for process in processes)  # with those of processes that have ended


@contextmanager
def measured_memory(spark: SparkSession) -> Iterator[Memory]:
    """The figures are there after the block. Java collects its garbage before it."""
    memory, stop = Memory(), threading.Event()
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to ask Java
    heap = [each for each in _pools(jvm) if each.getType().toString() == "Heap memory"]
    jvm.java.lang.System.gc()
    for pool in heap:
        pool.resetPeakUsage()
    thread = threading.Thread(target=_watch, args=(memory, stop), daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        stop.set()
        thread.join()
        memory.heap = sum(pool.getPeakUsage().getUsed() for pool in heap) / _MIB


def largest_worker() -> float:
    """MiB that the largest Python worker of Spark which is there now has held at most."""
    return max(map(_most, psutil.Process().children(recursive=True)), default=0.0)


def _most(process: psutil.Process) -> float:
    now = _size(process)
    return (peak_of(str(process.pid)) or now) if now else 0.0


def _pools(jvm: Any) -> list[Any]:
    return list(jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans())


def _watch(memory: Memory, stop: threading.Event) -> None:
    while True:
        sizes = list(_worker_sizes())
        memory.workers = max(memory.workers, sum(sizes))
        memory.worker = max(memory.worker, *sizes, 0.0)
        if stop.wait(_SECONDS):
            return


def _worker_sizes() -> Iterator[float]:
    return filter(None, map(_size, psutil.Process().children(recursive=True)))


def _size(process: psutil.Process) -> float:
    """MiB of a Python worker; 0 of another process, and of one that has ended meanwhile."""
    try:
        if "pyspark" not in " ".join(process.cmdline()) or "java" in process.name():
            return 0.0
        full: Any = process.memory_full_info()
        return float(getattr(full, "pss", full.uss)) / _MIB
    except psutil.Error:
        return 0.0
