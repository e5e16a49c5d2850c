"""Which versions a clean-up finds unused, and what it asks the storage for that."""

from __future__ import annotations

from adjunct_store.versions.pins import pin_version
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from tests.adjunct_store.stores import STORE, opened, published

JOBS = 60


def test_a_publication_asks_nothing_about_pins_that_it_knows(account: MemoryAccount) -> None:
    faults = FaultInjector()
    fill = opened(account.restarted(faults).container("box"), keep=1, clock=account.clock)
    requests = []
    for job in range(JOBS):
        published(fill, 2 * job)
        pin_version(account.container("box"), STORE, f"batch-{job}", 0)
        account.clock.sleep(60)
        before = faults.count
        published(fill, 2 * job + 1)
        requests.append(faults.count - before)
    assert JOBS == len(fill._manifest.document.versions) - 1
    assert 1 == len(set(requests[1:])), requests


def test_the_first_publication_of_a_fill_reads_each_pin_once(account: MemoryAccount) -> None:
    first = opened(account.container("box"), keep=1)
    for job in range(JOBS):
        published(first, job)
        pin_version(account.container("box"), STORE, f"batch-{job}", 0)
    faults = FaultInjector()
    fill = opened(account.restarted(faults).container("box"), keep=1, clock=account.clock)
    published(fill, JOBS)
    pins = [attempt.operation for attempt in faults.attempts if "/pins/" in attempt.name]
    assert ["list", *["get"] * JOBS] == pins
