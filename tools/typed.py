"""Checks the packages' types from outside, as a user's type checker sees them: `make typed`.

The wheel is installed in an empty environment, with the locked versions of what it needs. `mypy --strict` and pyright
check a program of a user's (`tests/typed/program.py`) there, and pyright counts which public symbols have a type that
is known and the same for all type checkers. What other packages leave untyped (pyarrow has no types) does not count.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.dist_contents import packages
from tools.node import find_node
from tools.setup import REQUIREMENTS, SetupError, install, part_of
from tools.wheels import copy_tracked

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "typed" / "program.py"
PYRIGHT = ROOT / "tools" / "pyright" / "node_modules" / "pyright" / "index.js"
LEAST_COMPLETE = 0.98


def main() -> int:
    """Check. The exit code is 0, or 1 if a checker complains or a package has too few types."""
    node = find_node()
    if node is None:
        print("typed: no Node 18 or later was found: run `make typed`.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            environment = _environment(folder)
        except SetupError as error:
            print(f"typed: {error}", file=sys.stderr)
            return 1
        shutil.copy(PROGRAM, folder)
        print("mypy --strict:", flush=True)
        mypy = _run(["mypy", "--strict", PROGRAM.name], folder, environment)
        pyright: list[str | Path] = [node.program, PYRIGHT]
        print("pyright:", flush=True)
        other = _run([*pyright, PROGRAM.name], folder, environment)
        scores = {name: _completeness([*pyright], name, folder, environment) for name in packages()}
    for name, score in scores.items():
        print(f"  {name:<18} {score:7.2%} of the public symbols have a known type")
    incomplete = sorted(name for name, score in scores.items() if score < LEAST_COMPLETE)
    if incomplete:
        print(f"typed: below {LEAST_COMPLETE:.0%}: {', '.join(incomplete)}; add types.", file=sys.stderr)
    return int(mypy or other or bool(incomplete))


def _environment(folder: Path) -> dict[str, str]:
    """An environment with the wheel, mypy and what they need; the variables with which programs find it."""
    home = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    lock = folder / "typed.lock"
    lock.write_text(part_of(REQUIREMENTS / "dev.lock", "check"), encoding="utf-8")
    install(home, lock)
    copy_tracked(ROOT, folder / "tree")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=folder / "tree", check=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([home / "bin" / "python", "-m", "pip", "install", *options, *folder.glob("*.whl")], check=True)
    variables = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MYPYPATH"}}
    return {**variables, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(home)}


def _run(command: list[str | Path], folder: Path, environment: Mapping[str, str]) -> int:
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    return subprocess.run([program, *command[1:]], cwd=folder, env=environment, check=False).returncode


def _completeness(pyright: list[str | Path], package: str, folder: Path, environment: Mapping[str, str]) -> float:
    command = [*pyright, "--outputjson", "--ignoreexternal", "--verifytypes", package]
    answer = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    score: float = json.loads(answer.stdout)["typeCompleteness"]["completenessScore"]
    return score


if __name__ == "__main__":
    sys.exit(main())
