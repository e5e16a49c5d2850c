"""Commands that take their options as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import pytest
import typer
from typer.testing import CliRunner

from azure_account.cli.grouped import grouped

if TYPE_CHECKING:
    from typer.testing import Result

app = typer.Typer()


@dataclass(frozen=True)
class Common:
    """Options of all commands."""

    loud: Annotated[bool, typer.Option("--loud")] = False


@dataclass(frozen=True)
class Greeting(Common):
    """Options of one command."""

    times: Annotated[int, typer.Option("-n", min=1)] = 1
    to: Annotated[list[str] | None, typer.Option("--to")] = None


@app.command()
@grouped
def greet(
    words: Annotated[list[str], typer.Argument()],
    greeting: Greeting,
    *,
    end: Annotated[str, typer.Option("--end")],
) -> None:
    """Greet somebody."""
    typer.echo(f"{words} {greeting} {end}")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "--end", "."], "['a'] Greeting(loud=False, times=1, to=None) ."),
        (["a", "b", "-n", "3", "--to", "x", "--to", "y", "--loud", "--end", "!"],
         "['a', 'b'] Greeting(loud=True, times=3, to=['x', 'y']) !"),
    ],
)  # fmt: skip
def test_the_fields_of_a_group_are_options_of_the_command(arguments: list[str], expected: str) -> None:
    assert f"{expected}\n" == run(*arguments).stdout


def test_options_are_checked_and_shown_as_those_of_parameters() -> None:
    assert 2 == run("a", "-n", "0", "--end", ".").exit_code
    assert "Missing option '--end'" in run("a").stderr
    shown = run("--help").stdout
    assert "Greet somebody." in shown
    assert all(option in shown for option in ("--loud", "-n", "--to", "--end"))


def test_it_is_called_with_the_options_by_name_too() -> None:
    assert "greet" == greet.__name__
    greet(words=["a"], loud=True, times=2, to=None, end=".")
    with pytest.raises(KeyError, match="times"):
        greet(words=["a"], loud=True, end=".")
