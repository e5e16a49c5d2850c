"""`python -m azureblob_source`, and the program `azureblob`. Needs the extra `cli`."""

from __future__ import annotations

import sys

_EXTRA = ("typer", "rich")


def main() -> None:
    """Run the command line."""
    try:
        from azureblob_source.cli.app import app  # noqa: PLC0415 - so that a missing extra can be named
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        sys.stderr.write(f"The command line needs {missing}: pip install pyspark-azureblob[cli]\n")
        sys.exit(1)
    app()


if __name__ == "__main__":
    main()
