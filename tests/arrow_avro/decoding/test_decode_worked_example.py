"""The row that docstrings follow through the decoder is read as they show it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from arrow_avro.decoding import arrays, forth, forth_scan, layout, program, scan
from arrow_avro.decoding import plan as plans
from arrow_avro.decoding.resolve import resolve
from arrow_avro.defaults import default_datum
from arrow_avro.schema import parse

if TYPE_CHECKING:
    from types import ModuleType

    from arrow_avro.types import AvroType

FIELDS = {"id": "int", "name": "string", "score": ["null", "long"]}
ROW = {"id": 3, "name": "ab", "score": None}
BYTES = bytes.fromhex("06 04 61 62 00")


def row_type(**changed: str) -> AvroType:
    fields = [{"name": name, "type": avro} for name, avro in (FIELDS | changed).items()]
    return parse(json.dumps({"type": "record", "name": "row", "fields": fields})).type


WRITER = row_type()


def shown(module: ModuleType) -> str:
    """The docstring of a module on one line."""
    return " ".join((module.__doc__ or "").split())


def on_one_line(*lines: str) -> str:
    return " ".join(" ".join(lines).split())


@pytest.fixture
def plan() -> plans.Record:
    found = resolve(WRITER, row_type(id="long"))
    assert isinstance(found, plans.Record)
    return found


@pytest.fixture
def compiled(plan: plans.Record) -> program.Program:
    return program.compiled(WRITER, plan, columns=False)


@pytest.fixture
def scanned(plan: plans.Record) -> scan.ScanResult:
    return forth_scan.ForthScanner(WRITER, plan).scan([scan.BodySlice(memoryview(BYTES), 1)])


def test_the_row_has_the_bytes_of_the_docstring() -> None:
    assert BYTES == default_datum(WRITER, ROW)
    lines = ("06 3, zig-zagged", '04 61 62 length 2, zig-zagged, and "ab"', "00 branch 0, null")
    assert on_one_line(*lines) in shown(plans)
    assert json.dumps(ROW) in shown(plans)


def test_the_plan_is_that_of_the_docstring(plan: plans.Record) -> None:
    assert on_one_line(*map(repr, plan.fields)) in shown(plans)


def test_the_instructions_are_those_of_the_docstring(compiled: program.Program) -> None:
    assert on_one_line(*map(repr, compiled.code)) in shown(program)


def test_the_layout_is_that_of_the_docstring(compiled: program.Program) -> None:
    assert isinstance(compiled.root, layout.Fields)
    assert on_one_line(*(f"{key!r}: {node}" for key, node in compiled.root.fields.items())) in shown(layout)


def test_the_text_is_that_of_the_docstring(compiled: program.Program) -> None:
    loop = on_one_line(forth.ForthText(compiled, wide=False, budget=None).text).rpartition(" 0 do ")[2]
    text, _, _ = loop.partition(" loop ")
    assert text in shown(forth)


def test_the_outputs_are_those_of_the_docstring(scanned: scan.ScanResult) -> None:
    outputs = [f"{name} {values.tolist()}" for name, values in scanned.outputs.items()]
    assert on_one_line(*sorted(outputs)) in shown(forth_scan)


def test_the_buffers_are_those_of_the_docstring(plan: plans.Record, scanned: scan.ScanResult) -> None:
    columns = arrays.columns(plan, scanned)
    assert ROW == dict(zip(ROW, (column[0].as_py() for column in columns), strict=True))
    lines = [f"{name}: {column.type} {_hex(column)}" for name, column in zip(ROW, columns, strict=True)]
    assert on_one_line(*lines) in shown(arrays)


def _hex(column: pa.Array) -> str:
    """The buffers, without what pads them."""
    sizes = {"int64": (1, 8), "string": (1, 8, 2)}[str(column.type)]
    buffers = zip(column.buffers(), sizes, strict=True)
    return " ".join("-" if buffer is None else buffer.to_pybytes()[:size].hex() for buffer, size in buffers)
