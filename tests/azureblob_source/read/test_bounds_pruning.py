"""Blobs that pushed filters leave out by bounds: never one with a row for Spark, and all that the bounds exclude."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as spark
from pyspark.sql.types import FloatType, StructField, StructType

from azureblob_source.log import commit
from azureblob_source.log.checkpoint.live_table import live_table
from azureblob_source.log.checkpoint.table_columns import TableColumns
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, LogEntry
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.read import snapshot
from azureblob_source.read.bounds_pruning import MOST_INTERVALS, BoundsPruning
from azureblob_source.read.filters import ColumnFilter, named_filter
from azureblob_source.read.options import source_options
from azureblob_source.read.source import FilteringReader, ReadPlan, spark_schema
from azureblob_source.write.column_bounds import TEXT_LENGTH, ColumnBounds, bounds_of
from foundation.clock import SYSTEM_CLOCK
from tests.azureblob_source.write.sink_rows import ACCOUNT, committer, new_account, plan_of, put_anyway, stage_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arrow_avro import AvroSchema
    from azure_account.memory.account import MemoryAccount

if not hasattr(spark, "EqualTo"):
    pytest.skip("Spark 4.1 brings the push-down of filters", allow_module_level=True)

NOON = datetime(2013, 1, 31, 12, tzinfo=UTC)
WIDE = Decimal(2**65)
whole = st.integers(-3, 5) | st.sampled_from([-(2**31), 2**31 - 1])
long = whole | st.sampled_from([-(2**63), 2**63 - 1, 2**53, 2**53 + 1])
fractions = st.sampled_from([-0.0, 0.0, 0.1, 1.5, -2.25, 3.0, math.nan, math.inf, -math.inf, 2.0**53])
days = st.integers(-2, 3).map(lambda each: date(1970, 1, 1) + timedelta(each))
moments = st.integers(-2, 3).map(lambda each: NOON + timedelta(microseconds=each))
texts = st.text(st.sampled_from("ab\0é\ud7ff\U0010ffff"), max_size=3) | st.sampled_from(
    ["a" * TEXT_LENGTH, "a" * 20, "a" * TEXT_LENGTH + "b", "\U0010ffff" * 20]
)
amounts = st.integers(-3, 300).map(lambda each: Decimal(each).scaleb(-2))
wide = amounts | st.sampled_from([WIDE, -WIDE, Decimal(2**64), Decimal(2**63), Decimal(-(2**63))])
KINDS: list[tuple[pa.DataType, list[tuple[pa.DataType, st.SearchStrategy[Any]]]]] = [
    (pa.int32(), [(pa.int32(), whole)]),
    (pa.int64(), [(pa.int32(), whole), (pa.int64(), long)]),
    (pa.float32(), [(pa.float32(), fractions)]),
    (pa.float64(), [(pa.int32(), whole), (pa.int64(), long), (pa.float32(), fractions), (pa.float64(), fractions)]),
    (pa.date32(), [(pa.date32(), days)]),
    (pa.timestamp("us", "UTC"), [(pa.timestamp("us", "UTC"), moments)]),
    (pa.timestamp("us"), [(pa.timestamp("us"), moments.map(lambda each: each.replace(tzinfo=None)))]),
    (pa.string(), [(pa.string(), texts)]),
    (pa.decimal128(10, 2), [(pa.decimal128(9, 2), amounts), (pa.decimal128(10, 2), amounts)]),
    (pa.decimal128(38, 2), [(pa.decimal128(9, 2), amounts), (pa.decimal128(38, 2), wide)]),
]
COMPARED = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


@dataclass(frozen=True)
class Blob:
    """Values of column `a` as a writer stores them; a writer of type null has no such column."""

    kind: pa.DataType
    values: list[Any]

    def read_as(self, kind: pa.DataType) -> list[Any]:
        """The values of a reader."""
        if pa.types.is_null(self.kind):
            return [None] * len(self.values)
        found: list[Any] = pa.array(self.values, self.kind).cast(kind, safe=False).to_pylist()
        return found


def schema_of(kind: pa.DataType) -> pa.Schema:
    """Of a writer; its column `a` is between two others."""
    return pa.schema([("first", pa.int64()), *([] if pa.types.is_null(kind) else [("a", kind)]), ("last", pa.int64())])


@cache
def avro_of(kind: pa.DataType) -> AvroSchema:
    return plan_of(schema_of(kind)).avro


def entry_of(blob: Blob, number: int) -> tuple[LogEntry, BlobEntry]:
    """An entry of a blob, with the bounds that a task computes."""
    schema, avro = schema_of(blob.kind), avro_of(blob.kind)
    column = [] if pa.types.is_null(blob.kind) else [pa.array(blob.values, blob.kind)]
    other = pa.array([-77] * len(blob.values), pa.int64())
    batch = pa.record_batch([other, *column, other], schema=schema)
    (extremes,) = ColumnBounds.of(schema, avro, None).of_groups(batch, np.array([0, batch.num_rows]))
    entry = BlobEntry(
        f"s/{number}.avro", "s", None, "a", 1, 1, 1, 1, avro.fingerprint, "end", bounds=bounds_of(extremes)
    )
    return LogEntry("w", "2013-01-31T12:00:05+00:00", version=number), entry


def kept(blobs: Sequence[Blob], reads: pa.DataType, condition: spark.Filter) -> list[int]:
    """The numbers of the blobs that are read, of a stream with these."""
    schemas = {(avro := avro_of(each.kind)).fingerprint: avro for each in blobs}
    columns, schema = TableColumns({}, schemas.get), schema_of(reads)
    table = live_table([entry_of(blob, number) for number, blob in enumerate(blobs)], columns)
    named = named_filter(condition, schema)
    pruning = None if named is None else BoundsPruning.of([named], avro_of(reads), schema)
    found = table if pruning is None else pruning.left_of(table.select(["version", *pruning.needed]), columns)
    versions: list[int] = found["version"].to_pylist()
    return versions


def order(value: Any) -> tuple[bool, Any]:
    """As Spark orders values of one type: NaN is the greatest, and texts are ordered as bytes."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, None if is_nan else value.encode() if isinstance(value, str) else value


