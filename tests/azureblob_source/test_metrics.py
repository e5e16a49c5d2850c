from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from opentelemetry import metrics as api
from pyspark.sql.types import LongType, StructField, StructType

from azureblob_source import metrics
from azureblob_source.log.entry import Change
from azureblob_source.write.planning import prepare_write
from azureblob_source.write.sink import BatchWriter
from foundation.errors import CorruptError
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from tools.azurite import Azurite


class Instrument(api.NoOpCounter):
    """A counter of a telemetry SDK that keeps its sums."""

    def __init__(self, name: str, unit: str, description: str, sums: Counter[tuple[str, str, str]]) -> None:
        super().__init__(name, unit, description)
        self.name, self.unit, self.sums = name, unit, sums

    def add(self, amount: float, attributes: Any = None, context: Any = None) -> None:
        labels = dict(attributes or {})
        self.sums[self.name, labels["group"], labels.get("name", "")] += int(amount)


class Meter(api.NoOpMeter):
    def __init__(self, sums: Counter[tuple[str, str, str]]) -> None:
        super().__init__("azureblob")
        self.sums = sums

    def create_counter(self, name: str, unit: str = "", description: str = "") -> api.Counter:
        return Instrument(name, unit, description, self.sums)


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str, str]]:
    """The sums that an SDK would export, by counter, group and name."""
    counted: Counter[tuple[str, str, str]] = Counter()
    monkeypatch.setattr(api, "get_meter", lambda *_: Meter(counted))
    monkeypatch.setattr(metrics.METERS, "_made", {})
    return counted


def test_each_count_is_added_to_all_three_groups(sums: Counter[tuple[str, str, str]]) -> None:
    metrics.count({"messagesSent": 3, "blockUploads": 0}, system="data", source="q/0")
    metrics.count({"messagesSent": 2}, system="data", source="q/1")
    assert {
        ("azureblob.messagesSent", "aggregate", ""): 5,
        ("azureblob.messagesSent", "system", "data"): 5,
        ("azureblob.messagesSent", "source", "q/0"): 3,
        ("azureblob.messagesSent", "source", "q/1"): 2,
    } == dict(sums)


@pytest.mark.parametrize(
    ("guarantee", "source"), [("exactly-once", "batch"), ("at-least-once", "batch/0")], ids=["exactly", "at least"]
)
def test_a_published_blob_is_counted_once_by_whoever_publishes_it(
    azurite: Azurite, container_name: str, sums: Counter[tuple[str, str, str]], guarantee: str, source: str
) -> None:
    raw = {
        "connectionString": azurite.connection_string,
        "path": f"{container_name}/events",
        "deliveryGuarantee": guarantee,
        "maxMessagesPerBlob": "1",
    }
    plan = prepare_write(raw, StructType([StructField("id", LongType())]), {}, overwrite=False)
    written = BatchWriter(plan, overwrite=False)
    written.commit([written.write(iter([pa.RecordBatch.from_pydict({"id": [1, 2]})]))])
    assert {("aggregate", ""): 2, ("system", container_name): 2, ("source", source): 2} == {
        (group, name): counted for (counter, group, name), counted in sums.items() if counter == "azureblob.blobCommits"
    }


def test_an_sdk_gets_the_instruments_that_the_page_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr(api, "get_meter", provider.get_meter)
    monkeypatch.setattr(metrics.METERS, "_made", {})
    monkeypatch.setattr(metrics.METERS, "_observed", {})
    metrics.count(dict.fromkeys(metrics.COUNTERS, 2), system="data", source="q/0")
    metrics.skip_damaged(new_account().container("data"), CorruptError("broken"))
    reading = metrics.ReadMetrics("data", "events")
    reading.show(dict.fromkeys(("versions", "blobs", "rows", "bytes"), 1))
    entry = Change("id", "1970-01-01T00:00:02+00:00")
    metrics.mark_commits([entry], container="data", stream="events")

    seen: Any = reader.get_metrics_data()
    (scope,) = seen.resource_metrics[0].scope_metrics
    page = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text("utf-8")
    named = re.findall(r"^\| `(azureblob\.\w+)` \| `(\S+)` \|", page, re.MULTILINE)
    assert {(name.lower(), unit) for name, unit in named} == {(metric.name, metric.unit) for metric in scope.metrics}
    assert "azureblob" == scope.scope.name
    reading.close()
    assert {1, 2} == {point.value for metric in scope.metrics for point in metric.data.data_points}
    provider.shutdown()


def test_without_a_telemetry_sdk_counting_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics.METERS, "_made", {})
    metrics.count(dict.fromkeys(metrics.COUNTERS, 1), system="data", source="q/0")


def test_there_are_the_seven_counters_of_the_proposal() -> None:
    assert [
        "messagesSent", "bytesSent", "bytesCompressed", "messageErrors", "blockUploads", "blobCommits",
        "connectionErrors",
    ] == list(metrics.COUNTERS)  # fmt: skip


def test_a_counter_that_does_not_exist_is_a_mistake_in_the_code() -> None:
    with pytest.raises(KeyError):
        metrics.count({"rows": 1}, system="data", source="q/0")


def test_totals_are_sums_with_all_names() -> None:
    summed = metrics.total([{"messagesSent": 1}, {"messagesSent": 2, "bytesSent": 5}])
    assert {**dict.fromkeys(metrics.COUNTERS, 0), "messagesSent": 3, "bytesSent": 5} == summed
    assert dict.fromkeys(metrics.COUNTERS, 0) == metrics.total([])
