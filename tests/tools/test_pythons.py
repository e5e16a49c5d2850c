"""Where `tools.pythons` looks for an interpreter, and which one it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.pythons import find_python, full_version

THIS = ".".join(map(str, sys.version_info[:2]))


def interpreter(path: Path, says: str) -> Path:
    """A program that says it is a Python of this version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with nothing but this Python."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))


def test_this_python_is_found_and_another_one_is_not() -> None:
    found = find_python(THIS)
    assert found is not None
    assert ".".join(map(str, sys.version_info[:3])) == full_version(found)
    assert find_python("3.99") is None


def test_a_program_of_the_path_that_does_not_run_is_left_out(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3.98", "echo 'pyenv: python3.98: command not found' >&2; exit 127")
    assert find_python("3.98") is None
    of_pyenv = interpreter(tmp_path / "pyenv/versions/3.98.1/bin/python", "echo 3.98.1")
    assert of_pyenv == find_python("3.98")


def test_a_program_that_has_another_version_than_its_name_is_left_out(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3.9", "echo 3.98.0")
    assert find_python("3.9") is None


def test_the_one_that_uv_knows_is_the_last_choice(tmp_path: Path) -> None:
    known = interpreter(tmp_path / "uv's", "echo 3.97.2")
    interpreter(tmp_path / "bin" / "uv", f'echo "{known}"')
    assert known == find_python("3.97")
    on_path = interpreter(tmp_path / "bin" / "python3.97", "echo 3.97.0")
    assert on_path == find_python("3.97")
