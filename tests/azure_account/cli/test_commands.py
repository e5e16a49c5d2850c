from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import typer
from typer.testing import CliRunner

from azure_account.cli.commands import ERROR, INTERRUPTED, CommonOptions, key_values, location_of, new_app
from azure_account.cli.grouped import grouped
from azure_account.cli.json_lines import print_json
from azure_account.cli.shell import CommandContext, shell_of
from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from typer.testing import Result

app = new_app()


@app.callback()
def main() -> None:
    """A program with one command."""


@app.command()
@grouped
def show(ctx: typer.Context, what: str, common: CommonOptions) -> None:
    """Show the account of the options, or fail."""
    if what == "error":
        raise NotFoundError("There is no such\x1b[31m blob [bold].")
    if what == "interrupt":
        raise KeyboardInterrupt
    name = urlsplit(location_of(shell_of(ctx), "box", common.option).open().url).netloc.partition(".")[0]
    if common.as_json:
        print_json({what: name})
    else:
        shell_of(ctx).out.print(name)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), obj=CommandContext(env={"AZURE_STORAGE_ACCOUNT": "ours"}))


def test_an_error_is_a_message_and_an_exit_code() -> None:
    result = run("show", "error")
    assert (ERROR, "", "There is no such\\x1b[31m blob [bold].\n") == (result.exit_code, result.stdout, result.stderr)


def test_ctrl_c_is_an_exit_code_alone() -> None:
    result = run("show", "interrupt")
    assert (INTERRUPTED, "") == (result.exit_code, result.output)


def test_options_and_environment_become_settings() -> None:
    assert "ours\n" == run("show", "x").stdout
    assert '{"x":"other"}\n' == run("show", "x", "--json", "-o", "accountName=other", "-o", "auth=anonymous").stdout


def test_a_wrong_option_is_named() -> None:
    assert (ERROR, "Option `acountName` is unknown. Did you mean accountName?\n") == (
        (result := run("show", "x", "-o", "acountName=other")).exit_code, result.stderr
    )  # fmt: skip
    result = run("show", "x", "-o", "accountName")
    assert 2 == result.exit_code
    assert "it must be KEY=VALUE" in result.stderr


def test_a_value_may_contain_an_equals_sign() -> None:
    assert {"accountKey": "YQ==", "a": ""} == key_values(["accountKey=YQ==", " a ="])
    assert {} == key_values(None)


def test_settings_name_the_account_that_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="No storage account is named"):
        location_of(CommandContext(env={}), "box", None)


def test_a_shell_that_is_not_given_has_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "from-the-process")
    assert "from-the-process\n" == CliRunner().invoke(app, ["show", "x"]).stdout


@pytest.mark.parametrize("package", ["azureblob_source", "coordination"])
@pytest.mark.parametrize("extra", ["typer", "rich"])
def test_a_missing_extra_is_named(package: str, extra: str) -> None:
    program = f"import sys; sys.modules[{extra!r}] = None; from {package}.__main__ import main; main()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (1, f"The command line needs {extra}: pip install pyspark-azureblob[cli]\n") == (
        result.returncode, result.stderr
    )  # fmt: skip
