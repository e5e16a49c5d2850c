"""The examples of docs/COORDINATION.md: the drivers as processes, and the others in their order."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest

from control_messages.messages import MessageType
from foundation.errors import FencedError
from tests.crash.flights import write_files
from tests.crash.killing import ROOT
from tests.crash.visible_blobs import VisibleBlobs
from tools.guides import python_blocks, with_account
from tools.reporting import wait_for
from tools.sessions import kill_session

if TYPE_CHECKING:
    from tools.azurite import Azurite

GUIDE = ROOT / "docs" / "COORDINATION.md"
AIRPORTS = ("EWR", "JFK", "LGA")
ROWS = pa.table({"flight": ["UA1", "B61"], "dest": ["BOS", "SFO"]})

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def examples(container: str, folder: Path) -> list[str]:
    """The code of the guide, with other names of containers and folders."""
    return [
        with_account(code, {})
        .replace("mycontainer/", f"{container}/")
        .replace('"coordination/', f'"{container}/')
        .replace("/mnt/", f"{folder}/")
        for code in python_blocks(GUIDE)
    ]


def driver(stack: ExitStack, program: Path, azurite: Azurite) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string,
    }
    process = subprocess.Popen([sys.executable, str(program)], env=environment, start_new_session=True)
    stack.callback(kill_session, process)
    return process


def row_count(azurite: Azurite, container: str, airport: str) -> int:
    visible = VisibleBlobs.of(azurite.connection_string, container, airport, ROWS.schema)
    return sum(blob["rows"] for entry in visible.state().entries for blob in entry.get("blobs", ()))


def flights_of(azurite: Azurite, container: str, airport: str) -> list[str]:
    visible = VisibleBlobs.of(azurite.connection_string, container, airport, ROWS.schema)
    blobs = [visible.container.download_blob(name).readall() for name in sorted(visible.state().published)]
    return sorted(row["flight"] for blob in blobs for row in fastavro.reader(io.BytesIO(blob)))


@pytest.mark.spark
@pytest.mark.parametrize("form", ["shared", "active"])
def test_the_drivers_of_the_guide_write_each_row_once_and_leave(
    azurite: Azurite, container_name: str, tmp_path: Path, form: str
) -> None:
    shared, _, active, *_ = examples(container_name, tmp_path)
    streams = AIRPORTS if form == "shared" else AIRPORTS[:1]
    (tmp_path / "flights").mkdir()
    for airport in AIRPORTS:
        write_files(ROWS, tmp_path / "flights" / airport, 2)
    if form == "active":
        ending = "signal.signal(signal.SIGTERM, lambda *_: query.end())\n"
        shared = shared.split("queries = ")[0] + active.replace("query.run(", ending + "query.run(")
    (tmp_path / "driver.py").write_text(shared, "utf-8")
    with ExitStack() as stack:
        drivers = [driver(stack, tmp_path / "driver.py", azurite) for _ in range(2)]
        wait_for(lambda: all(row_count(azurite, container_name, airport) == 2 for airport in streams), 240)
        for process in drivers:
            os.kill(process.pid, signal.SIGTERM)
        assert [0, 0] == [process.wait(90) for process in drivers]
    for airport in streams:
        assert 2 == row_count(azurite, container_name, airport)


@pytest.mark.spark
def test_a_driver_of_the_guide_that_is_lost_with_its_disk_is_followed_by_the_other_one(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    shared, restored, *_ = examples(container_name, tmp_path)
    before, after = shared.split("queries = TaskQueries(start)\n")
    program = before + restored + after
    for folder in ("flights", "more"):
        (tmp_path / folder).mkdir()
    for airport in AIRPORTS:
        write_files(ROWS, tmp_path / "flights" / airport, 2)

    def rows_are(count: int) -> bool:
        return all(row_count(azurite, container_name, airport) == count for airport in AIRPORTS)

    with ExitStack() as stack:
        drivers = []
        for number in range(2):
            disk = tmp_path / f"disk-{number}"
            file = tmp_path / f"driver-{number}.py"
            file.write_text(program.replace(f"{tmp_path}/checkpoints", f"{disk}"), "utf-8")
            drivers.append(driver(stack, file, azurite))
        wait_for(lambda: rows_are(2), 240)
        lost = next(number for number in range(2) if any((tmp_path / f"disk-{number}").glob("*/commits")))
        kill_session(drivers[lost])
        shutil.rmtree(tmp_path / f"disk-{lost}")
        for airport in AIRPORTS:
            write_files(ROWS, tmp_path / "more" / airport, 1)
            next((tmp_path / "more" / airport).glob("*.parquet")).rename(
                tmp_path / "flights" / airport / "more.parquet"
            )
        wait_for(lambda: rows_are(4), 240)
        os.kill(drivers[1 - lost].pid, signal.SIGTERM)
        assert 0 == drivers[1 - lost].wait(90)
    for airport in AIRPORTS:
        assert sorted(2 * ROWS["flight"].to_pylist()) == flights_of(azurite, container_name, airport)


@pytest.mark.spark
def test_the_bounded_jobs_of_the_guide_write_each_row_once_and_their_ends(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    shared, restored, _, bounded, *_ = examples(container_name, tmp_path)
    before, after = shared.split("queries = TaskQueries(start)\n")
    (tmp_path / "driver.py").write_text(before + restored + bounded + after, "utf-8")
    times = pa.array([datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in (5, 6)])
    rows = ROWS.append_column("departure", times)

    def ends(airport: str) -> int:
        """How many generations have ended."""
        visible = VisibleBlobs.of(azurite.connection_string, container_name, airport, ROWS.schema)
        control = [message for entry in visible.state().entries for message in entry.get("control", ())]
        return len({each["generation"] for each in control if each["type"] == "endOfStream"})

    def all_ended(night: int) -> bool:
        return all(ends(airport) == night for airport in AIRPORTS)

    for night in (1, 2):
        for airport in AIRPORTS:
            (tmp_path / "flights" / airport).mkdir(parents=True, exist_ok=True)
            pa.parquet.write_table(rows, tmp_path / "flights" / airport / f"{night}.parquet")
        with ExitStack() as stack:
            process = driver(stack, tmp_path / "driver.py", azurite)
            wait_for(partial(all_ended, night), 240)
            if night == 2:
                assert 0 == process.wait(90)
        shutil.rmtree(tmp_path / "checkpoints")
    for airport in AIRPORTS:
        visible = VisibleBlobs.of(azurite.connection_string, container_name, airport, ROWS.schema)
        blobs = [visible.container.download_blob(name).readall() for name in sorted(visible.state().published)]
        envelopes = [row["value"] for blob in blobs for row in fastavro.reader(io.BytesIO(blob))]
        found = sorted(json.loads(each[1:])["flight"] for each in envelopes if each[0] == MessageType.USER)
        assert sorted(2 * ROWS["flight"].to_pylist()) == found


def test_the_other_examples_work(
    azurite: Azurite, container_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azurite.connection_string)
    *_, workers, lock, checkpoints = examples(container_name, tmp_path)
    names: dict[str, Any] = {"account": {}}
    exec(workers, names)  # noqa: S102 - a file of this repository, here and below
    wait_for(lambda: {"daily", "weekly"} == set(names["coordinator"].tasks), 60)
    names["coordinator"].stop()
    assert {} == names["coordinator"].tasks

    exec(lock, names)  # noqa: S102
    assert 2 == names["step"]

    exec(checkpoints.replace('"offsets"', f'"offsets{container_name[-8:]}"'), names)  # noqa: S102
    store = names["store"]
    assert {"flights/0": "1042"} == dict(store.read("daily").offsets)
    with pytest.raises(FencedError):
        store.write("daily", 6, {})
