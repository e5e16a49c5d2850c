"""Runs queries in chDB, which is ClickHouse within a process, and prints the rows of each or its error, as JSON.

python -m tests.azureblob_source.clickhouse_job < queries.json      [[query, …], …] on standard input
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

chdb: Any = import_module("chdb")  # not in the environment of all tests


def answer(query: str) -> Any:
    """The rows, each as an object; a text for an error."""
    try:
        return [json.loads(line) for line in str(chdb.query(query, "JSONEachRow")).splitlines()]
    except RuntimeError as error:
        return str(error).partition(" Stack trace")[0]


if __name__ == "__main__":
    print(json.dumps([answer(query) for query in json.load(sys.stdin)]))  # noqa: T201
