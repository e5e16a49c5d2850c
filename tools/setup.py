"""Installs what this checkout needs: `python3 -m tools.setup`. Requires only Python 3.10 with venv and pip.

There are five steps. A step is repeated only if a file that it depends on has changed:

    .venv                         the packages of requirements/dev.lock, and this checkout on the import path
    .venv-pyspark40               the same for the oldest supported Spark, requirements/pyspark40.lock
    tools/azurite/node_modules    Azurite from npm, by its package-lock.json; Node from PyPI if the machine has none
    Java                          the machine's, or one from the system's package manager
    native/                       the compiled decoder, if there is a Rust or the package manager has one

`python3 -m tools.setup pyspark41 pyspark42` makes only the environments of the versions that are named,
`.venv-pyspark41` from requirements/pyspark41.lock and so on. `make matrix` does this after the five steps.
`python3 -m tools.setup browser` installs the browser of tools/browser from npm, for a test of `make crash`.

Downloads are checked against the hashes of the lock files. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.java import JavaMissingError, require_java
from tools.native import SOURCE, NativeMissingError, cargos, sources, with_cargo
from tools.node import find_node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OLDEST_PYTHON = (3, 10)
ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
AZURITE, BROWSER = ROOT / "tools" / "azurite", ROOT / "tools" / "browser"
DEVELOPMENT = ROOT / ".venv"
OLDEST_SPARK = "pyspark40"


class SetupError(Exception):
    """A step failed. The message says which one, and what to do."""


def main() -> int:
    """Do the steps that are not done. The exit code is 0, or 1 after a message that says what is missing."""
    if sys.version_info < OLDEST_PYTHON:
        return _complain(f"Python 3.10 or later is needed, this is {sys.version.split()[0]}: make PYTHON=python3.12")
    versions = [word for word in sys.argv[1:] if not word.startswith("-")]
    try:
        ready = _set_up_named(versions) if versions else _set_up()
    except (JavaMissingError, SetupError) as error:
        return _complain(str(error))
    if "--quiet" not in sys.argv:
        print(f"Ready: {ready}")
    return 0


def _set_up() -> str:
    java = require_java()
    _once(".venv", DEVELOPMENT / ".setup", _lock_files("setup", "dev"), _make_development)
    _set_up_versions([OLDEST_SPARK])
    _set_up_npm("Azurite", AZURITE)
    _set_up_native()
    return f".venv, .venv-{OLDEST_SPARK}, Azurite, Java in {java}"


def _set_up_native() -> None:
    """The compiled decoder. What it lacks is said once, and no error: everything works without it."""
    inputs = [*sources(), DEVELOPMENT / ".setup"]
    _once("the compiled decoder", DEVELOPMENT / ".native", inputs, _install_native, *map(str, cargos()))


def _install_native() -> None:
    try:
        environment = with_cargo()
    except NativeMissingError as error:
        print(f"  It is left out, Avro is decoded in Python: {error}.", flush=True)
        return
    command: list[str | Path] = [_python(DEVELOPMENT), "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--force-reinstall", SOURCE]
    try:
        _run(command, "read the lines above", environment=environment)
    except SetupError as error:
        print(f"  It is left out, Avro is decoded in Python: {error}", flush=True)


def _set_up_named(names: Sequence[str]) -> str:
    """The browser, or the environments of versions of Spark."""
    if "browser" in names:
        _set_up_npm("a browser", BROWSER)
    _set_up_versions([name for name in names if name != "browser"])
    return ", ".join(names)


def _set_up_npm(name: str, folder: Path) -> None:
    """The packages of a folder's package-lock.json."""
    _once(name, folder / "node_modules" / ".setup", [folder / "package-lock.json"], partial(_npm_ci, folder))


def _set_up_versions(names: Sequence[str]) -> str:
    """The environments of versions of Spark, each named as its lock file."""
    locked = sorted(lock.stem for lock in REQUIREMENTS.glob("pyspark*.lock"))
    for name in names:
        if name not in locked:
            raise SetupError(f"there is no requirements/{name}.lock; choose among {', '.join(locked)}.")
        stamp = ROOT / f".venv-{name}" / ".setup"
        _once(stamp.parent.name, stamp, _lock_files("setup", name), partial(_make_version, name))
    return ", ".join(f".venv-{name}" for name in names)


