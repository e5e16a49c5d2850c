"""The compiled decoder and the one in Python give the same rows and the same errors."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from arrow_avro.decoding import scanners
from arrow_avro.decoding.forth_scan import ForthScanner
from arrow_avro.decoding.program import compiled
from arrow_avro.decoding.scanners import VARIABLE, scanner_class
from arrow_avro.files.container_file import block, header
from arrow_avro.limits import ReadLimits
from arrow_avro.varint import encode
from foundation.errors import ConfigurationError
from tests.arrow_avro import fuzz

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_avro.decoding.plan import Plan
    from arrow_avro.decoding.program import Program
    from arrow_avro.types import AvroType

CASES = 600
SCANNER = "arrow_avro.decoding.native_scan"

native = pytest.mark.skipif(
    find_spec("pyspark_azureblob_native") is None, reason="the compiled decoder is not installed"
)


@native
@pytest.mark.parametrize("cases", [pytest.param(CASES, marks=pytest.mark.long), CASES // 6])
def test_random_schemas_data_damage_and_limits_give_the_same_rows_and_errors(cases: int) -> None:
    fuzz.run(1, lambda number: number < cases)


def changed(value: Any, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    """Instructions, each of which is changed."""
    if not isinstance(value, tuple):
        return value
    inner = tuple(changed(each, change) for each in value)
    return change(inner) if inner and isinstance(inner[0], str) else inner


SKIPPED = 3  # what a nullable has that nobody wants
MUTANTS: dict[str, Callable[[tuple[Any, ...]], tuple[Any, ...]]] = {
    "ints have no bounds": lambda it: (*it[:2], -(2**62), 2**62) if it[0] == "int" else it,
    "unwanted ints have no bounds": lambda it: (it[0], -(2**62), 2**62) if it[0] == "within" else it,
    "the other branch is null where nobody wants the value": lambda it: (
        ("nullable", 1 - it[1], it[2]) if it[0] == "nullable" and len(it) == SKIPPED else it
    ),
    "the other branch of columns is not null": lambda it: (
        (*it[:2], (it[2][0], 1 - it[2][1])) if it[0] == "column" and it[2] else it
    ),
}


@native
@pytest.mark.parametrize("name", MUTANTS)
def test_a_program_that_is_wrong_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(avro: AvroType, plan: Plan, *, columns: bool) -> Program:
        right = compiled(avro, plan, columns=columns)
        return replace(right, code=changed(right.code, MUTANTS[name]))

    monkeypatch.setattr(f"{SCANNER}.compiled", mutant)
    with pytest.raises(AssertionError, match=r"case \d+ of seed 1"):
        fuzz.run(1, lambda number: number < CASES)


@native
def test_rows_that_end_elsewhere_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{SCANNER}.check_ends", lambda *_: None)
    with pytest.raises(AssertionError, match=r"case \d+ of seed 1"):
        fuzz.run(1, lambda number: number < CASES)


@native
def test_records_that_contain_themselves_too_often_are_beyond_a_limit() -> None:
    """A null is a byte, a record another two: a megabyte of them is no crash."""
    schema = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    row = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "int"}, {"name": "deep", "type": schema}]}
    body = encode(7) + encode(1) * (1 << 21) + encode(0)
    blob = header(json.dumps(row), "null", fuzz.SYNC) + b"".join(map(bytes, block(1, body, fuzz.SYNC)))
    for decoder in ("pure", "native"):
        found = fuzz.decoded(
            fuzz.Case(blob, ReadLimits(), reader=json.dumps({**row, "fields": row["fields"][:1]})), decoder
        )
        assert "ConfigurationError" == found.error
        assert "nested too deeply to be skipped" in found.text


PACKED = {"float": 4, "double": 8, "boolean": 1, '{"type": "fixed", "name": "f", "size": 3}': 3}


@native
@pytest.mark.parametrize("item", PACKED)
def test_items_of_one_width_are_read_alike_wherever_their_bytes_end(item: str) -> None:
    """The compiled decoder copies them as a whole, and the second array is in two blocks, one with its size."""
    avro = json.loads(item) if item.startswith("{") else item
    row = {"type": "record", "name": "row", "fields": [{"name": "v", "type": {"type": "array", "items": avro}}]}
    size = PACKED[item]
    values = bytes(place % 2 for place in range(5 * size))
    whole = encode(0) + encode(2) + values[: 2 * size] + encode(-3) + encode(3 * size) + values[2 * size :] + encode(0)
    for body in [whole[:end] for end in range(len(whole) + 1)] + [whole.replace(b"\1", b"\2")]:
        blob = header(json.dumps(row), "null", fuzz.SYNC) + b"".join(map(bytes, block(2, body, fuzz.SYNC)))
        pure, compiled = (fuzz.decoded(fuzz.Case(blob, ReadLimits()), decoder) for decoder in ("pure", "native"))
        assert (pure.error, pure.places) == (compiled.error, compiled.places)
        assert pure.rows == compiled.rows
        assert bool(pure.error) == (len(body) < len(whole) or (b"\2" in body and item == "boolean"))


def test_the_decoder_that_is_asked_for_reads_or_the_error_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "pure")
    assert scanner_class() is ForthScanner
    monkeypatch.setenv(VARIABLE, "rust")
    with pytest.raises(ConfigurationError, match="AZUREBLOB_DECODER is 'rust'. Set it to auto, native or pure"):
        scanner_class()
    scanners.chosen.cache_clear()
    monkeypatch.setattr(scanners, "find_spec", lambda _: None)
    monkeypatch.setenv(VARIABLE, "auto")
    assert scanner_class() is ForthScanner
    monkeypatch.setenv(VARIABLE, "native")
    with pytest.raises(ConfigurationError, match=r"not installed. Install pyspark-azureblob\[native\]"):
        scanner_class()
    scanners.chosen.cache_clear()


@native
def test_the_log_says_once_which_decoder_reads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "auto")
    scanners.chosen.cache_clear()
    with caplog.at_level(logging.INFO, "arrow_avro"):
        assert "NativeScanner" == scanner_class().__name__
        assert "NativeScanner" == scanner_class().__name__
    assert ["Avro is decoded by the compiled decoder"] == caplog.messages
