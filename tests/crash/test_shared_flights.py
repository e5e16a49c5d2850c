"""Drivers share the flights of twelve months, or one is active and others stand by; some are killed or suspended."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from azure.storage.blob import ContainerClient

from tests.crash.flights import flights, write_file
from tests.crash.killing import batches_in
from tests.crash.shared_flights import ALL, LEASE, TASKS, TIMING
from tests.crash.visible_blobs import VisibleBlobs
from tools.reporting import Reporting, begun_twice, failures, is_shared, wait_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from tools.azurite import Azurite

ROUNDS, ROUND_SECONDS = 30, 8.0
SLACK = 60.0
"""Seconds on top of every bound: five drivers share two cores with the emulator, and start and stop queries."""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_each_row_is_written_once_whichever_driver_is_killed_or_suspended(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    table = flights()
    months = {task: table.filter(pc.equal(table["month"], month)) for month, task in enumerate(TASKS, 1)}
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        client.create_container()
    visible = {task: VisibleBlobs.of(azurite.connection_string, container_name, task, table.schema) for task in TASKS}
    drivers: list[Reporting] = []
    with ExitStack() as stack:

        def start(name: str) -> Reporting:
            drivers.append(_driver(stack, azurite, "shared", tmp_path, container_name, name))
            return drivers[-1]

        with _fed(months, tmp_path / "input"):
            alive = [start(f"d{number}") for number in range(5)]
            wait_for(lambda: is_shared(TASKS, alive), 4 * SLACK)

            alive = _kill(alive, leader=True)
            alive = _kill(alive, leader=False)

            suspended = next(driver for driver in alive if not driver.leads)
            alive.remove(suspended)
            wait_for(lambda: _amidst_batches(tmp_path / "checkpoints", suspended.running), SLACK)
            suspended.suspend()
            tasks = set(suspended.running)
            wait_for(lambda: is_shared(TASKS, alive), TIMING.takeover + SLACK)
            epochs = {task: epoch for driver in alive for task, epoch in driver.running.items() if task in tasks}
            wait_for(lambda: all(_last_epoch(visible[task]) == epoch for task, epoch in epochs.items()), SLACK)
            suspended.resume_all_but_itself()
            wait_for(lambda: "FencedError" in suspended.errors, 2 * SLACK)  # Spark writes, and is refused
            suspended.resume()
            alive += [suspended, start("late"), start("later")]
            wait_for(lambda: is_shared(TASKS, alive), 2 * TIMING.takeover + 3 * SLACK)
            assert 1 == sum(driver.leads for driver in alive)
        rows = table.num_rows
        wait_for(lambda: sum(_rows(visible[task]) for task in TASKS) == rows, 4 * SLACK)

    fenced = {task for event in suspended.named("stop") for task in event["fenced"]}
    print(f"suspended amidst the batches of {sorted(tasks)}; refused: {sorted(fenced)}")  # noqa: T201
    assert fenced
    assert fenced <= tasks
    assert set() == begun_twice(drivers)
    assert [] == failures(drivers)
    for task in TASKS:
        _assert_exactly_once(visible[task], months[task])


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_stand_by_takes_the_query_of_a_killed_leader_over(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    table = flights(100_000)
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        client.create_container()
    visible = VisibleBlobs.of(azurite.connection_string, container_name, ALL, table.schema)
    with ExitStack() as stack:
        with _fed({ALL: table}, tmp_path / "input"):
            drivers = [
                _driver(stack, azurite, "standby", tmp_path, container_name, f"d{number}") for number in range(3)
            ]
            for least in (0, 3):
                wait_for(partial(_has_batch, visible, least), LEASE.takeover + 2 * SLACK)
                (leader,) = (driver for driver in drivers if driver.leads)
                drivers.remove(leader)
                wait_for(lambda: _amidst_batches(tmp_path / "checkpoints", [ALL]), SLACK)
                leader.kill()
                elected = wait_for(lambda: any(driver.leads for driver in drivers), LEASE.takeover + SLACK)
                print(f"killed the active driver: another one after {elected:.1f} s (bound {LEASE.takeover:.0f} s)")  # noqa: T201
            before = drivers[0].running
        wait_for(lambda: _rows(visible) == table.num_rows, 4 * SLACK)
    assert before == drivers[0].running
    assert 3 == len({entry["epoch"] for entry in visible.state().entries})
    _assert_exactly_once(visible, table)


def _driver(stack: ExitStack, azurite: Azurite, mode: str, folder: Path, container: str, name: str) -> Reporting:
    arguments = (mode, str(folder / "input"), str(folder / "checkpoints"), container, name)
    errors = folder / f"{name}.err"
    driver = Reporting(azurite.connection_string, name, "tests.crash.shared_flights", *arguments, errors=errors)
    stack.callback(driver.kill)
    return driver


def _kill(alive: Sequence[Reporting], *, leader: bool) -> list[Reporting]:
    """SIGKILL to the leader or to another driver. Returns those that are left when they have its tasks."""
    victim = next(driver for driver in alive if driver.leads is leader)
    left = [driver for driver in alive if driver is not victim]
    lost = len(victim.running)
    victim.kill()
    elected = wait_for(lambda: any(driver.leads for driver in left), LEASE.takeover + SLACK)
    taken = elected + wait_for(lambda: is_shared(TASKS, left), LEASE.takeover + TIMING.takeover + SLACK)
    who = f"the leader: another one leads after {elected:.1f} s (bound {LEASE.takeover:.0f} s)" if leader else "another"
    bound = TIMING.takeover + (LEASE.takeover if leader else 0)
    print(f"killed {who}; its {lost} tasks run elsewhere after {taken:.1f} s (bound {bound:.0f} s)")  # noqa: T201
    return left


@contextmanager
def _fed(months: dict[str, pa.Table], folder: Path) -> Iterator[None]:
    """Put a file for each task into its folder every `ROUND_SECONDS`; all that are left at the end of the block."""
    for task in months:
        (folder / task).mkdir(parents=True)
    hurry = threading.Event()

    def feed() -> None:
        for number in range(ROUNDS):
            for task, table in months.items():
                write_file(table, folder / task, number, ROUNDS)
            hurry.wait(ROUND_SECONDS)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        hurry.set()
        feeder.join()


def _amidst_batches(checkpoints: Path, tasks: Collection[str]) -> bool:
    """Whether at least half of these tasks have begun a batch that has not ended."""
    folders = [checkpoints / task for task in tasks]
    begun = [folder for folder in folders if batches_in(folder / "offsets") > batches_in(folder / "commits")]
    return len(begun) >= len(tasks) / 2


def _last_epoch(visible: VisibleBlobs) -> int:
    entries = visible.state().entries
    return entries[-1]["epoch"] if entries else -1


def _has_batch(visible: VisibleBlobs, number: int) -> bool:
    return any(entry["transaction"]["version"] >= number for entry in _appends(visible))


def _appends(visible: VisibleBlobs) -> list[dict[str, Any]]:
    return [entry for entry in visible.state().entries if entry["operation"] == "append"]


def _rows(visible: VisibleBlobs) -> int:
    return sum(blob["rows"] for entry in _appends(visible) for blob in entry["blobs"])


def _assert_exactly_once(visible: VisibleBlobs, expected: pa.Table) -> None:
    """Each row is in one published blob; the log has each batch once, and epochs that rise."""
    entries = visible.state().entries
    batches = [entry["transaction"]["version"] for entry in _appends(visible)]
    assert list(range(len(batches))) == batches
    epochs = [entry["epoch"] for entry in entries]
    assert sorted(epochs) == epochs
    assert {"epoch", "append"} == {entry["operation"] for entry in entries}
    rows = visible.rows()
    assert expected.num_rows == rows.num_rows
    assert expected.equals(rows)
