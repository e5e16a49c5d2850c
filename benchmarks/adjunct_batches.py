"""What small batches write into a partition, without Spark: their changes, and what compactions write again.

All files that a batch leaves are uploaded with its version, and fetched by hosts.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from adjunct_store.engine import PartitionProgress, PartitionStore
from benchmarks.adjunct_lookups import entries, schema_of
from benchmarks.report import Report

SHARES = (0.001, 0.01, 0.1)
BATCHES = 100


def run(keys: int) -> Report:
    """A line for each share of keys that a batch changes."""
    lines: list[dict[str, str | float]] = []
    for share in SHARES:
        with tempfile.TemporaryDirectory(prefix="batches-") as folder:
            run_of = _Batches(Path(folder) / "partition", keys)
            run_of.apply(keys)
            for _ in range(BATCHES):
                run_of.apply(int(keys * share))
        lines.append({"a batch changes": f"{share:.1%}", **run_of.figures()})
    note = "Means, over the batches after the first; x: of what the changes alone take. Partition: of the first size"
    return Report(f"What {BATCHES} batches write, {keys:,} keys in one partition", lines, note)


@dataclass
class _Batches:
    """A partition and what its batches have done: bytes of new files, bytes of all files, seconds."""

    directory: Path
    keys: int
    written: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _files: dict[str, int] = field(default_factory=dict)

    def apply(self, changed: int) -> None:
        """One batch."""
        number = len(self.written)
        random = np.random.default_rng(number)
        picked = np.sort(random.choice(self.keys, changed, replace=False)) if number else np.arange(self.keys)
        rows = entries("bigint", picked)
        begin = time.monotonic()
        with PartitionStore(self.directory, schema_of("bigint")) as store:
            store.apply([rows], PartitionProgress("benchmark", number), are_sorted=True)
        self.seconds.append(time.monotonic() - begin)
        files = {path.name: path.stat().st_size for path in self.directory.glob("*.sst")}
        self.written.append(sum(size for name, size in files.items() if name not in self._files))
        self.sizes.append(sum(files.values()))
        self._files = files

    def figures(self) -> dict[str, float]:
        """The columns of the table."""
        first, later = self.sizes[0], self.written[1:]
        changes = statistics.median_low(later)  # most batches only add their changes
        return {
            "changes, KiB": changes / 1024,
            "written, KiB": statistics.mean(later) / 1024,
            "x": statistics.mean(later) / changes,
            "% of the partition": 100 * statistics.mean(later) / first,
            "batches that write all": sum(size > 0.9 * first for size in later),
            "partition": statistics.mean(self.sizes) / first,
            "at most": max(self.sizes) / first,
            "s": statistics.mean(self.seconds[1:]),
            "slowest, s": max(self.seconds[1:]),
        }
