"""A store is the same however its source is divided into batches: so one that has grown can be built again at once."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.engine import PartitionProgress, PartitionStore
from adjunct_store.spark.filling import partition_writer
from adjunct_store.spark.filling.partition_writer import KeyedRows
from adjunct_store.view import View
from foundation.errors import ConfigurationError
from tests.histories.mutants import edited

KEYS, VALUES = pa.schema([("id", pa.int64())]), pa.schema([("seats", pa.int64())])
LOGS = 60
EVENTS = (
    "a key comes twice in a batch",
    "the same order twice in a batch",
    "a late row",
    "deleted",
    "a batch in pieces",
)


@dataclass(frozen=True)
class Row:
    """A row of a source: `offset` rises with the log. seats: None deletes the key."""

    key: int
    seats: int | None
    order: int
    offset: int


def a_log(draws: Random) -> list[Row]:
    """Rows of few keys with few orders, so that many have the same."""
    count = draws.choice([1, 5, 30])
    offsets = sorted(draws.sample(range(100), count))
    return [Row(draws.randrange(4), draws.choice([None, 1, 2, 3]), draws.randrange(3), each) for each in offsets]


def divided(draws: Random, log: list[Row]) -> list[list[Row]]:
    """The log in batches, one after the other."""
    cuts = sorted(draws.sample(range(1, len(log)), draws.randrange(len(log)))) if len(log) > 1 else []
    return [log[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True)]


def model(log: list[Row], *, ordered: bool) -> dict[int, int]:
    """What the store has: of each key the row with the highest order, and of these the last one of the log."""
    last = {row.key: row for row in sorted(log, key=lambda row: (row.order if ordered else 0, row.offset))}
    return {key: row.seats for key, row in sorted(last.items()) if row.seats is not None}


def task_rows(rows: list[Row], *, ordered: bool, ties: bool, pieces: int = 1) -> list[pa.RecordBatch]:
    """The rows as Spark gives them to a task: by key, order and `then_by`, in some pieces."""
    given = sorted(rows, key=lambda row: (row.key, row.order if ordered else 0, row.offset))
    columns: dict[str, Any] = {
        "partition": pa.array([0] * len(given), pa.int32()),
        "k0": pa.array([row.key for row in given], pa.int64()),
        "value": pa.array([None if row.seats is None else {"seats": row.seats} for row in given], pa.struct(VALUES)),
    }
    if ordered:
        columns["order"] = pa.array([row.order for row in given], pa.int64())
    if ties:
        columns["t0"] = pa.array([row.offset // 10 for row in given], pa.int64())
        columns["t1"] = pa.array([row.offset % 10 for row in given], pa.int64())
    whole = pa.RecordBatch.from_pydict(columns)
    size = -(-len(given) // pieces)
    return [whole.slice(begin, size) for begin in range(0, len(given), size)]


def contents(batches: list[list[Row]], *, ordered: bool, ties: bool = True, pieces: int = 1) -> dict[int, int]:
    """What a store has after these batches."""
    schema = StoreSchema(KEYS, VALUES, partitions=1, ordered=ordered)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108
        with PartitionStore(Path(folder) / "p", schema) as store:
            for number, rows in enumerate(batches):
                given = task_rows(rows, ordered=ordered, ties=ties, pieces=pieces)
                store.apply(KeyedRows(given, 0, schema, stop_at_null=True), PartitionProgress("planes", number))
        with View({0: Path(folder) / "p"}, schema) as view:
            return {key: value["seats"] for (key,), value in view.scan()}


def check(seed: int, seen: Counter[str]) -> None:
    """A store that grew batch by batch, and one that is built of the same log in other batches or at once."""
    draws = Random(seed)
    ordered, log = draws.random() < 0.5, a_log(draws)
    wanted, pieces = model(log, ordered=ordered), draws.choice([1, 3, 100])
    for batches in (divided(draws, log), [log]):
        assert wanted == contents(batches, ordered=ordered, pieces=pieces), (seed, batches)
    keys = [(row.key, row.order) for row in log]
    seen["a key comes twice in a batch"] += not ordered and len({key for key, _ in keys}) < len(keys)
    seen["the same order twice in a batch"] += ordered and len(set(keys)) < len(keys)
    seen["a late row"] += ordered and any(after < before for (_, before), (_, after) in pairwise(keys))
    seen["deleted"] += any(row.key not in wanted for row in log)
    seen["a batch in pieces"] += pieces > 1 and len(log) > 1


def test_a_store_has_the_same_contents_however_its_source_is_divided_into_batches() -> None:
    seen: Counter[str] = Counter()
    for seed in range(LOGS):
        check(seed, seen)
    assert [] == [event for event in EVENTS if not seen[event]]


MUTANTS = {
    "the first one counts": edited(
        "adjunct_store.spark.filling.partition_writer:last_of_ties",
        "yield joined.slice(0, joined.num_rows - 1).filter(_not_followed(joined, ties))",
        "yield joined.slice(1).filter(_not_followed(joined, ties))",
    ),
    "what follows in the next piece is not seen": edited(
        "adjunct_store.spark.filling.partition_writer:last_of_ties",
        "joined = batch if last is None else pa.concat_batches([last, batch])",
        "joined = batch\n            if last is not None:\n                yield last",
    ),
    "only the first column counts": edited(
        "adjunct_store.spark.filling.partition_writer:_not_followed",
        "_equal_to_next(batch, ties))",
        "_equal_to_next(batch, ties[:1]))",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_choice_between_rows_of_a_key_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)

    def caught(seed: int) -> bool:
        try:
            check(seed, Counter())
        except (AssertionError, ConfigurationError):
            return True
        return False

    assert any(caught(seed) for seed in range(LOGS))


@pytest.mark.parametrize("ordered", [False, True])
def test_a_store_that_cannot_be_built_again_at_once_can_with_the_columns_that_its_error_names(ordered: bool) -> None:
    log = [Row(1, 10, 0, 0), Row(1, 11, 0, 1), Row(2, 20, 0, 2), Row(1, None, 0, 3), Row(2, 21, 0, 4)]
    grown = contents([[row] for row in log], ordered=ordered, ties=False)
    with pytest.raises(ConfigurationError, match=r"two different changes of key id=1.*Give `then_by`, columns of the"):
        contents([log], ordered=ordered, ties=False)
    assert {2: 21} == grown == contents([log], ordered=ordered)


def test_rows_that_not_even_then_by_tells_apart_are_refused_and_the_same_row_twice_is_not() -> None:
    twice = Row(1, 10, 0, 5)
    assert {1: 10} == contents([[twice, twice]], ordered=True)
    with pytest.raises(ConfigurationError, match="two different changes of key id=1 with the same order"):
        contents([[twice, Row(1, 11, 0, 5)]], ordered=True)


def test_a_null_in_then_by_is_refused() -> None:
    (batch,) = task_rows([Row(1, 10, 0, 5), Row(2, 10, 0, 6)], ordered=False, ties=True)
    without = batch.set_column(batch.schema.get_field_index("t0"), "t0", pa.array([0, None], pa.int64()))
    with pytest.raises(ConfigurationError, match="then_by: a column is null in a row that has a key"):
        list(partition_writer.last_of_ties([without]))
