"""The bounds in a log entry: every value that a reader gets of a blob lies within them."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from arrow_avro import decode_blob
from azureblob_source.log.entry import from_json, to_json
from azureblob_source.write import routing
from azureblob_source.write.column_bounds import MOST_OF_BATCH, TEXT_LENGTH, above
from azureblob_source.write.staged_task import MOST_OF_ENTRY, StagedTask, blobs_of
from foundation.errors import ConfigurationError
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows, visible_blobs
from tests.histories.mutants import Mutant, edited, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account.memory.account import MemoryAccount
    from azureblob_source.write.planning import WritePlan

CASES = 250
_LAST = "\U0010ffff"
_CHARACTERS = ["\0", "a", "b", "é", "\ud7ff", "\ue000", "\uffff", "\U0001f6eb", _LAST]


def _text(random: Random) -> str:
    if random.random() < 0.2:
        return random.choice(_CHARACTERS) * random.randint(0, 20)
    return random.choice(["", "N", "https://example.org/"]) + "".join(
        random.choices(_CHARACTERS, k=random.randint(0, 9))
    )


def _integer(bits: int, random: Random) -> int:
    limit = 1 << (bits - 1)
    return random.choice([-limit, limit - 1, -1, 0, random.randrange(-100, 100)])


def _float(random: Random) -> float:
    if random.random() < 0.02:
        return random.choice([math.nan, math.inf, -math.inf])
    return random.choice([0.0, -0.0, 1.5, -2.25, 65504.0])


def _decimal(digits: int, random: Random) -> Decimal:
    number = random.choice([0, 1, -1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**64), 10**digits - 1])
    return Decimal(f"{number if abs(number) < 10**digits else 7}E-2")


KINDS: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "byte": (pa.int8(), partial(_integer, 8)),
    "int": (pa.int32(), partial(_integer, 32)),
    "long": (pa.int64(), partial(_integer, 64)),
    "unsigned": (pa.uint16(), lambda random: random.choice([0, 1, 65535])),
    "date": (pa.date32(), partial(_integer, 20)),
    "timestamp": (pa.timestamp("us", "UTC"), partial(_integer, 50)),
    "local timestamp": (pa.timestamp("ns"), partial(_integer, 60)),
    "seconds": (pa.timestamp("s", "UTC"), partial(_integer, 30)),
    "float": (pa.float32(), _float),
    "half": (pa.float16(), _float),
    "double": (pa.float64(), _float),
    "decimal": (pa.decimal128(9, 2), partial(_decimal, 9)),
    "wide decimal": (pa.decimal128(38, 2), partial(_decimal, 38)),
    "string": (pa.string(), _text),
    "code": (pa.string(), lambda random: random.choice(["EWR", "JFK", "LGA"])),
    "large string": (pa.large_string(), _text),
    "boolean": (pa.bool_(), lambda random: random.random() < 0.5),
    "binary": (pa.binary(), lambda random: random.randbytes(3)),
    "list": (pa.list_(pa.int32()), lambda _: [1]),
}
WITHOUT = {"boolean", "binary", "list"}


def _array(random: Random, kind: str, count: int) -> pa.Array:
    """A column, perhaps with nulls, which have values under them."""
    arrow, value = KINDS[kind]
    numbers = pa.types.is_integer(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_date(arrow)
    values = [value(random) for _ in range(count)]
    whole = pa.array(values, pa.int32() if arrow == pa.date32() else pa.int64()) if numbers else pa.array(values, arrow)
    whole = whole.cast(arrow) if pa.types.is_integer(arrow) else whole.view(arrow) if numbers else whole
    nulls = random.choice([0, 0, 0.2, 0.9])
    valid = pa.array([random.random() >= nulls for _ in range(count)], pa.bool_())
    if not nulls or pa.types.is_nested(arrow):
        return whole
    return pa.Array.from_buffers(arrow, count, [valid.buffers()[1], *whole.buffers()[1:]])


def _rows(random: Random) -> list[pa.RecordBatch]:
    """Batches of one schema, with columns `part` and `code` of a few values."""
    kinds = random.choices(sorted(KINDS), k=random.randint(1, 4))
    parts = random.choice([["a"], ["a", "b"], [str(number) for number in range(50)]])
    batches = []
    for _ in range(random.randint(1, 3)):
        count = random.choice([1, 2, 9, 120])
        columns = {f"{kind} {place}": _array(random, kind, count) for place, kind in enumerate(kinds)}
        codes = pa.array(random.choices(parts, k=count))
        batches.append(pa.record_batch({"part": codes, "code": codes, **columns}))
    return batches


def check(cases: int = CASES) -> Counter[str]:
    """Fails at the first blob that has a value outside its bounds; else how often each kind had some, and had none."""
    seen: Counter[str] = Counter()
    for seed in range(cases):
        random = Random(seed)
        _check_task(random, _rows(random), seen)
    return seen


def _check_task(random: Random, batches: Sequence[pa.RecordBatch], seen: Counter[str]) -> None:
    account, rolling = new_account(), random.random() < 0.3
    more: dict[str, Any] = {"maxMessagesPerBlob": 5} if rolling else {}
    plan = plan_of(batches[0].schema, partitionColumn="part", dropRoutingColumns=random.random() < 0.5, **more)
    staged = StagedTask.from_json(_stage_each(account, plan, batches).to_json())
    (entry,) = committer(account.container("container"), plan).commit([staged], None)
    stored = visible_blobs(account)
    fits = len({part for batch in batches for part in batch["part"].to_pylist()}) * len(plan.arrow) <= MOST_OF_BATCH
    for blob in from_json(to_json(entry), "x").blobs:
        rows = pa.Table.from_batches(decode_blob(stored[blob.name], blob=blob.name, reader=plan.avro, columns=None))
        for name in {*rows.column_names} - {"part"}:  # whose bounds readers have from partitions
            kind = name.rpartition(" ")[0] or "code"
            bounds = blob.bounds.get(name)
            seen[f"{kind} {'unbounded' if bounds is None else 'bounded'}"] += 1
            values = list(map(_stored, rows[name].drop_null().cast(_plain(rows[name].type)).to_pylist()))
            if bounds is None:
                assert not fits or not values or kind in WITHOUT or rolling or not all(map(_has_bounds, values))
                continue
            assert kind not in WITHOUT
            lower, upper = map(_ordered, bounds)
            assert all(lower <= _ordered(value) <= upper for value in values), f"{name}: {bounds} and {values}"
            assert all(len(bound) <= TEXT_LENGTH for bound in bounds if isinstance(bound, str))
            if not rolling and kind not in ("string", "large string"):
                assert (min(values), max(values)) == bounds


def _stage_each(account: MemoryAccount, plan: WritePlan, batches: Sequence[pa.RecordBatch]) -> StagedTask:
    """One task, whose batches are not joined, so that blobs take rows of several."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(routing, "COALESCED_ROWS", 1)
        return stage_rows(account.container("container"), plan, batches)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type in which `to_pylist` gives what is stored."""
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _stored(value: Any) -> Any:
    return int(value.scaleb(2, Context(prec=40))) if isinstance(value, Decimal) else value


def _has_bounds(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not (isinstance(value, str) and value.startswith(_LAST))


def _ordered(value: Any) -> Any:
    """As Java orders numbers: -0.0 before 0.0."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def test_every_value_of_a_blob_lies_within_its_bounds() -> None:
    seen = check()
    assert {f"{kind} bounded" for kind in KINDS if kind not in WITHOUT} <= set(seen)
    assert {f"{kind} unbounded" for kind in ("boolean", "binary", "list", "string", "double", "int")} <= set(seen)


def _bounds_of(rows: Sequence[Any], arrow: pa.DataType, more: Sequence[Sequence[Any]] = (), **options: Any) -> Any:
    """The bounds of column `c` in the one blob of a task with these batches; None if there are none."""
    schema = pa.schema([("c", arrow)])
    batches = [pa.record_batch([pa.array(values, arrow)], schema=schema) for values in (rows, *more)]
    account, plan = new_account(), plan_of(schema, **options)
    (blob,) = _stage_each(account, plan, batches).blobs
    return blob.bounds.get("c")


NOON = datetime(2013, 1, 31, 12, tzinfo=UTC)
LONG = "https://example.org/flights"


@pytest.mark.parametrize(
    ("arrow", "rows", "expected"),
    [
        (pa.int64(), [299, None, 200], (200, 299)),
        (pa.int64(), [None], None),
        (pa.date32(), [date(1970, 1, 2), date(1969, 12, 31)], (-1, 1)),
        (pa.timestamp("us", "UTC"), [NOON], (1_359_633_600_000_000, 1_359_633_600_000_000)),
        (pa.timestamp("ms"), [datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 1)], (0, 1_000_000)),  # noqa: DTZ001
        (pa.float64(), [0.0, None], (-0.0, 0.0)),
        (pa.float64(), [1.0, math.nan], None),
        (pa.float32(), [1.0, -math.inf], None),
        (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("184467440737095516.16")], (-150, 2**64)),
        (pa.string(), ["BOS", "ATL", None], ("ATL", "BOS")),
        (pa.string(), ["", "a\0", "a"], ("", "a\0")),
        (pa.string(), [LONG], ("https://example.", "https://example/")),
        (pa.string(), ["é" * 17], ("é" * 16, "é" * 15 + "ê")),
        (pa.string(), ["a" + 17 * _LAST], ("a" + 15 * _LAST, "b")),
        (pa.string(), [17 * _LAST, "a"], None),
        (pa.string(), [16 * _LAST, "a"], ("a", 16 * _LAST)),
    ],
)
def test_bounds_are_the_least_and_the_greatest_value(arrow: pa.DataType, rows: list[Any], expected: Any) -> None:
    found = _bounds_of(rows, arrow)
    assert expected == found
    assert [str(bound) for bound in expected or ()] == [str(bound) for bound in found or ()]  # which sign has zero?


