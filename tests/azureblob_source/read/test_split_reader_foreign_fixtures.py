"""Small files with the peculiarities of files in public repositories: `tests/fixtures/foreign/README.md`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from azure_account.memory.account import MemoryAccount
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.errors import CorruptError
from tests.scripted_clock import ActingClock

FOREIGN = Path(__file__).parents[2] / "fixtures" / "foreign"
SIZES = [1, 7, 100, 1 << 20]


def read(name: str, size: int = 1 << 20) -> list[dict[str, Any]]:
    container = MemoryAccount().container("container")
    container.create()
    container.put("s/1.avro", (FOREIGN / f"{name}.avro").read_bytes())
    found = take_snapshot(CommitLog(container, "s"), None, ActingClock(lambda _: pytest.fail("waited")))
    decoded = read_splits(container, list(split_blobs(found.blobs, size)), SplitSettings(reader=found.reader_schema))
    return [row for _, batch in decoded for row in batch.to_pylist()]


def member(place: int, value: Any) -> dict[str, Any]:
    """A row of the root that is a union of four records."""
    return {"value": {f"member{each}": value if each == place else None for each in range(4)}}


# As Java's Avro 1.12.0 reads them; a root that is no record is the only column, `value`.
ROWS: dict[str, list[dict[str, Any]]] = {
    "reflected-class": [{"first": {"word": "the", "count": 6}, "second": {"word": "a", "count": 1}}],
    "enum-of-digits": [{"grade": "6"}, {"grade": "a-b"}],
    "default-of-another-type": [{"id": "tom", "kind": "linear"}, {"id": "beck", "kind": "logistic"}],
    "decimal-of-more-scale-than-precision": [{"price": b"[\xb7"}, {"price": b""}],
    "root-of-four-records": [
        member(0, {"data": b"100,200\n300,400\n"}),
        member(2, {"bytesScanned": 16, "totalBytes": 16}),
        member(3, {"totalBytes": 16}),
    ],
    "root-of-null-or-record": [
        {"value": None},
        {"value": None},
        {"value": {"name": "calvin", "age": 24}},
        {"value": {"name": None, "age": 60}},
    ],
    "record-named-record": [{"string": "a", "record": {"int": "b"}, "again": {"int": "c"}}],
    "null-where-members-are-required": [
        {"outer": {"id": "a", "inner": {"id": "b"}}},
        {"outer": {"id": "c", "inner": None}},
    ],
    "map-of-nullable-entries": [
        {"value_counts": [{"key": 1, "value": 2}, {"key": 2, "value": None}]},
        {"value_counts": None},
    ],
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_what_java_reads(name: str, size: int) -> None:
    assert ROWS[name] == read(name, size)


def test_a_long_of_more_than_64_bits_is_damage() -> None:
    """Java and fastavro drop the highest bit and read a value that was not written."""
    with pytest.raises(CorruptError, match=r"s/1\.avro .* row .* column .* a number of more than 64 bits"):
        read("long-of-65-bits")


def kept_program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write", FOREIGN / "write.py")
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def test_the_kept_program_wrote_the_kept_files_and_each_has_a_test(tmp_path: Path) -> None:
    program = kept_program()
    program.__file__ = str(tmp_path / "write.py")
    program.main()
    kept = {path.name: path.read_bytes() for path in FOREIGN.glob("*.avro")}
    assert kept == {path.name: path.read_bytes() for path in tmp_path.glob("*.avro")}
    assert {f"{name}.avro" for name in [*ROWS, "long-of-65-bits"]} == set(kept)