def holds(condition: spark.Filter, value: Any) -> bool | None:
    """What a filter says of a value in SQL."""
    name, given = type(condition).__name__, getattr(condition, "value", None)
    if isinstance(condition, spark.Not):
        found = holds(condition.child, value)
        return None if found is None else not found
    if name in ("IsNull", "IsNotNull"):
        return (value is None) == (name == "IsNull")
    if name == "EqualNullSafe" and (value is None or given is None):
        return value is given
    if value is None or given is None:
        return None
    match name:
        case "In":
            if order(value) in [order(each) for each in given if each is not None]:
                return True
            return None if None in given else False
        case "StringStartsWith":
            return bool(value.startswith(given))
        case "StringEndsWith":
            return bool(value.endswith(given))
        case "StringContains":
            return given in value
    (first, one), (second, other) = order(value), order(given)
    equal, less = (
        first == second and one == other,
        (not first and second) or (first == second and not first and one < other),
    )
    return {
        "GreaterThan": not less and not equal,
        "GreaterThanOrEqual": not less,
        "LessThan": less,
        "LessThanOrEqual": less or equal,
    }.get(name, equal)


def _values(condition: spark.Filter) -> tuple[Any, ...]:
    plain = condition.child if isinstance(condition, spark.Not) else condition
    value = getattr(plain, "value", None)
    return value if isinstance(value, tuple) else (value,)


def excludes(condition: spark.Filter, low: Any, high: Any) -> bool:
    """Whether bounds say that no value is what the filter wants."""
    plain = condition.child if isinstance(condition, spark.Not) else condition
    name, given = type(plain).__name__, getattr(plain, "value", None)
    if given is None or name in ("StringEndsWith", "StringContains"):
        return False
    if plain is not condition:
        if name == "StringStartsWith":
            return bool(low.startswith(given) and high.startswith(given))
        return name in ("EqualTo", "In") and low == high and low in _values(plain)
    if name == "In":
        return given != (None,) * len(given) and all(each is None or not low <= each <= high for each in given)
    if name == "StringStartsWith":
        return bool(high < given or (low > given and not low.startswith(given)))
    return {
        "GreaterThan": bool(high <= given),
        "GreaterThanOrEqual": bool(high < given),
        "LessThan": bool(low >= given),
        "LessThanOrEqual": bool(low > given),
    }.get(name, not low <= given <= high)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Blob], pa.DataType, spark.Filter]:
    """Blobs of writers of several types, a type that all can be read as, and a filter on it."""
    reads, writers = draw(st.sampled_from(KINDS))
    blobs = []
    for _ in range(draw(st.integers(1, 6))):
        kind, values = draw(st.sampled_from([*writers, *writers, (pa.null(), st.none())]))
        some = draw(st.lists(st.one_of(values, values, values, st.none()), min_size=1, max_size=4))
        blobs.append(Blob(kind, some))
    of_filter = writers[-1][1].map(lambda each: pa.scalar(each, reads).as_py())
    operations = [*COMPARED, *COMPARED, "In", "In", "IsNull", "IsNotNull"]
    text = ["StringStartsWith", "StringStartsWith", "StringEndsWith", "StringContains"]
    name = draw(st.sampled_from([*operations, *(text if reads == pa.string() else ())]))
    value: Any = draw(of_filter)
    if name == "In":
        value = tuple(draw(st.lists(of_filter | st.none(), min_size=1, max_size=MOST_INTERVALS + 9)))
    elif name == "EqualNullSafe" and draw(st.booleans()):
        value = None
    made = getattr(spark, name)(("a",), *([] if name.startswith("Is") else [value]))
    return blobs, reads, spark.Not(made) if draw(st.booleans()) and name not in COMPARED[2:] else made


