"""Both decoders on the same random schemas, datums, damage and limits: `python -m tests.arrow_avro.fuzz --minutes 30`.

They must give the same rows, or an error of the same class for the same block, row and column. What else the error
says is what each decoder noticed first: a row that is damaged and takes too much memory is either. The process may
not have more than 1 GiB of address space more than it began with, and a case must end within a minute.
"""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import struct
import time
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from arrow_avro import decode_blob, parse
from arrow_avro.decoding import decode
from arrow_avro.decoding.scanners import VARIABLE
from arrow_avro.files.container_file import block, header
from arrow_avro.limits import ReadLimits
from arrow_avro.varint import encode as varint
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError
from tests.histories.history import check_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = Any

SYNC = bytes(range(16))
LIMIT = "maxBatchBytes"
SECONDS, ADDRESS_SPACE = 60, 1 << 30
PLACE = re.compile(r"block from byte \d+|row \d+ \(from 0\)|column '[^']*'")
LEAVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
)
WIDER = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "string": ("bytes",)}


@dataclass
class Case:
    """A blob, and how it is read."""

    blob: bytes
    limits: ReadLimits
    reader: str | None = None
    columns: list[str] | None = None


@dataclass
class Outcome:
    """The rows that were read, and the class, places and text of the error that ended it."""

    rows: pa.Table | None
    error: str = ""
    places: list[str] = field(default_factory=list)
    text: str = ""


