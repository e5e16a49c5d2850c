"""Views of a store: read-only, of one process, damage, keys of other types, several partitions."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.engine import PartitionProgress, PartitionStore
from adjunct_store.forms import memory
from adjunct_store.host.directories import KnownDirectories, PartitionDirectory
from adjunct_store.view import FORMS, Form, View
from foundation.errors import ConfigurationError, CorruptError
from tests.adjunct_store.changes import AIRPORTS, ORDERED, batch_of, named


def test_a_view_cannot_write_and_sees_the_store_as_it_was_opened(tmp_path: Path) -> None:
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        store.apply([batch_of(AIRPORTS, [("A", named("a"))])], PartitionProgress("s", 0))
        with View({0: tmp_path / "p"}, AIRPORTS) as view:
            assert named("a") == view.get("A")
            store.apply([batch_of(AIRPORTS, [("A", named("b"))])], PartitionProgress("s", 1))
            assert named("a") == view.get("A")
            database = view._partitions._database(0)
            assert database is not None
            with pytest.raises(Exception, match="Not supported operation in read only mode"):
                database.rdict[b"\x01A"] = b""


def test_damage_is_an_error_and_no_missing_row(tmp_path: Path) -> None:
    rows = [(f"{number:06}", named("x" * 50, number)) for number in range(20_000)]
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        store.apply([batch_of(AIRPORTS, rows)], PartitionProgress("s", 0))
    largest = max((tmp_path / "p").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    largest.write_bytes(data)
    with View({0: tmp_path / "p"}, AIRPORTS) as view:
        with pytest.raises(CorruptError, match="read store .*orruption"):
            list(view.scan())
        with pytest.raises(CorruptError):
            view.get_many([(key,) for key, _ in rows])
    largest.unlink()
    with pytest.raises(CorruptError), View({0: tmp_path / "p"}, AIRPORTS) as view:
        view.get("000001")


def test_a_forked_child_is_refused_instead_of_hanging(tmp_path: Path) -> None:
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        store.apply([batch_of(AIRPORTS, [("A", named("a"))])], PartitionProgress("s", 0))
    with View({0: tmp_path / "p"}, AIRPORTS) as view:
        assert named("a") == view.get("A")
        child = os.fork()
        if not child:
            try:
                view.get("A")
            except ConfigurationError as error:
                os._exit(7 if "fork" in str(error) else 8)
            os._exit(9)
        assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_keys_of_another_type_are_refused(tmp_path: Path) -> None:
    with View({0: tmp_path / "none"}, AIRPORTS) as view:
        with pytest.raises(ConfigurationError, match="'faa' of the store has type string; int64 is looked up"):
            view.lookup(pa.record_batch({"k": pa.array([1])}))
        with pytest.raises(ConfigurationError, match="2 columns are looked up"):
            view.lookup(pa.record_batch({"k": ["a"], "l": ["b"]}))
    with pytest.raises(ConfigurationError, match="Argument form: 'lmdb' is not possible. Give auto, rocksdb or memory"):
        View({}, AIRPORTS, "lmdb")  # type: ignore[arg-type]


def test_a_store_of_several_partitions_is_read_as_one(tmp_path: Path) -> None:
    schema = StoreSchema(pa.schema([("k", pa.int32())]), pa.schema([("v", pa.int32())]), partitions=5)
    by_partition: dict[int, list[tuple[int, dict[str, int]]]] = {}
    for key in range(500):
        batch = pa.record_batch({"k": pa.array([key], pa.int32())})
        by_partition.setdefault(int(partition_of(batch, 5)[0]), []).append((key, {"v": -key}))
    for partition, rows in by_partition.items():
        with PartitionStore(tmp_path / str(partition), schema) as store:
            store.apply([batch_of(schema, rows)], PartitionProgress("s", 0))
    asked: list[int] = []

    class Asked(KnownDirectories):
        def directory(self, partition: int) -> PartitionDirectory | None:
            asked.append(partition)
            return super().directory(partition)

    with View(Asked({partition: tmp_path / str(partition) for partition in by_partition}), schema) as view:
        key = by_partition[2][0][0]
        assert {"v": -key} == view.get(key)
        assert [2] == asked
        assert [{"v": -key} for key in range(500)] == view.get_many([(key,) for key in range(500)])
        assert [((key,), {"v": -key}) for key in range(100, 200)] == list(view.scan((100,), (200,)))
        assert 500 == view.entries
        assert [0, 1, 2, 3, 4] == sorted(asked)


KEYS = pa.schema([("carrier", pa.string()), ("day", pa.date32()), ("number", pa.int16())])
FLIGHTS = StoreSchema(KEYS, pa.schema([("text", pa.string()), ("parts", pa.list_(pa.int32()))]), 3, ordered=True)
Flight = tuple[str, dt.date, int]


@pytest.fixture
def flights(tmp_path: Path) -> tuple[dict[int, Path], dict[Flight, dict[str, Any]]]:
    """Directories of partitions, and what they have: composite keys, of which some are deleted."""
    draw = random.Random(7)
    days = [dt.date(1969, 12, 30) + dt.timedelta(days=day) for day in range(4)]
    every = [
        (carrier, day, number) for carrier in ("", "A", "A\x00", "AA", "Ö") for day in days for number in (-1, 300)
    ]
    rows = [(*key, None if draw.random() < 0.2 else {"text": str(key), "parts": [key[2]]}, 9) for key in every]
    keys = pa.RecordBatch.from_arrays([pa.array(each) for each in zip(*every, strict=True)], names=KEYS.names)
    partitions = partition_of(keys.cast(KEYS), 3).tolist()
    for partition in range(3):
        with PartitionStore(tmp_path / str(partition), FLIGHTS) as store:
            mine = [row for row, of in zip(rows, partitions, strict=True) if of == partition]
            store.apply([batch_of(FLIGHTS, mine, as_given=True)], PartitionProgress("s", 0))
    return {partition: tmp_path / str(partition) for partition in range(3)}, {
        row[:3]: row[3] for row in rows if row[3] is not None
    }


@pytest.mark.parametrize("form", FORMS)
def test_composite_keys_are_found_and_scanned_in_their_order(
    flights: tuple[dict[int, Path], dict[Flight, dict[str, Any]]], form: Form
) -> None:
    directories, there = flights
    ordered = sorted(there, key=lambda key: (key[0].encode(), *key[1:]))
    day = dt.date(1969, 12, 31)
    with View(directories, FLIGHTS, form) as view:
        assert [(key, there[key]) for key in ordered] == list(view.scan())
        assert [key for key in ordered if key[0] == "A"] == [key for key, _ in view.scan(("A",), ("A\x00",))]
        assert [key for key in ordered if key[:2] == ("AA", day)] == [key for key, _ in view.prefix("AA", day)]
        assert [key for key in ordered if key[0].startswith("A")] == [key for key, _ in view.prefix("A")]
        start, stop = ("A", day), ("AA", day, 300)
        assert [key for key in ordered if start <= key < stop] == [key for key, _ in view.scan(start, stop)]
        asked = [*ordered, ("B", day, 1), ("A", day, 7)] * 2
        assert [there.get(key) for key in asked] == view.get_many(asked)
        assert len(there) == view.entries


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("schema", [AIRPORTS, ORDERED])
def test_what_is_not_there_is_null(tmp_path: Path, schema: StoreSchema, form: Form) -> None:
    order = (0,) if schema.ordered else ()
    with PartitionStore(tmp_path / "p", schema) as store:
        store.apply([batch_of(schema, [("A", named("a"), *order), ("B", None, *order)])], PartitionProgress("s", 0))
    given: list[list[str | None]] = [[], ["Z"], [None], ["A"], ["A", None, "B", "Z", "A"]]
    three = replace(schema, partitions=3)
    with (
        View({0: tmp_path / "p"}, schema, form) as view,
        View({}, schema, form) as empty,
        View({}, three, form) as empties,
    ):
        for keys in given:
            column = pa.array(keys, pa.string())
            expected = [named("a") if key == "A" else None for key in keys]
            assert expected == view.lookup(pa.record_batch({"k": column})).to_pylist()
            assert expected == view.lookup(pa.table({"k": column})).to_pylist()
            assert expected == view.lookup(pa.StructArray.from_arrays([column], ["k"])).to_pylist()
            assert [None] * len(keys) == empty.lookup(pa.record_batch({"k": column})).to_pylist()
            assert [None] * len(keys) == empties.lookup(pa.record_batch({"k": column})).to_pylist()
            assert schema.value_type == view.lookup(pa.record_batch({"k": column})).type
        nulls = pa.array([{"k": "A"}, None], pa.struct([("k", pa.string())]))
        assert [named("a"), None] == view.lookup(nulls).to_pylist()
        assert (0, [], None) == (empty.entries, list(empty.scan()), empty.get("A"))
        assert (0, [], None, []) == (empties.entries, list(empties.scan()), empties.get(None), empties.get_many([]))


@pytest.mark.parametrize("form", FORMS)
def test_integers_of_a_narrower_type_and_slices_are_looked_up(tmp_path: Path, form: Form) -> None:
    schema = StoreSchema(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.string())]), 1)
    with PartitionStore(tmp_path / "p", schema) as store:
        store.apply(
            [batch_of(schema, [(key, {"v": str(key)}) for key in range(-5_000, 5_000)])], PartitionProgress("s", 0)
        )
    keys = pa.record_batch({"k": pa.array([7, -3, 9_999, -3, 4_999], pa.int16())})
    with View({0: tmp_path / "p"}, schema, form) as view:
        assert [None, {"v": "-3"}, {"v": "4999"}] == view.lookup(keys.slice(2)).to_pylist()
        everything = pa.record_batch({"k": pa.array(range(5_000, -5_002, -1))})
        expected = [None, *({"v": str(key)} for key in range(4_999, -5_001, -1)), None]
        assert expected == view.lookup(everything).to_pylist()


def test_times_that_python_does_not_have_are_looked_up_and_named(tmp_path: Path) -> None:
    schema = StoreSchema(pa.schema([("k", pa.int64())]), pa.schema([("until", pa.timestamp("us", "UTC"))]), 1)
    with PartitionStore(tmp_path / "p", schema) as store:
        last = pa.array([253_402_329_599_000_000]).cast(pa.timestamp("us", "UTC"))  # of 9999 in Los Angeles
        value = pa.StructArray.from_arrays([last], ["until"])
        store.apply([pa.record_batch({"k": [1], "value": value})], PartitionProgress("s", 0))
    with View({0: tmp_path / "p"}, schema) as view:
        assert value.equals(view.lookup(pa.record_batch({"k": [1]})))
        for reads in (lambda: view.get(1), lambda: list(view.scan())):
            with pytest.raises(ConfigurationError, match="years 1 to 9999.*Use lookup or join"):
                reads()


def test_keys_in_another_order_than_the_stores_are_refused(tmp_path: Path) -> None:
    with View({}, FLIGHTS) as view:
        day = dt.date(2026, 1, 1)
        swapped = pa.record_batch({"number": pa.array([1], pa.int16()), "day": [day], "carrier": ["A"]})
        with pytest.raises(ConfigurationError, match="Columns number, day, carrier are looked up; give them in"):
            view.lookup(swapped)


def test_a_store_that_is_too_large_for_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of 1.2 GiB are too much for a test: Arrow's error for them, from a smaller store."""
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        store.apply([batch_of(AIRPORTS, [("A", named("a"))])], PartitionProgress("s", 0))

    def overflow(*_: Any) -> Any:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    with View({0: tmp_path / "p"}, AIRPORTS, "memory") as view:
        monkeypatch.setattr(memory, "decode_values", overflow)
        with pytest.raises(ConfigurationError, match="too large for the form memory: offset overflow.* form rocksdb"):
            view.get("A")


