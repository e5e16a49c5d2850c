"""Pins of batch jobs in one process, without Spark."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from adjunct_store.spark.reading import batch_pins
from adjunct_store.spark.reading.batch_pins import BatchPins, PinHold
from adjunct_store.versions.pins import pin_version
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from foundation.errors import AzureBlobError, ConfigurationError, TransientError
from tests.adjunct_store.stores import NAMES, STORE, manifest_of, new_account, opened, published
from tests.adjunct_store.tasks import location_of


@dataclass
class Process:
    """A process that plans batch jobs while versions are published. jobs: those whose DataFrames somebody has."""

    account: MemoryAccount

    def __post_init__(self) -> None:
        self.container = self.account.container("box")
        self.location = location_of(self.container, STORE)
        self.pins = BatchPins()
        self.jobs: dict[int, int] = {}

    def plan(self, number: int) -> int:
        """Plan a job, and have its DataFrame. Gives its version."""
        newest = manifest_of(self.container).newest
        assert newest is not None
        hold = self.pins.pin(self.location, newest, None)
        self.jobs[number] = hold.pin.version.number
        hold.until(lambda: number in self.jobs)
        return hold.pin.version.number

    def stored(self) -> int:
        return len(list(self.container.list(NAMES.all_pins)))


@pytest.fixture
def process() -> Process:
    return Process(new_account())


def test_a_process_with_hundreds_of_joins_has_pins_of_those_that_are_used(process: Process) -> None:
    faults = FaultInjector()
    fill = opened(process.account.restarted(faults).container("box"), keep=2, clock=process.account.clock)
    requests = []
    for number in range(400):
        before = faults.count
        published(fill, number)
        requests.append(faults.count - before)
        process.plan(number)
        process.plan(1000 + number)
        for forgotten in (number - 2, 1000 + number):
            if forgotten != 100:
                process.jobs.pop(forgotten, None)
    assert {100: 101, 398: 399, 399: 400} == process.jobs
    assert 4 == process.stored() == len(process.pins), "one more: a pin goes with the next new one"
    published(fill, 400)
    assert {101, 398, 399, 400, 401} == {each.number for each in manifest_of(process.container).versions}
    assert max(requests[10:]) <= max(requests[:10]) + 1
    assert 8_000 > len(process.container.get(NAMES.manifest).data)


def test_joins_of_one_version_share_a_pin_and_are_not_all_noted(process: Process) -> None:
    published(opened(process.container), 0)
    for number in range(1000):
        process.plan(number)
        if number % 100:
            del process.jobs[number]
    assert 1 == process.stored()
    (pin,) = process.pins._pins
    assert pin.used
    assert 100 > len(pin.users)
    process.jobs.clear()
    assert not pin.used


def test_a_join_that_is_being_planned_keeps_its_pin(process: Process) -> None:
    fill = opened(process.container, keep=1)
    first = published(fill, 0)
    hold = process.pins.pin(process.location, first, None)
    for number in range(3):
        published(fill, 1 + number)
        process.plan(number)
        process.jobs.clear()
    assert [4, 1] == [each.number for each in manifest_of(process.container).versions if each.number in (1, 4)]
    assert 2 == process.stored()
    del hold
    published(fill, 4)
    process.plan(4)
    published(fill, 5)
    assert 1 not in {each.number for each in manifest_of(process.container).versions}


def test_a_version_that_a_function_has_stays_until_all_are_released(process: Process) -> None:
    fill = opened(process.container, keep=1)
    process.pins.pin(process.location, published(fill, 0), None).for_good()
    for number in range(3):
        published(fill, 1 + number)
        process.plan(number)
        process.jobs.clear()
    assert 1 in {each.number for each in manifest_of(process.container).versions}
    process.pins.release_all()
    assert 0 == process.stored() == len(process.pins)


def test_pins_of_stores_that_cannot_be_reached_are_released_later_and_those_that_may_not_be_expire(
    process: Process,
) -> None:
    first = published(opened(process.container), 0)
    for error in (TransientError("no answer"), ConfigurationError("403")):
        account: Any = _Unreachable(error)
        away = Location.in_account(account, "box/stores/away")
        process.pins._pins.append(batch_pins.BatchPin(away, first, f"batch-{error}"))
    process.plan(0)
    assert ["batch-no answer", process.pins._pins[1].reader] == [pin.reader for pin in process.pins._pins]
    process.pins.release_all(0.0)
    assert 2 == len(process.pins)
    process.pins.release_all()
    assert 0 == process.stored()
    assert ["batch-no answer"] == [pin.reader for pin in process.pins._pins]
    process.pins._pins.clear()  # the exit of the tests has nothing to release


@dataclass(frozen=True)
class _Unreachable:
    error: AzureBlobError

    def container(self, name: str) -> Any:
        raise self.error


def test_an_exit_does_not_wait_for_a_thread_that_pins(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    process.pins.pin(process.location, published(opened(process.container), 0), None).for_good()
    with process.pins._lock:
        process.pins.release_all(0.01)
    assert "1 pins stay until they expire: another thread is pinning a version" in caplog.text
    assert 1 == process.stored()
    process.pins.release_all(5.0)
    assert 0 == process.stored()


def test_threads_that_join_at_once_share_one_pin(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    first = published(opened(process.container), 0)

    def slow(*arguments: Any, **more: Any) -> Any:
        time.sleep(0.05)
        return pin_version(*arguments, **more)

    monkeypatch.setattr(batch_pins, "pin_version", slow)
    with ThreadPoolExecutor(4) as pool:
        holds: list[PinHold] = list(pool.map(lambda _: process.pins.pin(process.location, first, None), range(4)))
    assert 1 == len({each.pin.reader for each in holds}) == process.stored()
