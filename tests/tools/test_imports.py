"""An import that breaks a contract is found."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["root_packages"]
PURE = "pure modules: no clock, no thread, no randomness, no network, no log"
WRONG = (
    ("azureblob_source.log.entry", "azureblob_source.read.snapshot", "azureblob_source: its layers"),
    ("azureblob_source.write.routing", "azureblob_source.read.splits", "azureblob_source: its layers"),
    ("arrow_avro.encoding.pieces", "arrow_avro.decoding.plan", "arrow_avro: its layers"),
    ("arrow_avro.limits", "azure_account.location", "arrow_avro knows nothing of blobs"),
    ("arrow_avro.schema", "pyspark", "these modules speak to Spark"),
    ("azureblob_source.read.views", "arrow_avro.arrow_values", "other packages import only the face of arrow_avro"),
    ("azure_account.values", "azureblob_source.address", "imports go down, from the registration to the foundation"),
    ("foundation.errors", "azure_account.options", "imports go down, from the registration to the foundation"),
    ("azure_account.memory.service", "azure_account.sdk.blobs", "azure_account: its layers"),
    ("azureblob_source.log.commit", "azure", "only azure_account.sdk imports the Azure SDK"),
    ("azure_account.connect", "azure", "only azure_account.sdk imports the Azure SDK"),
    ("azureblob_source.log.live", "time", PURE),
    ("azureblob_source.write.routing", "foundation.parallel", PURE),
    ("azure_account.options.secret", "os", PURE),
    ("azureblob_source.write.planning", "azureblob_source.write.sink", "azureblob_source.write: its layers"),
    ("control_messages.partition_tracker", "control_messages.holds", "control_messages: its layers"),
    ("control_messages.holds", "control_messages.spark.progress", "control_messages: its layers"),
    ("control_messages.holds", "pyspark", "these modules speak to Spark"),
)
"""A module, what it imports by mistake, and the contract that forbids it."""

IN_NO_LAYER = ("arrow_avro", "azure_account", "azureblob_source", "azureblob_source.read")


def test_wrong_imports_break_their_contracts_and_so_does_a_module_in_no_layer(tmp_path: Path) -> None:
    for package in (*PACKAGES, "tools"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, imported, _ in WRONG:
        with (tmp_path / f"{module.replace('.', '/')}.py").open("a") as file:
            file.write(f"import {imported}\n")
    with (tmp_path / "azureblob_source/log/naming.py").open("a") as file:
        file.write(
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from azureblob_source.read import splits\n"
        )
    for package in IN_NO_LAYER:
        (tmp_path / package.replace(".", "/") / "of_no_layer.py").touch()

    broken = broken_contracts(tmp_path)
    for module, imported, contract in WRONG:
        assert f"{module} -> {imported} " in broken.get(contract, ""), (module, imported, broken)
    assert "azureblob_source.log.naming -> azureblob_source.read.splits " in broken["azureblob_source: its layers"]
    for package in IN_NO_LAYER:
        assert f"{package}.of_no_layer" in broken[f"{package}: its layers"]


def broken_contracts(folder: Path) -> dict[str, str]:
    """The contracts that the linter finds broken, each with what breaks it."""
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run([linter, "--no-logo", "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)
    assert 1 == ended.returncode, ended.stdout
    _, *parts = re.split(r"(?m)^(.+)\n-+\n", ended.stdout.partition("Broken contracts")[2])
    return dict(zip(parts[::2], parts[1::2], strict=True))
