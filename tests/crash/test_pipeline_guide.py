"""docs/PIPELINE.md, followed step by step: two drivers, of which one is lost with its disk."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from azure.storage.blob import ContainerClient

from tests.crash.killing import ROOT
from tools.guides import python_blocks, with_account
from tools.reporting import wait_for
from tools.sessions import kill_session

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

GUIDE = ROOT / "docs" / "PIPELINE.md"
FLIGHTS, AT_FIRST = 3_000, 2_000
SECONDS = 400.0


def programs(container: str, folder: Path) -> tuple[str, str]:
    """`pipeline.py` and `input.py` of the guide, with other names of containers and folders."""
    blocks = [
        with_account(code, {}).replace("mycontainer/", f"{container}/").replace("/mnt/", f"{folder}/")
        for code in python_blocks(GUIDE)
    ]
    return "".join(blocks[:-1]), blocks[-1]


def rows_of(container: ContainerClient, stream: str) -> list[dict[str, Any]]:
    """The rows of a stream, as a reader finds them that lists."""
    blobs = [blob.name for blob in container.list_blobs(f"streams/{stream}/") if "/_" not in blob.name]
    return [dict(row) for name in blobs for row in fastavro.reader(io.BytesIO(container.download_blob(name).readall()))]


def joined_of(container: ContainerClient) -> list[dict[str, Any]]:
    """The flights of `joined`, without its control messages."""
    values = [row["value"] for row in rows_of(container, "joined")]
    return [json.loads(value[1:]) for value in values if value[0] == 0]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_pipeline_of_the_guide_goes_on_when_a_driver_is_lost_with_its_disk(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    pipeline, arrivals = programs(container_name, tmp_path)
    (tmp_path / "pipeline.py").write_text(pipeline, "utf-8")
    (tmp_path / "input.py").write_text(arrivals, "utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string,
    }

    def arrive(which: str) -> None:
        subprocess.run([sys.executable, str(tmp_path / "input.py"), which], env=environment, check=True)

    arrive("now")
    container = ContainerClient.from_connection_string(azurite.connection_string, container_name)
    with ExitStack() as stack:

        def driver(name: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, str(tmp_path / "pipeline.py"), name]
            with (tmp_path / f"{name}.txt").open("wb") as output:
                process = subprocess.Popen(
                    command, env=environment, stdout=output, stderr=output, start_new_session=True
                )
            stack.callback(kill_session, process)
            return process

        drivers = {name: driver(name) for name in ("driver-1", "driver-2")}
        wait_for(lambda: rows_of(container, "days"), SECONDS, poll=1)
        before = len(joined_of(container))
        commits = (tmp_path / "disk").glob("*/checkpoints/joined/commits/*")
        lost = max(commits, key=lambda path: path.stat().st_mtime).parents[3].name
        kill_session(drivers.pop(lost))
        shutil.rmtree(tmp_path / "disk" / lost)
        arrive("later")
        wait_for(lambda: len(joined_of(container)) > max(before, AT_FIRST), SECONDS, poll=1)
        (left,) = drivers.values()
        os.kill(left.pid, signal.SIGTERM)
        assert 0 == left.wait(90)
        _check(container, last_hours=200)

        (tmp_path / "pipeline.py").write_text(ending(pipeline), "utf-8")
        last = driver("driver-3")
        wait_for(lambda: sum(row["flights"] for row in rows_of(container, "days")) == FLIGHTS, SECONDS, poll=1)
        os.kill(last.pid, signal.SIGTERM)
        assert 0 == last.wait(90)
    _check(container, last_hours=0)


def ending(pipeline: str) -> str:
    """The program with the three changes of the guide by which the flights end."""
    lines = re.findall(r"```\n(    if task == .*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    start = 'checkpoint("flights")).start()'
    finish = '        runs.pop("weather").finish(spark)\n'
    assert 1 == len(lines) == pipeline.count(start) == pipeline.count(finish)
    changed = pipeline.replace(start, 'checkpoint("flights")).trigger(availableNow=True).start()')
    changed = changed.replace(finish, finish + lines[0])
    return changed.replace("import AzureBlobTransport, ", "import AzureBlobTransport, control_envelopes, ")


def _check(container: ContainerClient, *, last_hours: int) -> None:
    """Each flight is there once, but for those of hours that are not over; each day that is over has its flights."""
    joined, days = joined_of(container), rows_of(container, "days")
    ids = Counter(row["id"] for row in joined)
    assert {1} == set(ids.values())
    assert set(range(max(ids) + 1 - last_hours)) <= set(ids)
    assert {1} == set(Counter((row["origin"], row["day"]) for row in days).values())
    counted = Counter((row["origin"], row["time"] // 86_400_000) for row in joined)
    for row in days:
        assert row["flights"] == counted[(row["origin"], round(row["day"].timestamp()) // 86_400)]
