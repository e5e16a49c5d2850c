"""Files of other writers (see `tests/fixtures/README.md`) are read right, whole and in splits of any size."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from arrow_avro import CODECS, arrow_schema, parse
from azure_account.memory.account import MemoryAccount
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.blobs import BlobSelection
from azureblob_source.read.snapshot import ListingRules, take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from tests.scripted_clock import ActingClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureblob_source.read.snapshot import Snapshot

FIXTURES = Path(__file__).parents[2] / "fixtures"
AVRO = FIXTURES / "avro"
CAPTURE = FIXTURES / "capture"
SAMZA = FIXTURES / "samza"
CAPTURED = datetime(2024, 5, 17, 9, 8, tzinfo=UTC)
SIZES = [1, 7, 100, 1000, 1 << 20]


def account_with(blobs: Mapping[str, bytes], clock: ManualClock | None = None) -> MemoryAccount:
    account = MemoryAccount(clock=clock)
    account.container("container").create()
    for name, data in blobs.items():
        account.container("container").put(name, data)
    return account


def snapshot(account: MemoryAccount, stream: str, **options: Any) -> Snapshot:
    return take_snapshot(
        CommitLog(account.container("container"), stream), None, ActingClock(lambda _: pytest.fail("waited")), **options
    )


def rows(account: MemoryAccount, found: Snapshot, size: int = 1 << 20, **options: Any) -> list[dict[str, Any]]:
    splits = list(split_blobs(found.blobs, size))
    decoded = read_splits(account.container("container"), splits, SplitSettings(reader=found.reader_schema, **options))
    return [row for _, batch in decoded for row in batch.to_pylist()]


def read(blobs: Mapping[str, bytes], stream: str, size: int = 1 << 20, **options: Any) -> list[dict[str, Any]]:
    account = account_with(blobs)
    return rows(account, snapshot(account, stream), size, **options)


def oracle(data: bytes) -> list[Any]:
    plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return list(fastavro.reader(io.BytesIO(plain)))


# --- Apache Avro ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", ["", "-deflate", "-snappy", "-zstd"])
def test_avros_weather_in_every_codec(codec: str, size: int) -> None:
    lines = (AVRO / "weather.json").read_text().splitlines()
    found = read({"s/weather.avro": (AVRO / f"weather{codec}.avro").read_bytes()}, "s", size)
    assert [json.loads(line) for line in lines] == found


@pytest.mark.parametrize(
    "name", ["weather-sorted", "avro-1279-codec", "avro-1279-no-codec", "person-10", "part-r-00000"]
)
@pytest.mark.parametrize("size", SIZES)
def test_files_of_avros_java_c_and_javascript(name: str, size: int) -> None:
    data = (AVRO / f"{name}.avro").read_bytes()
    assert oracle(data) == read({"s/1.avro": data}, "s", size)


@pytest.mark.parametrize("size", [100, 5000, 1 << 20])
def test_a_marker_within_the_header_is_not_taken_for_a_block_end(size: int) -> None:
    found = read({"s/1.avro": (AVRO / "syncInMeta.avro").read_bytes()}, "s", size)
    assert {"ID": 1, "First": "Dante", "Last": "Hicks", "Phone": "(0)", "Age": 32} == found[0]
    assert list(range(1, 6002)) == sorted(row["ID"] for row in found)


def test_a_stray_byte_after_the_last_block_is_damage() -> None:
    data = (AVRO / "person-10.no-codec.avro").read_bytes()
    with pytest.raises(CorruptError, match=r"s/1\.avro at byte 495 failed: it stops within"):
        read({"s/1.avro": data}, "s")
    found = read({"s/1.avro": data}, "s", ignore_corrupt=True)
    assert oracle(data[:-1]) == found
    assert 10 == len(found)


# The values of Avro's own interoperability test, from `lang/py/avro/test/gen_interop_data.py`.
INTEROP = {
    "intField": 12,
    "longField": 15234324,
    "stringField": "hey",
    "boolField": True,
    "floatField": 1234.0,
    "doubleField": -1234.0,
    "bytesField": b"12312adf",
    "nullField": None,
    "arrayField": [5.0, 0.0, 12.0],
    "mapField": {"a": {"label": "a"}, "bee": {"label": "cee"}},
    "unionField": 12.0,
    "enumField": "C",
    "fixedField": b"1019181716151413",
    "recordField": {"label": "blah", "children": [{"label": "inner", "children": []}]},
}


@pytest.mark.parametrize("codec", CODECS)
def test_avros_interoperability_record_is_read_except_for_its_recursive_field(codec: str) -> None:
    schema = json.loads((AVRO / "interop.avsc").read_text())
    out = io.BytesIO()
    fastavro.writer(out, schema, [INTEROP] * 3, codec=codec)
    account = account_with({"s/1.avro": out.getvalue()})
    found = snapshot(account, "s")
    with pytest.raises(ConfigurationError, match="Node contains itself"):
        arrow_schema(found.reader_schema)
    without = {**schema, "fields": [field for field in schema["fields"] if field["name"] != "recordField"]}
    decoded = read_splits(
        account.container("container"), list(split_blobs(found.blobs)), SplitSettings(reader=parse(json.dumps(without)))
    )
    (batch,) = [batch for _, batch in decoded]
    expected = {name: value for name, value in INTEROP.items() if name != "recordField"}
    expected["unionField"] = {"member0": None, "member1": 12.0, "member2": None}
    expected["mapField"] = [("a", {"label": "a"}), ("bee", {"label": "cee"})]
    assert [expected] * 3 == batch.to_pylist()


# --- names of other writers -------------------------------------------------------------------------------------------

MAPREDUCE = ("s/000000_0", "s/part-m-00000", "s/b.AVRO")


def test_blobs_without_the_extension_are_left_out_with_a_warning_or_read(caplog: pytest.LogCaptureFixture) -> None:
    one = (AVRO / "person-10.avro").read_bytes()
    blobs = {"s/a.avro": one, "s/_SUCCESS": one, **dict.fromkeys(MAPREDUCE, one)}
    assert 10 == len(read(blobs, "s"))
    (warning,) = caplog.messages
    assert warning.startswith(
        "3 of 4 blobs of memory://memory/container/s are left out, such as s/000000_0: their names"
    )
    assert warning.endswith("Option `ignoreExtension` = true reads blobs whatever their names end in.")
    account = account_with(blobs)
    caplog.clear()
    for size in (100, 1 << 20):
        assert 40 == len(rows(account, snapshot(account, "s", listing=ListingRules(any_extension=True)), size))
    assert [] == caplog.messages
    gzipped = account_with({"s/part-m-00000": gzip.compress(one)})
    assert 10 == len(rows(gzipped, snapshot(gzipped, "s", listing=ListingRules(any_extension=True)), 20))


def test_a_folder_of_other_names_is_not_found_and_the_advice_works() -> None:
    account = account_with({"s/000000_0": (AVRO / "person-10.avro").read_bytes()})
    with pytest.raises(NotFoundError, match="Option `ignoreExtension` = true reads blobs whatever their names end in"):
        snapshot(account, "s")
    assert 10 == len(rows(account, snapshot(account, "s", listing=ListingRules(any_extension=True))))


# --- Event Hubs Capture -----------------------------------------------------------------------------------------------


def captured() -> dict[str, bytes]:
    return {str(path.relative_to(CAPTURE)): path.read_bytes() for path in sorted(CAPTURE.rglob("*.avro"))}


def member(value: Any) -> dict[str, Any]:
    """A value of Capture's unions as a column has it."""
    kinds = (int, float, str, bytes)
    return {f"member{place}": value if type(value) is kind else None for place, kind in enumerate(kinds)}


