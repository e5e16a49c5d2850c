from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from rich.console import Console

from azure_account.cli.json_lines import json_line, jsonable
from azure_account.cli.texts import (
    TableColumn,
    attributes,
    count_text,
    documents,
    in_table,
    new_table,
    plural,
    printable,
    size_text,
    time_text,
    verification_lines,
)


def test_nouns_agree_with_their_number() -> None:
    assert ["1 entry", "2 entries", "1 blob", "2,000 blobs", "0 rows"] == [
        plural(1, "entry"), plural(2, "entry"), plural(1, "blob"), plural(2000, "blob"), plural(0, "row")
    ]  # fmt: skip


def test_counts_have_groups_of_three_and_times_are_in_utc() -> None:
    assert ["0", "12,345"] == [count_text(0), count_text(12345)]
    east = timezone(timedelta(hours=2))
    assert "2013-01-01 10:00:05" == time_text(datetime(2013, 1, 1, 12, 0, 5, tzinfo=east))


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "0.98 KiB"), (1 << 20, "1.00 MiB"), (10 << 20, "10.0 MiB"),
     (999 << 30, "999 GiB"), (1 << 60, "1024 PiB")],
)  # fmt: skip
def test_sizes_have_three_digits(count: int, shown: str) -> None:
    assert shown == size_text(count)


def test_control_characters_are_shown_as_escapes() -> None:
    assert "a\\x1b[2J\tb\n" == printable("a\x1b[2J\tb\n")


def test_all_values_of_rows_have_a_json_form() -> None:
    value = {"x": float("nan"), "y": [float("inf"), b"\x01\xff"], "z": timedelta(seconds=1.5), "m": [("k", 1)]}
    assert {"x": "nan", "y": ["inf", "01ff"], "z": 1.5, "m": [["k", 1]]} == json.loads(json_line(value))
    assert jsonable(None) is None


def test_bytes_of_names_that_are_no_text_are_escapes_for_people_and_for_programs() -> None:
    name = b"caf\xe9.sst".decode("utf-8", "surrogateescape")
    assert "caf\\udce9.sst" == printable(name)
    assert name == json.loads(json_line({"file": name}).encode())["file"]


def test_a_table_and_documents_have_the_columns_that_are_theirs() -> None:
    columns = [
        TableColumn("name", "name", lambda row: row.name),
        TableColumn("size>", "bytes", lambda row: row.size, size_text),
        in_table("state", lambda row: row.state),
        *attributes("uploadedFiles"),
    ]
    rows = [
        SimpleNamespace(name="a\nb", size=999, state="", uploaded_files=1),
        SimpleNamespace(name="c", size=None, state="ready", uploaded_files=None),
    ]
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(new_table(columns, rows))
    assert [["name", "size", "state"], ["a⏎b", "999", "B", "–"], ["c", "–", "ready"]] == [
        line.split() for line in captured.get().splitlines() if "─" not in line
    ]
    assert [
        {"name": "a\nb", "bytes": 999, "uploadedFiles": 1},
        {"name": "c", "bytes": None, "uploadedFiles": None},
    ] == (documents(columns, rows))


def test_what_verify_has_found_is_one_line_unless_there_are_faults_of_which_a_hundred_are_shown() -> None:
    assert ["x is whole: 2 files."] == verification_lines("x", [], "2 files", dropped="")
    assert ["x is gone."] == verification_lines("x", ["fault"], "2 files", dropped="is gone")
    lines = verification_lines("x", [f"fault {number}" for number in range(102)], "2 files", dropped="")
    assert ["x is not whole: 102 faults.", "  fault 0"] == lines[:2]
    assert ["  fault 99", "  … and 2 more (--json has all)"] == lines[-2:]