@settings(max_examples=250)
@given(streams())
@example(
    ([Blob(pa.float64(), [math.nan, 1.0]), Blob(pa.float64(), [1.0])], pa.float64(), spark.GreaterThan(("a",), 2.0))
)
@example(([Blob(pa.float32(), [-0.0])], pa.float64(), spark.EqualTo(("a",), 0.0)))
@example(([Blob(pa.int64(), [2**53 + 1])], pa.float64(), spark.EqualTo(("a",), 2.0**53)))
@example(([Blob(pa.string(), ["a" * 20])], pa.string(), spark.EqualTo(("a",), "a" * 20)))
@example(([Blob(pa.int64(), [1, None])], pa.int64(), spark.Not(spark.EqualNullSafe(("a",), 1))))
def test_no_row_is_lost_and_what_bounds_exclude_is_left_out(
    drawn: tuple[list[Blob], pa.DataType, spark.Filter],
) -> None:
    blobs, reads, condition = drawn
    found = set(kept(blobs, reads, condition))
    many = len(_values(condition)) > MOST_INTERVALS
    of_nan = [each for each in _values(condition) if isinstance(each, float) and math.isnan(each)]
    for number, blob in enumerate(blobs):
        rows = blob.read_as(reads)
        if any(holds(condition, value) for value in rows):
            assert number in found, f"{rows} has a row for {condition}"
        known = [value for value in rows if value is not None]
        has_bounds = bool(known) and not any(isinstance(value, float) and not math.isfinite(value) for value in known)
        if not has_bounds:
            assert number in found, f"{rows} has no bounds"
        elif not (many or of_nan or any(isinstance(value, str) and len(value) > TEXT_LENGTH for value in known)):
            low, high = min(known), max(known)
            assert (number not in found) == excludes(condition, low, high), f"{condition}: {low} to {high}"


SORTED = [Blob(pa.int64(), [*range(10 * number, 10 * number + 10)]) for number in range(100)]


@pytest.mark.parametrize("operation", COMPARED)
def test_of_rising_values_only_the_blobs_with_rows_are_read(operation: str) -> None:
    for value in range(-1, 31):
        condition = getattr(spark, operation)(("a",), value)
        with_rows = [number for number in range(3) if any(holds(condition, each) for each in SORTED[number].values)]
        assert with_rows == kept(SORTED[:3], pa.int64(), condition), condition


def test_of_a_list_of_many_values_most_other_blobs_are_left_out() -> None:
    some = (*range(500, 600), *range(99, -1, -1))
    found = kept(SORTED, pa.int64(), spark.In(("a",), some))
    assert {*range(10), *range(50, 60)} <= set(found)
    assert len(found) <= 20 + 100 // MOST_INTERVALS + 40
    assert [*range(100)] == kept(SORTED, pa.int64(), spark.Not(spark.In(("a",), some)))


def test_of_texts_only_the_blobs_with_some_from_the_first_to_the_last_that_begin_so_are_read() -> None:
    blobs = [Blob(pa.string(), [f"{start}{digit}" for digit in "0é9"]) for start in ("a", "ab", "b", "\U0010ffff")]
    for text in ("", "a", "aa", "ab", "a0", "aé", "ab0", "b", "b9", "b99", "c", "\U0010ffff", "\U0010ffff9"):
        condition = spark.StringStartsWith(("a",), text)
        ends = [(min(blob.values), max(blob.values)) for blob in blobs]
        expected = [number for number, (low, high) in enumerate(ends) if not excludes(condition, low, high)]
        assert expected == kept(blobs, pa.string(), condition), text


