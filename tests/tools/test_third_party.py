"""Each crate that is linked into the compiled wheel has its licence in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.native import SOURCE, NativeMissingError, find_cargo, with_cargo
from tools.native_wheels import TARGETS
from tools.third_party import NAME, RUST_NAME, Crate, linked_crates, write_licences


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    if find_cargo() is None:
        pytest.skip("there is no Rust")
    return with_cargo()


def tree_of(triple: str, environment: dict[str, str]) -> set[tuple[str, str]]:
    """The crates that Cargo itself says are no build tools and no macros."""
    command = ["cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none", "--target", triple]
    answer = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=True)
    return set(re.findall(r"(?m)^([\w-]+) v([\d.]+)", answer.stdout)) - {("pyspark-azureblob-native", "0.1.0")}


@pytest.mark.parametrize("triple", [target.triple for target in TARGETS])
def test_each_linked_crate_is_found(triple: str, environment: dict[str, str]) -> None:
    found = {(crate.name, crate.version) for crate in linked_crates(SOURCE, triple, environment)}
    assert tree_of(triple, environment) == found
    assert "pyo3" in {name for name, _ in found}
    assert set() == {"syn", "pyo3-macros", "autocfg"} & {name for name, _ in found}


def test_the_file_names_each_crate_and_has_its_text(environment: dict[str, str], tmp_path: Path) -> None:
    native, zig = tmp_path / "native", tmp_path / "zig"
    shutil.copytree(SOURCE, native, ignore=shutil.ignore_patterns("target"))
    (zig / "lib" / "libunwind").mkdir(parents=True)
    (zig / "LICENSE").write_text("of Zig", encoding="utf-8")
    (zig / "lib" / "libunwind" / "LICENSE.TXT").write_text("of the unwinder", encoding="utf-8")
    triple = TARGETS[0].triple
    write_licences(native, [triple], zig, environment)
    text = (native / NAME).read_text(encoding="utf-8")
    for crate in linked_crates(SOURCE, triple, environment):
        assert f"{crate.name} {crate.version} ({crate.licence})" in text
        assert all(licence.strip() in text for licence in crate.texts())
    assert {"of Zig", "of the unwinder"} <= set(text.splitlines())
    assert "Rust Standard Library" in (native / RUST_NAME).read_text(encoding="utf-8")


def test_a_crate_without_a_licence_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NativeMissingError, match="the crate quick 1.0 has no licence file"):
        Crate("quick", "1.0", "MIT", tmp_path).texts()
