"""The memory of a process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_MIB = 1 << 20


def peak() -> float:
    """MiB that this process has held at most.

    Linux counts its parent's memory into `ru_maxrss` if that was more; `VmHWM` begins anew with the program.
    """
    most = peak_of("self")
    if most is not None:
        return most
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / _MIB if sys.platform == "darwin" else peak / 1024


def reset_peak() -> float:
    """Begin anew, where the system can: `peak` is then that since now. MiB that this process holds."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5", encoding="ascii")
    return peak()


def peak_of(process: str) -> float | None:
    """MiB that a process has held at most, by its number; None where the system does not tell."""
    status = Path("/proc") / process / "status"
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024