def test_a_blob_has_the_bounds_of_all_batches_and_none_once_one_batch_has_none() -> None:
    assert (-3, 9) == _bounds_of([5, 7], pa.int64(), [[None], [9, -3], [6]])
    assert _bounds_of([1.0], pa.float64(), [[math.nan], [2.0]]) is None


def test_a_text_above_all_that_begin_so() -> None:
    assert ["b", "aç", "\ue000", "b"] == [above(start) for start in ("a", "aæ", "\ud7ff", f"a{_LAST}")]
    assert above(_LAST) is None


# --- which columns ----------------------------------------------------------------------------------------------------


def _columns_of(count: int, parts: int = 1, **options: Any) -> set[tuple[str, ...]]:
    """The columns with bounds in the blobs of a task whose rows have `count` columns of numbers and `parts` routes.

    Another column names the partitions.
    """
    names = [f"c{number}" for number in range(count)]
    parted = pa.array(range(parts), options.pop("parted", pa.int32()))
    rows = pa.record_batch({"t": [[1]] * parts, **{name: list(range(parts)) for name in names}, "of": parted})
    account = new_account()
    plan = plan_of(rows.schema, partitionColumn="of", **options)
    return {tuple(blob.bounds) for blob in stage_rows(account.container("container"), plan, [rows]).blobs}


def test_the_first_columns_have_bounds_or_those_that_are_named() -> None:
    first = [f"c{number}" for number in range(16)]
    assert {tuple(first)} == _columns_of(20)
    assert {("c19", "c3")} == _columns_of(20, boundsColumns="c19, c3")
    assert {()} == _columns_of(20, boundsColumns="none")
    assert {tuple(first[:16])} == _columns_of(20, parts=16)
    assert {tuple(first[:4])} == _columns_of(20, parts=64)
    assert {("c9",)} == _columns_of(20, parts=256, boundsColumns="c9,c8")
    assert {()} == _columns_of(20, parts=257)


def test_a_partition_column_has_no_bounds_if_partitions_say_its_values_and_is_the_first_if_not() -> None:
    assert {("c0", "c1")} == _columns_of(2)
    assert {("c1",)} == _columns_of(2, boundsColumns="of,c1")
    assert {("of", "c0")} == _columns_of(1, parted=pa.float64())
    assert {("c0", "of")} == _columns_of(1, parted=pa.float64(), boundsColumns="c0,of")
    assert {("of", *(f"c{number}" for number in range(15)))} == _columns_of(20, parted=pa.float64())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"boundsColumns": "c0,c9"},
            "Option `boundsColumns` names 'c9', which is no column that can have bounds; these ",
        ),
        ({"boundsColumns": "t"}, "names 't', which is no column that can have bounds; these can: c0, c1, of. Correct"),
        ({"boundsColumns": "of", "dropRoutingColumns": True}, "names 'of', which is no .*; these can: c0, c1. Correct"),
        ({"boundsColumns": "none,c0"}, "names 'none', which is no column"),
    ],
)
def test_a_column_that_cannot_have_bounds_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _columns_of(2, **given)


