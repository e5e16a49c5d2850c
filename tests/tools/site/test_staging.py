"""The pages of the site: links that lead to pages, the menu, notebooks, and that all of it becomes a site."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("sphinx", reason="only `make test` installs what builds the site")

from sphinx.util.inventory import InventoryFile

from tools.guides import DOCUMENTS, ROOT
from tools.site.command_lines import page as commands
from tools.site.faces import FACES, names_of
from tools.site.staging import TOC, menu, stage, with_links

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "link", "expected"),
    [
        ("docs/A.md", "[x](../README.md#a)", "[x](../index.md#a)"),
        ("CHANGELOG.md", "[x](docs/from)", "[x](docs/from/index.md)"),
        ("docs/internals/A.md", "[x](decisions)", "[x](decisions/index.md)"),
        ("docs/A.md", "[x](../notebooks/two_streams.ipynb)", "[x](../notebooks/two_streams.md)"),
        ("docs/A.md", "[x]: ../README.md#a", "[x]: ../index.md#a"),
        ("docs/A.md", "[x](B.md#c) [y](https://host/README.md) [z](#d)", None),
    ],
)
def test_links_lead_to_pages_of_the_site(name: str, link: str, expected: str | None) -> None:
    assert (expected or link) == with_links(link, name)


def test_the_menu_has_every_page_and_new_ones_come_last() -> None:
    shown = menu(["index", "docs/READING", "docs/NEW", "docs/from/DELTA", "api/coordination"])
    assert shown.index("docs/READING") < shown.index(":caption: More\n\ndocs/NEW\n```")
    assert "docs/from/DELTA" not in shown
    assert len(TOC) + 1 == shown.count(":caption:")


def test_a_notebook_is_a_page_with_its_output(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Flights\n", "See [README](../README.md)."]},
        {
            "cell_type": "code",
            "source": ["draw()"],
            "outputs": [{"text": ["42\n"]}, {"data": {"image/png": "aGVsbG8=", "text/plain": ["<Figure>"]}}],
        },
    ]
    root = tmp_path / "root"
    (root / "notebooks").mkdir(parents=True)
    (root / "notebooks" / "flights.ipynb").write_text(json.dumps({"cells": cells}))
    (root / "README.md").write_text("# Front\n\n[Notebooks](notebooks)\n")
    stage(tmp_path / "staged", root)
    page = (tmp_path / "staged/notebooks/flights.md").read_text("utf-8")
    assert "[README](../index.md)" in page
    assert "```python\ndraw()\n```\n\n````text\n42\n````\n\n![What the cell above draws](flights-0.png)\n" in page
    assert b"hello" == (tmp_path / "staged/notebooks/flights-0.png").read_bytes()
    assert "[Notebooks](notebooks/index.md)" in (tmp_path / "staged/index.md").read_text("utf-8")


def test_the_page_of_commands_has_each_program_command_and_option() -> None:
    page = commands()
    usage = "```text\npython -m azureblob_source vacuum [OPTIONS] CONTAINER/STREAM\n```"
    assert f"### azureblob vacuum\n\n{usage}\n\nRemove old log entries" in page
    assert re.search(
        r"^\| `--older-than AGE` \| Least age of entries to remove: .*\\\[required\\\] \|$", page, re.MULTILINE
    )
    assert "--help" not in page


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_needs_nothing_else(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", str(site)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    assert len(pages) > len(DOCUMENTS) + len(FACES)
    loaded = {
        url for text in pages.values() for url in re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"([^\"]+)", text)
    }
    assert {url for url in loaded if "//" in url or url.startswith("/")} == set()
    for document in DOCUMENTS:
        name = document.relative_to(ROOT).as_posix().replace("README.md", "index.md")
        assert (site / name).read_text("utf-8").splitlines()[0] == document.read_text("utf-8").splitlines()[0]
        assert f"({name})" in (site / "llms.txt").read_text("utf-8")
    found = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    objects = {name for kind, entries in found.items() if kind.startswith("py:") for name in entries}
    assert {f"{face}.{name}" for face in FACES for name in names_of(face)} - objects == set()
    assert {"state_backup.StateWriter.back_up", "state_backup.WriterSettings.keep"} < objects
    assert "**" not in re.sub(r"<pre>.*?</pre>", "", pages[site / "api/coordination.html"], flags=re.DOTALL)
