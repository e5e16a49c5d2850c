"""The table of folders in ARCHITECTURE.md names every folder of the product, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_PRODUCT = ("benchmarks", "demo", "tools")


def test_the_table_of_folders_has_every_folder_and_no_other() -> None:
    page = (ROOT / "docs" / "internals" / "ARCHITECTURE.md").read_text("utf-8")
    table = page.split("## Every folder\n")[1].split("\n## ")[0]
    packages = [face.parent for face in ROOT.glob("*/__init__.py") if face.parent.name not in NO_PRODUCT]
    folders = [face.parent for package in packages for face in package.rglob("__init__.py")]
    assert sorted(re.findall(r"^\| `([\w/]+)` \|", table, re.MULTILINE)) == sorted(
        str(folder.relative_to(ROOT)) for folder in folders
    )
