"""What other programs wrote, kept in `tests/fixtures/clients/PROGRAM/CASE-CODEC.avro`, and what a read must give."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, NotFoundError
from tests.azureblob_source.write.sink_rows import new_account
from tests.clients.cases import CASES, as_json
from tests.clients.readers import HERE, PROGRAMS, PYTHON

FIXTURES = Path(__file__).parents[1] / "fixtures" / "clients"
NAMES = {
    "java": "Java: avro 1.12.2",
    "connect": "Kafka Connect: AvroData of Apicurio 2.6.13",
    "flink": "Flink: flink-avro 2.3.0",
    "spark": "Spark: spark-avro 4.1.1",
    "rust": "Rust: apache-avro 0.21",
    "hamba": "Go: hamba/avro 2.31",
    "goavro": "Go: linkedin/goavro 2.15",
    "avsc": "Node: avsc 5.7.9",
    "csharp": "C#: avro on Mono",
    "python": "Python: avro 1.12.2",
    "polars": "Polars 2.1.0",
}
NOON = datetime(2024, 2, 29, 12, 30, 15, 123000, UTC)
PRECISE = NOON.replace(microsecond=123456)


def _with_nulls(row: dict[str, Any], **kept: Any) -> list[dict[str, Any]]:
    return [row, {**dict.fromkeys(row), **kept}]


# What a program has made of its own types; the other files are of `CASES`.
OWN: dict[str, list[dict[str, Any]]] = {
    "appended": [{"id": 0}, {"id": 1}, {"id": 2}],
    "flink": _with_nulls(
        {
            "flag": True,
            "tiny": -7,
            "number": 5,
            "money": Decimal("-12.345"),
            "text": "é",
            "data": b"\x00\xff",
            "day": date(2024, 2, 29),
            "at_time": time(12, 30, 15, 123000),
            "local": NOON,  # Flink's timestamps without a zone are Avro's with one, unless it is configured
            "tags": ["a", None],
            "counts": [("k", 1)],
            "inner": {"x": 0.5},
        },
        number=6,
    ),
    "connect": _with_nulls(
        {
            "tiny": -7,
            "short": 300,
            "with_default": 1,
            "money": Decimal("-12.34"),
            "day": date(2024, 2, 29),
            "at_time": time(12, 30, 15, 123000),
            "at": NOON,
            "text": "é",
            "data": b"\x00\xff",
            "tags": ["a", None],
            "counts": [("k", 1)],
            "by_number": [{"key": 5, "value": "five"}],
            "inner": {"x": 0.5},
        },
        tiny=1,
        with_default=9,
        money=Decimal("0.01"),
        day=date(1970, 1, 1),
        at_time=time(0),
        text="",
        tags=[],
        counts=[],
        by_number=[],
    ),
    "spark": _with_nulls(
        {
            "flag": True,
            "tiny": -7,
            "short": 300,
            "number": 5,
            "large": 2**63 - 1,
            "single": 0.5,
            "double": 1e308,
            "text": "é",
            "data": b"\x00\xff",
            "money": Decimal("-12.34"),
            "wide": Decimal("-1.5"),
            "day": date(2024, 2, 29),
            "at": PRECISE,
            "local": PRECISE.replace(tzinfo=None),
            "tags": [1, None],
            "by_name": [("k", {"x": 1})],
            "inner": {"größe": "z", "deep": {"y": 0.25}},
            "span": timedelta(days=1, hours=2, minutes=3, seconds=4),
        }
    ),
    "polars": _with_nulls(
        {
            "flag": True,
            "number": -(2**63),
            "small": 1,
            "ratio": 0.5,
            "text": "é",
            "data": b"\x00\xff",
            "day": date(2024, 2, 29),
            "at": PRECISE.replace(tzinfo=None),
            "tags": ["a", None],
            "inner": {"x": 1, "y": "z"},
        },
        number=2**63 - 1,
    ),
    # It leaves the logical types out of the schema that it stores.
    "avsc/logical": [
        {
            "day": (date(2024, 2, 29) - date(1970, 1, 1)).days,
            "time_millis": 45015123,
            "time_micros": 45015123000,
            "millis": 1709209815123,
            "micros": 1709209815123000,
            "local_millis": 1709209815123,
            "local_micros": 1709209815123000,
            "money": b"\xfb\x2e",
            "fixed_money": b"\xff\xff\xff\xfb\x2e",
            "id": "6f1c2d3e-4b5a-4978-8697-a5b4c3d2e1f0",
            "span": bytes.fromhex("010000000200000003000000"),
        }
    ],
}


def expected(file: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    program, case = file.parent.name, file.stem.rpartition("-")[0]
    own = next((OWN[name] for name in (f"{program}/{case}", case, program) if name in OWN), None)
    return CASES[case].read if own is None else own


# What the error says, if a read of the source cannot give the rows.
REFUSED = {
    **{case: one.refused for case, one in CASES.items() if one.refused is not None},
    "avsc/empty": "no blob with bytes in it",  # it writes no header without a row
}
SPLITS = [1, 100, 1 << 20]


def is_read(file: Path) -> bool:
    """Whether the source gives the rows that the program wrote, or this case's error, however it splits the blob."""
    case = file.stem.rpartition("-")[0]
    refused = REFUSED.get(f"{file.parent.name}/{case}", REFUSED.get(case))
    unions = file.parent.name != "python"
    try:
        found = [_comparable(rows_of(file, size), unions=unions) for size in SPLITS]
    except (ConfigurationError, NotFoundError) as error:
        return refused is not None and refused in str(error)
    return refused is None and [_comparable(expected(file), unions=unions)] * len(SPLITS) == found


