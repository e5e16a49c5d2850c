"""What a task looks up at once, and what it refuses, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.engine import PartitionProgress, PartitionStore
from adjunct_store.spark.reading import join as join_module
from adjunct_store.spark.reading.join import Joiner, gathered
from adjunct_store.spark.reading.lookup import _looker
from adjunct_store.view import FORMS, Form, View
from foundation.errors import ConfigurationError
from tests.adjunct_store.changes import batch_of as changes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


HAS_TIME = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)


def batch_of(*keys: str) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys, pa.string())})


def test_batches_are_joined_until_they_have_the_rows_or_bytes_of_one_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_module, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(join_module, "BYTES_AT_ONCE", 1_000)
    given = [batch_of("a"), batch_of(), batch_of("b", "c"), batch_of("d" * 1_000), batch_of("e"), batch_of("f")]
    found = [batch.column(0).to_pylist() for batch in gathered(given)]
    assert [["a", "b", "c"], ["d" * 1_000], ["e", "f"]] == found


def test_no_rows_are_no_batch() -> None:
    assert [] == list(gathered([batch_of(), batch_of()]))


TEXTS = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("text", pa.string())]), partitions=1)
JOINED = pa.schema([("id", pa.int64()), ("text", pa.string())])


@dataclass
class OneView:
    """A `StoreReadSpec` that has one view."""

    opened: View

    def read(self, action: Callable[[View], Any]) -> Any:
        return action(self.opened)


def stored(folder: Path, schema: StoreSchema, *rows: tuple[Any, ...]) -> Path:
    with PartitionStore(folder, schema) as store:
        store.apply([changes_of(schema, rows)], PartitionProgress("s", 0))
    return folder


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_joined_in_pieces_that_find_no_more_than_the_bytes_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form, inner: bool
) -> None:
    most = 20_000
    monkeypatch.setattr(join_module, "BYTES_FOUND", most)
    large = {7: 50_000, 8: 15_000, 9: 15_000}
    values = {key: str(key)[0] * large.get(key, 400 if key < 100 else 30) for key in (7, *range(0, 2_000, 2))}
    rows = [(key, {"text": value}) for key, value in values.items()]
    asked = [None, *range(2_000), *[8] * 10, 7, None, 7]
    expected = [(key, values.get(key)) for key in asked if not inner or key in values]
    with View({0: stored(tmp_path / "p", TEXTS, *rows)}, TEXTS, form) as view:
        joiner = Joiner(OneView(view), TEXTS.keys, [0], TEXTS.values, JOINED, "inner" if inner else "left")  # type: ignore[arg-type]
        pieces = list(joiner.join([pa.record_batch({"id": pa.array(asked, pa.int64())})]))
    assert expected == [tuple(row.values()) for piece in pieces for row in piece.to_pylist()]
    sizes = [sum(len(text or "") for text in piece.column(1).to_pylist()) for piece in pieces]
    above = [piece.num_rows for piece, size in zip(pieces, sizes, strict=True) if size > most]
    assert [1, 1, 1] == above  # key 7
    assert len(pieces) < 60


@pytest.mark.parametrize("first", [0, -20_000], ids=["found", "not found"])
@pytest.mark.parametrize("form", FORMS)
def test_many_columns_are_joined_in_pieces_though_their_values_are_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form, first: int
) -> None:
    names = [f"c{number}" for number in range(40)]
    wide = StoreSchema(TEXTS.keys, pa.schema([(name, pa.int64()) for name in names]), partitions=1)
    monkeypatch.setattr(join_module, "BYTES_FOUND", 1 << 20)
    out = pa.schema([("id", pa.int64()), ("c7", pa.int64())])
    with View({0: stored(tmp_path / "p", wide, (0, dict.fromkeys(names, 1)))}, wide, form) as view:
        joiner = Joiner(OneView(view), wide.keys, [0], pa.schema([wide.values.field("c7")]), out)  # type: ignore[arg-type]
        asked = pa.record_batch({"id": pa.array([first] * 20_000)})
        pieces = [piece.num_rows for piece in joiner.join([asked])]
    assert 20_000 == sum(pieces)
    assert (1 << 20) // (40 * 8) // 2 < max(pieces) <= (1 << 20) // (40 * 8)


@pytest.mark.parametrize("form", FORMS)
def test_lists_of_small_numbers_are_joined_in_pieces_of_what_arrow_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    lists = StoreSchema(TEXTS.keys, pa.schema([("list", pa.list_(pa.int64()))]), partitions=1)
    monkeypatch.setattr(join_module, "BYTES_FOUND", 1 << 20)
    out = pa.schema([("id", pa.int64()), ("list", pa.list_(pa.int64()))])
    with View({0: stored(tmp_path / "p", lists, (0, {"list": [1] * 1_000}))}, lists, form) as view:
        joiner = Joiner(OneView(view), lists.keys, [0], lists.values, out)  # type: ignore[arg-type]
        pieces = list(joiner.join([pa.record_batch({"id": pa.array([0] * 2_000)})]))
    assert 2_000 == sum(piece.num_rows for piece in pieces)
    assert 300_000 < max(piece.nbytes for piece in pieces) < 1.1 * (1 << 20)


def test_after_large_values_pieces_grow_again_and_many_small_batches_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_module, "BYTES_FOUND", 100_000)
    monkeypatch.setattr(join_module, "ROWS_AT_ONCE", 1_000)
    rows = [(0, {"text": "x" * 10_000}), (1, {"text": "y"})]
    with View({0: stored(tmp_path / "p", TEXTS, *rows)}, TEXTS) as view:
        joiner = Joiner(OneView(view), TEXTS.keys, [0], TEXTS.values, JOINED)  # type: ignore[arg-type]
        asked = [pa.record_batch({"id": pa.array([0] * 100)}), *[pa.record_batch({"id": pa.array([1] * 1_000)})] * 500]
        pieces = [piece.num_rows for piece in joiner.join(asked)]
    assert 500_100 == sum(pieces)
    assert 9 >= max(pieces[:10])
    assert [1_000] * 400 == pieces[-400:]


def test_more_text_than_a_column_can_hold_is_joined(tmp_path: Path) -> None:
    """Arrow's strings have 2 GiB in a batch; 500,000 rows that find 6 kB each have 3 GB."""
    rows = [(key, {"text": str(key) * 6_000}) for key in range(10)]
    with View({0: stored(tmp_path / "p", TEXTS, *rows)}, TEXTS) as view:
        joiner = Joiner(OneView(view), TEXTS.keys, [0], TEXTS.values, JOINED)  # type: ignore[arg-type]
        asked = pa.record_batch({"id": pa.array([key % 10 for key in range(500_000)])})
        count = 0
        for piece in joiner.join([asked]):
            assert piece.nbytes < 1.1 * join_module.BYTES_FOUND
            assert piece.column(1)[0].as_py()[0] == str(piece.column(0)[0].as_py())
            count += piece.num_rows
    assert 500_000 == count


