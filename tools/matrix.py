"""Runs the tests on each supported Spark and Python: `make matrix`.

    whole     the tests `every_spark` on each Spark, with the Python of `tools.trial.SPARKS`
    no Spark  the tests without Spark on each Python but this one, with the newest Spark, whose classes some of them use
    trial     the wheels on each Spark with each Python (`tools/trial.py`)

Environments are those that `tools.setup` makes of the parts `pyspark41@3.12` and so on. A table says how each part has
ended. What is missing, such as a Python, is a failure: SPARKS and PYTHONS select.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tools.pythons import THIS, find_python
from tools.setup import folder_of
from tools.trial import SPARKS, TrialError, add_pairs, chosen_python, install, release, try_pairs, wheels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parents[1]
WITH_SPARK = "every_spark and not slow and not live"
NEWEST = max(SPARKS)
WITHOUT_SPARK = "not spark and not slow and not live"
OF_THE_CHECKOUT = ("--ignore=tests/tools", "--ignore=tests/notebooks")
"""Tests without Spark that need what only `make test` installs, such as linters: not of the product."""
NO_TESTS = 5
"""What pytest exits with if a selection leaves no test."""


@dataclass(frozen=True)
class Part:
    """A part of the matrix: tests of a mark in one environment."""

    spark: str
    python: str
    mark: str

    @property
    def environment(self) -> str:
        """Its part of `tools.setup`."""
        return f"pyspark{self.spark}@{self.python}"


@dataclass(frozen=True)
class Result:
    """How a part has ended. what: its tests, in two words."""

    spark: str
    python: str
    what: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""

    @property
    def is_good(self) -> bool:
        """Whether all ran, and nothing failed."""
        return not self.failed and not self.note


def parts(sparks: Sequence[str], pythons: Sequence[str], this: str) -> list[Part]:
    """The runs of tests. `this` is the Python of `make test`, which the tests without Spark have run on."""
    whole = [Part(spark, chosen_python(spark, pythons), WITH_SPARK) for spark in sparks]
    others = [python for python in pythons if python != this] if NEWEST in sparks else []
    return whole + [Part(NEWEST, python, WITHOUT_SPARK) for python in others]


def counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of a JUnit report; errors count as failed."""
    suites = list(ET.parse(report).getroot().iter("testsuite"))  # noqa: S314 - pytest's own
    total, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return total - failures - errors - skipped, failures + errors, skipped


def run(part: Part, options: Sequence[str]) -> Result:
    """Set the environment up, with the compiled decoder, and run the tests there."""
    started, what = time.monotonic(), "whole" if part.mark == WITH_SPARK else "no Spark"
    setup = [sys.executable, "-m", "tools.setup", "--quiet", part.environment]
    if subprocess.run(setup, cwd=ROOT, check=False).returncode != 0:
        return Result(part.spark, part.python, what, note="no environment")
    folder = folder_of(part.environment)
    python, classes = folder / "bin" / "python", folder / "spark-classes.jsa"
    try:
        _install_native(python)
    except TrialError as error:
        return Result(part.spark, part.python, what, note=str(error))
    if not classes.is_file():
        subprocess.run([python, "-m", "tools.spark_classes", classes], cwd=ROOT, check=False)
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        print(f"pyspark {release(part.spark)} on Python {part.python}, {what}", flush=True)
        ignored = OF_THE_CHECKOUT if part.mark == WITHOUT_SPARK else ()
        command: list[str | Path] = [python, "-m", "pytest", f"--junitxml={report}", "-m", part.mark]
        command += [*ignored, *options]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        found = counts(report) if report.is_file() else (0, 0, 0)
    note = "" if code in (0, NO_TESTS) or found[1] else f"pytest ended with code {code}"
    return Result(part.spark, part.python, what, *found, time.monotonic() - started, note)


def _install_native(python: Path) -> None:
    """The compiled wheel, if there is one: its tests are skipped else."""
    if wheels()[1:]:
        install(python, "--no-deps", "pyspark-azureblob-native")


def tried(sparks: Iterable[str], pythons: Sequence[str]) -> list[Result]:
    """The wheels on each pair; the guides on one of each Spark."""
    found = []
    for trial in try_pairs(sparks, pythons):
        what = "trial, guides" if trial.with_guides else "trial"
        counted = (len(trial.passed), len(trial.failed), 0)
        found.append(Result(trial.spark, trial.python, what, *counted, trial.seconds, ", ".join(trial.failed)))
    return found


def table(results: Iterable[Result]) -> str:
    """A line for each part."""
    lines = [f"{'pyspark':8}{'Python':8}{'':14}{'passed':>7}{'failed':>7}{'skipped':>8}{'seconds':>8}"]
    for each in results:
        numbers = f"{each.passed:>7}{each.failed:>7}{each.skipped:>8}{each.seconds:>8.0f}"
        lines.append(f"{release(each.spark):8}{each.python:8}{each.what:14}{numbers}  {each.note}".rstrip())
    return "\n".join(lines)


def main() -> int:
    """Run the parts and print the table. The exit code is 0 if all pass, else 1."""
    parser = argparse.ArgumentParser(description="Run the tests on each supported Spark and Python.")
    add_pairs(parser)
    parser.add_argument("options", nargs="*", help="further options of pytest, after --")
    given = parser.parse_args()
    missing = [version for version in given.pythons if find_python(version) is None]
    there = [version for version in given.pythons if version not in missing]
    results = [run(part, given.options) for part in parts(given.sparks, there, THIS)] if there else []
    results += tried(given.sparks, there)
    print(f"\n{table(results)}")
    for version in missing:
        print(
            f"matrix: no Python {version} was found: put python{version} on the PATH, or set PYTHONS.", file=sys.stderr
        )
    return 0 if not missing and all(result.is_good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
