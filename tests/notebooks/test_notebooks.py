"""Every notebook runs from a fresh kernel and shows what its stored copy shows; what it claims it asserts itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.notebooks import FOLDER, load, presentable, run

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
OF_A_MACHINE = re.compile(
    r"/(home|Users|root|tmp|work|var|mnt|private)/|[A-Z]:\\\\|127\.0\.0\.1|localhost|AccountKey|Eby8vd"
)
MOST_BYTES = 400_000


def shown(notebook: NotebookNode) -> list[list[str]]:
    """What kinds of output each code cell has."""
    kinds = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found = {kind for output in cell.outputs for kind in output.get("data", {"text": ""})}
            kinds.append(sorted(found))
    return kinds


def texts(notebook: NotebookNode) -> list[str]:
    """All that a reader can read: code, prose, and outputs but for pictures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    told = [str(value) for each in outputs for kind, value in each.get("data", {}).items() if kind != "image/png"]
    return [*(cell.source for cell in notebook.cells), *(each.get("text", "") for each in outputs), *told]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@EACH
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_notebook_runs_and_shows_what_its_stored_copy_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)  # an emulator, whatever the user's account
    stored = load(path)

    ran = shown(run(path))

    assert shown(stored) == ran
    assert any("image/png" in kinds for kinds in ran)


@EACH
def test_a_stored_notebook_is_of_one_run_and_tells_nothing_of_the_machine(path: Path) -> None:
    stored = load(path)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]

    assert list(range(1, len(code) + 1)) == [cell.execution_count for cell in code]
    assert not [text for text in texts(stored) if OF_A_MACHINE.search(text)]
    assert presentable(load(path)) == stored
    assert path.stat().st_size < MOST_BYTES


@EACH
def test_what_a_notebook_imports_is_there(path: Path) -> None:
    statements: list[ast.stmt] = [
        statement
        for cell in load(path).cells
        if cell.cell_type == "code"
        for statement in ast.parse(cell.source).body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
    ]

    assert statements
    exec(compile(ast.Module(statements, []), path.name, "exec"), {})  # noqa: S102 - a file of this repository
