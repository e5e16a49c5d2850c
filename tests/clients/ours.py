"""Blobs that the sink wrote, for programs that read Avro: one file for each type, and one for each codec.

`types/COLUMN.avro` has the rows of `COLUMNS[COLUMN]` in a column `v`; `codecs/CODEC.avro` has `CODEC_ROWS`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from arrow_avro import CODECS
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows, visible_blobs

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2024, 2, 29, 12, 30, 15, 123456, UTC)
DEEP = pa.struct([("x", pa.float64()), ("deep", pa.struct([("y", pa.string())]))])

# Column: its type, values; the sink makes each nullable.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, None, False]),
    "byte": (pa.int8(), [-128, None, 127]),
    "int": (pa.int32(), [-(2**31), None, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), None, 2**63 - 1]),
    "float": (pa.float32(), [-0.5, None, 1.5]),
    "double": (pa.float64(), [1e308, None, -1e-308]),
    "string": (pa.string(), ["é𝄞", None, ""]),
    "binary": (pa.binary(), [b"\x00\xff", None, b""]),
    "decimal(9, 2)": (pa.decimal128(9, 2), [Decimal("-12.34"), None, Decimal("9999999.99")]),
    "decimal(38, 10)": (pa.decimal128(38, 10), [Decimal("-1234567890123456789012345678.0123456789"), None]),
    "date": (pa.date32(), [date(2024, 2, 29), None, date(1900, 1, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [NOON, None, datetime(1900, 1, 1, tzinfo=UTC)]),
    "timestamp_ntz": (pa.timestamp("us"), [NOON.replace(tzinfo=None), None]),
    "time": (pa.time64("us"), [time(12, 30, 15, 123456), None, time(0)]),
    "array": (pa.list_(pa.int32()), [[1, None], None, []]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], None, []]),
    "struct": (DEEP, [{"x": 0.5, "deep": {"y": "z"}}, None, {"x": None, "deep": None}]),
    "array of structs": (pa.list_(pa.struct([("a", pa.string())])), [[{"a": "b"}, None], None]),
}
CODEC_ROWS = [{"id": number, "text": "x" * (number % 40)} for number in range(3000)]


def write_all(folder: Path) -> None:
    """Write all files."""
    (folder / "types").mkdir(parents=True)
    (folder / "codecs").mkdir()
    for name, (kind, values) in COLUMNS.items():
        rows = pa.record_batch({"v": pa.array(values, kind)})
        (folder / "types" / f"{name}.avro").write_bytes(blob(rows))
    for codec in CODECS:
        rows = pa.RecordBatch.from_pylist(CODEC_ROWS)
        (folder / "codecs" / f"{codec}.avro").write_bytes(blob(rows, codec=codec, maxFlushThresholdSize=1 << 14))


def blob(rows: pa.RecordBatch, **options: Any) -> bytes:
    """The blob that the sink writes."""
    account = new_account()
    plan = plan_of(rows.schema, **options)
    container = account.container("container")
    parts = [rows.slice(begin, 500) for begin in range(0, rows.num_rows, 500)]
    committer(container, plan).commit([stage_rows(container, plan, parts)], None)
    (data,) = visible_blobs(account).values()
    return data


def same(value: Any, got: Any) -> bool:
    """Whether a program has read the value: as it is stored, or as the program's own type for it, in JSON or not."""
    match value, got:
        case (None, _) | (_, None):
            return value is got
        case dict(), dict():
            return value.keys() == got.keys() and all(same(one, got[name]) for name, one in value.items())
        case [(str(), _), *_], dict():
            return same(dict(value), got)
        case list(), list():
            return len(value) == len(got) and all(map(same, value, got))
        case [], {}:
            return True
        case float(), int() | float():
            return got == value
        case datetime(), str():
            return got.removesuffix("+00:00") in spellings(value)
    return got == value or str(got) in spellings(value)


def spellings(value: Any) -> set[str]:
    """The texts of a value: numbers in decimal, as Avro's Java library, Rust's crate or Go's types print it."""
    match value:
        case bytes():
            return {value.hex()}
        case Decimal():
            sign, digits, _ = value.as_tuple()
            unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
            least = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
            stored = {unscaled.to_bytes(size, "big", signed=True).hex() for size in (least, 4, 16) if size >= least}
            return {*stored, str(Fraction(value)), str(value)}
        case datetime():
            utc = value.replace(tzinfo=UTC)
            micros = int(utc.timestamp()) * 10**6 + utc.microsecond
            plain = utc.replace(tzinfo=None)
            texts = {plain.isoformat(timespec="microseconds"), plain.isoformat(" ", "microseconds")}
            return {str(micros), *texts, plain.isoformat(" ")}
        case date():
            return {str((value - date(1970, 1, 1)).days), value.isoformat(), f"{value}T00:00:00.000000"}
        case time():
            micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
            go = f"{value.hour}h{value.minute}m{value.second}.{value.microsecond:06d}s" if micros else "0s"
            return {str(micros), value.isoformat(), value.isoformat("microseconds"), go}
    return {str(value)}
