"""`python -m state_backup`. Needs the extra `cli`."""

from __future__ import annotations

from azure_account.cli.program import run_program


def main() -> None:
    """Run the command line."""
    run_program("state_backup")


if __name__ == "__main__":
    main()
