"""Runs the notebooks; `python -m tools.notebooks` stores them as they have run, for those who only read them.

What is stored is what a reader sees: code, text, figures. What changes with every run or tells of the machine is left
out: times of execution, the kernel's version, what Spark writes to standard error.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SECONDS_PER_CELL = 240


@contextmanager
def standard_error_to(path: Path) -> Iterator[None]:
    """Processes that start within the block write their standard error there: Spark, whose workers tell of each start.

    A notebook shows all that reaches its own.
    """
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def run(path: Path) -> NotebookNode:
    """The notebook with the outputs of a run in a fresh kernel, in its folder. Raises what a cell raises."""
    from nbclient import NotebookClient  # noqa: PLC0415 - what runs inside a notebook has no need of it

    notebook = load(path)
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=SECONDS_PER_CELL, coalesce_streams=True, resources=resources)
    client.execute()
    return presentable(notebook)


def load(path: Path) -> NotebookNode:
    """The notebook as it is stored."""
    import nbformat  # noqa: PLC0415

    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def store(notebook: NotebookNode, path: Path) -> None:
    """Write the notebook."""
    import nbformat  # noqa: PLC0415

    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def presentable(notebook: NotebookNode) -> NotebookNode:
    """The notebook, without what differs between two runs that show the same."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main() -> int:
    """Run all of them, or those named, and store them."""
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(FOLDER.glob("*.ipynb")):
        store(run(path), path)
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
