"""`python -m state_backup`. Needs the extra `cli`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.cli.program import run_program

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the command line."""
    run_program(_load)


def _load() -> Callable[[], object]:
    from state_backup.cli.app import app  # noqa: PLC0415 - so that a missing extra can be named

    return app


if __name__ == "__main__":
    main()
