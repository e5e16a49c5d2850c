"""Random folders of foreign files: what a name, a header, a byte or a schema decides is never decided in silence.

A folder is read with random options. The rows are those that were drawn, or an error names a way out; then the read
goes on with that, until there are rows. Blobs that are left out for their names are counted in a warning.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from arrow_avro import header, read_header
from arrow_avro.decoding.scanners import VARIABLE
from arrow_avro.recursion import written_out
from azure_account.memory.account import MemoryAccount
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError, NotFoundError
from tests.arrow_avro.conftest import MISSING
from tests.azureblob_source.write.sink_rows import ACCOUNT
from tests.histories.history import check_events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DECODING = "arrow_avro.decoding"
FOLDERS, MANY = 60, 2_000
SYNC = bytes(range(16))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000_000
SWITCH = -141_427
NAMES = ("a.avro", "b.avro.gz", "x/c.avro", "000000_0", "part-m-00000", "d.AVRO", "_e.avro", ".f.avro", "_t/g.avro")
NODE = {
    "type": "record",
    "name": "node",
    "fields": [
        {"name": "v", "type": "int"},
        {"name": "next", "type": ["null", "node"]},
        {"name": "children", "type": {"type": "array", "items": "node"}},
    ],
}
COLUMNS: dict[str, Any] = {
    "id": "long",
    "s": ["null", "string"],
    "m": {"type": "map", "values": "string"},
    "d": {"type": "int", "logicalType": "date"},
    "ds": {"type": "array", "items": ["null", {"type": "int", "logicalType": "date"}]},
    "t": {"type": "long", "logicalType": "timestamp-micros"},
    "n": NODE,
}
VERSIONS = (b"2.4.8", b"3.5.1", b"4.1.0")
ZONES = (None, "UTC", "+02:00", "Europe/Berlin")
OFFSETS = {"UTC": 0, "+02:00": 2 * 3600 * 10**6}


@dataclass(frozen=True)
class Reading:
    """The options of a read."""

    any_extension: bool = False
    replace_invalid: bool = False
    depth: int = 0
    columns: tuple[str, ...] | None = None
    ignore_corrupt: bool = False
    split: int = 1 << 20

    @property
    def options(self) -> dict[str, str]:
        """As they are given to Spark."""
        return {
            "ignoreExtension": str(self.any_extension),
            "invalidUtf8": "replace" if self.replace_invalid else "error",
            "recursiveFieldMaxDepth": str(self.depth),
            "ignoreCorruptBlobs": str(self.ignore_corrupt),
            "maxPartitionBytes": str(self.split),
            **({} if self.columns is None else {"columns": ",".join(self.columns)}),
        }


@dataclass
class File:
    """One file: its bytes, and its rows as they were drawn, with the calendar of its header."""

    data: bytes
    rows: list[dict[str, Any]]
    legacy: bool
    zone: str | None
    padding: str


@dataclass
class Drawing:
    """Draws folders, and counts what they have."""

    rng: Random
    seen: Counter[str] = field(default_factory=Counter)

    def folder(self) -> dict[str, File]:
        names = self.rng.sample(NAMES, self.rng.randint(1, 4))
        columns = ["id", *(name for name in COLUMNS if name != "id" and self.rng.random() < 0.5)]
        self.odd = self.rng.random() < 0.5
        return {name: self.file(name, columns) for name in names}

    def file(self, name: str, columns: list[str]) -> File:
        rows = [{name: self.value(name) for name in columns} for _ in range(self.rng.choice([1, 3, 40]))]
        metadata = {"writer": b"\xff\0", "parquet.avro.schema": b"{}"} if self.rng.random() < 0.3 else {}
        zone = self.rng.choice(ZONES)
        if self.rng.random() < 0.5:
            metadata["org.apache.spark.version"] = self.rng.choice(VERSIONS)
            if metadata["org.apache.spark.version"] > b"3" and self.rng.random() < 0.5:
                metadata["org.apache.spark.legacyDateTime"] = b""
            if zone is not None:
                metadata["org.apache.spark.timeZone"] = zone.encode()
        old = metadata.get("org.apache.spark.version", b"9") < b"3"
        legacy = old or "org.apache.spark.legacyDateTime" in metadata
        self.seen["legacy calendar"] += legacy
        data = stored(columns, rows, metadata, self.rng.choice(["null", "deflate"]))
        padding = self.rng.choice(["", "", "", "page", "odd"]) if not name.endswith(".gz") else ""
        self.seen[f"padding {padding}"] += bool(padding)
        data += bytes({"": 0, "page": -len(data) % 512, "odd": 4096}[padding])
        gzipped = name.endswith(".gz") or self.rng.random() < 0.1
        return File(gzip.compress(data) if gzipped else data, rows, legacy, zone, padding)

    def value(self, name: str) -> Any:
        match name:
            case "s":
                return None if self.rng.random() < 0.2 else self.text()
            case "m":
                return {f"k{place}": self.text() for place in range(self.rng.randrange(3))}
            case "d":
                return self.day()
            case "ds":
                return [self.day() if self.rng.random() < 0.7 else None for _ in range(self.rng.randrange(3))]
            case "t":
                return self.day() * DAY + self.rng.randrange(DAY)
            case "n":
                return self.node(4)
        return self.rng.randrange(10**6)

    def text(self) -> bytes:
        """Bytes that are mostly UTF-8."""
        if self.odd and self.rng.random() < 0.1:
            self.seen["not UTF-8"] += 1
            return self.rng.choice([b"\xff", b"a\xc3", b"\xed\xa0\x80b", b"\xe2\x82x", b"\x80"])
        return self.rng.choice(["", "abc", "größe", "\U0001f600"]).encode()

    def day(self) -> int:
        return (
            self.rng.randrange(-718_000, self.rng.choice([SWITCH, 20_000])) if self.odd else self.rng.randrange(20_000)
        )

    def node(self, levels: int) -> dict[str, Any]:
        deeper = levels > 0 and self.rng.random() < 0.6
        following = self.node(levels - 1) if deeper else None
        children = [self.node(levels - 2) for _ in range(self.rng.randrange(3))] if deeper else []
        return {"v": levels, "next": following, "children": children}

    def reading(self, columns: list[str]) -> Reading:
        some = tuple(self.rng.sample(columns, self.rng.randint(1, len(columns))))
        return Reading(
            any_extension=self.rng.random() < 0.4,
            replace_invalid=self.rng.random() < 0.4,
            depth=self.rng.choice([0, 0, 1, 2, 3]),
            columns=some if self.rng.random() < 0.3 else None,
            split=self.rng.choice([200, 1 << 20]),
        )


def stored(columns: list[str], rows: list[dict[str, Any]], metadata: Mapping[str, bytes], codec: str) -> bytes:
    """A file whose rows fastavro wrote as bytes and plain numbers, under a header that says strings and dates."""
    out = io.BytesIO()
    fastavro.writer(out, record({name: plain(COLUMNS[name]) for name in columns}), rows, codec, 500, sync_marker=SYNC)
    data = out.getvalue()
    named = header(json.dumps(record({name: COLUMNS[name] for name in columns})), codec, SYNC, metadata)
    return named + data[read_header(data).size :]


def record(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": name, "type": avro} for name, avro in fields.items()]}


def plain(avro: Any) -> Any:
    text = json.dumps(avro).replace('"string"', '"bytes"')
    return json.loads(re.sub(r'\{"type": "(int|long)", "logicalType": "[^"]*"\}', r'"\1"', text))


# --- what the rows should be ------------------------------------------------------------------------------------------


def gregorian(day: int) -> int:
    """The day of the same name in the Gregorian calendar, counted year by year from the last Julian day."""
    if day >= SWITCH:
        return day
    year, first = 1583, -141_427 + 88  # Julian 1583-01-01
    while day < first:
        year -= 1
        first -= 366 if year % 4 == 0 else 365
    lengths = [31, 28 + (year % 4 == 0), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    left, month = day - first, 0
    while left >= lengths[month]:
        left, month = left - lengths[month], month + 1
    return date(year, month + 1, 1).toordinal() + left - EPOCH.toordinal()


def instant(micros: int, file: File) -> datetime:
    if file.legacy and micros < -2_208_988_800_000_000:
        offset = OFFSETS[str(file.zone)]
        days, rest = divmod(micros + offset, DAY)
        micros = gregorian(days) * DAY + rest - offset
    return EPOCH + timedelta(microseconds=micros)


def levels_of(node: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth == 1:
        return {"v": node["v"]}
    following = None if node["next"] is None else levels_of(node["next"], depth - 1)
    return {"v": node["v"], "next": following, "children": [levels_of(each, depth - 1) for each in node["children"]]}


def expected(row: dict[str, Any], file: File, reading: Reading) -> dict[str, Any]:
    def day(value: int) -> date:
        return date.fromordinal((gregorian(value) if file.legacy else value) + EPOCH.toordinal())

    values: dict[str, Callable[[Any], Any]] = {
        "id": lambda value: value,
        "s": lambda value: None if value is None else value.decode(errors="replace"),
        "m": lambda value: [(key, each.decode(errors="replace")) for key, each in value.items()],
        "d": day,
        "ds": lambda value: [None if each is None else day(each) for each in value],
        "t": lambda value: instant(value, file),
        "n": lambda value: levels_of(value, reading.depth),
    }
    return {name: values[name](row[name]) for name in reading.columns or row}


# --- the ways out -----------------------------------------------------------------------------------------------------


def way_out(error: AzureBlobError, reading: Reading, columns: list[str]) -> tuple[str, Reading]:
    """What the error advises, by the first of its advices that applies."""
    text, chosen = str(error), reading.columns or tuple(columns)
    match error:
        case NotFoundError() if "Option `ignoreExtension` = true" in text:
            return "ignoreExtension", replace(reading, any_extension=True)
        case CorruptError() if "a string is not utf8" in text and "Set option invalidUtf8 to replace" in text:
            return "invalidUtf8", replace(reading, replace_invalid=True)
        case CorruptError() if "zeros follow the last block" in text and "option ignoreCorruptBlobs" in text:
            # With this option strings that are not UTF-8 are skipped as well, so they are replaced here.
            return "ignoreCorruptBlobs", replace(reading, ignore_corrupt=True, replace_invalid=True)
        case ConfigurationError() if "record node contains itself" in text and "column 'n'" in text:
            others = tuple(name for name in chosen if name != "n")
            if reading.split > 200 and others and "Name the other columns in option columns" in text:
                return "columns instead of the record", replace(reading, columns=others)
            assert "set option recursiveFieldMaxDepth" in text
            return "recursiveFieldMaxDepth", replace(reading, depth=2)
        case ConfigurationError() if "column 't': a timestamp before 1900" in text:
            assert "leave it out with option columns" in text
            others = tuple(name for name in chosen if name != "t")
            return "columns instead of the timestamp", replace(reading, columns=others or ("id",))
    raise AssertionError(f"no way out of {text}") from error


def read(blobs: Mapping[str, bytes], reading: Reading) -> list[dict[str, Any]]:
    account = MemoryAccount()
    container = account.container("container")
    container.create()
    for name, data in blobs.items():
        container.put(f"s/{name}", data)
    plan = ReadPlan(source_options({"path": "container/s", **ACCOUNT, **reading.options}, {}))
    plan.container = container
    reader = SnapshotReader(plan, spark_schema(plan))
    found = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [row for batch in found for row in batch.to_pylist()]


def is_hidden(name: str) -> bool:
    return any(level.startswith(("_", ".")) for level in name.split("/"))


@pytest.mark.parametrize("decoder", ["pure", pytest.param("native", marks=MISSING)])
def test_rows_are_as_drawn_or_an_error_names_a_way_out(
    decoder: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, decoder)
    check_events(read_folders(5, FOLDERS, caplog), EVENTS)


MUTANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "the calendar that a header names does not count": (f"{DECODING}.decode.LegacyCalendar.of", lambda _: None),
    "padding is damage": ("arrow_avro.files.container_file._is_padding", lambda *_: False),
    "blobs are left out in silence": ("azureblob_source.read.snapshot.logger.warning", lambda *_: None),
    "one level too many": (
        f"{DECODING}.superset.written_out",
        lambda row, schema, depth: written_out(row, schema, 2 * depth),
    ),
    "invalid text is left out": (f"{DECODING}.arrays._valid_text", lambda _, offsets, data: (offsets * 0, data[:0])),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_reader_is_noticed(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    with pytest.raises(AssertionError):
        read_folders(5, FOLDERS, caplog)


@pytest.mark.long
def test_many_folders(caplog: pytest.LogCaptureFixture) -> None:
    check_events(read_folders(6, MANY, caplog), EVENTS, 20)


def read_folders(seed: int, count: int, caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """What happened with so many folders."""
    drawing = Drawing(Random(seed))
    for number in range(count):
        folder = drawing.folder()
        visible = {name: file for name, file in folder.items() if not is_hidden(name)}
        if not visible:
            continue
        columns = list(next(iter(folder.values())).rows[0])
        reading = drawing.reading(columns)
        for _ in range(8):
            caplog.clear()
            try:
                with caplog.at_level(logging.WARNING):
                    rows = read({name: file.data for name, file in folder.items()}, reading)
            except AzureBlobError as error:
                way, reading = way_out(error, reading, columns)
                assert way != "ignoreCorruptBlobs" or "odd" in [file.padding for file in visible.values()]
                drawing.seen[way] += 1
            else:
                break
        else:
            raise AssertionError(f"folder {number} has no rows after all advice")
        chosen = sorted(name for name in visible if reading.any_extension or name.endswith((".avro", ".avro.gz")))
        wanted = [expected(row, visible[name], reading) for name in chosen for row in visible[name].rows]
        assert wanted == rows, f"folder {number}: {reading}"
        left = len(visible) - len(chosen)
        warned = [message for message in caplog.messages if "are left out" in message]
        assert ([f"{left} of {len(visible)} blobs"] if left else []) == [
            text.partition(" of mem")[0] for text in warned
        ]
        drawing.seen["left out with a warning"] += left > 0
        drawing.seen["rows"] += bool(rows)
    return drawing.seen


EVENTS = (
    "rows",
    "legacy calendar",
    "not UTF-8",
    "padding page",
    "padding odd",
    "left out with a warning",
    "ignoreExtension",
    "invalidUtf8",
    "ignoreCorruptBlobs",
    "recursiveFieldMaxDepth",
    "columns instead of the record",
    "columns instead of the timestamp",
)