def rows_of(file: Path, size: int) -> list[dict[str, Any]]:
    """The rows of a blob in a folder without a log, read in splits of this many bytes."""
    container = new_account().container("container")
    container.put("s/1.avro", file.read_bytes())
    found = take_snapshot(CommitLog(container, "s"), None, SYSTEM_CLOCK)
    splits = list(split_blobs(found.blobs, size))
    decoded = read_splits(container, splits, SplitSettings(reader=found.reader_schema))
    return [row for _, batch in decoded for row in batch.to_pylist()]


def _comparable(value: Any, *, unions: bool) -> Any:
    """The value with maps in the order of their keys, as Go and Rust write them in any order.

    unions: whether the branch of a union counts. Python's `avro` stores a whole number as a double, where it may.
    """
    match value:
        case dict() if "member0" in value and not unions:
            return next((one for one in value.values() if one is not None), None)
        case dict():
            return {name: _comparable(one, unions=unions) for name, one in value.items()}
        case [(str(), _), *_]:
            return sorted(((key, _comparable(one, unions=unions)) for key, one in value), key=lambda pair: pair[0])
        case list():
            return [_comparable(one, unions=unions) for one in value]
    return value


def write_fixtures() -> None:
    """Run all programs; each writes below FIXTURES."""
    with tempfile.TemporaryDirectory() as folder:
        cases, made = Path(folder) / "cases.json", Path(folder) / "made"
        cases.write_text(json.dumps(as_json()))
        commands: list[list[str | Path]] = [
            ["java", "-cp", f"{PROGRAMS}/java/lib/*", HERE / "java" / "Client.java", "write", cases, made],
            [PROGRAMS / "rust" / "target" / "debug" / "clients", "write", cases, made],
            [PROGRAMS / "go" / "client", "write", cases, made],
            ["mono", PROGRAMS / "csharp" / "client.exe", "write", cases, made],
            ["node", PROGRAMS / "node" / "client.js", "write", cases, made],
            [PYTHON, HERE / "python_writers.py", cases, made],
            [sys.executable, "-m", "tests.clients.spark_writer", made],
        ]
        for command in commands:
            subprocess.run([str(word) for word in command], check=True)
        for program in NAMES:
            shutil.rmtree(FIXTURES / program, ignore_errors=True)
            shutil.copytree(made / program, FIXTURES / program)
