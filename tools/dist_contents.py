"""What may be in a wheel or source archive, and what must be: `complaints` names what is wrong. Reads archives only.

A pure wheel has the packages of `[tool.hatch.build]` in pyproject.toml, each with `py.typed`, and the licence; its
source archive has also what it is built from. A compiled wheel has one library, and the licences of what is linked.
"""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.third_party import NAME, RUST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

ROOT = Path(__file__).resolve().parents[1]
_PACKAGE_FILE = re.compile(r"[a-z_0-9/]+\.py|[a-z_]+/py\.typed")
_METADATA = frozenset({"METADATA", "RECORD", "WHEEL", "licenses/LICENSE"})
_DESCRIPTION = frozenset({"LICENSE", "PKG-INFO", "README.md", "pyproject.toml"})
_OF_SOURCE = _DESCRIPTION | {".gitignore", "CHANGELOG.md", "hatch_build.py"}
_NATIVE = "pyspark_azureblob_native"


def packages() -> list[str]:
    """The import packages of the pure wheel."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[str] = settings["tool"]["hatch"]["build"]["packages"]
    return found


def names_in(archive: Path) -> set[str]:
    """The files of a wheel; those of a source archive without its folder. Nothing is unpacked."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {re.sub(r"^[^/]+\.dist-info/", "dist-info/", name) for name in wheel.namelist() if name[-1] != "/"}
    with tarfile.open(archive) as source:
        return {member.name.partition("/")[2] for member in source.getmembers() if member.isfile()}


def library_in(wheel: Path) -> bytes:
    """The library of a compiled wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"{_NATIVE}/{_NATIVE}.abi3.so")


def complaints(archive: Path) -> list[str]:
    """What must not be in it, and what is missing; the name of the file says what it is."""
    names = names_in(archive)
    is_native, is_wheel = archive.name.startswith(_NATIVE), archive.suffix == ".whl"
    if is_native:
        wrong = _of_native_wheel(names) if is_wheel else _of_native_source(names)
    else:
        wrong = _of_pure(names, _in_dist_info({*_METADATA, "entry_points.txt"}) if is_wheel else _OF_SOURCE)
    return [f"{archive.name}: {complaint}" for complaint in wrong]


def _of_pure(names: AbstractSet[str], others: AbstractSet[str]) -> Iterator[str]:
    tops = packages()
    required = others | {f"{top}/{file}" for top in tops for file in ("__init__.py", "py.typed")}
    for name in sorted(names - required):
        if not (_PACKAGE_FILE.fullmatch(name) and name.partition("/")[0] in tops):
            yield f"{name} must not be in it"
    yield from _missing(names, required)


def _of_native_wheel(names: AbstractSet[str]) -> Iterator[str]:
    licences = {f"licenses/{name}" for name in (NAME, RUST_NAME)}
    required = _in_dist_info(_METADATA | licences) | {f"{_NATIVE}/__init__.py", f"{_NATIVE}/{_NATIVE}.abi3.so"}
    yield from (f"{name} must not be in it" for name in sorted(names - required))
    yield from _missing(names, required)


def _of_native_source(names: AbstractSet[str]) -> Iterator[str]:
    required = _DESCRIPTION | {"Cargo.lock", "Cargo.toml", "src/lib.rs"}
    yield from (
        f"{name} must not be in it" for name in sorted(names - required) if not re.fullmatch(r"src/\w+\.rs", name)
    )
    yield from _missing(names, required)


def _missing(names: AbstractSet[str], required: AbstractSet[str]) -> Iterator[str]:
    yield from (f"{name} is missing" for name in sorted(required - names))


def _in_dist_info(names: AbstractSet[str]) -> set[str]:
    return {f"dist-info/{name}" for name in names}
