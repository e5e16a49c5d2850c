"""`make pipeline`: run the pipeline for some minutes while processes and disks are lost, then check its result.

    python -m demo.pipeline --minutes 10 --seed 1

The exit code is 0 if every row is right, for readers by the log and for readers that list, and every blob is accounted
for. The timeline is a page of HTML.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from demo.pipeline import live
from demo.pipeline.arrivals import Arrivals
from demo.pipeline.checks import Finding, by_listing, by_log, check_blobs, check_drivers, check_planes, check_rows
from demo.pipeline.faults import Faults, rough_requests
from demo.pipeline.observed import Observed
from demo.pipeline.owners import takeovers, tenures
from demo.pipeline.places import Places
from demo.pipeline.processes import DRIVERS, running_system
from demo.pipeline.resources import Sampler, resource_lines
from demo.pipeline.summary import summary
from demo.pipeline.timeline import Run, page
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from demo.pipeline.processes import Drivers, System

CONTAINER = "pipeline"
FLIGHTS_PER_FILE, FILES_PER_CHANGE = 100, 5
ARRIVING, LAST_MINUTES = 0.6, 4
"""Files arrive in this part of the time, or until so many minutes before its end; the rest is for the last batches."""
SECONDS_PER_FILE = 3.0
REFRESH_SECONDS = 2.0
STUCK_SECONDS = 600.0
console = Console(width=max(110, Console().width))
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    minutes: Annotated[float, typer.Option(help="How long the run takes, about.")] = 10,
    seed: Annotated[int | None, typer.Option(help="Of the faults; by default another one each time.")] = None,
    output: Annotated[Path, typer.Option(help="Where the page goes.")] = Path(".demo/pipeline.html"),
    pause: Annotated[float, typer.Option(help="The longest time between two faults (s).")] = 15,
) -> None:
    """Run the pipeline, and check its result. If something is wrong, the folder of the run is kept."""
    seed = random.randrange(1_000_000) if seed is None else seed
    console.rule(f"[bold]The pipeline, for {minutes:g} minutes, seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="pipeline-"))
    console.print(f"Folder: {folder}")
    run = _run(folder, minutes, random.Random(seed), pause)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(run), encoding="utf-8")
    _print(run)
    console.print(f"Timeline: {output}")
    if not run.is_right:
        raise typer.Exit(1)
    shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path, minutes: float, rng: random.Random, pause: float) -> Run:
    arriving = max(ARRIVING * minutes, minutes - LAST_MINUTES)
    files = max(10, round(60 * arriving / SECONDS_PER_FILE))
    arrivals = Arrivals(folder / "arrivals", count=files * FLIGHTS_PER_FILE, files=files)
    with running_system(folder, CONTAINER, folder / "arrivals", rough_requests(random.Random(rng.random()))) as system:
        observed = Observed(system.emulator.azurite.connection_string, CONTAINER)
        observed.container.create_container()
        arrivals.begin()
        began = time.time()
        for name in DRIVERS:
            system.drivers.start(name)
        faults, sampler = Faults(system, rng, (min(2.0, pause), pause)), Sampler(system, observed)
        sampler.start()
        threading.Thread(target=_feed, args=(arrivals, system, faults), daemon=True).start()
        try:
            _watch(system, observed, faults, began)
        finally:  # else it would start drivers that nobody ends
            faults.stop()
            sampler.stop()
        stopped = system.drivers.stop()
        ended = time.time()
        observed.refresh()  # before a vacuum deletes the log
        findings, read = _findings(system, folder, arrivals, observed)
        known = tenures(system.drivers.lives, ended)
        figures = summary(system, observed, faults, takeovers(faults.faults, known), ended - began)
        figures.append(("drivers ended after SIGTERM", ", ".join(f"{each:.1f} s" for each in stopped)))
        return Run(
            f"{len(faults.faults)} faults in {(ended - began) / 60:.1f} minutes",
            began,
            ended,
            known,
            faults.faults,
            {name: stream.batches for name, stream in observed.streams.items()},
            sorted(observed.versions.values(), key=lambda each: each.number),
            read,
            [*findings, *check_drivers(system.drivers), _all_kinds(faults)],
            [*figures, *resource_lines(sampler.samples, sampler.loads)],
            sampler.samples,
        )


def _feed(arrivals: Arrivals, system: System, faults: Faults) -> None:
    """Have files arrive, once all tasks run. The last one comes when every kind of fault has struck."""
    while not system.drivers.all_run:
        time.sleep(0.5)
    for number in range(1, arrivals.files):
        while number == arrivals.files - 1 and not faults.all_kinds_have_struck:
            time.sleep(0.5)
        arrivals.put_flights(number)
        if number % FILES_PER_CHANGE == 0:
            arrivals.change_planes()
        time.sleep(SECONDS_PER_FILE)
    arrivals.complete()


def _watch(system: System, observed: Observed, faults: Faults, began: float) -> None:
    """Show the run until the last task is done. Faults begin when all tasks run, and end with the input."""
    shown = (system, observed, faults, began)
    moved, seen = time.monotonic(), 0
    with live.live_view(console, lambda: live.view(*shown), lambda: live.line(*shown)) as refresh:
        while "days" not in system.drivers.done:
            observed.refresh()
            refresh()
            moved, seen = (time.monotonic(), observed.rows) if observed.rows > seen else (moved, seen)
            if time.monotonic() - moved > STUCK_SECONDS:
                raise TimeoutError(f"No row for {STUCK_SECONDS:.0f} s: {system.state()}")
            if faults.failure is not None:
                raise faults.failure
            _restart_who_gave_up(system.drivers, has_run=observed.rows > 0 or bool(faults.faults))
            if faults.ident is None and system.drivers.all_run:
                faults.start()
            if "flights" in system.drivers.done:
                faults.stop()
            time.sleep(REFRESH_SECONDS)


def _restart_who_gave_up(drivers: Drivers, *, has_run: bool) -> None:
    """Start drivers again that have ended by themselves, as a supervisor does. `RuntimeError` if none can start.

    has_run: there are rows, or a fault has struck: it may have ended a driver that has just begun.
    """
    alive = {each.name for each in drivers.alive}
    for name in {each.name for each in drivers.ended_by_themselves} - alive:
        if not has_run:
            raise RuntimeError(f"{name} cannot start: {drivers.folder / name}.0.txt")
        drivers.start(name)


def _findings(
    system: System, folder: Path, arrivals: Arrivals, observed: Observed
) -> tuple[list[Finding], dict[int, int]]:
    connection = system.emulator.azurite.connection_string
    account = {"connectionString": connection}
    places = Places(CONTAINER, account, folder / "arrivals", folder / "checks")
    spark = local_spark("pipeline checks", quick_start=True)
    stored = by_log(spark, places)
    spark.stop()
    planes, read = check_planes(stored, arrivals)
    environment = {**os.environ, "AZURE_STORAGE_CONNECTION_STRING": connection}
    listed = by_listing(observed.container)
    rows = [*check_rows(stored, arrivals), *check_rows(listed, arrivals), *planes]
    return [*rows, *check_blobs(places, environment)], read


def _all_kinds(faults: Faults) -> Finding:
    missing = [kind for kind, count in faults.counts.items() if not count]
    return Finding("every kind of fault has struck", ", ".join(missing) or "yes", not missing)


def _print(run: Run) -> None:
    table = Table("check", "found", title=run.title, title_justify="left")
    for finding in run.findings:
        table.add_row(finding.what, finding.found, style="" if finding.is_right else "bold red")
    table.add_section()
    for name, text in run.summary:
        table.add_row(name, text)
    console.print(table)


if __name__ == "__main__":
    app()
