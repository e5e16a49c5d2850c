"""What the benchmark of growth measures, whose turn it is, and what its figures say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest

pytest.importorskip("deltalake", reason="not of the environments of other versions of Spark")

import itertools

from benchmarks.growth.contenders import _avro_schema, _upload
from benchmarks.growth.figure import apart, curves, doublings, shorter
from benchmarks.growth.points import Axis, Contender, Point, points
from benchmarks.growth.section import SECONDS, Sample, _in_turn, _line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def sample(seconds: float, **requests: int) -> Any:
    from collections import Counter

    return Sample(seconds, Counter(requests), 2_000_000, {"worker": 100.0, "heap": 200.0})


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("axis", list(Axis))
def test_only_what_the_axis_names_differs_between_its_points(axis: Axis, quick: bool) -> None:
    measured = points(axis, quick=quick)
    assert sorted({point.value for point in measured}) == [point.value for point in measured]
    differing = {name for name in vars(measured[0]) if len({getattr(point, name) for point in measured}) > 1}
    own = {Axis.HISTORY: "history"}.get(axis, axis.value)
    assert {"value", own} == differing


def test_slow_ones_take_no_part_in_further_rounds_and_each_round_begins_with_another() -> None:
    turns: list[tuple[str, int]] = []

    def take(contender: Contender, _: str, turn: int, __: str) -> Any:
        turns.append((contender.name, turn))
        return sample(SECONDS if contender is Contender.FOREACH else 1.0)

    site: Any = SimpleNamespace(point=Point(Axis.ROWS, 1), sample=take)
    found = _in_turn([(Contender.OURS, "write"), (Contender.FOREACH, "write")], site, 3, "")
    assert [3, 1] == [len(each) for each in found.values()]
    assert [("OURS", 0), ("FOREACH", 0), ("OURS", 1), ("OURS", 2)] == turns


def test_large_writes_have_few_rounds() -> None:
    site: Any = SimpleNamespace(point=Point(Axis.ROWS, 1, rows=1_000_000), sample=lambda *_: sample(0.1))
    assert [2] == [len(each) for each in _in_turn([(Contender.OURS, "write")], site, 5, "").values()]


def test_a_line_has_medians_and_the_requests_of_the_median_round() -> None:
    samples = [sample(3.0, GET=9), sample(1.0, GET=1, PUT=2), sample(2.0, GET=2, PUT=2)]
    line = _line(Point(Axis.ROWS, 10), Contender.OURS, "write", samples)
    assert (2.0, 1.0, 3.0, 3) == (line["s"], line["fastest"], line["slowest"], line["rounds"])
    assert (4, 2, 2, 0) == (line["requests"], line["GET"], line["PUT"], line["LIST"])
    assert (2.0, 100.0) == (line["MB stored"], line["worker MiB"])


def document(costs: Sequence[float]) -> dict[str, Any]:
    given = [(Contender.OURS, 10), (Contender.DELTA, 1)]
    lines = [
        {
            "axis": "columns",
            "value": value,
            "contender": contender.value,
            "act": "write",
            "s": cost * factor,
            "fastest": cost,
            "slowest": cost,
            "requests": 7,
        }
        for contender, factor in given
        for value, cost in zip((5, 20, 80), costs, strict=True)
    ]
    return {"tables": [{"lines": lines}]}


@pytest.mark.parametrize(("costs", "factor"), [((1, 2, 8), 2.0), ((1, 2, 2), 1.0), ((1, 1, 16), 4.0)])
def test_the_factor_of_twice_as_much_is_that_of_the_last_step(costs: Sequence[float], factor: float) -> None:
    found = curves(document(costs), Axis.COLUMNS, "write", "s")
    assert [Contender.OURS, Contender.DELTA] == [each.contender for each in found]
    assert [factor, factor] == [pytest.approx(each.doubling) for each in found]
    line = next(each for each in doublings(document(costs), "write").lines if each["twice the"] == "columns")
    assert f"{factor:.2f} / 1.00" == line["azureblob"]
    assert "–" == line["foreachBatch"]


def test_labels_keep_their_order_and_a_distance() -> None:
    assert [0.0, 1.0] == apart([0.0, 1.0], 0.1)
    moved = apart([0.5, 0.5, 0.52, 0.9], 0.1)
    assert sorted(moved) == moved
    assert min(b - a for a, b in itertools.pairwise(moved)) > 0.0999
    assert pytest.approx(0.9, abs=0.01) == moved[-1]


def test_a_picture_loses_no_drawing() -> None:
    svg = '<g id="tick_1">\n  <!-- a name\n  -->\n  <path d="M 1.23456 20\nL 3.1 4.5678"/>\nVersion 3.35 of\n</g>'
    assert '<g>\n<path d="M 1.2 20\nL 3.1 4.5"/>\nVersion 3.35 of\n</g>' == shorter(svg)


class Row(dict[str, Any]):
    """What a function of `foreachPartition` gets of a row."""

    def asDict(self) -> dict[str, Any]:  # noqa: N802
        return dict(self)


def test_foreach_batch_puts_a_blob_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    put: list[str] = []

    class Client:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def upload_blob(self, name: str, data: bytes, *, overwrite: bool) -> None:
            assert overwrite
            assert data.startswith(b"Obj\x01")
            put.append(name)

    monkeypatch.setattr("benchmarks.growth.contenders.ContainerClient.from_connection_string", lambda *_: Client())
    schema = _avro_schema(StructType().add("id", LongType()).add("p", StringType()))
    place: Any = SimpleNamespace(azurite=SimpleNamespace(connection_string=""), container="c", folder="f")

    def rows() -> Iterator[Any]:
        return (Row(id=number, p=f"p{number % 2}") for number in range(4))

    _upload(place, schema, "p", rows())
    assert ["f/p=p0/0000.avro", "f/p=p1/0000.avro"] == put
    _upload(place, schema, None, rows())
    assert "f/0000.avro" == put[-1]
