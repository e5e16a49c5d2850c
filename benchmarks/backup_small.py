"""Backup and restore of many small files, beside rclone and restic, when each request waits as in another region."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.backup_steps import check_equal, deleted_after, emulator
from benchmarks.report import Report
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.backup_steps import Figures

FILES = 300
DELAY = 0.02
"""Seconds that each request waits."""
_CHANGED = 3
_SIZES = (200, 20_000)
"""Bytes: those of the offsets, commits and deltas of a Spark checkpoint."""
_STEPS = ("first backup", "1 % of files changed", "restore")


def small_files(rounds: int) -> Report:
    """One table: a line for each tool."""
    with tempfile.TemporaryDirectory(prefix="small-") as name:
        folder = Path(name)
        contenders: dict[str, Callable[[], dict[str, Figures]]] = {
            "state_backup": partial(_steps, folder, "back_up", "restore"),
        }
        if shutil.which("rclone"):
            contenders["rclone sync"] = partial(_steps, folder, "rclone_push", "rclone_pull")
        else:
            print("rclone is not on PATH: neither it nor restic, which uses it, is measured.", file=sys.stderr)
        if shutil.which("rclone") and shutil.which("restic"):
            contenders["restic"] = partial(_steps, folder, "restic_push", "restic_pull", first="restic_init")
        elif shutil.which("rclone"):
            print("restic is not on PATH, so it is not measured.", file=sys.stderr)
        taken = alternate("backup of small files", contenders, rounds, warm_up=False)
    lines = [_line(tool, each) for tool, each in taken.items()]
    note = f"Medians of {rounds}. Each request waits {DELAY * 1000:.0f} ms; the times include the sync of the files"
    return Report(f"{FILES} files of {_SIZES[0]:,} to {_SIZES[1]:,} bytes", lines, note)


def _steps(folder: Path, push: str, pull: str, first: str = "") -> dict[str, Figures]:
    """All steps of a tool, in its own process each, on an emulator of its own."""
    with emulator(delay=DELAY) as storage, deleted_after(folder / "live") as live:
        draws = Random(14)
        live.mkdir()
        for number in range(FILES):
            (live / f"{number:04}").write_bytes(draws.randbytes(draws.randint(*_SIZES)))
        if first:
            storage.act(first, live)
        taken = [storage.act(push, live)]
        for number in range(0, FILES, FILES // _CHANGED):
            (live / f"{number:04}").write_bytes(draws.randbytes(draws.randint(*_SIZES)))
        taken.append(storage.act(push, live))
        with deleted_after(folder / "restored") as target:
            taken.append(storage.act(pull, target))
            below = target / live.relative_to("/")  # where restic restores to
            check_equal(live, below if below.exists() else target)
    return dict(zip(_STEPS, taken, strict=True))


def _line(tool: str, rounds: list[dict[str, Figures]]) -> dict[str, str | float]:
    line: dict[str, str | float] = {"tool": tool}
    for step in _STEPS:
        line[f"{step}, s"] = statistics.median(each[step].on_disk for each in rounds)
        line["requests" + " " * _STEPS.index(step)] = statistics.median(each[step].requests for each in rounds)
    return line
