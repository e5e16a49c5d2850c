"""Builds the compiled decoder of `native/` and installs it. Standard library only.

Without Rust nothing is installed, and the connector decodes in Python. Rust is installed with the system's package
manager if there is none; the one of an older system may be too old.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tools.system_packages import install_package

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "native"
OLDEST_RUST = (1, 83)
PACKAGES = {"apt-get": "cargo", "dnf": "cargo", "apk": "cargo"}


class NativeMissingError(Exception):
    """The compiled decoder cannot be built. The message says why, and what to do."""


def sources() -> list[Path]:
    """The files that it is built from."""
    return sorted([*SOURCE.glob("src/*.rs"), SOURCE / "Cargo.lock", SOURCE / "Cargo.toml", SOURCE / "pyproject.toml"])


def require_cargo() -> Path:
    """The Cargo of a suitable Rust, which is installed if there is none. Raises `NativeMissingError`."""
    found = find_cargo()
    if found is None:
        install_package(PACKAGES)
        found = find_cargo()
    if found is None:
        step = "install it from https://rustup.rs and run `make setup` again"
        raise NativeMissingError(f"no cargo of Rust {_dotted(OLDEST_RUST)} or later was found; {step}")
    return found


def with_cargo() -> dict[str, str]:
    """The environment of a build. Raises `NativeMissingError`."""
    return {**os.environ, "PATH": os.pathsep.join([str(require_cargo().parent), os.environ.get("PATH", "")])}


def find_cargo() -> Path | None:
    """The first Cargo that is new enough: of `PATH`, or where rustup puts it."""
    return next((cargo for cargo in cargos() if (_version(cargo) or (0, 0)) >= OLDEST_RUST), None)


def cargos() -> list[Path]:
    """Every Cargo of this machine, whatever its version."""
    on_path = shutil.which("cargo")
    found = [*([Path(on_path)] if on_path else []), Path.home() / ".cargo" / "bin" / "cargo"]
    return [cargo for cargo in found if cargo.is_file()]


def output_of(command: Sequence[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> str:
    """What a program prints, without the last line's end. Raises `CalledProcessError` if it fails."""
    ended = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return ended.stdout.rstrip("\n")


def _version(cargo: Path) -> tuple[int, int] | None:
    answer = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"cargo (\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else None


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
