"""The version of a Java is read from its own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.java import java_version

if TYPE_CHECKING:
    from pathlib import Path


def java_that_states(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").touch()
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', encoding="utf-8")
    return folder


@pytest.mark.parametrize(("stated", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_412", 8), ("25.0.2", 25)])
def test_the_major_version_is_read_from_the_release_file(tmp_path: Path, stated: str, major: int) -> None:
    assert major == java_version(java_that_states(tmp_path, stated))


def test_a_folder_without_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path) is None
