"""The table of modules in ARCHITECTURE.md names every folder and module of the product, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_PRODUCT = ("benchmarks", "demo", "tools")
ROW = re.compile(r"^\| `([\w/]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def test_the_table_of_modules_has_every_module_and_no_other() -> None:
    page = (ROOT / "docs" / "internals" / "ARCHITECTURE.md").read_text("utf-8")
    table = page.split("## Every module\n")[1].split("\n## ")[0]
    rows = {folder: re.findall(r"`(\w+)`", names) for folder, names in ROW.findall(table)}
    packages = [face.parent for face in ROOT.glob("*/__init__.py") if face.parent.name not in NO_PRODUCT]
    folders = [face.parent for package in packages for face in package.rglob("__init__.py")]
    found = {
        str(folder.relative_to(ROOT)): sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        for folder in folders
    }
    assert found == rows
