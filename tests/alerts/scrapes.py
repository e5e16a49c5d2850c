"""What Prometheus gets of processes of this package, minute by minute, and what the alerting rules make of it.

    a process's meters ─► OpenTelemetry's exporter ─► series of each minute ─► promtool with docs/alerts.yaml

`promtool` is found on the `PATH` or as `PROMTOOL`: Debian's package `prometheus` has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]
from opentelemetry import metrics as api
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

import adjunct_store.metrics
import azureblob_source.metrics
import control_messages.spark.metrics
import coordination.metrics
import state_backup.metrics

if TYPE_CHECKING:
    from foundation.meters import Meters

RULES = Path(__file__).parents[2] / "docs" / "alerts.yaml"
METERS: tuple[Meters, ...] = (
    azureblob_source.metrics.METERS,
    coordination.metrics.METERS,
    control_messages.spark.metrics.METERS,
    state_backup.metrics.METERS,
    adjunct_store.metrics.METERS,
)
TIMES = ("azureblob_lastcommit_seconds", "state_backup_lastcheckpoint_seconds")
"""These values are times. promtool's clock begins at 0, so they are moved."""


class Process:
    """A process of its own, as its exporter shows it: counters begin anew. The one begun last counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.name, self._registry = name, CollectorRegistry()
        reader = PrometheusMetricReader(registry=self._registry, scope_info_enabled=False)
        provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
        monkeypatch.setattr(api, "get_meter", provider.get_meter)
        for meters in METERS:
            monkeypatch.setattr(meters, "_made", {})
            monkeypatch.setattr(meters, "_observed", {})

    def scrape(self) -> dict[tuple[str, str], float]:
        """The values by name and labels."""
        return {
            (sample.name, _labels({**sample.labels, "instance": self.name})): sample.value
            for metric in self._registry.collect()
            for sample in metric.samples
            if metric.name != "target"
        }


def _labels(labels: dict[str, str]) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()))


@dataclass
class Scrapes:
    """What was scraped. A process goes on with the values of its last scrape, until its end.

    begun: the time of minute 0, as the values have it (s since 1970).
    """

    begun: float = 0.0
    moments: list[tuple[int, str, dict[tuple[str, str], float]]] = field(default_factory=list)

    def take(self, minute: int, process: Process) -> None:
        """Scrape a process."""
        self.moments.append((minute, process.name, process.scrape()))

    def end(self, minute: int, process: Process) -> None:
        """The process is gone."""
        self.moments.append((minute, process.name, {}))

    def series(self, expression: str, minutes: int) -> list[dict[str, str]]:
        """Those of an expression, as promtool takes them; `_` is a scrape without the series."""
        found: dict[tuple[str, str], list[str]] = {}
        for minute, process, values in self.moments:
            for key in (key for key in values if key[0] in expression):
                found.setdefault(key, ["_"] * minutes)
            for key in [key for key in found if f'instance="{process}"' in key[1]]:
                shown = f"{self._moved(key[0], values[key]):.3f}" if key in values else "_"
                found[key][minute:] = [shown] * (minutes - minute)
        return [{"series": f"{name}{{{labels}}}", "values": " ".join(row)} for (name, labels), row in found.items()]

    def _moved(self, name: str, value: float) -> float:
        return value - self.begun if name in TIMES else value


def check(
    folder: Path, scrapes: Scrapes, alert: str, *, fires: dict[int, dict[str, str]], quiet: tuple[int, ...]
) -> None:
    """Fail unless the alert fires in some minutes, with these labels beside its severity, and is quiet in others."""
    tool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is missing: install Debian's package prometheus, or set PROMTOOL")
    severity = rules()[alert]["labels"]["severity"]
    expected = [
        *((minute, _firing({"alertname": alert, "severity": severity, **labels})) for minute, labels in fires.items()),
        *((minute, []) for minute in quiet),
    ]
    tests = [
        {
            "expr": f'ALERTS{{alertname="{alert}", alertstate="firing"}}',
            "eval_time": f"{minute}m",
            "exp_samples": samples,
        }
        for minute, samples in expected
    ]
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": scrapes.series(rules()[alert]["expr"], 1 + max(*fires, *quiet)),
                "promql_expr_test": tests,
            }
        ],
    }
    file = folder / f"{alert}.yaml"
    file.write_text(yaml.safe_dump(document), "utf-8")
    ended = subprocess.run([tool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert 0 == ended.returncode, f"{ended.stdout}\n{file.read_text('utf-8')}"


def _firing(labels: dict[str, str]) -> list[dict[str, Any]]:
    return [{"labels": f"ALERTS{{{_labels({**labels, 'alertstate': 'firing'})}}}", "value": 1}]


def rules() -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    document = yaml.safe_load(RULES.read_text("utf-8"))
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}
