"""What `tools.setup` refuses before it makes anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_version_of_spark_without_a_lock_is_refused_with_those_that_have_one() -> None:
    command = [sys.executable, "-m", "tools.setup", "pyspark39"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    known = ", ".join(sorted(lock.stem for lock in (ROOT / "requirements").glob("pyspark*.lock")))
    assert f"set-up: there is no requirements/pyspark39.lock; choose among {known}.\n" == ended.stderr
    assert (1, "") == (ended.returncode, ended.stdout)
