"""Flights are enriched while their planes change: each batch is joined with the version that it has pinned."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.pandas.types import from_arrow_schema

from adjunct_store.host.folders import store_folder
from adjunct_store.spark import FillSettings, FillSpec, StreamFillSettings, fill, fill_stream, wait_until_ready
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.names import StoreNames
from azure_account.location import Location
from tests.crash.enrichment_job import AIRLINES, AIRPORTS, PLANES
from tests.crash.flights import flights, write_files
from tests.crash.killing import STUCK_SECONDS, FlightsJob
from tests.crash.planes_changes import COLUMNS, SCHEMA, VALUES, PlanesChanges
from tools.flights import airlines, airports
from tools.sessions import kill_session
from tools.standalone_cluster import standalone_cluster

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from adjunct_store.spark import StreamFill
    from tools.azurite import Azurite

BATCHES = 24
KILLS = 4
FEW_VERSIONS = 6
"""What a host may have of a partition at the end: two, and those that its last worker processes had open."""

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1200)]


@dataclass
class Enrichment:
    """A query that enriches flights, and a fill that changes the planes, as far as the test drives it."""

    spark: SparkSession
    azurite: Azurite
    container_name: str
    folder: Path
    pins: dict[int, int] = field(default_factory=dict)
    """The versions of batches that were killed, from their pins."""

    def __post_init__(self) -> None:
        account = {"connectionString": self.azurite.connection_string}
        self.planes, self._airports, self._airlines = (
            Location(f"{self.container_name}/{name}", account) for name in (PLANES, AIRPORTS, AIRLINES)
        )
        self.container = self.planes.open()
        self.container.create()
        self.table = flights()
        write_files(self.table, self.folder / "input", BATCHES)
        self.changes = PlanesChanges(self.folder / "changes", seed=15)
        self.cache, self.output = self.folder / "cache", self.folder / "output"
        self.output.mkdir()

    def fill(self) -> StreamFill:
        """Fill the stores that stay as they are, and start the fill of the planes."""
        for location, table, key in ((self._airports, airports(), "faa"), (self._airlines, airlines(), "carrier")):
            fill(
                location,
                self.spark.createDataFrame(table),
                FillSpec(keys=[key]),
                settings=FillSettings(cache_dir=self.cache),
            )
        reader = self.spark.readStream.schema(from_arrow_schema(SCHEMA)).option("maxFilesPerTrigger", 1)
        filling = fill_stream(
            self.planes,
            reader.parquet(str(self.changes.folder)),
            FillSpec(**COLUMNS),
            checkpoint=str(self.folder / "fill"),
            settings=StreamFillSettings(trigger={"processingTime": "0 seconds"}, bootstrap=True, cache_dir=self.cache),
        )
        wait_until_ready(self.planes, timeout=STUCK_SECONDS, poll=0.2)
        return filling

    def job(self, *arguments: str, **environment: str) -> FlightsJob:
        """The query."""
        own = ("--output", str(self.output), "--cache", str(self.cache), *arguments)
        module = "tests.crash.enrichment_job"
        return FlightsJob(
            self.azurite, self.container_name, self.folder / "input", self.folder, module, own, environment
        )

    @property
    def published(self) -> int:
        """The last file of changes that is in the newest version."""
        manifest = read_manifest(self.container, PLANES)
        assert manifest is not None
        assert manifest.newest is not None
        return manifest.newest.batch

    def feed(self, job: FlightsJob) -> None:
        """Let the planes change once for each batch that the query begins, when the fill has kept up."""
        fed = len(self.changes.contents)
        if job.batches("offsets") >= fed and self.published == fed - 1:
            self.changes.feed()

    def change(self) -> None:
        """Let the planes change, and wait until readers get it."""
        self.changes.feed()
        end = time.monotonic() + STUCK_SECONDS
        while self.published < len(self.changes.contents) - 1:
            assert time.monotonic() < end, "the fill makes no progress"
            time.sleep(0.05)

    def pinned(self, batch: int) -> int | None:
        """The version that the query has pinned for a batch, None if it has not, or not confirmed it."""
        for blob in self.container.list(StoreNames(PLANES).all_pins):
            if blob.name.endswith(f"/{batch:020}.json"):
                pin = json.loads(self.container.get(blob.name).data)
                return int(pin["version"]) if pin["confirmed"] else None
        return None

    def kill_amidst(self, job: FlightsJob, rng: random.Random) -> None:
        """Kill one life in its second to fourth batch, when that has pinned its version; then the planes change."""
        begun = job.batches("offsets")
        batch = max(begun, job.batches("commits")) + rng.randint(1, 3)
        with job.life() as process:
            for _ in self.progress(job, process):
                if job.batches("offsets") == batch + 1 and self.pinned(batch) is not None:
                    break
                assert process.poll() is None, "the job has ended before it could be killed"
            time.sleep(rng.uniform(0, 1))
            assert kill_session(process) > 0
        if job.batches("commits") == batch:
            pinned = self.pinned(batch)
            assert pinned is not None
            self.pins[batch] = pinned
        self.change()
        self.change()

    def run(self, job: FlightsJob) -> None:
        """One life to its end, while the planes change."""
        with job.life() as process:
            for _ in self.progress(job, process):
                if process.poll() is not None:
                    break
            job.check_end(process.wait())

    def progress(self, job: FlightsJob, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Let the planes change as the job goes on, again and again; fails if it does not go on."""
        seen, moved = -1, time.monotonic()
        while True:
            yield
            if process.poll() is not None:
                job.check_end(process.returncode)
            begun = job.batches("offsets")
            seen, moved = (begun, time.monotonic()) if begun > seen else (seen, moved)
            assert time.monotonic() < moved + STUCK_SECONDS, (job.folder / "output.txt").read_text()[-4000:]
            self.feed(job)
            time.sleep(0.02)

    def versions(self) -> dict[int, dict[str, int]]:
        """What each batch has pinned; all attempts of a batch the same."""
        found: dict[int, dict[str, int]] = {}
        for path in sorted(self.output.glob("*.json")):
            pinned = json.loads(path.read_text())
            batch = int(path.name.split("-")[0])
            newest = max(pinned["newest"], found.get(batch, pinned)["newest"])
            assert {**pinned, "newest": 0} == {**found.get(batch, pinned), "newest": 0}, f"batch {batch}"
            found[batch] = {**pinned, "newest": newest}
        return found

    def check(self, job: FlightsJob) -> dict[int, dict[str, int]]:
        """Each batch is what Spark joins it to. Returns what the batches have pinned."""
        versions = self.versions()
        assert list(range(BATCHES)) == sorted(versions)
        assert BATCHES == job.batches("commits")
        outputs: dict[int, list[pa.Table]] = {}
        for path in sorted(self.output.glob("*.parquet")):
            outputs.setdefault(int(path.name.split("-")[0]), []).append(pq.read_table(path).sort_by("row_number"))
        for batch, tables in outputs.items():
            assert all(tables[0].equals(table) for table in tables), f"batch {batch} was repeated with another result"
        found = pa.concat_tables(outputs[batch][0] for batch in sorted(outputs))
        expected = self.joined({batch: pinned["batch"] for batch, pinned in versions.items()})
        assert self.table.num_rows == found.num_rows
        assert set(expected.columns) == set(found.column_names)
        expected_table = expected.toArrow().sort_by("row_number").select(found.column_names)
        for name in found.column_names:
            assert expected_table[name].cast(found.schema.field(name).type).equals(found[name]), name
        return versions

    def joined(self, changed: dict[int, int]) -> DataFrame:
        """Spark's join of each batch with the planes after this file of changes."""
        spark = self.spark
        count = self.table.num_rows
        ends = [count * (batch + 1) // BATCHES for batch in range(BATCHES)]
        batches = [batch for batch in range(BATCHES) for _ in range(ends[batch] - count * batch // BATCHES)]
        rows = spark.createDataFrame(self.table.append_column("batch", pa.array(batches, pa.int64())))
        planes = [
            {"batch": batch, "tailnum": tail, **value}
            for batch, file in changed.items()
            for tail, value in self.changes.contents[file].items()
        ]
        kinds = [("batch", pa.int64()), ("tailnum", pa.string()), *((name, SCHEMA.field(name).type) for name in VALUES)]
        for frame, key, column, prefix in (
            (spark.createDataFrame(airports()), "faa", "origin", "origin_"),
            (spark.createDataFrame(airports()), "faa", "dest", "dest_"),
            (spark.createDataFrame(airlines()), "carrier", "carrier", "airline_"),
        ):
            named = [F.col(each).alias(column if each == key else prefix + each) for each in frame.columns]
            rows = rows.join(frame.select(*named), column, "left")
        frame = spark.createDataFrame(pa.Table.from_pylist(planes, pa.schema(kinds)))
        renamed = frame.select("batch", "tailnum", *(F.col(each).alias(f"plane_{each}") for each in VALUES))
        return rows.join(renamed, ["batch", "tailnum"], "left").drop("batch")

    def check_changes(self, versions: dict[int, dict[str, int]]) -> None:
        """The planes have really changed while the query ran, and the host has not kept all of it."""
        used = {pinned["version"] for pinned in versions.values()}
        assert len(used) >= BATCHES // 3, f"the batches have used versions {used} only"
        assert len({pinned["generation"] for pinned in versions.values()}) == 1
        assert min(self.changes.deleted, self.changes.older, self.changes.again) > 100, self.changes
        folder = store_folder(self.container, PLANES, self.cache)
        kept = [len(_checkpoints(each.path)) for number in folder.generations() for each in folder.partitions(number)]
        assert COLUMNS["partitions"] == len(kept)
        assert max(kept) <= FEW_VERSIONS, f"the cache has {kept} versions of partitions"
        text = "%d batches used %d versions of %d; the cache has %s"
        print(text % (len(versions), len(used), len(self.changes.contents), kept))  # noqa: T201 - shown by -s


def _checkpoints(partition: Path) -> list[str]:
    return [path.name for path in partition.iterdir() if path.is_dir() and path.name != "work"]


@pytest.fixture
def enrichment(spark: SparkSession, azurite: Azurite, container_name: str, tmp_path: Path) -> Enrichment:
    return Enrichment(spark, azurite, container_name, tmp_path)


def test_a_killed_query_enriches_each_batch_with_the_version_that_it_has_pinned(enrichment: Enrichment) -> None:
    rng = random.Random(15)
    with enrichment.fill() as filling:
        job = enrichment.job()
        for _ in range(KILLS):
            enrichment.kill_amidst(job, rng)
        enrichment.run(job)
        assert filling.isActive
    versions = enrichment.check(job)
    enrichment.check_changes(versions)
    pins = {batch: versions[batch]["version"] for batch in enrichment.pins}
    assert pins == enrichment.pins
    older = [batch for batch in pins if versions[batch]["newest"] > versions[batch]["version"]]
    print(f"killed amidst batches {sorted(pins)}; {older} read an older version again")  # noqa: T201 - shown by -s
    assert older, "no batch was repeated when there was a newer version: the test shows too little"


def test_a_cluster_that_loses_an_executor_amidst_a_batch_enriches_it_with_the_same_version(
    enrichment: Enrichment, tmp_path: Path
) -> None:
    lost = (5, 14)
    with standalone_cluster(tmp_path / "cluster", workers=2) as cluster, enrichment.fill() as filling:
        conf = ["spark.executor.memory=1g", "spark.executor.cores=1"]
        arguments: list[Any] = ["--master", cluster.master, *(each for pair in conf for each in ("--conf", pair))]
        arguments += [each for batch in lost for each in ("--lose-executor", str(batch))]
        job = enrichment.job(*arguments, SPARK_HOME=str(cluster.home))
        enrichment.run(job)
        assert filling.isActive
    versions = enrichment.check(job)
    enrichment.check_changes(versions)
    traces = [path.name for path in (enrichment.output / "traces").iterdir()]
    killed = {name.split(".")[0]: name.split(".")[1] for name in traces if name.startswith("lost-")}
    assert {f"lost-{batch}" for batch in lost} == set(killed)
    done = [name.split(".") for name in traces if not name.startswith("lost-")]
    executors = {pid for *_, pid in done}
    assert len(executors) >= 3, "two executors and at least one that replaced a killed one"
    for batch in lost:
        retried = [each for each in done if each[0] == str(batch) and each[2] != "0"]
        assert retried, f"batch {batch} had no task that ran again"
        assert killed[f"lost-{batch}"] not in {pid for *_, pid in retried}
