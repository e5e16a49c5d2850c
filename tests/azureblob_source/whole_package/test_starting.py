"""What Spark's Python processes load: each query starts some, and each of them loads its modules before its first row.

Counted are packages and modules, not seconds. Packages that the Azure SDK loads by itself are left out: every process
that makes a request needs them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tools.azurite import Azurite

ROOT = Path(__file__).parents[3]
ARROW = {"numpy", "pyarrow"} | ({"cloudpickle"} if find_spec("cloudpickle") else set())
"""Arrow loads cloudpickle where it is installed."""
FUNCTIONS = {"pyarrow.compute"}
"""Arrow's functions, which take as long to load as the rest of Arrow."""

BUDGET: dict[str, tuple[set[str], int]] = {
    "find_the_format": (set(), 3),
    "plan_a_write": (ARROW | FUNCTIONS, 93),
    "write": (ARROW | FUNCTIONS | {"opentelemetry"}, 105),
    "commit": ({"opentelemetry"}, 72),
    "commit_micro_batches": (ARROW | FUNCTIONS, 100),
    "find_the_schema": (ARROW, 92),
    "take_a_given_schema": (ARROW | {"cramjam", "fastavro"}, 84),
    "plan_a_read": (ARROW, 92),
    "read": (ARROW | FUNCTIONS | {"awkward_cpp"}, 113),
    "follow": (ARROW | {"opentelemetry"}, 94),
}
if find_spec("pyspark_azureblob_native"):
    BUDGET["read_natively"] = (ARROW | FUNCTIONS | {"pyspark_azureblob_native"}, 112)
"""For each process the packages that it needs, and the most modules of this project."""


@pytest.fixture(scope="module")
def loaded(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each process has loaded, which packages the Azure SDK needs left out."""
    options = json.dumps({"connectionString": azurite.connection_string})
    folder = tmp_path_factory.mktemp("starting")
    path = f"test-{uuid.uuid4().hex}/events"
    program = [sys.executable, "-m", "tests.azureblob_source.starting", options, path, str(folder)]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == ended.returncode, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    of_the_sdk = set(found.pop("only_the_sdk")["asked"])
    for each in found.values():
        each["asked"] = {name: by for name, by in each["asked"].items() if name not in of_the_sdk}
    return found


def test_every_process_has_a_budget(loaded: dict[str, Any]) -> None:
    assert set(BUDGET) == set(loaded)


@pytest.mark.parametrize("process", BUDGET)
def test_a_process_loads_the_packages_that_it_needs_and_no_other(loaded: dict[str, Any], process: str) -> None:
    asked = loaded[process]["asked"]
    assert BUDGET[process][0] == set(asked), f"loaded by {asked}"


@pytest.mark.parametrize("process", BUDGET)
def test_a_process_loads_few_of_our_modules(loaded: dict[str, Any], process: str) -> None:
    ours = loaded[process]["ours"]
    assert len(ours) <= BUDGET[process][1], "\n".join(ours)
