"""One clock for all packages: nothing else of the product asks the machine for the time."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from foundation.clock import SYSTEM_CLOCK, ManualClock, utc

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
NO_PRODUCT = ("benchmarks", "demo", "tools")
NOW = {"now", "utcnow", "today"}


def asks_for_the_time(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name == "time")
            case ast.ImportFrom(module="time"):
                yield "time"
            case ast.Attribute(value=ast.Name(id="datetime" | "date" | "dt"), attr=attr) if attr in NOW:
                yield attr
            case ast.Attribute(value=ast.Attribute(attr="datetime" | "date"), attr=attr) if attr in NOW:
                yield attr
            case _:
                pass


def test_only_the_clock_asks_the_machine_for_the_time() -> None:
    packages = [face.parent for face in ROOT.glob("*/__init__.py") if face.parent.name not in NO_PRODUCT]
    modules = [path for package in packages for path in package.rglob("*.py")]
    asking = {str(path.relative_to(ROOT)) for path in modules if any(asks_for_the_time(path.read_text("utf-8")))}
    assert {"foundation/clock.py"} == asking


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "datetime.now(timezone.utc)",
        "datetime.datetime.utcnow()",
        "datetime.date.today()",
    ],
)
def test_each_way_to_ask_is_found(source: str) -> None:
    assert 1 == len(list(asks_for_the_time(source)))


def test_nanoseconds_and_the_time_in_utc_are_those_of_now() -> None:
    clock = ManualClock(1_767_225_600.25)
    assert 1_767_225_600_250_000_000 == clock.now_ns()
    assert "2026-01-01T00:00:00.250+00:00" == utc(clock).isoformat(timespec="milliseconds")
    before, nanoseconds, after = SYSTEM_CLOCK.now(), SYSTEM_CLOCK.now_ns(), SYSTEM_CLOCK.now()
    assert before - 1e-6 <= nanoseconds / 1e9 <= after + 1e-6 or after < before
