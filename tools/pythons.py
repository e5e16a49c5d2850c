"""Finds a Python of a given version: this one, of the PATH, of pyenv, or of uv. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("3.11", "3.12", "3.13")
"""The versions that are supported."""
THIS = ".".join(map(str, sys.version_info[:2]))
"""The version of the Python that runs."""


def this_python() -> Path:
    """The Python that runs, not that of its virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable))


def find_python(version: str) -> Path | None:
    """The first interpreter that runs and has this version, such as `3.12`; None if there is none."""
    return next((path for path in _candidates(version) if _is_of(version, full_version(path))), None)


def full_version(python: Path) -> str | None:
    """What the interpreter says of itself, such as `3.12.1`; None if it does not run."""
    question = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        ended = subprocess.run([str(python), "-c", question], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None


def _is_of(version: str, full: str | None) -> bool:
    return full is not None and full.split(".")[:2] == version.split(".")


def _candidates(version: str) -> Iterator[Path]:
    """Of pyenv the versions themselves: its `python3.12` on the PATH runs only if that version is selected."""
    yield this_python()
    if (on_path := shutil.which(f"python{version}")) is not None:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", "")]))
    if uv is not None:
        command = [uv, "python", "find", "--no-project", "--no-python-downloads", version]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        yield from [Path(found)] if found else []
