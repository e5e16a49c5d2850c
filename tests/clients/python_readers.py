"""Libraries of Python that read Avro; also a program that runs alone, in an environment without this project.

python python_readers.py LIBRARY FOLDER      prints {file: rows or the text of an error}
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def avro(file: Path) -> Rows:
    """Apache's."""
    with file.open("rb") as data:
        return list(import_module("avro.datafile").DataFileReader(data, import_module("avro.io").DatumReader()))


def fastavro(file: Path) -> Rows:
    with file.open("rb") as data:
        return list(import_module("fastavro").reader(data))


def polars(file: Path) -> Rows:
    rows: Rows = import_module("polars").read_avro(file).to_dicts()
    return rows


def duckdb(file: Path) -> Rows:
    """The extension `avro` comes from PyPI, as its own server is not used."""
    connection = import_module("duckdb").connect()
    import_module("duckdb_extensions").import_extension("avro", con=connection)
    found = connection.execute("SELECT * FROM read_avro(?)", [str(file)])
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def chdb(file: Path) -> Rows:
    """ClickHouse within a process."""
    settings = "SETTINGS output_format_json_quote_64bit_integers = 1, output_format_json_quote_decimals = 1"
    columns = "lower(hex(v)) AS v" if file.stem == "binary" else "*"  # JSON has no bytes
    text = str(import_module("chdb").query(f"SELECT {columns} FROM file('{file}', Avro) {settings}", "JSONEachRow"))
    return [json.loads(line) for line in text.splitlines()]


READERS = {"avro": avro, "fastavro": fastavro, "polars": polars, "duckdb": duckdb, "chdb": chdb}


def plain(value: Any) -> Any:
    """The value in JSON."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def answer(library: str, file: Path) -> Any:
    try:
        return [plain(row) for row in READERS[library](file)]
    except BaseException as error:  # noqa: BLE001 - it is the answer, also a panic of Rust
        return f"{type(error).__name__}: {error}".partition("\n")[0]


if __name__ == "__main__":
    files = sorted(Path(sys.argv[2]).glob("*.avro"))
    print(json.dumps({file.name: answer(sys.argv[1], file) for file in files}))
