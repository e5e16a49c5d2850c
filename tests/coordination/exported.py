"""What the metrics of coordination export to an OpenTelemetry SDK."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from coordination import metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

_CACHES = (metrics._counter, metrics._gauge, metrics._histogram)


class Exported:
    """The values of one SDK."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        self._reader = reader

    def instruments(self) -> dict[str, Any]:
        """The instruments that have values, by name without its prefix, in lower case as OpenTelemetry has it."""
        data: Any = self._reader.get_metrics_data()
        if data is None:
            return {}
        (scope,) = data.resource_metrics[0].scope_metrics
        assert "coordination" == scope.scope.name
        return {metric.name.lower().removeprefix("coordination."): metric for metric in scope.metrics}

    def points(self, name: str) -> list[Any]:
        """The data points of an instrument."""
        found = self.instruments().get(name.lower())
        return [] if found is None else list(found.data.data_points)

    def of(self, name: str, **attributes: str) -> float:
        """The sum, gauge or number of durations with these attributes; 0 if there is none."""
        chosen = [point for point in self.points(name) if attributes.items() <= dict(point.attributes).items()]
        return float(sum(point.count if hasattr(point, "bucket_counts") else point.value for point in chosen))


@contextmanager
def exporting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    """An SDK that gets the values until the end of the block."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    with monkeypatch.context() as patch:
        patch.setattr(api, "get_meter", provider.get_meter)
        for cached in _CACHES:
            cached.cache_clear()
        yield Exported(reader)
    for cached in _CACHES:
        cached.cache_clear()
    provider.shutdown()
