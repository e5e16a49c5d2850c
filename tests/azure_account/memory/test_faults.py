from __future__ import annotations

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, Throttle, at, on
from azure_account.values import Done


def write(account: MemoryAccount) -> None:
    container = account.container("data")
    container.create()
    container.stage_block("blob", "01", b"a")
    container.stage_block("blob", "02", b"b")
    container.commit_block_list("blob", ["01", "02"])


def test_calls_are_numbered_and_recorded() -> None:
    faults = FaultInjector()
    write(MemoryAccount(intercept=faults))
    assert [
        (1, "create_container", "data"),
        (2, "stage_block", "data/blob"),
        (3, "stage_block", "data/blob"),
        (4, "commit_block_list", "data/blob"),
    ] == [(attempt.number, attempt.operation, attempt.target) for attempt in faults.attempts]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_process_dies_at_its_nth_call_and_makes_no_more(*, number: int, after_effect: bool) -> None:
    faults = FaultInjector(at(number, Crash(after_effect)))
    account = MemoryAccount(intercept=faults)
    with pytest.raises(ProcessDied):
        write(account)
    assert (True, number) == (faults.died, faults.count)
    with pytest.raises(ProcessDied):
        account.container("data").exists()
    committed = number == 4 and after_effect
    assert ({"blob": b"ab"} if committed else {}) == account.service.contents("data")
    write(account.restarted())
    assert {"blob": b"ab"} == account.service.contents("data")


def test_the_death_of_a_process_is_not_caught_as_an_exception() -> None:
    assert not issubclass(ProcessDied, Exception)


def test_faults_are_chosen_by_operation_blob_and_number() -> None:
    faults = FaultInjector(on("put", Throttle(), name=lambda name: name.startswith("log/"), times=1, skip=1))
    account = MemoryAccount(intercept=faults)
    container = account.container("data")
    container.create()
    for name in ("data/1", "log/1", "log/2", "log/3"):
        assert isinstance(container.put(name, b"1"), Done)
    assert [
        "data/1",
        "log/1",
        "log/2",
        "log/2",
        "log/3",
    ] == [attempt.name for attempt in faults.attempts if attempt.operation == "put"]
