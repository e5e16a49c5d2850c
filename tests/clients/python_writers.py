"""Libraries of Python that write Avro: Apache's and Polars. It runs alone, in an environment without this project.

python python_writers.py CASES.json FOLDER      FOLDER/python, FOLDER/polars
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

CODECS = ["null", "deflate", "snappy", "zstandard", "bzip2"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOGICAL = {"date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros"}


def moment(logical: str, stored: int) -> Any:
    """The value of a logical type."""
    unit = timedelta(days=1) if logical == "date" else timedelta(microseconds=1000 if "millis" in logical else 1)
    since = EPOCH + stored * unit
    return since.date() if logical == "date" else since.time() if logical.startswith("time-") else since


def value(schema: Any, stored: Any, names: dict[str, Any]) -> Any:
    """The value in the types of the library."""
    if isinstance(schema, list):
        ((index, inner),) = stored.items()
        return value(schema[int(index)], inner, names)
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("record", "enum", "fixed"):
        names[schema["name"]] = names[f"{schema.get('namespace')}.{schema['name']}"] = schema
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if logical in LOGICAL:
        return moment(logical, int(stored))
    if logical == "decimal":
        return Decimal(int.from_bytes(bytes.fromhex(stored), "big", signed=True)).scaleb(-schema["scale"])
    match kind:
        case "long":
            return int(stored)
        case "bytes" | "fixed":
            return bytes.fromhex(stored)
        case "array":
            return [value(schema["items"], one, names) for one in stored]
        case "map":
            return {key: value(schema["values"], one, names) for key, one in stored.items()}
        case "record":
            pairs = zip(schema["fields"], stored, strict=True)
            return {field["name"]: value(field["type"], one, names) for field, one in pairs}
    return stored


def write(one: dict[str, Any], codec: str, file: Path) -> None:
    schema = import_module("avro.schema").parse(json.dumps(one["schema"]))
    datums = import_module("avro.io").DatumWriter()
    writer = import_module("avro.datafile").DataFileWriter(file.open("wb"), datums, schema, codec=codec)
    names: dict[str, Any] = {}
    for place, row in enumerate(one["rows"], 1):
        writer.append(value(one["schema"], row, names))
        if one["rowsPerBlock"] and place % one["rowsPerBlock"] == 0:
            writer.sync()
    writer.close()


def write_polars(folder: Path) -> None:
    polars = import_module("polars")
    rows = {
        "flag": [True, None],
        "number": [-(2**63), 2**63 - 1],
        "small": polars.Series([1, None], dtype=polars.Int32),
        "ratio": [0.5, None],
        "text": ["é", None],
        "data": [b"\x00\xff", None],
        "day": [date(2024, 2, 29), None],
        "at": polars.Series([(EPOCH + timedelta(microseconds=1709209815123456)).replace(tzinfo=None), None]),
        "tags": [["a", None], None],
        "inner": [{"x": 1, "y": "z"}, None],
    }
    for codec in ("uncompressed", "deflate", "snappy"):
        polars.DataFrame(rows).write_avro(folder / f"rows-{codec}.avro", compression=codec)


def main(cases: Path, folder: Path) -> None:
    for library in ("python", "polars"):
        (folder / library).mkdir(parents=True, exist_ok=True)
    for title, one in json.loads(cases.read_text()).items():
        for codec in CODECS if one["everyCodec"] else ["null"]:
            write(one, codec, folder / "python" / f"{title}-{codec}.avro")
    write_polars(folder / "polars")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
