"""Contenders that take turns, so that a noisy machine slows all of them alike."""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Sample = TypeVar("Sample")


def alternate(
    title: str, contenders: Mapping[str, Callable[[], Sample]], rounds: int, *, warm_up: bool = True
) -> dict[str, list[Sample]]:
    """Run every contender once per round, `rounds` times after one round to warm up, which is not returned.

    Each round begins with another contender: none has the place behind the heaviest one every time.
    """
    names = list(contenders)
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=(rounds + warm_up) * len(names))
        for turn in range(rounds + warm_up):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                progress.update(task, description=f"{title}: {name}")
                sample = contenders[name]()
                if turn >= warm_up:
                    samples[name].append(sample)
                progress.advance(task)
    return samples


def seconds(act: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def on_one_core() -> None:
    """Bind this process to one core, and pyarrow with it."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)


def processor_seconds(act: Callable[[], object], rows: int = 1) -> float:
    """The processor time of one call, for each row."""
    begin = time.process_time()
    act()
    return (time.process_time() - begin) / rows


def rates(rows: int, taken: Mapping[str, Sequence[float]], peer: str) -> list[dict[str, str | float]]:
    """Lines of a table: thousands of rows per second at the median and the extremes, and the ratio to `peer`."""
    medians = {name: statistics.median(each) for name, each in taken.items()}
    return [
        {
            "path": name,
            "K rows/s": rows / medians[name] / 1e3,
            "slowest": rows / max(each) / 1e3,
            "fastest": rows / min(each) / 1e3,
            f"x {peer}": medians[peer] / medians[name],
        }
        for name, each in taken.items()
    ]
