"""Builds the programs of this folder from the registries of their languages. What cannot be had is left out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.clients.readers import HERE, PROGRAMS, PYTHON

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PACKAGES = [
    "avro==1.12.2",
    "backports.zstd==1.8.0",
    "chdb==4.4.0",
    "duckdb==1.5.5",
    "duckdb-extension-avro==1.5.5",
    "duckdb-extensions==1.5.5",
    "fastavro==1.13.1",
    "polars==2.1.0",
    "python-snappy==0.7.3",
    "pytz",
    "zstandard",
]
STEPS: dict[str, list[Sequence[str | Path]]] = {
    "go": [["go", "build", "-o", "client", "."]],
    "java": [["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]],
    "node": [["npm", "install", "--silent", "--no-fund", "--no-audit"]],
    "rust": [["cargo", "build", "-q"]],
    "python": [
        [sys.executable, "-m", "venv", PYTHON.parents[1]],
        [PYTHON, "-m", "pip", "install", "-q", *PACKAGES],
    ],
}


def build(names: Sequence[str]) -> None:
    """Build these, or all."""
    for name in names or STEPS:
        folder = PROGRAMS / name
        folder.mkdir(parents=True, exist_ok=True)
        if (HERE / name).exists():
            shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
        done = all(_succeeds(step, folder) for step in STEPS[name])
        print(f"{name}: {'built' if done else 'left out'}", flush=True)


def _succeeds(step: Sequence[str | Path], folder: Path) -> bool:
    words = [str(word) for word in step]
    return shutil.which(words[0]) is not None and subprocess.run(words, cwd=folder, check=False).returncode == 0