@dataclass
class Drawing:
    """Draws cases, and counts what they have."""

    rng: Random
    seen: Counter[str] = field(default_factory=Counter)
    names: int = 0
    spoilt: bool = False

    def case(self) -> Case:
        """A blob of a few blocks, often damaged."""
        fields = [{"name": f"c{place}", "type": self.type(2)} for place in range(self.rng.randint(1, 5))]
        schema = {"type": "record", "name": "row", "fields": fields}
        codec = self.rng.choice(["null", "null", "deflate"])
        blob = header(json.dumps(schema), codec, SYNC)
        self.spoilt = self.rng.random() < 0.5
        for _ in range(self.rng.randint(1, 4)):
            rows = self.rng.choice([0, 1, 2, 30, 70, 200])
            body = b"".join(self.datum(schema) for _ in range(rows))
            claimed, body = self.damaged(rows, body) if self.spoilt else (rows, body)
            stored = body if codec == "null" else zlib.compress(body, wbits=-15)
            blob += b"".join(map(bytes, block(claimed, stored, SYNC)))
        return Case(blob, self.limits(), *self.reading(fields))

    def reading(self, fields: list[Json]) -> tuple[str | None, list[str] | None]:
        """A reader schema with other types, or some of the columns."""
        how = self.rng.choice(["all", "columns", "reader"])
        self.seen[how] += 1
        if how == "columns":
            names = [each["name"] for each in fields if "next" not in json.dumps(each)]
            return None, self.rng.sample(names, self.rng.randint(0, len(names)))
        if how == "reader":
            some = self.rng.sample(fields, self.rng.randint(1, len(fields)))
            read: list[Json] = [{"name": each["name"], "type": self.wider(each["type"])} for each in some]
            read += [{"name": "added", "type": ["null", "int"], "default": None}] * (self.rng.random() < 0.3)
            return json.dumps({"type": "record", "name": "row", "fields": read}), None
        return None, None

    def wider(self, avro: Json) -> Json:
        """A type that the values may resolve to."""
        if isinstance(avro, str) and self.rng.random() < 0.5:
            self.seen["another type"] += 1
            return self.rng.choice(
                [*WIDER.get(avro, (avro,)) * 2, ["null", avro] if avro != "null" else "null", "string"]
            )
        return avro

    def limits(self) -> ReadLimits:
        """Often small ones, so that batches are cut."""
        return ReadLimits(
            batch_rows=self.rng.choice([1, 7, 64, 100, 32768]), batch_bytes=self.rng.choice([300, 2000, 10**5, 1 << 27])
        )

    def type(self, depth: int) -> Json:
        """A type of at most so many levels."""
        how = self.rng.choice(
            [
                "leaf",
                "leaf",
                "optional",
                "logical",
                "named",
                *(["array", "map", "record", "union", "optional"] * (depth > 0)),
                *(["itself"] * (depth > 1)),
            ]
        )
        self.seen[how] += 1
        match how:
            case "leaf":
                return self.rng.choice(LEAVES)
            case "logical":
                return self.rng.choice(LOGICAL)
            case "optional":
                inner = self.rng.choice([*LEAVES[1:], *LOGICAL])
                return self.rng.choice([["null", inner], [inner, "null"]])
            case "named":
                name, size = self.name(), self.rng.choice([0, 1, 5])
                enum: Json = {"type": "enum", "name": name, "symbols": ["a", "b", "c"]}
                return self.rng.choice([enum, {"type": "fixed", "name": name, "size": size}])
            case "array":
                return {"type": "array", "items": self.type(depth - 1)}
            case "map":
                return {"type": "map", "values": self.type(depth - 1)}
            case "record":
                fields = [
                    {"name": f"f{place}", "type": self.type(depth - 1)} for place in range(self.rng.randint(0, 3))
                ]
                return {"type": "record", "name": self.name(), "fields": fields}
            case "itself":
                name = self.name()
                own: list[Json] = [
                    {"name": "v", "type": self.rng.choice(LEAVES)},
                    {"name": "next", "type": ["null", name]},
                ]
                return {"type": "record", "name": name, "fields": own}
        branches: list[Json] = self.rng.sample(
            ["null", "boolean", "int", "long", "double", "bytes", "string"], self.rng.randint(1, 4)
        )
        return branches if self.rng.random() < 0.7 else [*branches, {"type": "array", "items": self.type(depth - 1)}]

    def name(self) -> str:
        """A new name of a type."""
        self.names += 1
        return f"t{self.names}"

    def datum(self, avro: Json, named: dict[str, Json] | None = None) -> bytes:
        """The bytes of a random value."""
        named = {} if named is None else named
        if isinstance(avro, str) and avro in named:
            avro = named[avro]
        if isinstance(avro, list):
            last = "null" in avro and self.rng.random() < 0.3
            branch = avro.index("null") if last else self.rng.randrange(len(avro))
            return varint(branch) + self.datum(avro[branch], named)
        kind = avro if isinstance(avro, str) else avro["type"]
        if isinstance(avro, dict) and "name" in avro:
            named[avro["name"]] = avro
        if self.spoilt and kind in ("boolean", "int", "enum") and self.rng.random() < 0.01:
            self.seen["out of bounds"] += 1
            return varint(2**40)
        if kind == "record":
            return b"".join(self.datum(each["type"], named) for each in avro["fields"])
        if kind in ("array", "map"):
            return self.items(avro, named)
        return self.leaf(kind, avro)

    def leaf(self, kind: str, avro: Json) -> bytes:
        """The bytes of a value without parts."""
        rng = self.rng
        long = (0, -1, 63, 64, rng.randint(-(10**12), 10**12), rng.randint(-(2**63), 2**63 - 1))
        values: dict[str, Callable[[], bytes]] = {
            "null": lambda: b"",
            "boolean": lambda: rng.choice([b"\0", b"\1"]),
            "int": lambda: varint(rng.choice([0, 1, -1, 86_399_999, rng.randint(-(2**31), 2**31 - 1)])),
            "long": lambda: varint(rng.choice(long)),
            "float": lambda: struct.pack("<f", rng.uniform(-1e6, 1e6)),
            "double": lambda: struct.pack("<d", rng.uniform(-1e6, 1e6)),
            "bytes": lambda: sized(rng.randbytes(rng.choice([0, 1, 3, 4]))),
            "string": lambda: sized("".join(rng.choices("abé€😀", k=rng.choice([0, 1, 5, 40]))).encode()),
            "enum": lambda: varint(rng.randrange(len(avro["symbols"]))),
            "fixed": lambda: rng.randbytes(avro["size"]),
        }
        return values[kind]()

    def items(self, avro: Json, named: dict[str, Json]) -> bytes:
        """Blocks of items, some with their size."""
        found = b""
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            count = self.rng.randint(1, 4)
            key = [sized(self.rng.choice([b"k", b"l", b"m"])) if avro["type"] == "map" else b"" for _ in range(count)]
            body = b"".join(
                each + self.datum(avro["items" if avro["type"] == "array" else "values"], named) for each in key
            )
            found += varint(-count) + varint(len(body)) + body if self.rng.random() < 0.3 else varint(count) + body
        return found + b"\0"

    def damaged(self, rows: int, body: bytes) -> tuple[int, bytes]:
        """The rows that a block claims, and its bytes."""
        how = self.rng.choice(["sound", "sound", "sound", "flipped", "cut", "longer", "more rows", "wide", "noise"])
        self.seen[how] += 1
        place = self.rng.randrange(len(body)) if body else 0
        match how:
            case "flipped" if body:
                return rows, body[:place] + bytes([body[place] ^ (1 << self.rng.randrange(8))]) + body[place + 1 :]
            case "cut":
                return rows, body[:place]
            case "longer":
                return rows, body + self.rng.randbytes(self.rng.randint(1, 3))
            case "more rows":
                return rows + self.rng.choice([1, 5, 2000]), body
            case "wide":
                return rows, body[:place] + b"\xff" * self.rng.choice([4, 8, 9, 10]) + body[place:]
            case "noise":
                return self.rng.choice([1, 3, 50]), self.rng.randbytes(self.rng.choice([1, 30, 300]))
        return rows, body