_WORKER = """
import sys
import pyarrow as pa
import adjunct_store.spark.reading.join
from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.view import View
from pathlib import Path

folder, form = Path(sys.argv[1]), sys.argv[2]
asked = pa.ipc.open_stream(folder / "asked").read_next_batch()
values = pa.ipc.read_schema(pa.OSFile(str(folder / "values")))
schema = StoreSchema(asked.schema, values, partitions=3)
with View({each: folder / str(each) for each in range(3)}, schema, form) as view:
    print(view.lookup(asked).field("v").to_pylist(), "pandas" in sys.modules)
"""


@pytest.mark.parametrize("form", FORMS)
def test_a_worker_that_looks_keys_up_does_not_import_pandas(tmp_path: Path, form: Form) -> None:
    schema = StoreSchema(pa.schema([("k", pa.string()), ("n", pa.int32())]), pa.schema([("v", pa.int64())]), 3)
    asked = pa.RecordBatch.from_pydict({"k": ["a", "b", None, "a", "c"], "n": [1, 2, 3, 9, 4]}, schema=schema.keys)
    places = partition_of(asked, 3).tolist()
    rows = [("a", 1, {"v": 10}), ("b", 2, {"v": 20}), ("c", 4, {"v": 40})]
    for partition in range(3):
        own = [each for each, row in zip(rows, (0, 1, 4), strict=True) if places[row] == partition]
        with PartitionStore(tmp_path / str(partition), schema) as store:
            store.apply([batch_of(schema, own)], PartitionProgress("s", 0))
    with pa.ipc.new_stream(tmp_path / "asked", asked.schema) as stream:
        stream.write(asked)
    (tmp_path / "values").write_bytes(schema.values.serialize())
    program = [sys.executable, "-c", _WORKER, str(tmp_path), form]
    ended = subprocess.run(program, capture_output=True, text=True, check=True)
    assert "[10, 20, None, None, 40] False" == ended.stdout.strip()
