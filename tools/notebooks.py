"""Runs the notebooks; `python -m tools.notebooks` stores them with their outputs, for those who only read them.

`python -m tools.notebooks --alone` stores nothing: it runs each one as somebody does who has the wheels of `dist/` and
the notebook, in an environment with what its text tells to install, away from this checkout.

Code, text and figures are stored. What differs between runs or machines is not: execution times, the kernel's version,
and what Spark writes to standard error.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.azurite import running_azurite
from tools.guides import packages_in
from tools.pythons import THIS
from tools.spark_session import spark_environment
from tools.trial import SECONDS, Runner, TrialError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SECONDS_PER_CELL = 240
LOCK = FOLDER.parent / "requirements" / "dev.lock"
ACCOUNT = "AZURE_STORAGE_CONNECTION_STRING"
JUPYTER = ("ipykernel", "nbclient")
"""What runs a notebook without a browser."""


def run(path: Path) -> NotebookNode:
    """The notebook with the outputs of a run in a new kernel, in an empty folder. Raises the error of a cell."""
    from nbclient import NotebookClient  # noqa: PLC0415 - `--alone` needs neither

    notebook = load(path)
    with _account() as connection, tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=SECONDS_PER_CELL, coalesce_streams=True, resources=resources)
        client.execute(env={**os.environ, **spark_environment(), ACCOUNT: connection})
    return presentable(notebook)


def run_alone(path: Path) -> None:
    """Run the notebook in a new environment. Raises `TrialError`."""
    notebook = load(path)
    words = packages_in("\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown"))
    with tempfile.TemporaryDirectory(prefix="notebook-") as name, _account() as connection:
        copy = Path(shutil.copy(path, name))
        runner = Runner(LOCK, THIS, Path(name), connection)
        python = runner.python_with([*sorted(words), *JUPYTER])
        runner.run([python.with_name("jupyter-execute"), f"--timeout={SECONDS:.0f}", copy])


@contextmanager
def _account() -> Iterator[str]:
    """The connection string of the user's account, else of a new emulator."""
    if given := os.environ.get(ACCOUNT):
        yield given
        return
    with running_azurite() as azurite:
        yield azurite.connection_string


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
    """Run all notebooks, or those named as arguments. They are stored, unless they run alone."""
    alone = "--alone" in sys.argv[1:]
    named = [Path(word) for word in sys.argv[1:] if word != "--alone"]
    failed = False
    for path in named or sorted(FOLDER.glob("*.ipynb")):
        started = time.monotonic()
        try:
            run_alone(path) if alone else store(run(path), path)
        except TrialError as error:
            failed = True
            print(f"{path.name}: {error}", file=sys.stderr)
        else:
            print(f"{path.name}: {path.stat().st_size // 1024} KiB, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
