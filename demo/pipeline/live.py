"""The view in the terminal: streams, drivers, and what was lost so far. Without a terminal, a line now and then."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from demo.pipeline.places import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demo.pipeline.faults import Faults
    from demo.pipeline.observed import Observed
    from demo.pipeline.processes import System

LINE_SECONDS = 15.0
_RECENT = 4


def watermark_text(watermark: int | None) -> str:
    """A watermark for people."""
    if watermark is None:
        return "–"
    return datetime.fromtimestamp(watermark / 1000, UTC).strftime("%Y-%m-%d %H:%M")


@contextmanager
def live_view(console: Console, shown: Callable[[], Group], line: Callable[[], str]) -> Iterator[Callable[[], None]]:
    """Yields what refreshes the view."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda: live.update(shown(), refresh=True)
        return
    last = [0.0]

    def refresh() -> None:
        if time.monotonic() - last[0] >= LINE_SECONDS:
            last[0] = time.monotonic()
            console.print(line(), soft_wrap=True, highlight=False)

    yield refresh


def view(system: System, observed: Observed, faults: Faults, began: float) -> Group:
    """Tables of the present state."""
    return Group(_tasks(system, observed), _drivers(system), _losses(system, faults, began))


def line(system: System, observed: Observed, faults: Faults, began: float) -> str:
    """The present state in a line."""
    streams = "  ".join(
        f"{name} {len(each.batches)} batches to {watermark_text(each.watermark)}"
        for name, each in observed.streams.items()
    )
    running = system.drivers.running
    owners = " ".join(f"{task}:{running[task].name[-1] if task in running else '-'}" for task in TASKS)
    revision = max(observed.versions, default=0)
    return f"{time.time() - began:5.0f} s  {owners}  {streams}  planes {revision}  faults {len(faults.faults)}"


def _tasks(system: System, observed: Observed) -> Table:
    table = Table("task", "driver", "batches", "rows", "watermark", "last batch", title="Tasks", title_justify="left")
    running, now = system.drivers.running, time.time()
    for task in TASKS:
        driver = "done" if task in system.drivers.done else running[task].name if task in running else "[red]moves"
        if task not in observed.streams:
            table.add_row(task, driver, f"version {max(observed.versions, default=0)}")
            continue
        stream = observed.streams[task]
        age = f"{now - stream.batches[-1].at:.0f} s ago" if stream.batches else "–"
        numbers = (f"{len(stream.batches):,}", f"{stream.rows:,}")
        table.add_row(task, driver, *numbers, watermark_text(stream.watermark), age)
    return table


def _drivers(system: System) -> Table:
    table = Table("driver", "lives", "leads", "tasks", title="Drivers", title_justify="left")
    names = [each.name for each in system.drivers.lives]
    for driver in sorted(system.drivers.alive, key=lambda each: each.name):
        leads = "leads" if driver.leads else ""
        table.add_row(driver.name, str(names.count(driver.name)), leads, ", ".join(sorted(driver.running)))
    return table


def _losses(system: System, faults: Faults, began: float) -> Table:
    requests = sum(system.proxy.requests.values())
    title = f"Faults: {len(faults.faults)} in {time.time() - began:.0f} s; {requests:,} requests"
    table = Table("kind", "number", "last ones", title=title, title_justify="left")
    for kind, count in faults.counts.items():
        of_kind = [fault for fault in faults.faults if fault.kind == kind][-_RECENT:]
        table.add_row(kind, str(count), ", ".join(f"{fault.at - began:.0f} s {fault.target}" for fault in of_kind))
    return table
