"""The manual's page of options, printed from the table in the code.

python -m tools.options_page > docs/OPTIONS.md
"""

from __future__ import annotations

from azureblob_source.options import TABLE

_INTRODUCTION = """# Options

Of `spark.read`, `df.write`, `spark.readStream` and `df.writeStream` with `format("azureblob")`. Keys are compared
without regard to case. An unknown option or a malformed value is an error before the first task runs. Byte sizes are
powers of 1024.

When `auth` is not given, the credential is the one among `connectionString`, `accountKey`, `sasToken`, `clientSecret`
and `certificatePath` that is; if none is, `AZURE_STORAGE_CONNECTION_STRING`, `AZURE_STORAGE_KEY` or
`AZURE_STORAGE_SAS_TOKEN` of the environment, in this order; else `default`: the environment, managed identity,
developer tools, whichever answers first. Values of `accountKey`, `sasToken`, `connectionString`, `clientSecret` and
`certificatePassword` are in no plan, log, error or `repr` of this package.

`path` is `container/stream`, or a URL: `https://<account>.blob.core.windows.net/<container>/<stream>`,
`abfss://<container>@<account>.dfs.core.windows.net/<stream>` or `wasbs://…` alike.

This page is printed from the code by `python -m tools.options_page`.
"""


def page() -> str:
    """The whole page."""
    return f"{_INTRODUCTION}\n{TABLE.markdown().replace('### ', '## ')}".rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
