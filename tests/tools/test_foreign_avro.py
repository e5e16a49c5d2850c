"""Avro files are compared row by row, and a file that kills or stalls its reader is one line of the table."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tools.foreign_avro.comparison import difference, numbers

ROOT = Path(__file__).parents[2]
NAN = float("nan")
RECORD = {"type": "record", "name": "r.Row", "fields": [{"name": "id", "type": "long"}]}


def avro_file(path: Path, schema: Any, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)
    return path


def found(avro: Any, ours: Any, theirs: Any) -> str | None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": avro}]}
    return difference(schema, [{"a": ours}], [{"a": theirs}])


@pytest.mark.parametrize(
    ("avro", "ours", "theirs"),
    [
        ("double", NAN, NAN),
        ({"type": "long", "logicalType": "timestamp-millis"}, 5_000, 5),
        ({"type": "long", "logicalType": "timestamp-nanos"}, -1, -1),
        ({"type": "int", "logicalType": "timestamp-millis"}, 5, 5),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("-1.00"), b"\x9c"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, b"\x9c", b"\x9c"),
        ({"type": "map", "values": "int"}, [("b", 2), ("a", 1)], {"a": 1, "b": 2}),
        (["null", "string"], None, None),
        (["null", "int", "string"], {"member0": None, "member1": "x"}, "x"),
        (["null", {"type": "enum", "name": "E", "symbols": ["x"]}, "string"], {"member0": "x"}, ("E", "x")),
        (
            {"type": "record", "name": "record", "fields": [{"name": "string", "type": "int"}]},
            {"string": 1},
            {"string": 1},
        ),
        (
            {
                "type": "array",
                "logicalType": "map",
                "items": {
                    "type": "record",
                    "name": "Entry",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "int"}],
                },
            },
            [(1, 2)],
            [{"key": 1, "value": 2}],
        ),
    ],
)
def test_values_that_are_the_same_in_another_form(avro: Any, ours: Any, theirs: Any) -> None:
    assert None is found(avro, ours, theirs)


@pytest.mark.parametrize(
    ("avro", "ours", "theirs", "where"),
    [
        ("int", 1, 2, "row 0.a: 1, not 2"),
        ("boolean", 1, True, "row 0.a: 1, not True"),
        ("double", -0.0, 0.0, "row 0.a: -0.0, not 0.0"),
        ("int", None, 0, "row 0.a: None, not 0"),
        ({"type": "array", "items": "int"}, [1, 2], [1], "row 0.a: 2 elements, not 1"),
        ({"type": "map", "values": "int"}, [("a", 1)], {"a": 2}, "row 0.a['a']: 1, not 2"),
        ({"type": "map", "values": "int"}, [], {"a": 2}, "row 0.a: keys [], not ['a']"),
        (["null", "int"], 0, None, "row 0.a: 0, not None"),
        (["int", "string"], {"member0": 1, "member1": None}, "1", "row 0.a: member0, not '1'"),
        (
            ["int", "string"],
            {"member0": None, "member1": None},
            1,
            "row 0.a: {'member0': None, 'member1': None}, not 1",
        ),
        (
            ["null", {"type": "enum", "name": "E", "symbols": ["x"]}, "string"],
            {"member0": None, "member1": "x"},
            ("E", "x"),
            None,
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}, {"c": 1}, {"b": 1}, None),
    ],
)
def test_values_that_differ_are_named_by_their_path(avro: Any, ours: Any, theirs: Any, where: str | None) -> None:
    difference_found = found(avro, ours, theirs)
    assert difference_found is not None and difference_found.startswith("row 0.a")
    assert where in (None, difference_found)


def test_rows_have_the_integers_that_arrow_stores() -> None:
    inner = pa.struct([pa.field("day", pa.date32(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"))])
    schema = pa.schema([("s", inner), ("m", pa.map_(pa.string(), pa.time64("us")))])
    beyond_the_year_9999 = 1 << 60
    rows = [
        {"s": {"day": 3, "at": beyond_the_year_9999}, "m": [("a", 7)]},
        {"s": None, "m": None},
    ]
    assert rows == numbers(pa.RecordBatch.from_pylist(rows, schema))


def test_a_process_that_dies_stalls_or_takes_too_much_memory_is_a_finding() -> None:
    program = """
import os, time
from tools.foreign_avro.examination import in_own_process
for act, argument, seconds in ((os._exit, 3, 60), (time.sleep, 600, 2), (bytearray, 1 << 40, 60)):
    print(in_own_process(act, argument, seconds=seconds).reason)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ["the process ended with 3", "no answer after 2 s", "MemoryError"] == done.stdout.splitlines()


def test_the_command_counts_by_repository_and_fails_only_where_rows_differ(tmp_path: Path) -> None:
    avro_file(tmp_path / "one+first" / "deep" / "1.avro", RECORD, [{"id": 1}] * 3)
    avro_file(tmp_path / "two+second" / "2.avro", RECORD, [{"id": 1}])
    (tmp_path / "two+second" / "no.avro").write_bytes(b"no Avro")
    (tmp_path / "two+second" / "no.json").write_bytes(b"{}")
    command = [sys.executable, "-m", "tools.foreign_avro", "--verbose", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert [
        ["one+first", "1", "1", "–", "–", "–", "–", "–", "3"],
        ["two+second", "2", "1", "1", "–", "–", "–", "–", "1"],
        ["2 repositories", "3", "2", "1", "0", "0", "0", "0", "4"],
    ] == lines
    assert "same\t3\t" in done.stdout
    assert "does not begin with the magic bytes" in done.stdout and "fastavro: ValueError: cannot read" in done.stdout
    assert (0, "") == (done.returncode, done.stderr)
