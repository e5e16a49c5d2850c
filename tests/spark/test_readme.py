"""The first examples of README and READING, run from a file by this Python, without other preparation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.guides import python_blocks
from tools.java import java_home
from tools.spark_session import java_options

if TYPE_CHECKING:
    from tests.spark.stored import Stored

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.every_spark


WITHOUT_EXTRAS = """
import sys


class ExtraIsMissing:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "google.protobuf"):
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, ExtraIsMissing())
"""
"""A `sitecustomize` for all Python processes of a job: packages of the extra `control-messages` cannot be imported."""


def run(job: Path, code: str) -> subprocess.CompletedProcess[str]:
    job.write_text(code)
    (job.parent / "sitecustomize.py").write_text(WITHOUT_EXTRAS)
    java = java_home()
    environment = {
        "PATH": f"{job.parent}:/usr/bin:/bin",
        "PYTHONPATH": f"{job.parent}{os.pathsep}{REPOSITORY}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": java_options(quick_start=True),
        "TMPDIR": os.environ["TMPDIR"],
        **({} if java is None else {"JAVA_HOME": str(java)}),
    }
    return subprocess.run([sys.executable, job], env=environment, capture_output=True, text=True, check=False)


def test_the_first_examples_run_unchanged(
    options: dict[str, str], container_name: str, stored: Stored, tmp_path: Path
) -> None:
    other_python = tmp_path / "python3"
    other_python.write_text("#!/bin/sh\necho 'this is not the Python with the package' >&2\nexit 1\n")
    other_python.chmod(0o755)
    code = python_blocks("README.md")[0] + python_blocks("docs/READING.md")[0]
    code = code.replace('{"accountName": "myaccount"}', repr(options))
    code = code.replace("mycontainer", container_name).replace("/tmp/checkpoints", str(tmp_path))  # noqa: S108
    assert container_name in code
    ended = run(tmp_path / "job.py", code)
    assert 0 == ended.returncode, ended.stderr[-3000:]
    assert list(range(1000)) == sorted(row["id"] for row in stored.rows("passengers"))
    assert list(range(1000)) == sorted(row["id"] for row in stored.rows("gates"))
    assert {"gate 0", "gate 1", "gate 2"} == {name.split("/")[1] for name in stored.data("gates")}
