"""The contracts on imports are kept, and an import that breaks one is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["root_packages"]


ANNOTATION = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("azureblob_source/log/entry.py", "from azureblob_source.read import snapshot", "azureblob_source: its layers"),
        (
            "azureblob_source/log/entry.py",
            f"{ANNOTATION}from azureblob_source.read import snapshot",
            "azureblob_source",
        ),
        ("azureblob_source/write/routing.py", "from azureblob_source.read import splits", "azureblob_source: its"),
        ("arrow_avro/encoding/pieces.py", "from arrow_avro.decoding import plan", "arrow_avro: its layers"),
        ("arrow_avro/of_no_layer.py", "", "arrow_avro: its layers"),
        ("arrow_avro/limits.py", "from azure_account.location import Location", "arrow_avro knows nothing of blobs"),
        ("arrow_avro/schema.py", "import pyspark", "these modules speak to Spark"),
        ("azureblob_source/read/views.py", "from arrow_avro.arrow_values import int64_array", "other packages import"),
        ("azure_account/account.py", "import azureblob_source.address", "imports go down"),
        ("foundation/errors.py", "from azure_account.options import settings", "imports go down"),
        ("azure_account/memory/service.py", "from azure_account.sdk import blobs", "azure_account: its layers"),
        ("azureblob_source/log/commit.py", "from azure.storage import blob", "only azure_account.sdk imports"),
        ("azure_account/connect.py", "from azure.storage import blob", "only azure_account.sdk imports"),
        ("azureblob_source/log/live.py", "import time", "pure modules"),
        ("azureblob_source/write/routing.py", "from foundation import parallel", "pure modules"),
        ("azure_account/options/secret.py", "import os", "pure modules"),
        (
            "azureblob_source/write/planning.py",
            "from azureblob_source.write import sink",
            "azureblob_source.write: its",
        ),
        ("azureblob_source/read/of_no_layer.py", "", "azureblob_source.read: its layers"),
        ("control_messages/partition_tracker.py", "from control_messages import holds", "control_messages: its layers"),
        ("control_messages/holds.py", "from control_messages.spark import why_held", "control_messages: its layers"),
        ("control_messages/holds.py", "import pyspark", "these modules speak to Spark"),
        ("azureblob_source/of_no_layer.py", "", "azureblob_source: its layers"),
        ("azure_account/of_no_layer.py", "", "azure_account: its layers"),
    ],
)
def test_a_wrong_import_breaks_a_contract(module: str, line: str, contract: str, tmp_path: Path) -> None:
    for package in (*PACKAGES, "tools"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert (0, "") == _broken(tmp_path)
    with (tmp_path / module).open("a") as file:
        file.write(f"{line}\n")
    code, text = _broken(tmp_path)
    assert (1, contract) == (code, text[: len(contract)])


def _broken(folder: Path) -> tuple[int, str]:
    """The exit code of the linter, and the contracts that it reports as broken."""
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run([linter, "--no-logo", "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)
    broken = [line for line in ended.stdout.splitlines() if " BROKEN" in line]
    return ended.returncode, "\n".join(broken) or ended.stdout * (ended.returncode != 0)
