"""Runs commands on an account in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from azure_account.cli.shell import CommandContext

if TYPE_CHECKING:
    import typer
    from typer.testing import Result

    from azure_account.memory.account import MemoryAccount
    from foundation.clock import ManualClock

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="


@dataclass(frozen=True)
class CommandLine:
    """A program. Each output is searched for the account's key, and no command may raise an error."""

    app: typer.Typer

    def __call__(
        self, account: MemoryAccount, *arguments: str, answer: str | None = None, clock: ManualClock | None = None
    ) -> Result:
        """Run a command. answer: what is typed on a terminal; None: there is no terminal."""
        shell = CommandContext(
            connect=lambda _: account,
            env={"AZURE_STORAGE_ACCOUNT": "memory", "AZURE_STORAGE_KEY": SECRET},
            clock=clock or account.clock,
            interactive=answer is not None,
        )
        result = CliRunner().invoke(self.app, list(arguments), obj=shell, input=answer)
        assert SECRET not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        return result

    def document(self, account: MemoryAccount, *arguments: str, code: int = 0) -> Any:
        """The JSON document that a command prints."""
        result = self(account, *arguments, "--json")
        assert code == result.exit_code, result.output
        return json.loads(result.stdout)
