"""What a fill with Spark counts, on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adjunct_store import metrics
from foundation.errors import ConfigurationError
from tests.exported import Exported, exporting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.adjunct_store.spark.planes import Planes


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    with exporting(monkeypatch, metrics.METERS) as found:
        yield found


def test_a_fill_counts_what_its_published_batches_did(exported: Exported, planes: Planes) -> None:
    planes.fill(("a", 1, 5), ("b", 2, 5), ("c", 3, 5))
    planes.fill(("a", 9, 4), ("b", 2, 6, "D"), (None, 1, 7), null_keys="skip")
    with pytest.raises(ConfigurationError):
        planes.fill(("a", 1, 8), (None, 1, 8))
    store = str(planes.store)
    names = ("versionsPublished", "upserts", "deletes", "olderIgnored", "nullKeys", "fillSeconds", "publishSeconds")
    assert [2, 3, 1, 1, 1, 2, 2] == [exported.of(name, store=store) for name in names]
    gauges = ("version", "batch", "entries", "tombstones", "bootstrapped")
    assert [2, 1, 2, 1, 1] == [exported.of(name, store=store) for name in gauges]
    assert exported.of("bytes", store=store) > 0


def test_a_fill_of_a_stream_reports_gauges_while_it_runs(exported: Exported, planes: Planes) -> None:
    planes.feed(("a", 1))
    with planes.start(bootstrap=True, trigger={"processingTime": "1 second"}) as running:
        assert not running.await_termination(0)
        while exported.of("bootstrapped", store=str(planes.store)) < 1:
            assert running.isActive
            running.await_termination(0.05)
        assert 1 == exported.of("entries", store=str(planes.store))
        assert 1 == exported.of("versionsPublished", store=str(planes.store))
    assert str(planes.store) not in {point.attributes["store"] for point in exported.points("entries")}
