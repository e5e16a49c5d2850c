"""`python -m adjunct_store`. Needs the extras `cli` and `rocksdb`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from azure_account.cli.program import run_program
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the command line."""
    try:
        run_program(_load)
    except (
        ConfigurationError
    ) as error:  # the extra `rocksdb` is not installed; other errors are printed by the commands
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def _load() -> Callable[[], object]:
    from adjunct_store.cli.app import app  # noqa: PLC0415 - so that a missing extra can be named

    return app


if __name__ == "__main__":
    main()
