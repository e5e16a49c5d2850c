"""A fill is killed amidst its batches, again and again: each version is that of the changes up to it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.host.cache import HostCache
from adjunct_store.host.directories import LazyDirectories
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.names import StoreNames
from adjunct_store.view import View
from azure_account.location import Location
from state_backup import plan_sweep
from tests.crash.fill_job import STORE
from tests.crash.killing import STUCK_SECONDS, FlightsJob, batches_in
from tests.crash.planes_changes import COLUMNS, PlanesChanges
from tools.sessions import kill_session

if TYPE_CHECKING:
    from pathlib import Path

    from adjunct_store.versions.manifest import Manifest, Version
    from azure_account.container import BlobContainer
    from tools.azurite import Azurite

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

KILLS = 8
LONGEST = 2.5
"""Seconds after the begin of a batch until a kill; a batch takes about one."""
AHEAD = 16
"""Files that a life of the fill finds at least: a fast machine must not come to the end of them before it is killed."""


def manifest_of(container: BlobContainer) -> Manifest | None:
    return read_manifest(container, STORE)


def content_of(container: BlobContainer, version: Version, manifest: Manifest, cache: Path) -> dict[str, Any]:
    """All that a version has, by tail number."""
    generation = manifest.generation(version.generation)
    assert generation is not None
    directories = LazyDirectories(HostCache(container, STORE, cache), version)
    with View(directories, StoreSchema.from_json(generation.schema)) as view:
        found = {str(key[0]): value for key, value in view.scan()}
    directories.close()
    return found


def newest_query(checkpoint: Path) -> Path:
    """Spark's checkpoint of the newest generation: a fill that is killed before it has the store leaves one behind."""
    found = [int(path.name[1:]) for path in checkpoint.glob("g*")]
    return checkpoint / f"g{max(found, default=1)}"


def files_of(query: Path) -> dict[int, int]:
    """By batch the last file that is in it: after a kill at the wrong moment Spark puts two into one batch."""
    offsets = {int(path.name): path for path in (query / "offsets").iterdir() if path.name.isdigit()}
    return {batch: json.loads(path.read_text().splitlines()[-1])["logOffset"] for batch, path in offsets.items()}


def test_a_fill_that_is_killed_again_and_again_publishes_each_batch_once(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    changes = PlanesChanges(tmp_path / "changes", seed=21)
    container = Location(f"{container_name}/{STORE}", {"connectionString": azurite.connection_string}).open()
    container.create()
    job = FlightsJob(
        azurite, container_name, changes.folder, tmp_path, "tests.crash.fill_job", ["--cache", str(tmp_path / "fill")]
    )
    rng, hits, epoch = random.Random(21), Counter[str](), 0
    for _ in range(KILLS):
        query = newest_query(job.checkpoint)
        while len(changes.contents) < batches_in(query / "offsets") + AHEAD:
            changes.feed()
        begun = batches_in(query / "offsets") + rng.randint(1, 2)
        with job.life() as process:
            end = time.monotonic() + STUCK_SECONDS
            while batches_in((query := newest_query(job.checkpoint)) / "offsets") < begun:
                ended, late = process.poll(), time.monotonic() > end
                if ended is not None or late:
                    words = (tmp_path / "output.txt").read_text()[-4000:]
                    pytest.fail(f"of {begun} batches {batches_in(query / 'offsets')} have begun, end {ended}:\n{words}")
                time.sleep(0.002)
            time.sleep(rng.uniform(0, LONGEST))
            assert kill_session(process) > 0
        manifest = manifest_of(container)
        published = 0 if manifest is None or manifest.newest is None else manifest.newest.batch + 1
        planned, committed = batches_in(query / "offsets"), batches_in(query / "commits")
        hits["amidst a batch" if published < planned else "published" if committed < planned else "committed"] += 1
        before, epoch = epoch, 0 if manifest is None else manifest.epoch
        assert epoch in {before, before + 1}
        hits["before the store was taken over"] += epoch == before
    job.run()
    manifest = manifest_of(container)
    assert manifest is not None
    assert epoch + 1 == manifest.epoch
    files = files_of(newest_query(job.checkpoint))
    assert sorted(files) == sorted(each.batch for each in manifest.versions), "each batch is one version"
    assert len(changes.contents) - 1 == max(files.values())
    (generation,) = {each.generation for each in manifest.versions}
    for version in sorted(manifest.versions, key=lambda each: each.number)[-12:]:
        found = content_of(container, version, manifest, tmp_path / "reader")
        assert changes.contents[files[version.batch]] == found, f"version {version.number}"
        assert len(found) == version.entries
    print(f"{KILLS} kills: {dict(hits)}; epoch {manifest.epoch}; generation {generation}")  # noqa: T201 - shown by -s
    assert hits["amidst a batch"] >= KILLS // 3, hits
    assert min(changes.deleted, changes.older, changes.again) > 100, changes
    for partition in range(COLUMNS["partitions"]):
        assert not plan_sweep(
            Location.in_container(container, StoreNames(STORE).state(generation, partition)), min_age=0
        ).waste
