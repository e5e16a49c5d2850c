"""Runs the notebooks; `python -m tools.notebooks` stores them with their outputs, for those who only read them.

Code, text and figures are stored. What differs between runs or machines is not: execution times, the kernel's version,
and what Spark writes to standard error.
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
    """Redirect the standard error of processes that are started within the block, such as Spark and its workers.

    Otherwise a notebook shows it.
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
    """The notebook with the outputs of a run in a new kernel, in its folder. Raises the error of a cell."""
    from nbclient import NotebookClient  # noqa: PLC0415 - not needed inside a notebook

    notebook = load(path)
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=SECONDS_PER_CELL, coalesce_streams=True, resources=resources)
    client.execute()
    return presentable(notebook)


def load(path: Path) -> NotebookNode:
    """The stored notebook."""
    import nbformat  # noqa: PLC0415

    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def store(notebook: NotebookNode, path: Path) -> None:
    """Write the notebook."""
    import nbformat  # noqa: PLC0415

    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def presentable(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what differs between two runs with the same result."""
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
    """Run and store all notebooks, or those named as arguments."""
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(FOLDER.glob("*.ipynb")):
        store(run(path), path)
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
