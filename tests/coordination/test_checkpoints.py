"""The checkpoint store: all offsets of a task change together, fenced by epochs, whatever answers are lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, LateEffect, LostAnswer, ProcessDied, TimeOut, at, on
from azure_account.values import Entity
from coordination.checkpoints import CheckpointStore, TaskCheckpoint
from coordination.names import check_processor, check_tasks, names_of
from foundation.errors import ConfigurationError, CorruptError, FencedError, TransientError


def store_of(account: MemoryAccount) -> CheckpointStore:
    return CheckpointStore(account.table("checkpoints"))


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount()
    store_of(account).create()
    return account


def test_offsets_are_read_back_and_there_are_none_at_first(account: MemoryAccount) -> None:
    store = store_of(account)
    assert TaskCheckpoint() == store.read("t")
    assert TaskCheckpoint(5) == store.begin("t", 5)
    offsets = {f"flights/{number} #?/\\": f"offset-{number}" for number in range(5_000)}
    store.write("t", 5, offsets)
    assert TaskCheckpoint(5, offsets) == store.read("t")
    store.write("t", 5, {"one": "1"})
    assert TaskCheckpoint(5, {"one": "1"}) == store.read("t"), "what was left out is gone"


def test_who_takes_over_finds_the_last_offsets_and_the_former_one_is_refused(account: MemoryAccount) -> None:
    store = store_of(account)
    store.begin("t", 5)
    store.write("t", 5, {"p": "10"})
    assert TaskCheckpoint(7, {"p": "10"}) == store.begin("t", 7)
    with pytest.raises(FencedError, match=r"task t failed: epoch 7 has taken it over from epoch 5\. Stop this task"):
        store.write("t", 5, {"p": "11"})
    with pytest.raises(FencedError):
        store.begin("t", 6)
    assert TaskCheckpoint(7, {"p": "10"}) == store.read("t")
    assert TaskCheckpoint(7, {"p": "10"}) == store.begin("t", 7)


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), LateEffect(1), LateEffect(3)])
@pytest.mark.parametrize("operation", ["replace_entity", "insert_entity", "get_entity"])
def test_a_lost_answer_loses_nothing(
    account: MemoryAccount, operation: str, fault: LostAnswer | TimeOut | LateEffect
) -> None:
    for skip in range(3):
        faults = FaultInjector(on(operation, fault, skip=skip))
        store = store_of(account.restarted(faults))
        task = f"t{skip}"
        store.begin(task, 5)
        store.write(task, 5, {"p": "10"})
        store.write(task, 5, {"p": "11"})
        faults.apply_late_effects()
        assert TaskCheckpoint(5, {"p": "11"}) == store.read(task)


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_crash_at_any_request_leaves_one_of_two_checkpoints(account: MemoryAccount, after_effect: bool) -> None:
    for number in range(1, 20):
        task, faults = f"t{number}", FaultInjector(at(number, Crash(after_effect)))
        store = store_of(account.restarted(faults))
        try:
            store.begin(task, 5)
            store.write(task, 5, {"p": "10", "q": "1"})
            store.write(task, 5, {"p": "11", "q": "2"})
        except ProcessDied:
            pass
        found = store_of(account).begin(task, 6).offsets
        assert found in ({}, {"p": "10", "q": "1"}, {"p": "11", "q": "2"})
        if not faults.died:
            return
    pytest.fail("no run came to its end")


def test_an_outage_is_an_error_and_not_an_empty_checkpoint(account: MemoryAccount) -> None:
    store_of(account).write("t", 1, {"p": "10"})
    refusing = store_of(account.restarted(FaultInjector(on("get_entity", TimeOut(), times=1000))))
    with pytest.raises(TransientError):
        refusing.read("t")


def test_too_many_offsets_and_a_damaged_entity_are_named(account: MemoryAccount) -> None:
    store = store_of(account)
    with pytest.raises(ConfigurationError, match=r"The 20000 offsets of task t are .* holds 450,000\. Divide the task"):
        store.write("t", 1, {f"partition {number:20}": "1" for number in range(20_000)})
    table = account.table("checkpoints")
    whole: dict[str, str | int] = {"formatVersion": 1, "epoch": 1, "pieces": 1, "offsets0": "{}"}
    for name in whole:
        table.replace(Entity("task", "bad", {key: value for key, value in whole.items() if key != name}))
        with pytest.raises(CorruptError, match="checkpoint of task bad is damaged"):
            store_of(account).read("bad")
    table.replace(Entity("task", "bad", {**whole, "formatVersion": 2}))
    with pytest.raises(
        ConfigurationError, match="bad has format version 2; this release reads up to 1, so it needs a newer"
    ):
        store.read("bad")


TASKS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20) | st.sampled_from(["a/b", "a#b", "a?b", "a\\b"])


@given(st.lists(TASKS.map(lambda task: task * 30) | TASKS, min_size=2, max_size=10, unique=True))
def test_whatever_is_a_task_of_a_job_has_a_checkpoint_of_its_own(tasks: list[str]) -> None:
    account = MemoryAccount()
    store = store_of(account)
    store.create()
    assert tuple(tasks) == check_tasks(tasks)
    for number, task in enumerate(tasks):
        store.begin(task, 5)
        store.write(task, 5, {"p": str(number)})
    assert [{"p": str(number)} for number in range(len(tasks))] == [store.read(task).offsets for task in tasks]


@pytest.mark.parametrize("task", ["", "\ud800", 7])
def test_what_is_no_task_of_a_job_has_no_checkpoint(account: MemoryAccount, task: Any) -> None:
    for refused in (lambda: check_tasks([task]), lambda: store_of(account).read(task)):
        with pytest.raises(
            ConfigurationError,
            match="The name of a task is text that is not empty|Argument task of CheckpointStore.read is 7",
        ):
            refused()


def test_a_task_whose_name_can_be_a_key_is_found_under_it(account: MemoryAccount) -> None:
    properties: dict[str, str | int] = {"formatVersion": 1, "epoch": 7, "pieces": 1, "offsets0": '{"p":"10"}'}
    account.table("checkpoints").insert(Entity("task", "a%2Fb, daily", {**properties}))
    assert TaskCheckpoint(7, {"p": "10"}) == store_of(account).read("a%2Fb, daily")
    assert TaskCheckpoint() == store_of(account).read("a/b, daily")


@given(st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=20, unique=True))
def test_two_jobs_have_two_names(jobs: list[str]) -> None:
    valid = [job for job in jobs if job.strip() and job.isprintable()]
    names = [names_of("box", job) for job in valid]
    assert len(valid) == len({each.blob for each in names})
    assert len(valid) == len({each.processors.lower() for each in names}), "tables ignore case"
    account = MemoryAccount()
    for each in names:
        account.table(each.processors).create()


@pytest.mark.parametrize("job", ["", "  ", "x" * 201, "\ud800"])
def test_a_name_that_cannot_be_one_is_refused(job: str) -> None:
    with pytest.raises(ConfigurationError, match="job's name"):
        names_of("box", job)


def test_a_processor_s_name_has_no_characters_that_tables_refuse() -> None:
    check_processor("höst 1")
    with pytest.raises(ConfigurationError, match="Table key"):
        check_processor("a/b")
    with pytest.raises(ConfigurationError, match="processor's name"):
        check_processor("")
