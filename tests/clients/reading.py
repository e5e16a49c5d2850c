"""What other programs read of the blobs that the sink writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrow_avro import CODECS
from tests.clients.ours import CODEC_ROWS, COLUMNS, same

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.readers import Reader

# Codecs and types that a program does not have. ClickHouse reads a null array or map as an empty one.
UNREAD: dict[str, set[str]] = {
    "Java: avro 1.12.2": set(),
    "Rust: apache-avro 0.21": set(),
    "Go: hamba/avro 2.31": {"bzip2", "xz"},
    "Go: linkedin/goavro 2.15": {"bzip2", "xz", "zstandard"},
    "Node: avsc 5.7.9": {"bzip2", "xz", "zstandard"},
    "C#: avro on Mono": {"bzip2", "snappy", "xz", "zstandard"},  # the library has a package for each
    "Python: avro 1.12.2": {"xz"},
    "Python: fastavro 1.13.1": set(),
    "Polars 2.1.0": {"bzip2", "xz", "zstandard", "map"},
    "DuckDB 1.5.5": {"bzip2", "xz", "zstandard", "timestamp_ntz"},
    "ClickHouse (chDB 4.4.0)": {"bzip2", "xz", "array", "map", "array of structs"},
}


def unread(reader: Reader, folder: Path) -> dict[str, str]:
    """What a program has not read as it was written: the column or codec, and its error or its rows."""
    found: dict[str, str] = {}
    expected = {
        "types": {name: [{"v": value} for value in values] for name, (_, values) in COLUMNS.items()},
        "codecs": dict.fromkeys(CODECS, CODEC_ROWS),
    }
    for kind, files in expected.items():
        answers = reader.read(folder / kind)
        for name, rows in files.items():
            answer = answers[f"{name}.avro"]
            if isinstance(answer, str) or not same(rows, answer):
                found[name] = str(answer)[:300]
    return found