def test_blobs_of_a_part_of_a_table_have_their_own_bounds() -> None:
    columns = TableColumns({}, lambda _: avro_of(pa.int64()))
    entries = [entry_of(blob, number) for number, blob in enumerate(SORTED[:6])]
    table = pa.concat_tables([live_table(entries[:3], columns), live_table(entries[3:], columns)]).slice(2)
    pruning = BoundsPruning.of([ColumnFilter("a", "EqualTo", 45)], avro_of(pa.int64()), schema_of(pa.int64()))
    assert pruning is not None
    assert [4] == pruning.left_of(table, columns)["version"].to_pylist()


def test_bounds_that_the_reader_scales_or_rounds_say_nothing() -> None:
    cents = [Blob(pa.decimal128(9, 2), [Decimal("1.50")])]
    assert [0] == kept(cents, pa.decimal128(10, 4), spark.EqualTo(("a",), Decimal("1.5000")))
    odd = [Blob(pa.int64(), [2**24 + 1])]
    assert [0] == kept(odd, pa.float32(), spark.EqualTo(("a",), 2.0**24))


@pytest.mark.parametrize(
    "condition",
    [
        spark.EqualTo(("A",), 5),
        spark.EqualTo(("a", "b"), 5),
        spark.EqualTo(("b",), 5),
        spark.EqualTo(("a",), None),
        spark.EqualTo(("a",), "5"),
        spark.EqualTo(("a",), 5.5),
        spark.EqualTo(("a",), Decimal(5)),
        spark.EqualTo(("a",), True),
        spark.GreaterThan(("a",), 2**63),
        spark.LessThan(("a",), -(2**63) - 1),
        spark.In(("a",), (5, 2**64)),
        spark.In(("a",), (None,)),
        spark.IsNull(("a",)),
        spark.Not(spark.IsNotNull(("a",))),
        spark.Not(spark.EqualNullSafe(("a",), 0)),
        spark.StringStartsWith(("a",), "5"),
    ],
)
def test_in_doubt_all_blobs_are_read(condition: spark.Filter) -> None:
    assert [*range(100)] == kept(SORTED, pa.int64(), condition)


@pytest.mark.parametrize(
    ("kind", "values", "other"),
    [
        (pa.date32(), [date(2013, 1, 1)], datetime(2014, 1, 1)),  # noqa: DTZ001 - without a zone
        (pa.timestamp("us"), [datetime(2013, 1, 1)], NOON),  # noqa: DTZ001
        (pa.timestamp("us", "UTC"), [NOON], datetime(2014, 1, 1)),  # noqa: DTZ001
        (pa.timestamp("us"), [datetime(2013, 1, 1)], date(2014, 1, 1)),  # noqa: DTZ001
        (pa.decimal128(9, 2), [Decimal("1.50")], Decimal("1.505")),
        (pa.decimal128(9, 2), [Decimal("1.50")], Decimal("NaN")),
        (pa.float64(), [1.0], 2),
        (pa.float64(), [1.0], math.nan),
        (pa.float64(), [1.0], (*(float(each) for each in range(2, 48)), math.nan, 1.0)),
        (pa.string(), ["a"], "\ud800"),
        (pa.string(), ["a"], b"b"),
    ],
)
def test_a_value_that_the_column_cannot_have_leaves_nothing_out(
    kind: pa.DataType, values: list[Any], other: Any
) -> None:
    for operation in (spark.EqualTo, spark.GreaterThan, spark.LessThan, spark.In):
        value = (other,) if operation is spark.In and not isinstance(other, tuple) else other
        assert [0] == kept([Blob(kind, values)], kind, operation(("a",), value))


