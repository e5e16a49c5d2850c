"""What Spark's Python workers keep of their imports, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, sys, weakref
sys.orig_argv = [sys.executable, *sys.argv[1:]]
from azure_account import open_account
from foundation.worker_modules import keep_modules
gc.disable()  # a collection of its own accord would hide that none is asked for
begun = gc.get_freeze_count()  # Python 3.12 begins with some

class Large: ...

def garbage():
    large = Large()
    large.itself = large
    return weakref.ref(large)

open_account({"connectionString": "UseDevelopmentStorage=true"})
left = [garbage() for _ in range(5)]
connected = gc.get_freeze_count() - begun
keep_modules()
first = gc.get_freeze_count() - begun
keep_modules()
second = gc.get_freeze_count() - begun
import colorsys
left += [garbage() for _ in range(5)]
keep_modules()
third = gc.get_freeze_count() - begun
gc.collect()
print(connected, first, second - first, third > second, sum(one() is not None for one in left))
"""


@pytest.mark.parametrize("module", ["pyspark.daemon", "pyspark.worker"])
def test_a_worker_of_spark_searches_its_modules_for_garbage_no_more_and_keeps_no_garbage(module: str) -> None:
    connected, frozen, again, more, kept = _run("-m", module)
    assert "0" == connected, "only where a task begins"
    assert int(frozen) > 40_000
    assert ("0", "True", "0") == (again, more, kept)


def test_other_processes_search_all_they_have() -> None:
    assert ["0", "0", "0", "False", "0"] == _run("job.py")


def _run(*arguments: str) -> list[str]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
