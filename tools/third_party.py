"""Writes the licences of what a compiled wheel contains besides our code: `THIRD_PARTY.txt`, and Rust's own list.

The crates are those that `cargo metadata` says are linked; their licence texts come from Cargo's registry, those of
the standard library from the toolchain, and those of the unwinder and of the compiler's routines from Zig, which links.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.native import NativeMissingError, output_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME = "THIRD_PARTY.txt"
RUST_NAME = "THIRD_PARTY_RUST.html"
_LICENCE_FILE = re.compile(r"(?i)(licen[cs]e|copying|notice|copyright|unlicense)")


@dataclass(frozen=True)
class Crate:
    """A crate that is linked. licence: an SPDX expression. folder: its sources."""

    name: str
    version: str
    licence: str
    folder: Path

    def texts(self) -> list[str]:
        """Its licence files. Raises `NativeMissingError` if it has none."""
        found = [file for file in sorted(self.folder.iterdir()) if _LICENCE_FILE.match(file.name) and file.is_file()]
        if not found:
            raise NativeMissingError(f"the crate {self.name} {self.version} has no licence file in {self.folder}")
        return [file.read_text(encoding="utf-8") for file in found]


def write_licences(native: Path, triples: list[str], zig: Path, environment: Mapping[str, str]) -> None:
    """Write both files into `native`. zig: the folder of the package `ziglang`. Raises `NativeMissingError`."""
    crates = {crate for triple in triples for crate in linked_crates(native, triple, environment)}
    zigs = [zig / "LICENSE", zig / "lib" / "libunwind" / "LICENSE.TXT"]
    texts: dict[str, list[str]] = {}
    for crate in sorted(crates, key=lambda crate: crate.name):
        for text in crate.texts():
            texts.setdefault(text.strip(), []).append(f"{crate.name} {crate.version} ({crate.licence})")
    for name, file in zip(
        ("Zig's compiler_rt (MIT)", "LLVM's libunwind (Apache-2.0 WITH LLVM-exception)"), zigs, strict=True
    ):
        texts.setdefault(file.read_text(encoding="utf-8").strip(), []).append(name)
    (native / NAME).write_text("".join(_sections(texts)), encoding="utf-8")
    shutil.copyfile(rust_copyright(environment), native / RUST_NAME)


def linked_crates(native: Path, triple: str, environment: Mapping[str, str]) -> set[Crate]:
    """The crates of Cargo.lock that end up in the library: no build tools, no macros, not the library itself."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", triple]
    metadata = json.loads(output_of(command, native, environment))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    linked, waiting = {root}, [root]
    while waiting:
        found = set(_dependencies(nodes[waiting.pop()], packages)) - linked
        linked |= found
        waiting += found
    return {
        Crate(package["name"], package["version"], package["license"], Path(package["manifest_path"]).parent)
        for package in (packages[each] for each in linked - {root})
    }


def rust_copyright(environment: Mapping[str, str]) -> Path:
    """What the toolchain says of the standard library's licences. Raises `NativeMissingError` if it does not."""
    file = (
        Path(output_of(["rustc", "--print", "sysroot"], environment=environment))
        / "share"
        / "doc"
        / "rust"
        / "COPYRIGHT-library.html"
    )
    if not file.is_file():
        raise NativeMissingError(
            f"this Rust has no {file}, which the wheel must contain: install Rust from https://rustup.rs"
        )
    return file


def _dependencies(node: dict[str, Any], packages: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    for dependency in node["deps"]:
        kinds = {kind for target in packages[dependency["pkg"]]["targets"] for kind in target["kind"]}
        if "proc-macro" not in kinds and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
            yield dependency["pkg"]


def _sections(texts: Mapping[str, list[str]]) -> Iterator[str]:
    """Each text once, below the names of what it covers."""
    yield f"The compiled library contains the following, and Rust's standard library, of which {RUST_NAME} tells.\n"
    for text, names in texts.items():
        yield "\n".join(["", "=" * 80, *names, "-" * 80, "", text, ""])