def test_a_time_of_another_zone_is_the_same_moment() -> None:
    blobs = [Blob(pa.timestamp("us", "UTC"), [NOON + timedelta(hours=hour)]) for hour in range(3)]
    moment = (NOON + timedelta(hours=1)).astimezone(timezone(timedelta(hours=-9)))
    assert [1] == kept(blobs, pa.timestamp("us", "UTC"), spark.EqualTo(("a",), moment))


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (pa.int64(), b""),
        (pa.int64(), b"\x01" * 4),
        (pa.float64(), b"\x01" * 17),
        (pa.float64(), struct.pack("<d", math.nan)),
        (pa.decimal128(38, 2), b""),
        (pa.decimal128(38, 2), b"\x01" * 17),
    ],
)
def test_a_bound_of_an_unknown_form_says_nothing(kind: pa.DataType, stored: bytes) -> None:
    avro, schema = avro_of(kind), schema_of(kind)
    columns = TableColumns({}, lambda _: avro)
    one, nine = (pa.scalar(number, pa.int64()).cast(kind).as_py() for number in (1, 9))
    table = live_table([entry_of(Blob(kind, [one]), number) for number in range(2)], columns)
    id_, _ = columns.members(avro.fingerprint)["a"]
    for side in ("lower_bounds", "upper_bounds"):
        bounds = [[(id_, stored)], table[side][1].as_py()]
        field = table.schema.field(side)
        table = table.set_column(table.schema.get_field_index(side), field, pa.array(bounds, field.type))
    named = named_filter(spark.EqualTo(("a",), nine), schema)
    assert named is not None
    pruning = BoundsPruning.of([named], avro, schema)
    assert pruning is not None
    assert [True, False] == pruning.may_hold(table, columns).tolist()


# --- reads of a stream ------------------------------------------------------------------------------------------------

ROWS = pa.schema([("id", pa.int64()), ("day", pa.date32())])
BATCHES = 30


def written(account: MemoryAccount, every: int, batches: int = BATCHES) -> MemoryAccount:
    """A stream of batches of ten rows with rising ids, with checkpoints of its log."""
    for seed in range(batches):
        rows = [{"id": 10 * seed + number, "day": date(2013, 1, 1) + timedelta(seed)} for number in range(10)]
        append(account, seed, pa.RecordBatch.from_pylist(rows, ROWS), every)
    return account


def append(
    account: MemoryAccount,
    seed: int,
    rows: pa.RecordBatch,
    every: int = 64,
    *,
    overwrite: bool = False,
    **options: Any,
) -> None:
    container, plan = account.container("container"), plan_of(rows.schema, checkpointInterval=every, **options)
    staged = stage_rows(container, plan, [rows], seed=seed)
    committer(container, plan, seed).commit([staged], None, overwrite=overwrite)


def reader_of(account: MemoryAccount, schema: StructType | None = None, **options: str) -> FilteringReader:
    plan = ReadPlan(source_options({"path": "container/flights", **ACCOUNT, **options}, {}))
    plan.container = account.restarted().container("container")
    return FilteringReader(plan, schema or spark_schema(plan))


def versions(reader: FilteringReader, *filters: spark.Filter) -> list[int | None]:
    """The versions whose blobs are read, of a stream with one blob in each."""
    reader.pushFilters(list(filters))
    found: Any = reader.partitions()
    return sorted(split.blob.version for partition in found for split in partition.splits)


LATE = spark.GreaterThanOrEqual(("id",), 245)


