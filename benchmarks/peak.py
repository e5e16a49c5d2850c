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
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / _MIB if sys.platform == "darwin" else peak / 1024
