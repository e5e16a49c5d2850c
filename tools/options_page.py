"""The manual's page of options, printed from the table in the code.

python -m tools.options_page > docs/OPTIONS.md
"""

from __future__ import annotations

from azureblob_source.options import TABLE

_INTRODUCTION = """# Options

The options of `spark.read`, `df.write`, `spark.readStream` and `df.writeStream` with `format("azureblob")`. Names are
compared without regard to case. An unknown option or a malformed value is an error before the first task runs. Units
of byte sizes are powers of 1024.

Without `auth`, the credential is the one that is set of `connectionString`, `accountKey`, `sasToken`, `clientSecret`
and `certificatePath`; if none is set, the first of the environment variables `AZURE_STORAGE_CONNECTION_STRING`,
`AZURE_STORAGE_KEY` and `AZURE_STORAGE_SAS_TOKEN` that is; else `default`, which tries the environment, managed identity
and developer tools in turn. The values of `accountKey`, `sasToken`, `connectionString`, `clientSecret` and
`certificatePassword` appear in no plan, log, error or `repr` of this package.

`path` is `container/stream`, or a URL: `https://<account>.blob.core.windows.net/<container>/<stream>`,
`abfss://<container>@<account>.dfs.core.windows.net/<stream>`, and the same with `wasbs://`.

This page is printed from the code by `python -m tools.options_page`.
"""


def page() -> str:
    """The whole page."""
    return f"{_INTRODUCTION}\n{TABLE.markdown().replace('### ', '## ')}".rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
