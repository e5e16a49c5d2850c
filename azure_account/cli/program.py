"""Starts a command line, and names what is missing if the extra `cli` is not installed."""

from __future__ import annotations

import sys
from importlib import import_module

_EXTRA = ("typer", "rich")


def run_program(package: str) -> None:
    """Run the command line of a package. Exits with 1 if a package of the extra is missing."""
    try:
        app = import_module(f"{package}.cli.app").app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        sys.stderr.write(f"The command line needs {missing}: pip install pyspark-azureblob[cli]\n")
        sys.exit(1)
    app()
