"""Every folder of the product says in its first line what it has."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_PRODUCT = ("benchmarks", "demo", "tools")


def test_every_folder_has_a_docstring() -> None:
    packages = [face.parent for face in ROOT.glob("*/__init__.py") if face.parent.name not in NO_PRODUCT]
    faces = [face for package in packages for face in package.rglob("__init__.py")]
    assert [] == [face for face in faces if not ast.get_docstring(ast.parse(face.read_text("utf-8")))]
    assert len(faces) > len(packages)
