"""Every argument and option of every command gets odd texts: exit codes and messages, no other error."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.main import get_command

from azure_account.memory.account import MemoryAccount
from azure_account.memory.service import MemoryService
from foundation.clock import ManualClock
from tests.azureblob_source.cli.test_app import write
from tests.command_lines import CommandLine
from tools.site.command_lines import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ODD = (
    *("", " ", "é\u2028", "x" * 3000, "[", "\\", "../x", "demo/flights"),
    *("-1", "0", "1", "1" * 32, "nan", "36500d", "9" * 12 + "d", "9" * 18 + "t"),
    *("2013-01-31", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
)
WITHOUT_END = {("coordination", "run")}
"""It takes part in a job until it is stopped."""


def _commands() -> Iterator[tuple[str, str, Any]]:
    for program in PROGRAMS:
        group: Any = get_command(import_module(f"{program}.cli.app").app)
        for name in group.list_commands(typer.Context(group)):
            if (program, name) not in WITHOUT_END:
                yield program, name, group.commands[name]


COMMANDS = [pytest.param(program, command, id=f"{program} {name}") for program, name, command in _commands()]


def _lines(command: Any) -> Iterator[list[str]]:
    """The command's arguments, one of them odd."""
    for odd in ODD:
        for parameter in command.params:
            given = [
                odd if each is parameter else "demo/flights"
                for each in command.params
                if each.param_type_name == "argument" and (each.required or each is parameter)
            ]
            if parameter.param_type_name == "argument":
                yield given
            elif not parameter.is_flag:
                yield [*given, f"{parameter.opts[0]}={odd}"]


@pytest.mark.parametrize(("program", "command"), COMMANDS)
def test_odd_texts_end_with_an_exit_code_and_a_message(
    program: str, command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    account, codes = MemoryAccount(MemoryService(clock=ManualClock())), set()
    for batch in range(3):
        write(account, batch, range(10 * batch, 10 * batch + 10))
    run = CommandLine(import_module(f"{program}.cli.app").app)
    for line in _lines(command):
        result = run(account, command.name, *line)
        assert result.exit_code == 0 or result.stderr.strip(), line
        codes.add(result.exit_code)
    assert {0, 2} & codes, "all were refused for another reason"
    assert codes - {0}
