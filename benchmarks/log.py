"""Finding the head of a commit log: requests, which do not depend on the machine, and time on an emulator.

Entries are tiny: a search looks at names only, and reads one. The time tells how requests add up on one connection
without a network; in a region of Azure each takes some milliseconds.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from azure_account import connect
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import LogEntry, to_json
from azureblob_source.log.naming import log_name
from azureblob_source.write.options import sink_options
from benchmarks.audit import auditing
from benchmarks.planning import planning
from benchmarks.planning_peers import planning_beside_peers
from benchmarks.report import Report
from benchmarks.rounds import seconds
from tools.azurite import running_azurite

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer

    Search = Callable[[], object]

COUNTED = (1, 1_000, 100_000)
TIMED = (1, 1_000, 10_000)
"""Entries of the logs. An emulator takes about 700 entries a second, so the longest log is only counted."""

BEHIND = 10
"""How many entries ago the version is that a restarted reader knows."""

_WHOLE, _VACUUMED = "whole", "vacuumed"


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - a log has no rows
    """Six tables: requests and time to find the head, planning beside peers, planning, planning of a year, an audit."""
    note = f"known: from a version {BEHIND} entries ago. vacuumed: cold, as many entries as were taken away before."
    return [
        Report("Requests to find the head of a log", [_counted(length) for length in COUNTED], note),
        Report("Milliseconds to find the head of a log, on the emulator", _timed(rounds), f"medians of {rounds}"),
        planning_beside_peers(rounds),
        *planning(),
        auditing(),
    ]


def _counted(length: int) -> dict[str, str | float]:
    account, faults = MemoryAccount(), FaultInjector()
    _fill(account.container("log"), 0, length, threads=1)
    container = account.restarted(faults).container("log")
    line: dict[str, str | float] = {"entries": length}
    for name, search in _searches(container, length).items():
        before = faults.count
        search()
        line[name] = faults.count - before
    return line


def _timed(rounds: int) -> list[dict[str, str | float]]:
    lines: list[dict[str, str | float]] = []
    with running_azurite() as azurite:
        options = sink_options({"path": "log", "connectionString": azurite.connection_string, "streamColumn": "s"}, {})
        container = connect(options.account).container(options.address.container)
        for at, length in enumerate(TIMED):
            _fill(container, TIMED[at - 1] if at else 0, length)
            taken = [{name: seconds(act) for name, act in _searches(container, length).items()} for _ in range(rounds)]
            medians = {name: 1000 * statistics.median(each[name] for each in taken) for name in taken[0]}
            lines.append({"entries": length, **medians})
    return lines


def _fill(container: BlobContainer, present: int, length: int, threads: int = 32) -> None:
    """Make the whole log `length` entries long, of which `present` are there, and one that lost as many to a vacuum."""
    container.create()
    names = [log_name(_WHOLE, version) for version in range(present, length)]
    names += [log_name(_VACUUMED + str(length), version) for version in range(length, 2 * length)]
    with ThreadPoolExecutor(threads) as pool:
        each = pool.map if threads > 1 else map
        puts = each(lambda name: container.put(name, _entry(name)), names)
        for _ in track(puts, f"{length:,} entries", len(names), console=Console(stderr=True), transient=True):
            pass
    move_boundary(container, _VACUUMED + str(length), Boundary(), Boundary(length, {}, "benchmark"))


def _entry(name: str) -> bytes:
    version = int(name[-25:-5])
    return to_json(LogEntry("benchmark", "2026-01-01T00:00:00+00:00", version=version, published_up_to=version - 1))


def _searches(container: BlobContainer, length: int) -> dict[str, Search]:
    """What is measured. The last is asked of an object that knows the head already."""
    seen = CommitLog(container, _WHOLE)
    seen.refresh()
    return {
        "cold": lambda: _found(CommitLog(container, _WHOLE).refresh(), length - 1),
        "vacuumed": lambda: _found(CommitLog(container, _VACUUMED + str(length)).refresh(), 2 * length - 1),
        "known": lambda: _found(CommitLog(container, _WHOLE).refresh(max(length - 1 - BEHIND, 0)), length - 1),
        "unmoved": lambda: _found(seen.refresh(), length - 1),
    }


def _found(head: LogEntry | None, version: int) -> None:
    if head is None or head.version != version:
        raise AssertionError(f"the search found {head}, not version {version}.")
