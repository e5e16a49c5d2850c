"""Compiles `native/` for each target, so that two builds of a commit are equal to the byte.

`zig` links, so that a wheel needs no newer libc than its tag says, whatever this machine has. Paths of this machine are
replaced in the library. Builds are equal with one version of Rust; `main` in `tools/wheels.py` prints it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.native import output_of
from tools.third_party import write_licences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Target:
    """triple: Rust's name. policy: the oldest libc that a wheel has to run on."""

    triple: str
    policy: str

    def library(self, environment: Mapping[str, str]) -> Path:
        """Where this machine has the standard library of the target, if it has."""
        command = ["rustc", "--print", "target-libdir", "--target", self.triple]
        return Path(output_of(command, environment=environment))


TARGETS = (
    Target("x86_64-unknown-linux-gnu", "manylinux_2_17"),
    Target("x86_64-unknown-linux-musl", "musllinux_1_2"),
    Target("aarch64-unknown-linux-gnu", "manylinux_2_17"),
)


def available_targets(environment: Mapping[str, str]) -> list[Target]:
    """The targets that can be built here. rustup fetches what is missing; what it cannot fetch is printed."""
    return [target for target in TARGETS if target.library(environment).is_dir() or _add(target, environment)]


def build_native(tree: Path, targets: list[Target], dist: Path, environment: Mapping[str, str]) -> None:
    """Build a wheel for each target, and the source archive. tree: a copy of this checkout, into which is written."""
    native = tree / "native"
    shutil.copyfile(tree / "LICENSE", native / "LICENSE")
    _maturin(["sdist", "--out", dist], native, environment)
    write_licences(native, [target.triple for target in targets], _zig(), environment)
    flags = "\x1f".join(_remapped(native, environment))
    for target in targets:
        options = [f"--target={target.triple}", f"--compatibility={target.policy}", "--zig", "--release", "--locked"]
        _maturin(
            ["build", "--quiet", *options, "--out", dist], native, {**environment, "CARGO_ENCODED_RUSTFLAGS": flags}
        )


def _maturin(arguments: list[str | Path], native: Path, environment: Mapping[str, str]) -> None:
    command: list[str | Path] = [sys.executable, "-m", "maturin", *arguments]
    subprocess.run(command, cwd=native, env=environment, check=True)


def _add(target: Target, environment: Mapping[str, str]) -> bool:
    rustup = shutil.which("rustup", path=environment["PATH"])
    reason = "there is no rustup"
    if rustup:
        if subprocess.run([rustup, "target", "add", target.triple], env=environment, check=False).returncode == 0:
            return True
        reason = "rustup could not fetch the target"
    print(f"Left out: the wheel for {target.triple}, because {reason}.", flush=True)
    return False


def _zig() -> Path:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("ziglang")
    return Path(spec.origin).parent


def _remapped(native: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """What the compiler writes in place of this machine's folders."""
    sysroot = output_of(["rustc", "--print", "sysroot"], environment=environment)
    cargo_home = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
    for folder, name in ((native, "native"), (cargo_home, "cargo"), (sysroot, "rust")):
        yield f"--remap-path-prefix={folder}=/{name}"
