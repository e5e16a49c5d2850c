"""The pages of the site in one folder, as Sphinx takes them.

*.md, docs/**/*.md   as they are, but README.md is the front page, and a link to a folder leads to a list of its pages
notebooks/*.ipynb    as Markdown, with the output that is stored in them
docs/pictures, and   copied: pictures are shown, other files that a page links to are downloads
files of the code
reference, commands  made of the code
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.site import command_lines, reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
TOC = {
    "Read and write": "READING OPTIONS MAINTENANCE ICEBERG GUARANTEES ERRORS TROUBLESHOOTING from/index",
    "Other parts": "CONTROL_MESSAGES COORDINATION STATE_BACKUP ADJUNCT_STORES ADJUNCT_STORES_FILLING "
    "ADJUNCT_STORES_OPERATIONS PIPELINE",
    "Operation": "OPERATIONS AZURE METRICS LOGGING COMPATIBILITY ALTERNATIVES ../SECURITY",
    "Reference": "../api/index ../commands FORMATS internals/GLOSSARY",
    "Project": "internals/ARCHITECTURE internals/decisions/index internals/BENCHMARKS ../notebooks/index "
    "../CONTRIBUTING ../CHANGELOG",
}
"""The pages of the menu, from docs/. A page that is not named comes last, under `More`."""
LISTS = {
    "docs/internals/decisions": "Decisions",
    "docs/from": "Coming from other tools",
    "notebooks": "Notebooks",
}
"""Folders that pages link to, with the titles of the lists of their pages."""
LINK = re.compile(
    r"(\]\()((?!https?://|mailto:|#)[^)\s#]+)(#[^)\s]*)?(\))|^(\[[^\]]+\]: )((?!https?://)[^\s#]+)(#\S*)?$",
    re.MULTILINE,
)


def stage(folder: Path, root: Path = ROOT) -> None:
    """Write all pages into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    documents = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    for path in documents:
        name = path.relative_to(root).as_posix()
        text = path.read_text("utf-8")
        _write(folder / page_of(name), with_links(text, name))
        _copy_targets(text, path.parent, root, folder)
    for path in sorted(root.glob("notebooks/*.ipynb")):
        _write_notebook(path, folder / "notebooks")
    for name, title in LISTS.items():
        if (folder / name).is_dir():
            _write(folder / name / "index.md", _list(folder / name, title))
    _write(folder / "commands.md", command_lines.page())
    for name, text in reference.pages().items():
        _write(folder / f"{name}.rst", text)
    front = folder / "index.md"
    front.write_text(front.read_text("utf-8") + menu(_pages(folder)), "utf-8")


def page_of(name: str) -> str:
    """The path of a document on the site."""
    return "index.md" if name == "README.md" else name


def with_links(text: str, name: str) -> str:
    """A page whose links to the README, to folders and to notebooks lead to their pages. name: its path."""

    def changed(match: re.Match[str]) -> str:
        before, target, anchor, after = (*match.group(1, 2, 3, 4),) if match[2] else (*match.group(5, 6, 7), "")
        return f"{before}{_on_site(target, posixpath.dirname(name))}{anchor or ''}{after}"

    return LINK.sub(changed, text)


def _on_site(target: str, folder: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, target))
    if path in LISTS:
        return f"{target.rstrip('/')}/index.md"
    if path == "README.md":
        return posixpath.join(posixpath.dirname(target), "index.md")
    return target.removesuffix(".ipynb") + ".md" if target.endswith(".ipynb") else target


def menu(pages: Iterable[str]) -> str:
    """The menu of the site, below the text of the front page. pages: all names without suffixes."""
    captions = {
        caption: [posixpath.normpath(posixpath.join("docs", name)) for name in names.split()]
        for caption, names in TOC.items()
    }
    named = {name for names in captions.values() for name in names}
    below = tuple(f"{folder}/" for folder in LISTS)
    captions["More"] = sorted(
        page for page in pages if page not in named and page != "index" and not page.startswith((*below, "api/"))
    )
    blocks = [
        f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{chr(10).join(names)}\n```\n"
        for caption, names in captions.items()
        if names
    ]
    return "\n" + "\n".join(blocks)


def _pages(folder: Path) -> list[str]:
    found = [*folder.rglob("*.md"), *folder.rglob("*.rst")]
    return [path.relative_to(folder).with_suffix("").as_posix() for path in found]


def _list(folder: Path, title: str) -> str:
    pages = sorted(path.stem for path in folder.glob("*.md") if path.stem != "index")
    return f"# {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n{chr(10).join(pages)}\n```\n"


def _copy_targets(text: str, parent: Path, root: Path, folder: Path) -> None:
    """Copy the files that a page links to and that are no pages."""
    for match in LINK.finditer(text):
        source = (parent / (match[2] or match[6])).resolve()
        if source.is_file() and source.suffix not in {".md", ".ipynb"}:
            target = folder / source.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _write_notebook(path: Path, folder: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    blocks = [block for cell in notebook["cells"] for block in _blocks(cell, path.stem, folder)]
    _write(folder / f"{path.stem}.md", with_links("\n\n".join(blocks) + "\n", f"notebooks/{path.name}"))


def _blocks(cell: dict[str, Any], name: str, folder: Path) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
    elif source.strip():
        yield f"```python\n{source}\n```"
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "image/png" in data:
            picture = f"{name}-{len(list(folder.glob('*.png')))}.png"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / picture).write_bytes(b64decode("".join(data["image/png"])))
            yield f"![What the cell above draws]({picture})"
        elif text := "".join(output.get("text", data.get("text/plain", ()))).rstrip():
            yield f"````text\n{text}\n````"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