def _complain(sentence: str) -> int:
    print(f"set-up: {sentence}", file=sys.stderr)
    return 1


def _lock_files(*names: str) -> list[Path]:
    return [REQUIREMENTS / f"{name}.lock" for name in names]


def _once(name: str, stamp: Path, inputs: Sequence[Path], action: Callable[[], None], *more: str) -> None:
    """Run a step, unless its stamp shows that it was run with the same inputs, Python, folder and facts (`more`)."""
    facts = [sys.version.encode(), str(ROOT).encode(), *(path.read_bytes() for path in inputs), *map(str.encode, more)]
    digest = hashlib.sha256(b"\0".join(facts)).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="ascii") == digest:
        return
    print(f"Setting up {name} ...", flush=True)
    started = time.monotonic()
    action()
    stamp.write_text(digest, encoding="ascii")
    print(f"  done in {time.monotonic() - started:.0f} s", flush=True)


def _make_development() -> None:
    _make_environment(DEVELOPMENT)
    _fetch_uv()
    _install(DEVELOPMENT, REQUIREMENTS / "dev.lock")


def _make_version(name: str) -> None:
    folder = ROOT / f".venv-{name}"
    _make_environment(folder)
    _install(folder, REQUIREMENTS / f"{name}.lock")


def _npm_ci(folder: Path) -> None:
    if find_node() is None:
        _install(DEVELOPMENT, REQUIREMENTS / "node.lock")
    node = find_node()
    if node is None:
        raise SetupError("Node 18 or later is needed, and PyPI has none for this system: install Node and npm.")
    path = os.pathsep.join([str(node.program.parent), os.environ.get("PATH", "")])
    _run([*node.npm, "ci", "--loglevel=error"], cwd=folder, environment={**os.environ, "PATH": path})


def _make_environment(folder: Path) -> None:
    """Create a virtual environment with this checkout on its import path, for Spark's workers too.

    An existing one of another Python version is cleared first, because its packages cannot be loaded.
    """
    config = folder / "pyvenv.cfg"
    version = ".".join(str(number) for number in sys.version_info[:3])
    stale = config.is_file() and f"version = {version}" not in config.read_text(encoding="utf-8")
    base: str = getattr(sys, "_base_executable", sys.executable)
    clear = ["--clear"] if stale else []
    _run([base, "-m", "venv", *clear, folder], "install Python's venv module (python3-venv)")
    question = "import sysconfig; print(sysconfig.get_path('purelib'))"
    answer = subprocess.run([str(_python(folder)), "-c", question], capture_output=True, text=True, check=True)
    (Path(answer.stdout.strip()) / "_checkout.pth").write_text(f"{ROOT}\n", encoding="utf-8")


def _fetch_uv() -> None:
    """Install uv, which is several times faster than pip. Without it `_install` uses pip."""
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
    lock = REQUIREMENTS / "setup.lock"
    subprocess.run([str(_python(DEVELOPMENT)), "-m", "pip", "install", *options, "-r", str(lock)], check=False)


def _install(folder: Path, lock: Path) -> None:
    """Install a lock file with uv, or with pip if uv fails (no wheel for the system, an index set for pip only).

    uv's cache is off: PySpark is a source archive, and each build of it can leave 2 GB there.
    """
    uv = DEVELOPMENT / "bin" / "uv"
    options = [
        "--quiet",
        "--no-cache",
        "--compile-bytecode",
        "--require-hashes",
        "--python",
        str(_python(folder)),
        "-r",
        str(lock),
    ]
    if not uv.is_file() or subprocess.run([str(uv), "pip", "install", *options], check=False).returncode != 0:
        _pip(folder, lock)


def _pip(folder: Path, lock: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes"]
    _run([_python(folder), "-m", "pip", "install", *options, "-r", lock], "check the network and pip's index")


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(
    command: Sequence[str | Path],
    advice: str = "read the lines above",
    *,
    cwd: Path = ROOT,
    environment: dict[str, str] | None = None,
) -> None:
    code = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, check=False).returncode
    if code != 0:
        raise SetupError(f"`{' '.join(str(word) for word in command)}` ended with code {code}: {advice}.")


if __name__ == "__main__":
    sys.exit(main())
