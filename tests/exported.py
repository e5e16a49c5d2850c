"""What the instruments of a package export to an OpenTelemetry SDK."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from foundation.meters import Meters


class Exported:
    """The values of one meter in one SDK."""

    def __init__(self, reader: InMemoryMetricReader, meter: str) -> None:
        self._reader, self._meter = reader, meter

    def instruments(self) -> dict[str, Any]:
        """The instruments that have values, by name without its prefix, in lower case as OpenTelemetry has it."""
        data: Any = self._reader.get_metrics_data()
        if data is None:
            return {}
        scopes = {scope.scope.name: scope for scope in data.resource_metrics[0].scope_metrics}
        own = scopes[self._meter].metrics if self._meter in scopes else ()  # other packages that it uses count too
        return {metric.name.lower().removeprefix(f"{self._meter}."): metric for metric in own}

    def points(self, name: str) -> list[Any]:
        """The data points of an instrument."""
        found = self.instruments().get(name.lower())
        return [] if found is None else list(found.data.data_points)

    def of(self, name: str, **attributes: str) -> float:
        """The sum, gauge or number of durations with these attributes; 0 if there is none."""
        chosen = [point for point in self.points(name) if attributes.items() <= dict(point.attributes).items()]
        return float(sum(point.count if hasattr(point, "bucket_counts") else point.value for point in chosen))


@contextmanager
def exporting(monkeypatch: pytest.MonkeyPatch, meters: Meters) -> Iterator[Exported]:
    """An SDK that gets the values of a package until the end of the block."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    with monkeypatch.context() as patch:
        patch.setattr(api, "get_meter", provider.get_meter)
        patch.setattr(meters, "_made", {})
        yield Exported(reader, meters._package)
    provider.shutdown()