def sized(text: bytes) -> bytes:
    """Bytes after their length."""
    return varint(len(text)) + text


def decoded(case: Case, decoder: str) -> Outcome:
    """What a decoder makes of a case."""
    os.environ[VARIABLE] = decoder
    batches: list[pa.RecordBatch] = []
    try:
        reader = None if case.reader is None else parse(case.reader)
        for batch in decode_blob(case.blob, blob="b", reader=reader, columns=case.columns, limits=case.limits):
            batch.validate(full=True)
            batches.append(batch)
    except AzureBlobError as error:
        text = str(error)
        assert "Report this" not in text, text
        assert "more memory than there is" not in text, text
        return Outcome(rows_of(batches), type(error).__name__, PLACE.findall(text), text)
    return Outcome(rows_of(batches))


def rows_of(batches: list[pa.RecordBatch]) -> pa.Table | None:
    """All rows; None if there are none."""
    return pa.Table.from_batches(batches) if batches else None


def check(case: Case, seen: Counter[str]) -> None:
    """Raises AssertionError if the decoders differ."""
    pure, native = decoded(case, "pure"), decoded(case, "native")
    decode._resolved.cache_clear()  # a machine has 40 MB of address space
    if LIMIT in pure.text and native.error == CorruptError.__name__:  # the decoder in Python checks numbers afterwards
        assert pure.places[:1] == native.places[:1], (pure.text, native.text)
    else:
        assert pure.error == native.error, (pure.text, native.text)
        assert pure.places == native.places, (pure.text, native.text)
    same = pure.rows is None if native.rows is None else pure.rows is not None and equal(pure.rows, native.rows)
    assert same, (pure.rows, native.rows)
    seen["rows" if not pure.error else pure.error] += 1
    seen["a row of a damaged block is named"] += any("row" in place for place in pure.places)
    seen["the same words"] += bool(pure.error) and pure.text == native.text
    seen["beyond a limit"] += pure.error == ConfigurationError.__name__ and LIMIT in pure.text
    seen["several batches"] += (
        pure.rows is not None and pure.rows.column(0).num_chunks > 1
        if pure.rows is not None and pure.rows.num_columns
        else 0
    )


def equal(one: pa.Table, other: pa.Table) -> bool:
    """Whether all values are the same; not-a-number is equal to itself."""
    return one.equals(other) or (
        one.schema == other.schema and list(map(shown, one.columns)) == list(map(shown, other.columns))
    )


def shown(column: pa.ChunkedArray) -> str:
    """All values of a column as text, also those that no value of Python's can be."""
    return "".join(chunk.to_string(window=10**6, container_window=10**6) for chunk in column.chunks)


EVENTS = (
    *(
        "all",
        "columns",
        "reader",
        "another type",
        "leaf",
        "optional",
        "logical",
        "named",
        "array",
        "map",
        "record",
        "union",
    ),
    *("itself", "sound", "flipped", "cut", "longer", "more rows", "wide", "noise", "out of bounds"),
    *(
        "rows",
        "CorruptError",
        "ConfigurationError",
        "a row of a damaged block is named",
        "the same words",
        "beyond a limit",
    ),
    "several batches",
)


@contextmanager
def bounded() -> Iterator[None]:
    """No more address space than a bound while this runs, and no case that does not end."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, before[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def run(seed: int, goes_on: Callable[[int], bool]) -> Counter[str]:
    """Check cases while `goes_on`, given their number. What has happened."""
    drawing = Drawing(Random(seed))
    logging.getLogger("arrow_avro").setLevel(logging.WARNING)
    kept = os.environ.get(VARIABLE)
    number = 0
    try:
        with bounded():
            while goes_on(number):
                drawing.rng.seed(f"{seed}-{number}")
                signal.alarm(SECONDS)
                try:
                    check(drawing.case(), drawing.seen)
                except (AssertionError, pa.ArrowException) as error:
                    raise AssertionError(f"case {number} of seed {seed}: {error}") from error
                number += 1
    finally:
        os.environ.pop(VARIABLE, None) if kept is None else os.environ.update({VARIABLE: kept})
    check_events(drawing.seen, EVENTS)
    return drawing.seen


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long.")] = 30,
    seed: Annotated[int | None, typer.Option(help="Of the first case.")] = None,
) -> None:
    """Give both decoders the same bytes."""
    first = Random().randrange(10**6) if seed is None else seed
    end = time.monotonic() + 60 * minutes
    counted = 0

    def goes_on(number: int) -> bool:
        nonlocal counted
        counted = number
        return time.monotonic() < end

    seen = run(first, goes_on)
    lines = [f"{counted:,} cases of seed {first}, no difference"]
    lines += [f"  {times:>9,}  {name}" for name, times in sorted(seen.items())]
    typer.echo("\n".join(lines))


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()
