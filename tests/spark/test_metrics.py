"""The documented ways to set a meter provider in Spark's Python processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tools.guides import python_blocks
from tools.spark_session import spark_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]

JOB = """
import sys, time
from pathlib import Path

from tools.spark_session import local_spark

connection, target, out = sys.argv[1:]
frame = local_spark("metrics", quick_start=True).range(0, 500, 1, 2)
frame.write.format("azureblob").option("connectionString", connection).mode("append").save(target)
deadline = time.monotonic() + 60
names = ("azureblob.messagessent", "azureblob.blobcommits", "azureblob.lastcommit")
while not all(name in Path(out).read_text() for name in names):
    assert time.monotonic() < deadline, Path(out).read_text()[-2000:]
    time.sleep(0.05)
"""


def documented_provider() -> str:
    """The `sitecustomize` of the page, which exports to a file, and more often."""
    (code,) = python_blocks("docs/METRICS.md")
    code = code.replace("sys.stderr", 'open(__import__("os").environ["METRICS_FILE"], "a", buffering=1)')
    assert "5_000" in code
    return code.replace("5_000", "100")


def as_entry_point(folder: Path, code: str) -> dict[str, str]:
    """A user's package with an entry point that returns the provider."""
    (folder / "own_metrics.py").write_text(code.partition("\ndef start()")[0])
    info = folder / "own_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[opentelemetry_meter_provider]\nown = own_metrics:provider\n")
    return {"OTEL_PYTHON_METER_PROVIDER": "own"}


def counts(text: str) -> Iterator[tuple[str, str, Any]]:
    """The process, name and value of all exports for the group `aggregate`."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        document, end = decoder.raw_decode(text[at:].lstrip())
        at += end + len(text[at:]) - len(text[at:].lstrip())
        for resource in document["resource_metrics"]:
            for metric in (metric for scope in resource["scope_metrics"] for metric in scope["metrics"]):
                for point in metric["data"]["data_points"]:
                    if point["attributes"].get("group") == "aggregate":
                        process = resource["resource"]["attributes"]["service.instance.id"]
                        yield process, metric["name"], point["value"]


@pytest.mark.parametrize("way", ["sitecustomize", "entry point"])
def test_a_provider_in_sparks_processes_gets_the_counts_of_tasks_and_commits(
    options: dict[str, str], target: str, tmp_path: Path, way: str
) -> None:
    out, more = tmp_path / "exported", {}
    out.touch()
    if way == "sitecustomize":
        (tmp_path / "sitecustomize.py").write_text(documented_provider())
    else:
        more = as_entry_point(tmp_path, documented_provider())
    environment = {**os.environ, **spark_environment(), **more}
    environment |= {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}", "METRICS_FILE": str(out)}
    job = [sys.executable, "-c", JOB, options["connectionString"], target, str(out)]
    ended = subprocess.run(job, env=environment, capture_output=True, text=True, check=False)
    assert 0 == ended.returncode, ended.stderr[-3000:]
    last = {(process, name): value for process, name, value in counts(out.read_text())}
    sums: Counter[str] = Counter()
    for (_, name), value in last.items():
        sums[name] += value
    assert (500, 2) == (sums["azureblob.messagessent"], sums["azureblob.blobcommits"])
