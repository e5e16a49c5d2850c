"""Starts a command line, and names what is missing if the extra `cli` is not installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_EXTRA = ("typer", "rich")


def run_program(load: Callable[[], Callable[[], object]]) -> None:
    """Run the program that `load` imports. Exits with 1 if a package of the extra is missing."""
    try:
        program = load()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        sys.stderr.write(f"The command line needs {missing}: pip install pyspark-azureblob[cli]\n")
        sys.exit(1)
    program()
