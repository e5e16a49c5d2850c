"""Queries are killed, and their disks are lost, again and again; they go on elsewhere from the backup."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from azure_account import open_account
from azure_account.location import Location
from state_backup import checkpoints, plan_sweep, sweep
from state_backup.local.place import remove
from tests.crash.checkpoint_job import GROUPS
from tests.crash.flights import flights, write_files
from tests.crash.killing import STUCK_SECONDS, FlightsJob, Hit, Killings, Moment
from tests.crash.visible_blobs import VisibleBlobs, assert_exactly_once
from tools.sessions import kill_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.azurite import Azurite

FILES = 24
KILLS = 4
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def outputs(folder: Path) -> dict[int, pa.Table]:
    order = [(name, "ascending") for name in GROUPS]
    return {int(path.stem): pq.read_table(path).sort_by(order) for path in folder.glob("[0-9]*.parquet")}


def totals(output: dict[int, pa.Table]) -> dict[tuple[str, ...], tuple[int, int]]:
    """The last row of each group."""
    found = {}
    for batch in sorted(output):
        for row in output[batch].to_pylist():
            found[tuple(row[name] for name in GROUPS)] = (row["flights"], row["miles"])
    return found


def kill_amidst(job: FlightsJob, rng: random.Random, is_backed_up: Callable[[], bool]) -> int:
    """Kill one life some batches after its first, and a backup. Returns how many batches its disk had committed."""
    with job.life() as process:
        wanted, moved = None, time.monotonic()
        while wanted is None or job.batches("commits") < wanted or not is_backed_up():
            if process.poll() is not None:
                job.check_end(process.returncode)
                pytest.fail("the job ended before it could be killed")
            assert time.monotonic() < moved + STUCK_SECONDS, (job.folder / "output.txt").read_text()[-4000:]
            if wanted is None and re.search("^restored", (job.folder / "output.txt").read_text(), re.MULTILINE):
                wanted = job.batches("commits") + rng.randint(2, 4)
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.5))
        assert kill_session(process) > 0
    return job.batches("commits")


@pytest.mark.parametrize("changelog", ["true", "false"])
def test_a_query_that_loses_its_disk_goes_on_at_its_batch_on_another_one(
    azurite: Azurite, container_name: str, tmp_path: Path, changelog: str
) -> None:
    container = open_account({"connectionString": azurite.connection_string}).container(container_name)
    container.create()
    rng = random.Random(f"lost disk {changelog}")
    table = flights()
    write_files(table, tmp_path / "input", FILES)
    conf = ["--conf", f"{CHANGELOG}={changelog}"]
    whole = lives_job(azurite, tmp_path, "whole", f"{container_name}/whole", conf)
    whole.run()
    expected = outputs(tmp_path / "whole-output")
    assert set(range(FILES)) == set(expected)

    job = lives_job(azurite, tmp_path, "killed", f"{container_name}/flights/by-route", conf)
    state = Location.in_container(container, "flights/by-route")
    repeated = 0
    for life in range(KILLS):
        committed = kill_amidst(job, rng, lambda: bool(checkpoints(state)))
        backed_up = int(checkpoints(state)[0].offsets["spark.batch"]) + 1
        assert 0 < backed_up <= committed
        repeated += committed - backed_up
        shutil.rmtree(job.folder)
        job = replace(job, folder=tmp_path / f"disk-{life}")
        job.folder.mkdir()
    job.run()
    output = (job.folder / "output.txt").read_text()
    assert f"\nrestored {backed_up - 1}\n" in f"\n{output}"
    print(f"{KILLS} kills; {repeated} batches were run again")  # noqa: T201 - shown by -s
    assert repeated > 0, "the test shows too little"

    found = outputs(tmp_path / "killed-output")
    assert set(expected) == set(found)
    assert FILES == job.batches("commits")
    for batch, rows in expected.items():
        assert rows.equals(found[batch]), f"batch {batch}"
    grouped = table.group_by(GROUPS).aggregate([([], "count_all"), ("distance", "sum")])
    truth = {
        tuple(row[name] for name in GROUPS): (row["count_all"], row["distance_sum"]) for row in grouped.to_pylist()
    }
    assert truth == totals(found)

    sweep(
        state,
        plan_sweep(state, min_age=0),
    )
    left = plan_sweep(state, min_age=0)
    names = {blob.name for blob in container.list("flights/by-route/", uncommitted=True)}
    assert {*left.in_use, "flights/by-route/checkpoint.json"} == names


def lives_job(azurite: Azurite, folder: Path, name: str, path: str, conf: list[str]) -> FlightsJob:
    """The job, whose output is on another disk than its checkpoint."""
    output, disk = folder / f"{name}-output", folder / f"{name}-disk"
    output.mkdir()
    disk.mkdir()
    arguments = ("--output", str(output), *conf)
    return FlightsJob(azurite, path, folder / "input", disk, "tests.crash.checkpoint_job", arguments)


OF_THE_SINK, PER_BATCH, KILLS_OF_THE_SINK = 70, 2, 12


@pytest.mark.timeout(1800)  # most of it waits for Spark to start
def test_each_flight_is_published_once_though_every_disk_is_lost(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    table = flights()
    write_files(table, tmp_path / "input", OF_THE_SINK)
    state = f"{container_name}/checkpoints/flights"
    job = FlightsJob(azurite, f"{container_name}/flights", tmp_path / "input", tmp_path, arguments=("--backup", state))
    visible = VisibleBlobs.of(azurite.connection_string, container_name, "flights", table.schema)
    restored = []

    def lose_disk() -> None:
        visible.assert_no_row_twice()
        restored.extend(re.findall("^restored (.*)$", (tmp_path / "output.txt").read_text(), re.MULTILINE))
        for path in tmp_path.glob("checkpoint*"):
            remove(path)

    rng = random.Random("every disk")
    killings = Killings(job, visible, after_kill=lose_disk)
    killings.run([Moment.draw(rng) for _ in range(KILLS_OF_THE_SINK)])

    hits = Counter(killings.hits)
    print(*(f"{count:3d} × {hit.value}" for hit, count in hits.most_common()), f"restored {restored}", sep="\n")  # noqa: T201
    assert KILLS_OF_THE_SINK == len(killings.hits)
    assert hits[Hit.PUBLISHED] + hits[Hit.PUBLISHING] + hits[Hit.STAGING] >= KILLS_OF_THE_SINK // 4
    assert sum(each != "None" for each in restored) >= KILLS_OF_THE_SINK // 2
    assert_exactly_once(visible, table, batches=OF_THE_SINK // PER_BATCH)
    where = Location(state, {"connectionString": azurite.connection_string})
    sweep(where, plan_sweep(where, min_age=0))
    left = plan_sweep(where, min_age=0)
    assert not left.waste
