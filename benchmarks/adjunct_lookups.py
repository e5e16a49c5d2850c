"""Look-ups in an adjunct store without Spark, each form in a process of its own; and how soon a host sees a version."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.engine import PartitionProgress, PartitionStore
from adjunct_store.host.cache import HostCache
from adjunct_store.host.directories import LazyDirectories
from adjunct_store.versions.pins import pin_version
from adjunct_store.view import View
from benchmarks.peak import peak
from benchmarks.report import Report
from benchmarks.rounds import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from benchmarks.adjunct_tables import Tables

MOST_KEYS = 2_000_000
LOOKED_UP = 400_000
SIZES = (10_000, 100_000)
TYPES = {"bigint": pa.int64(), "string": pa.string()}
_AT_ONCE = 100_000
_CHANGES = 5


def run(keys: int) -> list[Report]:
    """One table: a line for each type of key and form."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="lookups-") as folder:
        for name in TYPES:
            directory = Path(folder) / name
            _write(directory, name, keys)
            for form in ("rocksdb", "memory"):
                command = [sys.executable, "-m", "benchmarks.adjunct_lookups", str(directory), name, form, str(keys)]
                answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                figures: dict[str, float] = json.loads(answer.stdout)
                lines.append({"keys": name, "form": form, **figures})
    title = f"Look-ups of random keys, millions per second and core, {keys:,} keys in one partition"
    return [Report(title, lines, "Processor time; the better of two runs. Resident memory, MiB: before opening, peak")]


def visibility(tables: Tables) -> Report:
    """From a published version to the first value that a host reads of it."""
    cold = seconds(partial(_first_value, tables, "cold"))
    again = seconds(partial(_first_value, tables, "cold"))
    changed = []
    for _ in range(1 + _CHANGES):
        tables.batch += 1
        tables.fill_store()
        changed.append(seconds(partial(_first_value, tables, "cold")))
    lines: list[dict[str, str | float]] = [
        {"host": "empty", "seconds": cold},
        {"host": "has the version before", "seconds": changed[0]},
        {"host": "has the version before, and has fetched a change already", "seconds": statistics.median(changed[1:])},
        {"host": "has the version", "seconds": again},
    ]
    title = f"From publication to a value of each partition, {tables.keys:,} keys, {tables.partitions} partitions"
    return Report(title, lines, f"Pin, fetch, open, look up; without Spark. Third line: median of {_CHANGES} changes")


def _first_value(tables: Tables, cache: str) -> None:
    container, store = tables.store.open(), tables.store.path
    version, generation = pin_version(container, store, f"visibility-{time.monotonic_ns()}", 0)
    schema = StoreSchema.from_json(generation.schema)
    directories = LazyDirectories(HostCache(container, store, tables.folder / cache), version)
    with View(directories, schema) as view:
        found = view.lookup(pa.record_batch({"key": pa.array(range(1_000), pa.int64())}))
    directories.close()
    if found.null_count:
        raise AssertionError(f"{found.null_count} of 1,000 keys were not found.")


def schema_of(key: str) -> StoreSchema:
    """A key of this type, and three values."""
    values = pa.schema([("name", pa.string()), ("seats", pa.int32()), ("speed", pa.float64())])
    return StoreSchema(pa.schema([("key", TYPES[key])]), values, partitions=1)


def _write(directory: Path, key: str, keys: int) -> None:
    with PartitionStore(directory, schema_of(key)) as store:
        store.apply(_batches(key, keys), PartitionProgress("benchmark", 0))


def _batches(key: str, keys: int) -> Iterator[pa.RecordBatch]:
    for begin in range(0, keys, _AT_ONCE):
        yield entries(key, np.arange(begin, min(begin + _AT_ONCE, keys)))


def entries(key: str, numbers: NDArray[np.int64]) -> pa.RecordBatch:
    """The entries of these numbers, rising, as changes."""
    names = pc.binary_join_element_wise("plane-", pa.array(numbers % 100_000).cast(pa.string()), "")
    columns = [names, pa.array((numbers % 500).astype(np.int32)), pa.array(numbers * 0.5)]
    value = pa.StructArray.from_arrays(columns, ["name", "seats", "speed"])
    return pa.RecordBatch.from_arrays([_keys(key, numbers * 2), value], names=["key", "value"])


def _keys(key: str, numbers: NDArray[np.int64]) -> pa.Array:
    """Even numbers are stored, odd ones between them are not. Strings have 8 characters."""
    column = pa.array(numbers)
    return column if key == "bigint" else pa.array(np.char.zfill(numbers.astype(str), 8))


def _figures(view: View, key: str, keys: int) -> Iterator[tuple[str, float]]:
    random = np.random.default_rng(1)
    for size in SIZES:
        for name, odd in (("hits", 0), ("misses", 1)):
            picked = [random.integers(0, keys, size) * 2 + odd for _ in range(LOOKED_UP // size)]
            batches = [pa.record_batch({"key": _keys(key, numbers)}) for numbers in picked]
            spent = []
            for _ in range(2):
                begin = time.process_time()
                found = sum(size - view.lookup(batch).null_count for batch in batches)
                spent.append(time.process_time() - begin)
            if found != (0 if odd else LOOKED_UP):
                raise AssertionError(f"{found} of {LOOKED_UP} {name} were found.")
            yield f"{name}, {size // 1_000}k", LOOKED_UP / min(spent) / 1e6


def main(directory: str, key: str, form: Any, keys: str) -> None:
    """The measured process: print the figures as JSON."""
    before = peak()
    with View({0: Path(directory)}, schema_of(key), form) as view:
        figures = dict(_figures(view, key, int(keys)))
    print(json.dumps({**figures, "before": before, "peak": peak()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
