"""Installs what a target of the Makefile needs: `python3 -m tools.setup PART ...`. Needs Python 3.11 with venv and pip.

    demo, test, check,       packages in .venv: the connector's own, and those of this group of pyproject.toml, in the
    notebooks, bench, docs   versions of requirements/dev.lock; this checkout on the import path; a Java
    pyspark40, pyspark41 ... .venv-pyspark40 and so on, from requirements/pyspark40.lock; likewise `release`; with
                             another Python pyspark40@3.12 is .venv-pyspark40-3.12
    azurite, browser,        the packages of tools/azurite and so on from npm; a Node if there is none
    pyright
    native                   the compiled decoder of native/ in .venv, if there is a Rust or the package manager has one

Without a part: what `make check` needs. A part is set up again only if a file that it depends on has changed.
Downloads are checked against the hashes of the lock files. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.java import JavaMissingError, require_java
from tools.native import SOURCE, NativeMissingError, cargos, sources, with_cargo
from tools.node import find_node
from tools.pythons import find_python, full_version, this_python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OLDEST_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
DEVELOPMENT = ROOT / ".venv"
GROUPS = ("demo", "test", "check", "notebooks", "bench", "docs")
NPM = {name: ROOT / "tools" / name for name in ("azurite", "browser", "pyright")}
DEFAULT = ("test", "check", "azurite", "native", "pyspark40")


class SetupError(Exception):
    """A step failed. The message says which one, and what to do."""


def main() -> int:
    """Set the parts up. The exit code is 0, 1 after a message that says what is missing, or 2 after the usage."""
    if sys.version_info < OLDEST_PYTHON:
        return _complain(f"Python 3.11 or later is needed, this is {sys.version.split()[0]}: make PYTHON=python3.12")
    options = {word for word in sys.argv[1:] if word.startswith("-")}
    if options - {"--quiet"}:
        print(__doc__)
        return 0 if options <= {"-h", "--help"} else 2
    parts = [word for word in sys.argv[1:] if not word.startswith("-")] or [*DEFAULT]
    try:
        for part in parts:
            _set_up(part)
    except (JavaMissingError, SetupError) as error:
        return _complain(str(error))
    if not options:
        print(f"Ready: {', '.join(parts)}")
    return 0


def _set_up(part: str) -> None:
    if part in GROUPS:
        require_java()
        _once(
            f"{part} in .venv", DEVELOPMENT / f".setup-{part}", _lock_files("setup", "dev"), partial(_add_group, part)
        )
    elif part == "native":
        inputs = [*sources(), DEVELOPMENT / "pyvenv.cfg"]
        _once("the compiled decoder", DEVELOPMENT / ".native", inputs, _install_native, *map(str, cargos()))
    elif part in NPM:
        folder = NPM[part]
        inputs = [folder / "package-lock.json"]
        _once(part.capitalize(), folder / "node_modules" / ".setup", inputs, partial(_npm_ci, folder))
    else:
        _set_up_environment(part)


def _set_up_environment(part: str) -> None:
    """An environment of its own, named as its lock file: with a version of Spark, or with what builds packages."""
    name, _, version = part.partition("@")
    locked = ["release", *sorted(lock.stem for lock in REQUIREMENTS.glob("pyspark*.lock"))]
    if name not in locked:
        known = ", ".join([*GROUPS, *NPM, "native", *locked])
        raise SetupError(f"there is no part {name}; choose among {known}.")
    python = find_python(version) if version else this_python()
    if python is None:
        raise SetupError(f"{part} needs Python {version}, and none was found: put python{version} on the PATH.")
    folder = folder_of(part)
    more = [str(full_version(python))] if version else []
    action = partial(_make_environment_of, name, folder, python)
    _once(folder.name, folder / ".setup", _lock_files("setup", name), action, *more)


def folder_of(part: str) -> Path:
    """The environment of a part such as `pyspark40` or `pyspark40@3.12`."""
    return ROOT / f".venv-{part.replace('@', '-')}"


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


def _add_group(group: str) -> None:
    """Add the packages of a group to .venv."""
    _require_development()
    with tempfile.TemporaryDirectory() as folder:
        chosen = Path(folder) / f"{group}.lock"
        chosen.write_text(part_of(REQUIREMENTS / "dev.lock", group), encoding="utf-8")
        install(DEVELOPMENT, chosen)


def _require_development() -> None:
    """Make .venv, if there is none of this Python, with uv in it."""
    python = this_python()
    if not (DEVELOPMENT / "pyvenv.cfg").is_file() or _is_of_another_python(DEVELOPMENT, python):
        _make_environment(DEVELOPMENT, python)
        _fetch_uv()


def part_of(lock: Path, group: str) -> str:
    """The lines of a lock file of several groups that the project and one group need: found by the comments in it.

    Below each package is written which others require it (`# via`), and which group of pyproject.toml.
    """
    packages = _packages(lock.read_text(encoding="utf-8"))
    roots = {"pyspark-azureblob (pyproject.toml)", f"pyspark-azureblob (pyproject.toml:{group})"}
    chosen: set[str] = set()
    while found := {each.name for each in packages if each.via & (roots | chosen)} - chosen:
        chosen |= found
    return "".join(each.lines for each in packages if each.name in chosen)


class _Package(NamedTuple):
    """A version of a package in a lock file. via: what requires it."""

    name: str
    lines: str
    via: frozenset[str]


def _packages(text: str) -> list[_Package]:
    """A package may be there several times, for different versions of Python."""
    blocks = [block for block in re.split(r"(?m)^(?=[a-z0-9])", text) if block]
    return [
        _Package(
            re.split(r"[^a-z0-9-]", block, maxsplit=1)[0],
            block,
            frozenset(re.findall(r"(?m)^    # {1,3}(?:via )?(\S.*)$", block)),
        )
        for block in blocks
    ]


def _make_environment_of(name: str, folder: Path, python: Path) -> None:
    _require_development()
    _make_environment(folder, python)
    install(folder, REQUIREMENTS / f"{name}.lock")


def _npm_ci(folder: Path) -> None:
    if find_node() is None:
        _require_development()
        install(DEVELOPMENT, REQUIREMENTS / "node.lock")
    node = find_node()
    if node is None:
        raise SetupError("Node 18 or later is needed, and PyPI has none for this system: install Node and npm.")
    path = os.pathsep.join([str(node.program.parent), os.environ.get("PATH", "")])
    _run([*node.npm, "ci", "--loglevel=error"], cwd=folder, environment={**os.environ, "PATH": path})


def _make_environment(folder: Path, base: Path) -> None:
    """Create a virtual environment with this checkout on its import path, for Spark's workers too.

    An existing one of another Python version is cleared first, because its packages cannot be loaded.
    """
    clear = ["--clear"] if _is_of_another_python(folder, base) else []
    _run([base, "-m", "venv", *clear, folder], "install Python's venv module (python3-venv)")
    question = "import sysconfig; print(sysconfig.get_path('purelib'))"
    answer = subprocess.run([str(_python(folder)), "-c", question], capture_output=True, text=True, check=True)
    (Path(answer.stdout.strip()) / "_checkout.pth").write_text(f"{ROOT}\n", encoding="utf-8")


def _is_of_another_python(folder: Path, base: Path) -> bool:
    config = folder / "pyvenv.cfg"
    return config.is_file() and f"version = {full_version(base)}" not in config.read_text(encoding="utf-8")


def _fetch_uv() -> None:
    """Install uv, which is several times faster than pip. Without it `_install` uses pip."""
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
    lock = REQUIREMENTS / "setup.lock"
    subprocess.run([str(_python(DEVELOPMENT)), "-m", "pip", "install", *options, "-r", str(lock)], check=False)


def install(folder: Path, lock: Path) -> None:
    """Install a lock file with uv, or with pip if uv fails (no wheel for the system, an index set for pip only).

    On a terminal uv shows its progress.

    uv's cache is off: PySpark is a source archive, and each build of it can leave 2 GB there.
    """
    uv = DEVELOPMENT / "bin" / "uv"
    options = [
        *([] if sys.stderr.isatty() else ["--quiet"]),
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
