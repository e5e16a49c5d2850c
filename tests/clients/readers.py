"""Programs that read Avro, and how each is asked for the rows of every file of a folder."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROGRAMS = Path(os.environ.get("AVRO_CLIENTS", HERE.parents[1] / ".clients"))
"""Where `python -m tests.clients build` puts the programs."""
PYTHON = PROGRAMS / "python" / "bin" / "python"

Answer = list[dict[str, Any]] | str
"""Rows, or the text of an error."""


@dataclass(frozen=True)
class Reader:
    """A program, that is a command which takes a folder and prints JSON.

    needs: files, or a module of this Python, that the command cannot do without.
    """

    name: str
    command: Sequence[str | Path]
    needs: Path | str

    def missing(self) -> str | None:
        """Why it cannot be run here."""
        there = self.needs.exists() if isinstance(self.needs, Path) else importlib.util.find_spec(self.needs)
        if there and shutil.which(self.command[0]):
            return None
        return f"{self.needs} is not there: python -m tests.clients build"

    def read(self, folder: Path) -> dict[str, Answer]:
        """What it answers for each file."""
        words = [str(folder if word == "FOLDER" else word) for word in self.command]
        run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        if run.returncode:
            raise RuntimeError(f"{self.name}: {run.stdout}{run.stderr}")
        answers: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
        return {file: one["error"] if isinstance(one, dict) else one for file, one in answers.items()}


def _python(name: str, module: str) -> Reader:
    """A library of Python: the one among the programs, else that of this environment."""
    built = PYTHON.exists()
    command = [PYTHON if built else sys.executable, HERE / "python_readers.py", module, "FOLDER"]
    return Reader(name, command, PYTHON if built else module)


def readers() -> list[Reader]:
    """All of them, there or not."""
    go, java, node = (PROGRAMS / name for name in ("go", "java", "node"))
    rust = PROGRAMS / "rust" / "target" / "debug" / "clients"
    csharp = PROGRAMS / "csharp" / "client.exe"
    from_java: list[str | Path] = ["java", "-cp", f"{java}/lib/*", HERE / "java" / "Client.java", "read", "FOLDER"]
    return [
        Reader("Java: avro 1.12.2", from_java, java / "lib"),
        Reader("Rust: apache-avro 0.21", [rust, "read", "FOLDER"], rust),
        Reader("Go: hamba/avro 2.31", [go / "client", "read", "FOLDER", "hamba"], go / "client"),
        Reader("Go: linkedin/goavro 2.15", [go / "client", "read", "FOLDER", "goavro"], go / "client"),
        Reader("Node: avsc 5.7.9", ["node", node / "client.js", "read", "FOLDER"], node / "node_modules" / "avsc"),
        Reader("C#: avro on Mono", ["mono", csharp, "read", "FOLDER"], csharp),
        _python("Python: avro 1.12.2", "avro"),
        _python("Python: fastavro 1.13.1", "fastavro"),
        _python("Polars 2.1.0", "polars"),
        _python("DuckDB 1.5.5", "duckdb"),
        _python("ClickHouse (chDB 4.4.0)", "chdb"),
    ]