def test_rows_that_are_encoded_already_have_no_bounds() -> None:
    account, schema = new_account(), pa.schema([("v", pa.binary())])
    given = {"valueColumn": "v", "avroSchema": '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'}
    rows = pa.record_batch([pa.array([b"\2", b"\4"])], schema=schema)
    (blob,) = stage_rows(account.container("container"), plan_of(schema, **given), [rows]).blobs
    assert {} == blob.bounds
    with pytest.raises(ConfigurationError, match="Option `boundsColumns` names a, but `valueColumn` holds rows that"):
        plan_of(schema, boundsColumns="a", **given)


def test_an_entry_of_many_blobs_keeps_the_bounds_of_the_first_columns() -> None:
    (blob,) = stage_rows(new_account().container("container"), plan_of(ROWS.schema), [ROWS]).blobs

    def columns(blobs: int) -> set[tuple[str, ...]]:
        return {tuple(each.bounds) for each in blobs_of([StagedTask(blobs=(blob,) * (blobs // 2))] * 2)}

    assert {("a", "b")} == columns(MOST_OF_ENTRY // 2)
    assert {("a",)} == columns(MOST_OF_ENTRY)
    assert {()} == columns(MOST_OF_ENTRY + 2)


ROWS = pa.record_batch({"a": [1, 2], "b": ["x", "y"]})

# --- mutants ----------------------------------------------------------------------------------------------------------

_MODULE = "azureblob_source.write.column_bounds"
MUTANTS: dict[str, Mutant] = {
    "the upper bound of a text is cut, not raised": replaced(f"{_MODULE}:above", lambda start: start),
    "a text is raised to half of a surrogate pair": edited(
        f"{_MODULE}:above", "if following in _SURROGATES", "if False"
    ),
    "the last code point is raised": edited(f"{_MODULE}:above", "start.rstrip(_LAST_CODE_POINT)", "start"),
    "the length of a text is no part of its key": edited(f"{_MODULE}:_keys", "words |=", "length ="),
    "a key has bytes of the next text": edited(f"{_MODULE}:_keys", "words <<= cut", "words <<= _u(8)"),
    "words at the end are not moved": edited(f"{_MODULE}:_keys", "words[within:] <<=", "words[within:] |= _u(0) *"),
    "the lower bound of a text is not cut": edited(f"{_MODULE}:_text_bounds", "least[:TEXT_LENGTH]", "least"),
    "the start of a text is taken for the text": edited(
        f"{_MODULE}:_of_texts", "is_whole=high & _LEFT <= _KEY_BYTES", "is_whole=True"
    ),
    "what is under a null counts": edited(f"{_MODULE}:_extremes", "if valid is None", "if True"),
    "a null is the greatest number": edited(
        f"{_MODULE}:_extremes", 'np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min', "-1"
    ),
    "times are rounded to zero": edited(
        f"{_MODULE}:_of_integers", "(low * times // parts,", "(int(low * times / parts),"
    ),
    "NaN has bounds": edited(f"{_MODULE}:_of_float", "math.isfinite(low) and math.isfinite(high)", "True"),
    "zero has one sign": edited(f"{_MODULE}:_of_float", "low or -0.0", "low"),
    "decimals are compared by their upper halves": edited(
        f"{_MODULE}:_of_decimals", "(high << 64) + low", "high << 64"
    ),
    "only the last batch counts": replaced("azureblob_source.write.open_blobs:joined", lambda _, other: other),
    "only the first batch counts": replaced(
        "azureblob_source.write.open_blobs:joined", lambda one, other: one or other
    ),
    "a column has bounds of the batches that have some": edited(
        f"{_MODULE}:joined", "for name, found in one.items() if name in other", "for name, found in one.items()"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        check()
