"""The page of the command lines: what `--help` says of each program and command."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = ("azureblob_source", "state_backup", "adjunct_store", "coordination")
KIND = re.compile(r" <\w+>")
COMMON = ("--help", "--install-completion", "--show-completion")


def page() -> str:
    """The page in Markdown."""
    return "# Commands\n\n" + "\n\n".join(block for program in PROGRAMS for block in _program(program)) + "\n"


def _program(package: str) -> Iterator[str]:
    name = f"python -m {package}"
    group: Any = get_command(import_module(f"{package}.cli.app").app)
    context: Any = typer.Context(group, info_name=name)
    yield f"## {name}"
    yield from _help(group, context)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        within: Any = typer.Context(command, info_name=each, parent=context)
        yield f"### {package.removesuffix('_source')} {each}"
        usage = " ".join(piece.strip("{}") for piece in command.collect_usage_pieces(within))
        yield f"```text\n{name} {each} {usage}\n```"
        yield from _help(command, within)


def _help(command: Any, context: Any) -> Iterator[str]:
    yield from _paragraphs(command.help or "")
    records = [(each.get_help_record(context), each.param_type_name) for each in command.get_params(context)]
    rows = [
        f"| `{KIND.sub('', record[0])}` | {_cell(record[1])} |"
        for record, _ in sorted(records, key=lambda each: each[1])
        if record and not any(record[0].startswith(name) for name in COMMON)
    ]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _paragraphs(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        lines = [line.rstrip() for line in block.split("\n")]
        if any(re.search(r"\S {2,}\S", line) for line in lines):
            yield "\n".join(["```text", *lines, "```"])
        elif any(lines):
            yield _text(" ".join(line.strip() for line in lines))


def _text(text: str) -> str:
    return re.sub(r"([<>*_\[\]])(?![^`]*`[^`]*$)", r"\\\1", text)


def _cell(text: str) -> str:
    return _text(" ".join(text.split())).replace("|", "\\|")
