"""What is counted and measured, as an OpenTelemetry SDK gets it."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adjunct_store import metrics
from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.host.cache import HostCache
from adjunct_store.host.directories import LazyDirectories
from adjunct_store.spark.reading import task_reader
from adjunct_store.spark.reading.task_reader import StoreReadSpec
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.opening import FillRequirements
from azure_account.location import Location
from tests.adjunct_store.tasks import BatchWriter
from tests.exported import Exported, exporting

if TYPE_CHECKING:
    from collections.abc import Iterator

STORE = "stores/planes"
SCHEMA = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("seats", pa.int64())]), partitions=1)
LAST = metrics.LastVersion(7, 41, 1000, 5, 65536, bootstrapped=True, published=0.0)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    with exporting(monkeypatch, metrics.METERS) as found:
        yield found


@pytest.fixture
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> BatchWriter:
    location = Location(f"box/{STORE}", {"endpoint": f"memory://{request.node.name}"})
    container = location.open()
    container.create()
    fill = open_fill(
        Location.in_container(container, STORE),
        SCHEMA.to_json(),
        FillRequirements(partitions=1, source="test", threads=1),
    )
    return BatchWriter(location, fill, SCHEMA, tmp_path / "writer")


def keys(*values: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["id"])


def test_look_ups_count_hits_and_misses_and_a_version_that_is_open(
    exported: Exported, writer: BatchWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_reader, "_opened", OrderedDict())
    writer.run(0, {1: {"seats": 100}, 2: {"seats": 200}})
    store = StoreReadSpec(writer.location, "query", 0, cache_dir=str(tmp_path / "cache"))
    store.lookup(keys(1, 1, 2, 3, None))
    assert {"seats": 100} == store.view().get(1)
    assert [6, 4, 2] == [exported.of(each, store=f"box/{STORE}") for each in ("lookups", "hits", "misses")]
    assert [2, 1, 1] == [exported.of(each) for each in ("lookupSeconds", "versionsOpen", "fetches")]
    writer.run(1, {1: {"seats": 101}})
    later = replace(store, batch=1)
    assert {"seats": 101} == later.view().get(1)
    assert 1 == exported.of("versionsOpen")  # the first one is closed
    assert {"seats": 101} == replace(store, reader="another").view().get(1)
    assert 1 == exported.of("versionsOpen")
    writer.run(2, {1: {"seats": 102}})
    assert {"seats": 102} == replace(store, batch=2).view().get(1)
    assert 2 == exported.of("versionsOpen")  # that of the other reader stays


def test_a_fetch_counts_what_was_downloaded_and_what_the_host_had_once(
    exported: Exported, writer: BatchWriter, tmp_path: Path
) -> None:
    first = writer.run(0, {key: {"seats": key} for key in range(1000)})
    second = writer.run(1, {1: {"seats": 100}})
    cache = HostCache(writer.location.open(), STORE, tmp_path / "cache")
    sizes = []
    for version in (first, second, second):
        directories = LazyDirectories(cache, version)
        directory = directories.directory(0)
        assert directory is not None
        sizes.append(sum(path.stat().st_size for path in directory.path.iterdir()))
        directories.close()
    assert [2, 2, 2] == [exported.of(each) for each in ("fetches", "fetchSeconds", "waitSeconds")]
    linked = exported.of("linkedBytes", store=f"box/{STORE}")
    assert sizes[0] + sizes[1] == exported.of("fetchedBytes") + linked
    assert linked > 0


def test_the_gauges_of_a_fill_are_reported_until_they_are_hidden(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics.METERS, "_observed", {})  # batch fills of this process report theirs until it ends
    counted = metrics.StoreMetrics("box", STORE)
    counted.show(LAST)
    counted.show(replace(LAST, version=8))
    values = {name: exported.of(name, store=f"box/{STORE}") for name in metrics.GAUGES if name != "versionAgeSeconds"}
    assert {"version": 8, "batch": 41, "entries": 1000, "tombstones": 5, "bytes": 65536, "bootstrapped": 1} == values
    assert 12.5 == LAST.values(12.5)["versionAgeSeconds"]
    counted.close()
    assert [] == exported.points("version")


def test_the_page_lists_all_instruments_and_their_units(exported: Exported) -> None:
    counted = metrics.StoreMetrics("box", STORE)
    for name in metrics.COUNTERS:
        counted.count(name)
    for name in metrics.UP_DOWN_COUNTERS:
        counted.add(name, 1)
    for name in metrics.HISTOGRAMS:
        with counted.measured(name):
            pass
    counted.show(LAST)
    page = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text("utf-8")
    named = re.findall(r"^\| `adjunct_store\.(\w+)` \| `(\S+)` \|", page, re.MULTILINE)
    found = exported.instruments()
    counted.close()
    assert {(name.lower(), unit) for name, unit in named} == {(name, metric.unit) for name, metric in found.items()}