@pytest.mark.parametrize("many", [0, 10_000])
@pytest.mark.parametrize("every", [7, 64])
def test_filters_leave_out_blobs_of_checkpoints_and_of_entries(
    every: int, many: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Version 27 is the last checkpoint if there is one for each 7 versions, and 64 leaves entries only."""
    monkeypatch.setattr(snapshot, "MANY_BLOBS", many)
    account = written(new_account(), every)
    caplog.set_level("INFO", "azureblob_source")
    assert [*range(24, 30)] == versions(reader_of(account), LATE)
    assert "version 29: 6 of 30 blobs are read" in caplog.text
    assert [24, 25] == versions(reader_of(account), LATE, spark.LessThan(("day",), date(2013, 1, 27)))
    assert [] == versions(reader_of(account), spark.EqualTo(("id",), -1))
    assert [24] == versions(reader_of(account, versionAsOf="24"), LATE)
    assert [*range(30)] == versions(reader_of(account))
    assert [*range(30)] == versions(reader_of(account), spark.IsNull(("id",)))


@pytest.mark.parametrize("every", [7, 64])
def test_a_partition_says_the_bounds_of_its_column(every: int) -> None:
    """Where no bounds are kept, of texts whose first characters are the same."""
    account, long = new_account(), "flights of 2013-01-31 from "
    for seed in range(30):
        append(
            account, seed, pa.record_batch({"of": [f"{long}{seed}"]}), every, partitionColumn="of", boundsColumns="none"
        )
    assert [3] == versions(reader_of(account), spark.EqualTo(("of",), f"{long}3"))
    assert [28] == versions(reader_of(account), spark.EqualTo(("of",), f"{long}28"))
    assert [7, 8, 9] == versions(reader_of(account), spark.GreaterThan(("of",), f"{long}6"))


def test_columns_have_the_ids_of_the_checkpoint() -> None:
    """Those of the checkpoint before the overwrite, where `day` was the second column."""
    account = written(new_account(), 7, batches=7)
    for seed in range(7, 30):
        rows = pa.record_batch({"day": [date(2013, 1, 1) + timedelta(seed)]})
        append(account, seed, rows, 7, overwrite=seed == 7)
    assert [20] == versions(reader_of(account), spark.EqualTo(("day",), date(2013, 1, 21)))


def test_a_filter_that_bounds_have_used_is_still_applied() -> None:
    reader = reader_of(written(new_account(), 64, batches=3))
    double = spark.GreaterThan(("id",), 5)
    assert [] == list(reader.pushFilters([double]))
    rows = [row["id"] for each in reader.partitions() for batch in reader.read(each) for row in batch.to_pylist()]
    assert [*range(6, 30)] == sorted(rows)


def test_a_filter_that_is_left_to_spark_leaves_out_blobs_too() -> None:
    account = new_account()
    for seed in range(3):
        append(account, seed, pa.record_batch({"x": [float(seed)]}))
    reader, condition = reader_of(account), spark.GreaterThan(("x",), 0.5)
    assert [condition] == list(reader.pushFilters([condition]))
    partitions: Any = reader.partitions()
    assert 2 == sum(len(each.splits) for each in partitions)


def test_blobs_without_the_column_and_of_a_narrower_type_are_read_as_they_are() -> None:
    account = new_account()
    container = account.container("container")
    for seed, kind in enumerate([None, pa.int32(), pa.int64(), pa.float64(), pa.int64()]):
        rows = pa.schema([("id", pa.int64()), *([] if kind is None else [("x", kind)])])
        batch = pa.RecordBatch.from_pylist([{"id": 1, "x": seed}], rows)
        put_anyway(container, plan_of(rows), batch, seed)
    assert [0, 2, 3, 4] == versions(reader_of(account), spark.GreaterThan(("x",), 1.0))
    assert [0, 3] == versions(reader_of(account), spark.EqualTo(("x",), 3.0))


def test_a_column_that_is_read_in_another_way_is_not_used() -> None:
    account = written(new_account(), 64, batches=3)
    (schema,) = {each.json for each in reader_of(account).plan.snapshot.schemas}
    renamed = json.loads(schema)
    renamed["fields"].append({"name": "n", "aliases": ["id"], "type": ["null", "long"]})
    renamed["fields"] = renamed["fields"][1:]
    assert [0, 1, 2] == versions(reader_of(account, avroSchema=json.dumps(renamed)), spark.EqualTo(("n",), 25))
    renamed["fields"][-1] = {"name": "id", "type": ["null", "double"]}
    as_double = reader_of(account, avroSchema=json.dumps(renamed))
    assert [2] == versions(as_double, spark.EqualTo(("id",), 25.0))
    renamed["fields"][-1] = {"name": "other", "sparkName": "id", "type": "long", "default": 25}
    assert [0, 1, 2] == versions(reader_of(account, avroSchema=json.dumps(renamed)), spark.EqualTo(("id",), 25))
    renamed["fields"][-1] = {"name": "id", "aliases": ["day"], "type": ["null", "long"]}
    assert [0, 1, 2] == versions(reader_of(account, avroSchema=json.dumps(renamed)), spark.EqualTo(("id",), 25))


def test_a_column_that_the_query_has_in_another_type_is_not_used() -> None:
    account, rows = new_account(), pa.schema([("x", pa.float64())])
    put_anyway(account.container("container"), plan_of(rows), pa.RecordBatch.from_pydict({"x": [0.1]}, rows), 0)
    rounded = pa.scalar(0.1, pa.float32()).as_py()
    reader = reader_of(account, StructType([StructField("x", FloatType())]))
    assert [0] == versions(reader, spark.EqualTo(("x",), rounded))


def test_a_view_of_a_stream_without_rows_takes_filters() -> None:
    account = new_account()
    container = account.container("container")
    commit.append_epoch(CommitLog(container, "flights"), new_draft(SYSTEM_CLOCK, 1), Publisher(container))
    assert [] == list(reader_of(account, view="commits").pushFilters([spark.EqualTo(("version",), 0)]))


def test_a_view_takes_filters_without_bounds() -> None:
    account = written(new_account(), 64, batches=3)
    reader = reader_of(account, view="blobs")
    assert [] == list(reader.pushFilters([spark.EqualTo(("version",), 1)]))
    (batch,) = reader.read(*reader.partitions())
    assert [1] == batch["version"].to_pylist()
