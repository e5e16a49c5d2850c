"""Backup and restore of a RocksDB store, beside copies of its directory by other tools, and beside a replay."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.backup_small import small_files
from benchmarks.backup_steps import EMPTY, FIRST, NEWER, SECOND, Figures, Stores, replays, restores, steps
from benchmarks.backup_store import BATCH, STORED_BYTES, changed_copy, size_of, write_changelog, write_store
from benchmarks.report import Report
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SIZES_MIB = (1024, 4096)
_ONCE_ABOVE_MIB = 2048
MOST_REPLAYED = 10_000_000
"""Records: a replay of more takes many minutes, and more for each record, since RocksDB compacts meanwhile."""
_RESTORES = 3
"""How often the store is restored for the table of the replay."""
LIMIT_MIB = 300
"""What a process of `state_backup` may hold at most."""
OURS = "state_backup"
_FULL = {SECOND: FIRST, NEWER: EMPTY}
"""What a tool does that always copies everything."""
Taken: TypeAlias = dict[str, list[dict[str, Figures]]]


def run(rounds: int, copies: int, sizes: Sequence[int] = SIZES_MIB) -> list[Report]:  # noqa: ARG001 - no flights
    """A table of small files, and five for each size (MiB). At most three rounds; one above 2 GiB."""
    large = [report for size in sizes for report in _measure(size, 1 if size > _ONCE_ABOVE_MIB else min(rounds, 3))]
    return [small_files(min(rounds, 3)), *large]


def _measure(size: int, rounds: int) -> Iterator[Report]:
    records = size * (1 << 20) // STORED_BYTES
    with tempfile.TemporaryDirectory(prefix="backup-") as folder:
        stores = Stores(Path(folder))
        write_store(stores.old, records)
        changed_copy(stores.old, stores.new, records)
        taken = alternate(f"backup of {size:,} MiB", _contenders(stores), rounds, warm_up=False)
        yield from _copies(stores, taken)
        restored = _Medians.of(restores(stores, _RESTORES))
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        stores = Stores(Path(folder))
        replayed = min(records, MOST_REPLAYED)
        write_changelog(stores.changelog, replayed)
        singly, in_batches = replays(stores)
    ways = {"replay, single puts": singly, f"replay, batches of {BATCH}": in_batches}
    yield _replay_table(records, restored, replayed, ways)


def _contenders(stores: Stores) -> dict[str, Callable[[], dict[str, Figures]]]:
    contenders: dict[str, Callable[[], dict[str, Figures]]] = {
        OURS: partial(steps, stores, "back_up", "restore", incremental=True),
        "azure-storage-blob": partial(steps, stores, "sdk_upload", "sdk_download", incremental=False),
    }
    if find_spec("adlfs"):
        contenders["adlfs"] = partial(steps, stores, "adlfs_put", "adlfs_get", incremental=False)
    else:
        print("adlfs is not installed, so it is not measured: pip install adlfs.", file=sys.stderr)
    if shutil.which("rclone"):
        contenders["rclone sync"] = partial(steps, stores, "rclone_push", "rclone_pull", incremental=True)
    else:
        print("rclone is not on PATH, so it is not measured.", file=sys.stderr)
    return contenders


def _copies(stores: Stores, taken: Taken) -> Iterator[Report]:
    old, new = size_of(stores.old), size_of(stores.new)
    for step in (FIRST, SECOND, NEWER, EMPTY):
        ours = _Medians.of([each[step] for each in taken[OURS]])
        lines = [
            _line(tool, _Medians.of([each.get(step) or each[_FULL[step]] for each in rounds]), ours)
            for tool, rounds in taken.items()
        ]
        title = f"{step}: {old / 1e6:,.0f} MB" + ("" if step == FIRST else f", then {new / 1e6:,.0f} MB")
        note = f"Medians of {len(taken[OURS])}; `x`: to {OURS}, whose processes may hold {LIMIT_MIB} MiB"
        yield Report(title, lines, note)


@dataclass(frozen=True)
class _Medians:
    """Of several rounds; of the memory it is the worst."""

    sent: float
    received: float
    seconds: float
    on_disk: float
    processor: float
    peak: float

    @classmethod
    def of(cls, rounds: Sequence[Figures]) -> _Medians:
        return cls(
            statistics.median(each.sent for each in rounds),
            statistics.median(each.received for each in rounds),
            statistics.median(each.seconds for each in rounds),
            statistics.median(each.on_disk for each in rounds),
            statistics.median(each.processor for each in rounds),
            max(each.peak for each in rounds),
        )


def _line(tool: str, taken: _Medians, ours: _Medians) -> dict[str, str | float]:
    return {
        "tool": tool,
        "sent, MB": taken.sent / 1e6,
        "received, MB": taken.received / 1e6,
        "seconds": taken.seconds,
        "with fsync": taken.on_disk,
        "x time": taken.on_disk / ours.on_disk,
        "processor s": taken.processor,
        "x processor": taken.processor / ours.processor,
        "peak, MiB": taken.peak,
    }


def _replay_table(records: int, restored: _Medians, replayed: int, ways: Mapping[str, Figures]) -> Report:
    """Per record, since a replay is not of all records if there are many."""
    lines = [_per_record(EMPTY, records, restored, records, restored)]
    lines += [_per_record(name, replayed, _Medians.of([each]), records, restored) for name, each in ways.items()]
    return Report(
        "Restore beside a replay from a changelog, per record",
        lines,
        f"Without the proxy; the restore is the median of {_RESTORES}. The aim is 20 for single puts",
    )


def _per_record(
    name: str, records: int, taken: _Medians, restored_records: int, restored: _Medians
) -> dict[str, str | float]:
    each = 1 / records
    of_restore = 1 / restored_records
    return {
        "path": name,
        "records": records,
        "seconds": taken.seconds,
        "us per record": taken.seconds * each * 1e6,
        "x time": taken.seconds * each / (restored.seconds * of_restore),
        "processor s": taken.processor,
        "x processor": taken.processor * each / (restored.processor * of_restore),
    }
