"""`python -m benchmarks [SECTION …]`: measure, print tables, keep the figures as JSON in `benchmarks/results`."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.report import save, show


class Section(StrEnum):
    """What can be measured, in the order of a run of everything: Spark last, since it stays in memory."""

    ENCODER = "encoder"
    DECODER = "decoder"
    WRITER = "writer"
    MEMORY = "memory"
    COMMIT = "commit"
    LOG = "log"
    BACKUP = "backup"
    ADJUNCT = "adjunct"
    SINKS = "sinks"
    LATENCY = "latency"
    START = "start"
    READS = "reads"
    TRIGGER = "trigger"
    COMPACTION = "compaction"
    CONTROL = "control"
    COORDINATION = "coordination"
    KILLS = "kills"
    GROWTH = "growth"
    COSTS = "costs"


MODULES = {
    Section.WRITER: "benchmarks.writer",
    Section.MEMORY: "benchmarks.memory",
    Section.COMMIT: "benchmarks.commit",
    Section.LOG: "benchmarks.log",
    Section.BACKUP: "benchmarks.backup",
    Section.ADJUNCT: "benchmarks.adjunct",
    Section.SINKS: "benchmarks.spark_sinks",
    Section.LATENCY: "benchmarks.latency",
    Section.START: "benchmarks.start_up",
    Section.READS: "benchmarks.spark_reads",
    Section.TRIGGER: "benchmarks.trigger",
    Section.COMPACTION: "benchmarks.compaction",
    Section.CONTROL: "benchmarks.spark_control",
    Section.COORDINATION: "benchmarks.coordination",
    Section.KILLS: "benchmarks.kills.section",
    Section.GROWTH: "benchmarks.growth.section",
    Section.COSTS: "benchmarks.costs",
}


def main(  # noqa: PLR0913, PLR0917 - the options of a command
    sections: Annotated[
        list[Section] | None, typer.Argument(help="What to measure; everything if none is named.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measured rounds; one to warm up comes before them.")] = 5,
    copies: Annotated[int, typer.Option(min=1, help="How often the 336,776 flights are taken.")] = 6,
    keys: Annotated[int | None, typer.Option(min=1_000, help="Keys of the adjunct store.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows that the adjunct store enriches, or of small blobs.")
    ] = None,
    kills: Annotated[int, typer.Option(min=1, help="How often the job of each sink is killed.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help="Growth: fewer and smaller points.")] = False,
    state_mib: Annotated[list[int] | None, typer.Option(min=1, help="Sizes of stores to back up, in MiB.")] = None,
) -> None:
    """Measure what the connector costs beside its peers. Ratios are of one run; compare no figures of two."""
    console = Console(width=max(120, Console().width))
    for section in sections or list(Section):
        if section in (Section.ENCODER, Section.DECODER):
            # A process of its own: it binds itself to one core.
            subprocess.run([sys.executable, "-m", f"benchmarks.{section.value}"], check=True)
            continue
        sizes: dict[Section, dict[str, object]] = {
            Section.BACKUP: {"sizes": state_mib},
            Section.ADJUNCT: {"keys": keys, "rows": rows},
            Section.COMPACTION: {"rows": rows},
            Section.KILLS: {"kills": kills},
            Section.GROWTH: {"quick": quick},
        }
        given = {name: value for name, value in sizes.get(section, {}).items() if value}
        reports = import_module(MODULES[section]).run(rounds, copies, **given)
        for report in reports:
            show(report, console)
        console.print(f"Figures: {save(section.value, reports)}\n", highlight=False)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()