def as_row(event: Mapping[str, Any]) -> dict[str, Any]:
    maps = ("SystemProperties", "Properties")
    return {**event, **{name: [(key, member(value)) for key, value in event[name].items()] for name in maps}}


@pytest.mark.parametrize("size", SIZES)
def test_captured_events_are_read_over_all_partitions_and_minutes(size: int) -> None:
    blobs = captured()
    expected = [as_row(event) for name in sorted(blobs) for event in oracle(blobs[name])]
    found = read(blobs, "airport-events/departures", size)
    assert 10 == len(expected)
    assert expected == found


def test_captures_folders_are_partitions_and_times() -> None:
    account = account_with(captured(), ManualClock(CAPTURED.timestamp()))
    found = snapshot(account, "airport-events/departures")
    assert [("0", 5), ("0", 6), ("0", 7), ("1", 5), ("1", 6), ("1", 7)] == [
        (blob.partition, datetime.fromtimestamp((blob.earliest or 0) / 1e6, UTC).minute) for blob in found.blobs
    ]
    start = int(CAPTURED.timestamp()) * 1_000_000
    early = snapshot(account, "airport-events", selection=BlobSelection((None, start - 120_000_000)))
    assert ["departures/0", "departures/1"] == [blob.partition for blob in early.blobs]
    assert 5 == len(rows(account, early))
    none = snapshot(account, "airport-events", selection=BlobSelection((start + 1_000_000, None)))
    assert ((), found.reader_schema) == (none.blobs, none.reader_schema)


def test_capture_columns_are_read_alone() -> None:
    found = read(captured(), "airport-events/departures/1", columns=["SequenceNumber", "Offset"])
    assert [{"SequenceNumber": number, "Offset": str(4096 * number)} for number in range(3)] == found


def test_the_kept_program_wrote_the_kept_blobs(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("write", CAPTURE / "write.py")
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.__file__ = str(tmp_path / "write.py")
    program.main()
    assert captured() == {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.avro")}


# --- Apache Samza -----------------------------------------------------------------------------------------------------


def samza() -> dict[str, dict[str, Any]]:
    return {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in SAMZA.glob("*.json")}


def like(expected: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row has the values of its fixture, as JSON has them."""
    return all(json.loads(json.dumps(row[name], default=str)) == value for name, value in expected.items())


@pytest.mark.parametrize("size", [100, 1000, 1 << 20])
@pytest.mark.parametrize("fixture", sorted(samza()))
def test_samzas_blobs(fixture: str, size: int) -> None:
    expected = samza()[fixture]
    data = (SAMZA / fixture).read_bytes()
    account = account_with({expected["blob_name"]: data})
    found = snapshot(account, "flights")
    (blob,) = found.blobs
    decoded = rows(account, found, size)
    assert (None if "nosuffix" in fixture else expected["partition_key"]) == blob.partition
    assert expected["expected_rows"] == len(decoded)
    assert oracle(data) == decoded
    assert like(expected["first_row"], decoded[0]) and like(expected["last_row"], decoded[-1])


def test_samzas_stream_with_two_schemas_is_one_table() -> None:
    expected = samza()
    blobs = {
        expected[name]["blob_name"]: (SAMZA / name).read_bytes() for name in expected if name.startswith("schema-")
    }
    account = account_with(blobs)
    found = snapshot(account, "flights")
    decoded = rows(account, found, 5000)
    assert (2, 200) == (len(found.schemas), len(decoded))
    first, second = (frozenset(field["name"] for field in schema.root["fields"]) for schema in found.schemas)
    assert set(decoded[0]) == first | second
    (added,) = first ^ second
    assert {True, False} == {row[added] is None for row in decoded}
