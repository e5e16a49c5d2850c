"""A stateful query is killed, and its disk is lost, again and again; it goes on elsewhere from the backup."""

from __future__ import annotations

import random
import re
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from azure_account import open_account
from azure_account.location import Location
from state_backup import checkpoints, plan_sweep, sweep
from tests.crash.checkpoint_job import GROUPS
from tests.crash.flights import flights, write_files
from tests.crash.killing import STUCK_SECONDS, FlightsJob
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
