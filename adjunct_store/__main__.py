"""`python -m adjunct_store`. Needs the extras `cli` and `rocksdb`."""

from __future__ import annotations

import sys

from azure_account.cli.program import run_program
from foundation.errors import ConfigurationError


def main() -> None:
    """Run the command line."""
    try:
        run_program("adjunct_store")
    except ConfigurationError as error:  # the extra `rocksdb` is missing; other errors are printed by the commands
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
