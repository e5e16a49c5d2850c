"""Files that a real Spark wrote by its legacy calendar (`tests/fixtures/legacy`) are read as that Spark reads them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.decoding.legacy_calendar import LegacyCalendar
from arrow_avro.decoding.value_errors import UnrepresentableValueError
from arrow_avro.files.container_file import read_header
from arrow_avro.schema import parse
from foundation.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("each_decoder")

FIXTURES = Path(__file__).parents[2] / "fixtures" / "legacy"
YEAR_1900 = -2_208_988_800_000_000
FIRST_DAY = -141_427


def numbers(array: Any) -> list[Any]:
    """Days and microseconds of a column."""
    return array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64()).to_pylist()  # type: ignore[no-any-return]


def rows(data: bytes, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in decode_blob(data, blob="b", **options):
        inner = {name: batch.column("s").field(name) for name in ("days", "times")}
        flat = {name: numbers(batch.column(name)) for name in ("d", "t", "n")}
        lists = pa.ListArray.from_arrays(inner["days"].offsets, inner["days"].values.cast(pa.int32())).to_pylist()
        times = [dict(each) for each in inner["times"].to_pylist()]
        found += [
            {"d": d, "t": t, "n": n, "days": days, "times": {k: micros(v) for k, v in of.items()}}
            for d, t, n, days, of in zip(*flat.values(), lists, times, strict=True)
        ]
    return found


def micros(moment: Any) -> int:
    return (moment - moment.replace(1970, 1, 1, 0, 0, 0, 0)) // timedelta(microseconds=1) if moment else 0


def test_a_file_of_utc_is_read_as_by_spark_nested_values_too() -> None:
    data = (FIXTURES / "utc.avro").read_bytes()
    assert b"" == read_header(data).metadata["org.apache.spark.legacyDateTime"]
    expected = json.loads((FIXTURES / "utc.json").read_text())
    assert any(each["d"] < FIRST_DAY for each in expected)
    assert expected == rows(data)


def test_timestamps_before_1900_of_another_zone_are_refused_and_the_advice_works() -> None:
    data = (FIXTURES / "los-angeles.avro").read_bytes()
    cause = (
        "column 't': a timestamp before 1900, which Spark wrote by its legacy calendar in time zone 'America/Los_Ang"
    )
    with pytest.raises(ConfigurationError, match=cause) as error:
        list(decode_blob(data, blob="b"))
    assert "Give option avroSchema with plain long for that column, or leave it out" in str(error.value)
    (batch,) = decode_blob(data, blob="b", columns=["d"])
    expected = json.loads((FIXTURES / "los-angeles.json").read_text())
    assert [each["d"] for each in expected] == numbers(batch.column("d"))
    schema = {"type": "record", "name": "topLevelRecord", "fields": [{"name": "t", "type": ["long", "null"]}]}
    (batch,) = decode_blob(data, blob="b", reader=parse(json.dumps(schema), reading=True))
    kept = [(each["t"], raw) for each, raw in zip(expected, batch.column("t").to_pylist(), strict=True)]
    assert [] == [pair for pair in kept if pair[0] >= YEAR_1900 and pair[0] != pair[1]]


def test_each_stored_day_and_microsecond_becomes_what_spark_makes_of_it() -> None:
    pairs = json.loads((FIXTURES / "rebased.json").read_text())
    calendar = LegacyCalendar("UTC")
    for name, act in (("days", calendar.days), ("micros", calendar.microseconds)):
        given, expected = np.array(pairs[name]).T
        assert expected.tolist() == act(given).tolist()


def test_the_calendar_is_that_of_the_header() -> None:
    version, legacy, zone = (f"org.apache.spark.{key}" for key in ("version", "legacyDateTime", "timeZone"))
    assert LegacyCalendar.of({}) is None
    assert LegacyCalendar.of({version: b"3.0.0", zone: b"UTC"}) is None
    assert LegacyCalendar(None) == LegacyCalendar.of({version: b"2.4.8"})
    assert LegacyCalendar("UTC") == LegacyCalendar.of({version: b"3.5.0", legacy: b"", zone: b"UTC"})
    hive = "writer.date.proleptic"
    assert LegacyCalendar("UTC") == LegacyCalendar.of({hive: b"false", "writer.time.zone": b"Europe/Berlin"})
    assert LegacyCalendar.of({hive: b"true"}) is None


@pytest.mark.parametrize("zone", ["UTC", "Z", "GMT", "+00:00", "UTC+0", "Etc/UTC"])
def test_zones_of_utc(zone: str) -> None:
    day = 86_400_000_000
    assert [-719_162 * day + 5] == LegacyCalendar(zone).microseconds(np.array([-719_164 * day + 5])).tolist()


def test_a_fixed_offset_moves_the_day_and_other_zones_are_refused() -> None:
    day, hour = 86_400_000_000, 3_600_000_000
    late = np.array([(FIRST_DAY - 1) * day + 23 * hour])
    assert (late - 10 * day).tolist() == LegacyCalendar("UTC").microseconds(late).tolist()
    assert late.tolist() == LegacyCalendar("GMT+02:00").microseconds(late).tolist(), "1582-10-15 there"
    for zone in (None, "Europe/Berlin", "Etc/GMT+2"):
        with pytest.raises(UnrepresentableValueError, match="before 1900"):
            LegacyCalendar(zone).microseconds(late)
        assert [YEAR_1900] == LegacyCalendar(zone).microseconds(np.array([YEAR_1900])).tolist()


def test_the_ends_of_the_types_are_no_error() -> None:
    days = np.array([-(2**31), 2**31 - 1])
    assert (LegacyCalendar(None).days(days) >= days).all()
    micros_ = np.array([-(2**63), 2**63 - 1])
    assert (LegacyCalendar("+02:00").microseconds(micros_) >= micros_).all()
