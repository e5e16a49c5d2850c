"""What Spark's Python workers keep of their imports, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, sys
sys.orig_argv = [sys.executable, *sys.argv[1:]]
from azure_account import open_account
account = {"connectionString": "UseDevelopmentStorage=true"}
open_account(account)
first = gc.get_freeze_count()
open_account(account)
second = gc.get_freeze_count()
import colorsys
open_account(account)
print(first, second - first, gc.get_freeze_count() > second)
"""


@pytest.mark.parametrize("module", ["pyspark.daemon", "pyspark.worker"])
def test_a_worker_of_spark_searches_what_it_has_imported_for_garbage_no_more(module: str) -> None:
    frozen, again, more = _run("-m", module)
    assert int(frozen) > 40_000
    assert ("0", "True") == (again, more)


def test_other_processes_search_all_they_have() -> None:
    assert ["0", "0", "False"] == _run("job.py")


def _run(*arguments: str) -> list[str]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
