"""One streaming query writes a stream, a second one copies it at the same time; both are killed at random."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.crash.flights import flights, write_files
from tests.crash.killing import STUCK_SECONDS, FlightsJob, kill_session
from tests.crash.public_blobs import PublicBlobs, assert_exactly_once

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from tools.azurite import Azurite

FILES_PER_BATCH = 2


@pytest.mark.spark
@pytest.mark.timeout(900)  # most of it waits for Spark to start, on a machine that may be busy
@pytest.mark.parametrize(
    ("files", "kills"),
    [
        pytest.param(40, {"writer": 1, "copier": 1}, id="once each"),
        pytest.param(160, {"writer": 6, "copier": 8}, id="often", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_a_copy_made_while_both_are_killed_equals_the_original(
    azurite: Azurite, container_name: str, tmp_path: Path, files: int, kills: dict[str, int]
) -> None:
    table = flights(files * 500)
    write_files(table, tmp_path / "input", files)
    writer = FlightsJob(azurite, f"{container_name}/flights", tmp_path / "input", _folder(tmp_path, "writer"))
    copier = FlightsJob(
        azurite,
        f"{container_name}/copy",
        writer.path,
        _folder(tmp_path, "copier"),
        module="tests.crash.copy_job",
    )
    original = PublicBlobs.of(azurite.connection_string, container_name, "flights", table.schema)
    copy = PublicBlobs.of(azurite.connection_string, container_name, "copy", table.schema)

    died = live(writer, copier, copy, kills, random.Random(files))
    FlightsJob(
        azurite, copier.path, writer.path, copier.folder, module=copier.module, arguments=["--available-now"]
    ).run()

    assert Counter(kills) == died
    assert_exactly_once(original, table, batches=files // FILES_PER_BATCH)
    rows = copy.rows()
    assert table.num_rows == rows.num_rows
    assert table.equals(rows)
    batches = copy.state().entries
    assert 1 == len({entry["transaction"]["id"] for entry in batches})
    assert list(range(len(batches))) == [entry["transaction"]["version"] for entry in batches]


def live(
    writer: FlightsJob, copier: FlightsJob, copy: PublicBlobs, kills: dict[str, int], rng: random.Random
) -> Counter[str]:
    """Both jobs, each started again after every kill, until the writer is through. Returns how often each died."""
    jobs = {"writer": writer, "copier": copier}
    left, died = Counter(kills), Counter[str]()
    with ExitStack() as stack:
        running = {name: stack.enter_context(job.life()) for name, job in jobs.items()}
        due = {name: _due(jobs[name], rng) for name in jobs if left[name]}
        started = time.monotonic()
        while running["writer"].poll() is None or left.total():
            assert time.monotonic() < started + 5 * STUCK_SECONDS, f"kills left: {left}"
            for name, process in running.items():
                _check(jobs[name], process, may_end=name == "writer")
                if name in due and _reached(jobs[name], due[name]):
                    kill_session(process)
                    died[name] += 1
                    left[name] -= 1
                    copy.assert_no_row_twice()
                    running[name] = stack.enter_context(jobs[name].life())
                    if left[name]:
                        due[name] = _due(jobs[name], rng)
                    else:
                        del due[name]
                    break
            time.sleep(0.01)
        writer.check_end(running["writer"].wait())
    return died


def _due(job: FlightsJob, rng: random.Random) -> tuple[int, float, list[float]]:
    """Kill when so many batches more have begun, and this long after that."""
    return job.batches("offsets") + rng.randint(1, 3), rng.uniform(0, 0.5), []


def _reached(job: FlightsJob, due: tuple[int, float, list[float]]) -> bool:
    batches, delay, seen = due
    if not seen and job.batches("offsets") >= batches:
        seen.append(time.monotonic())
    return bool(seen) and time.monotonic() >= seen[0] + delay


def _check(job: FlightsJob, process: Popen[bytes], *, may_end: bool) -> None:
    code = process.poll()
    if code is not None:
        job.check_end(code)
        assert may_end, "the copier ended while it should follow"


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder
