"""Prints the manual's page of options from the tables in the code.

python -m tools.options_page > docs/OPTIONS.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azureblob_source.options import TABLE

if TYPE_CHECKING:
    from azure_account.options.option_table import Option, OptionTable

_INTRODUCTION = """# Options

The options of `spark.read`, `df.write`, `spark.readStream` and `df.writeStream` with `format("azureblob")`. The case of
keys is ignored. An unknown option, one of the other kind of read, or a malformed value is an error before the first
task runs. In the tables *bytes* are a number such as `10485760`, `10MiB` or `64k` (of powers of 1024), *milliseconds*
one such as `500` or `30s`, and a *time* is such as `2013-01-31`, `2013-01-31T12:00:00Z` or `2013-01-31T12:00:00+01:00`.

If `auth` is not set, it follows from the option that is: `connectionString`, `accountKey`, `sasToken`, `clientSecret`
or `certificatePath`. If none of them is set, the first of the variables `AZURE_STORAGE_CONNECTION_STRING`,
`AZURE_STORAGE_KEY` and `AZURE_STORAGE_SAS_TOKEN` is used. If none of those is set, `auth` is `default`: the first of
environment, managed identity and developer tools that has a token. No plan, log, error or `repr` of this package shows
values of `accountKey`, `sasToken`, `connectionString`, `clientSecret`, `certificatePassword` and a proxy's password.

`path` is `container/stream`, or a URL: `https://<account>.blob.core.windows.net/<container>/<stream>`,
`abfss://<container>@<account>.dfs.core.windows.net/<stream>`, or the same with `wasbs://`.

This page is printed from the code by `python -m tools.options_page`.
"""


_SHORT = {
    "a number of bytes such as `10485760`, `10MiB` or `64k`": "bytes",
    "milliseconds such as `500` or `30s`": "milliseconds",
    "a time such as `2013-01-31`, `2013-01-31T12:00:00Z` or `2013-01-31T12:00:00+01:00`": "time",
}
"""What parsers expect, as messages say it, by the words of the introduction."""


def page() -> str:
    """The page in Markdown."""
    return f"{_INTRODUCTION}\n{markdown(TABLE)}".rstrip() + "\n"


def markdown(table: OptionTable) -> str:
    """For each group of options a heading and a table."""
    lines: list[str] = []
    for group in dict.fromkeys(option.group for option in table.options):
        lines += [f"## {group}", "", "| option | value | default | meaning |", "|---|---|---|---|"]
        lines += [_row(option) for option in table.options if option.group == group]
        lines.append("")
    return "\n".join(lines)


def _row(option: Option[Any]) -> str:
    default = option.shown_default if option.shown_default is not None else _default_text(option.default)
    expected = option.parse.expected
    for text, short in _SHORT.items():
        expected = expected.replace(text, short)
    cells = (f"`{option.name}`", expected, default, option.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default_text(default: object) -> str:
    match default:
        case None:
            return "none"
        case bool():
            return f"`{str(default).lower()}`"
        case _:
            return f"`{default}`"


if __name__ == "__main__":
    print(page(), end="")
