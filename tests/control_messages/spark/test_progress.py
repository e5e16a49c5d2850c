"""The wait for the end of a query's inputs, beside a stand-in for a query: which batches it looks at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from control_messages.spark.progress import _Wait

if TYPE_CHECKING:
    from collections.abc import Callable


def batch(number: int, second: int, *, end: bool = False) -> dict[str, Any]:
    return {
        "batchId": number,
        "timestamp": f"2026-11-29T10:00:{second:02}.000Z",
        "observedMetrics": {"control_messages.s": {"endOfStream": int(end)}},
        "sources": [{"startOffset": number, "endOffset": number + 1}],
    }


@dataclass
class Query:
    """A query whose batches follow one another. kept: progress that Spark remembers. reads: of the query's state."""

    done: list[dict[str, Any]] = field(default_factory=lambda: [batch(0, 10)])
    kept: int = 100
    reads: int = 0
    status: dict[str, Any] = field(default_factory=lambda: {"message": "Processing", "isDataAvailable": True})

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        return self.done[-self.kept :]

    @property
    def lastProgress(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self.done[-1]

    def ended(self) -> bool:
        self.reads += 1
        return any(each["observedMetrics"]["control_messages.s"]["endOfStream"] for each in self.done)


def set_back(query: Query) -> None:
    query.done.append(batch(1, 8, end=True))


def dropped(query: Query) -> None:
    query.kept = 1
    query.done += [batch(1, 11, end=True), batch(2, 12)]


@pytest.mark.parametrize("happens", [set_back, dropped])
def test_an_end_is_found_when_the_clock_is_set_back_and_when_spark_has_dropped_its_progress(
    happens: Callable[[Query], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query()
    monkeypatch.setattr(_Wait, "ended", lambda wait: wait.query.ended())
    wait = _Wait(cast("Any", query), {"s": 0})
    assert not wait.over()
    happens(query)
    assert wait.over()


def test_the_state_is_not_read_after_batches_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query()
    monkeypatch.setattr(_Wait, "ended", lambda wait: wait.query.ended())
    wait = _Wait(cast("Any", query), {"s": 0})
    for number in range(1, 50):
        assert not wait.over()
        query.done.append(batch(number, number))
    assert 1 == query.reads