PAIRS = StoreSchema(
    pa.schema([("dest", pa.string()), ("origin", pa.string())]), pa.schema([("km", pa.int64())]), partitions=1
)


def test_a_store_that_was_made_anew_with_other_keys_is_refused(tmp_path: Path) -> None:
    planned = pa.schema([("origin", pa.string()), ("dest", pa.string())])
    with View({0: stored(tmp_path / "p", PAIRS, ("LAX", "JFK", {"km": 1}))}, PAIRS) as view:
        out = pa.schema([*planned, ("km", pa.int64())])
        joiner = Joiner(OneView(view), planned, [0, 1], PAIRS.values, out)  # type: ignore[arg-type]
        find = _looker(OneView(view), planned, PAIRS.values)  # type: ignore[arg-type]
        says = r"keys were origin string, dest string when .* and are dest string, origin string\. .*rebuilt"
        with pytest.raises(ConfigurationError, match=says):
            list(joiner.join([pa.record_batch({"origin": ["JFK"], "dest": ["LAX"]})]))
        with pytest.raises(ConfigurationError, match=says):
            find(pa.array(["JFK"]), pa.array(["LAX"]))


@pytest.mark.parametrize("column", [["7"], [7.0], [True]])
def test_lookup_converts_no_column_to_another_type(tmp_path: Path, column: list[Any]) -> None:
    with View({0: stored(tmp_path / "p", TEXTS, (7, {"text": "seven"}))}, TEXTS) as view:
        find = _looker(OneView(view), TEXTS.keys, TEXTS.values)  # type: ignore[arg-type]
        assert [{"text": "seven"}] == find(pa.array([7], pa.int16())).to_pylist()
        with pytest.raises(ConfigurationError, match=r"Key column 'id' of the store has type int64.*Cast it"):
            find(pa.array(column))


def test_lookup_gives_no_value_of_another_type_than_was_planned(tmp_path: Path) -> None:
    with View({0: stored(tmp_path / "p", TEXTS, (7, {"text": "7"}))}, TEXTS) as view:
        for planned in (pa.schema([("text", pa.int64())]), pa.schema([("text", pa.string()), ("more", pa.string())])):
            with pytest.raises(ConfigurationError, match="when the query started, and is .*rebuilt"):
                _looker(OneView(view), TEXTS.keys, planned)(pa.array([7]))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_a_time_in_a_struct_that_is_null_is_joined_and_looked_up_in_sparks_unit(tmp_path: Path, form: Form) -> None:
    def shape(unit: str) -> pa.DataType:
        return pa.struct([pa.field("t", pa.time64(unit), nullable=False), pa.field("s", pa.list_(pa.struct([])))])

    times = StoreSchema(TEXTS.keys, pa.schema([("at", shape("us"))]), partitions=1)
    value = {"t": time(1, 2, 3, 4), "s": [{}, None]}
    rows = [(7, {"at": value}), (8, {"at": None})]
    out = pa.schema([("id", pa.int64()), ("at", shape("ns"))])
    with View({0: stored(tmp_path / "p", times, *rows)}, times, form) as view:
        joiner = Joiner(OneView(view), times.keys, [0], times.values, out)  # type: ignore[arg-type]
        (joined,) = joiner.join([pa.record_batch({"id": pa.array([7, 8, 9])})])
        assert (out, [value, None, None]) == (joined.schema, joined.column(1).to_pylist())
        if HAS_TIME:
            find = _looker(OneView(view), times.keys, times.values)  # type: ignore[arg-type]
            found = find(pa.array([7, 8, 9]))
            assert (shape("ns"), [{"at": value}, {"at": None}, None]) == (found.type.field(0).type, found.to_pylist())
