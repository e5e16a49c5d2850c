"""What Spark itself adds to the options of a read or write, on 4.0 to 4.3, and what is done with each. Pure.

| Spark adds | to | here |
|---|---|---|
| `path` | `load(path)`, `save(path)`, `start(path)` | says where: `options.WHERE` |
| `paths` | `load([…])` of several paths | refused: `SEVERAL_PATHS` |
| `queryName` | a write of a query with a name | accepted: `OWN` |
| `provider`, `owner`, `option.*`, properties and others | the schema of `CREATE TABLE` | refused: `refuse_table` |
| nothing, not even its options | reads of a catalog table, `INSERT` | refused: no container is named |

An option that the user sets is passed on, `checkpointLocation` too; a setting of the session is not. `saveAsTable` and
`toTable` pass the options of the writer only: with a path they look like `save`. A view made by
`CREATE TEMPORARY VIEW … USING` passes all of its options, also on `INSERT INTO`.
`tests/spark/usual/test_given_options.py` records all of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.options.option_table import Option, OptionTable, text
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUP = "Spark's own"

OWN = OptionTable(
    (
        Option(
            "checkpointLocation",
            text(),
            None,
            "Checkpoint of a streaming query. Used here for `checkpointBackup` only.",
            _GROUP,
        ),
        Option(
            "queryName", text(), None, "Name of a streaming query, which `queryName(…)` sets. Not used here.", _GROUP
        ),
    )
)

NO_TABLE = (
    "No catalog table can have this format, as Spark keeps the options of a table from a Python source. Save and load "
    "by path, as in `.save('container/stream')`; for SQL, use `CREATE TEMPORARY VIEW name USING azureblob OPTIONS "
    "(path 'container/stream', …)`."
)
SEVERAL_PATHS = "A read is of one stream: `load` each path alone, and join the DataFrames with `unionByName`."

_OF_TABLES = ("provider", "owner")


def refuse_table(raw: Mapping[str, str]) -> None:
    """`ConfigurationError` if these are the options of a table that is being created: it could never be read."""
    for key in raw:
        if key.lower() in _OF_TABLES:
            raise ConfigurationError(f"create table failed: Spark adds option `{key}` for a catalog table. {NO_TABLE}")
