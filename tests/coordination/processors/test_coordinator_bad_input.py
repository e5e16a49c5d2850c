"""What is wrong with storage, names, durations, tasks or a listener is an error with its cause, or heals by itself."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import AccountSasPermissions, ContainerClient, ResourceTypes, generate_account_sas

from azure_account.connect import connect
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.values import Entity
from coordination import metrics
from coordination.names import names_of
from coordination.processors.coordinator import JobCoordinator
from coordination.timing import CoordinatorTiming, LeaseTiming
from foundation.clock import Clock
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError, NotFoundError, TransientError
from tests.azure_account.settings_of import settings_of
from tests.coordination.processors.rounds import Job
from tests.exported import exporting
from tools import reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from azure_account.account import StorageAccount
    from tools.azurite import Azurite

LEASE = LeaseTiming(duration=15, renew_every=0.05, poll_every=0.05, request=0.1, margin=5)
TIMING = CoordinatorTiming(heartbeat=0.05, death=2, margin=0.5, request=0.1, barrier=5)
TASKS = [f"t{number}" for number in range(6)]
NAMES = names_of("box", "flights")


class Listener:
    """Notes its tasks and how the coordinator has ended; `begin` and `stop` are called first."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        self.stopped = False
        self.failure: Exception | None = None
        self.begin: Callable[[], None] = lambda: None
        self.stop: Callable[[], None] = lambda: None

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        self.begin()
        self.running |= tasks

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        self.stop()
        for task in tasks:
            self.running.pop(task, None)

    def on_coordinator_stop(self) -> None:
        self.stopped = True

    def on_coordinator_failure(self, error: Exception) -> None:
        self.failure = error


class Running:
    """Coordinators that are stopped after the test."""

    def __init__(self) -> None:
        self.coordinators: list[JobCoordinator] = []

    def start(
        self,
        account: StorageAccount,
        tasks: Sequence[str] | Callable[[], Sequence[str]] = TASKS,
        container: str = "box",
        listener: Listener | None = None,
    ) -> Listener:
        listener = listener or Listener()
        coordinator = JobCoordinator(
            Location.in_account(account, f"{container}/flights"),
            tasks=tasks,
            listener=listener,
            processor="one",
            timing=TIMING,
            lease=LEASE,
        )
        self.coordinators.append(coordinator)
        coordinator.start()
        return listener


@pytest.fixture
def running() -> Iterator[Running]:
    started = Running()
    yield started
    for coordinator in started.coordinators:
        coordinator.stop()
    threads = [thread for coordinator in started.coordinators for thread in coordinator._threads]
    wait_for(lambda: not any(thread.is_alive() for thread in threads))


wait_for = partial(reporting.wait_for, seconds=60, poll=0.01)


def failure_of(listener: Listener) -> Exception:
    """With what the coordinator has failed; its tasks are stopped by then."""
    wait_for(lambda: listener.failure is not None)
    assert listener.failure is not None
    assert ({}, False) == (listener.running, listener.stopped)
    return listener.failure


# Storage


def test_a_container_that_is_deleted_stops_the_coordinator_with_its_name(
    account: MemoryAccount, running: Running
) -> None:
    listener = running.start(account)
    wait_for(lambda: listener.running)
    account.service._containers.clear()
    error = failure_of(listener)
    assert isinstance(error, NotFoundError)
    assert "Container box does not exist. Create it first." == str(error)


def test_a_container_that_does_not_exist_is_created(running: Running) -> None:
    listener = running.start(MemoryAccount(clock=Clock()))
    wait_for(lambda: listener.running)


def test_a_container_that_is_deleted_on_the_emulator_stops_the_coordinator(
    azurite: Azurite, container_name: str, running: Running
) -> None:
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        client.create_container()
        settings = settings_of({"connectionString": azurite.connection_string, "maxAttempts": "2"})
        listener = running.start(connect(settings), container=container_name)
        wait_for(lambda: listener.running)
        client.delete_container()
    error = failure_of(listener)
    assert isinstance(error, NotFoundError)
    assert f"Create the container {container_name} first" in str(error)


def test_a_table_that_is_deleted_stops_the_coordinator_with_its_name(account: MemoryAccount, running: Running) -> None:
    listener = running.start(account)
    wait_for(lambda: listener.running)
    account.service.tables._tables.clear()
    assert f"Table {NAMES.processors} does not exist. Create it first." == str(failure_of(listener))


@pytest.mark.parametrize("operation", ["query_entities", "replace_entity", "get", "put", "renew_lease"])
@pytest.mark.parametrize("skip", [0, 2])
def test_a_request_that_is_refused_stops_the_coordinator_with_the_cause(
    account: MemoryAccount, running: Running, operation: str, skip: int
) -> None:
    script = on(operation, Refuse(), skip=0 if operation == "put" else skip, times=1000)
    listener = running.start(account.restarted(FaultInjector(script)))
    error = failure_of(listener)
    assert isinstance(error, ConfigurationError)
    assert "AuthorizationPermissionMismatch" in str(error)


def test_a_sas_without_tables_is_refused_at_the_start(azurite: Azurite, container_name: str, running: Running) -> None:
    token = generate_account_sas(
        azurite.account_name,
        azurite.account_key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, list=True, create=True, add=True, update=True, delete=True),
        datetime.now(UTC) + timedelta(hours=1),
    )
    options = {"endpoint": azurite.endpoint, "tableEndpoint": azurite.table_endpoint, "sasToken": token}
    account = connect(settings_of({**options, "maxAttempts": "2"}))
    account.container(container_name).create()
    with pytest.raises(ConfigurationError, match=r"Create table processorsflights.* failed: 403 .* sasToken lacks"):
        running.start(account, container=container_name)
    running.coordinators.clear()


def test_terms_are_counted_with_the_reason_of_their_end(
    account: MemoryAccount, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exporting(monkeypatch, metrics.METERS) as exported:
        listener = running.start(account)
        wait_for(lambda: listener.running)
        assert (1, 1) == (exported.of("termsBegun", job="flights", processor="one"), exported.of("leads"))
        account.container("box").break_lease(NAMES.blob)
        wait_for(lambda: exported.of("termsEnded", reason="taken"))
        wait_for(lambda: 2 == exported.of("termsBegun"))
        running.coordinators[0].stop()
        assert 1 == exported.of("termsEnded", reason="resigned")
        assert not exported.points("leads"), "no gauge of a coordinator that has stopped"


# What others have written


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"day,flights\n1,842\n", ConfigurationError, "holds no JSON .* Name another one, or delete it"),
        (b'{"name":"flights"}', ConfigurationError, "is no lease blob: it has no formatVersion and epoch"),
        (
            b'{"formatVersion":99,"epoch":1}',
            ConfigurationError,
            "format version 99; this release reads up to 1, so it needs a newer",
        ),
        (
            b'{"formatVersion":1,"epoch":-1,"holder":"","leaseId":""}',
            CorruptError,
            "its epoch, holder or lease id is absent or of a wrong type. Delete it; do not",
        ),
    ],
)
def test_a_blob_with_other_content_is_left_as_it_is_and_named(
    account: MemoryAccount, running: Running, data: bytes, error: type[AzureBlobError], message: str
) -> None:
    container = account.container("box")
    container.put(NAMES.blob, data)
    listener = running.start(account)
    with pytest.raises(error, match=f"[Bb]lob box/{NAMES.blob} .*{message}"):
        raise failure_of(listener)
    assert data == container.get(NAMES.blob).data
    running.coordinators[0].stop()
    container.put(NAMES.blob, b"its owner can write it: nobody has its lease")
    assert container.get(NAMES.blob).data.startswith(b"its owner")


@pytest.mark.parametrize("damage", [{"version": "7"}, {"processors": {}}, {"tasks": [1]}, {"tasks": {"t0": {}}}])
def test_a_job_model_that_is_damaged_by_hand_is_named_and_after_its_deletion_all_goes_on(
    account: MemoryAccount, running: Running, damage: dict[str, Any]
) -> None:
    listener = running.start(account)
    wait_for(lambda: listener.running)
    container = account.container("box")

    def overwrite() -> bool:  # the leader's next write would be refused, so this wins
        container.break_lease(NAMES.blob)
        document = json.loads(container.get(NAMES.blob).data)
        document["jobModel"] |= damage
        container.put(NAMES.blob, json.dumps(document).encode())
        time.sleep(0.2)
        return listener.failure is not None

    wait_for(overwrite)
    with pytest.raises(CorruptError, match=rf"damaged in box/{NAMES.blob} .* Delete box/{NAMES.blob}: the processors"):
        raise failure_of(listener)
    container.break_lease(NAMES.blob)
    container.delete(NAMES.blob)
    again = running.start(account)
    wait_for(lambda: TASKS == sorted(again.running))


def test_rows_that_are_damaged_by_hand_are_reported_once_and_stop_nobody(
    account: MemoryAccount, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    listener = running.start(account)
    wait_for(lambda: len(listener.running) == 6)
    table, before = account.table(NAMES.processors), dict(listener.running)
    (row,) = table.query()
    with caplog.at_level(logging.WARNING):
        foreign = [
            Entity("UNASSIGNED", "somebody", {"liveness": "often"}),
            Entity("UNASSIGNED", "nobody", {}),
            Entity("notes", "to self", {"liveness": 1}),
            Entity("007", "bond", {"liveness": 7}),
            Entity(row.partition_key, row.row_key, {"liveness": "often"}),
        ]
        for entity in foreign:
            table.replace(entity)
        time.sleep(2 * TIMING.death)
    for entity in foreign[:-1]:
        text = f"Row {entity.partition_key}/{entity.row_key} of table {NAMES.processors} is damaged"
        assert 1 == caplog.text.count(text)
    assert listener.failure is None
    wait_for(lambda: sorted(listener.running) == TASKS)
    assert before.keys() == listener.running.keys()
    wait_for(lambda: not {"somebody", "nobody"} & {each.row_key for each in table.query()})  # dead processors
    assert {"to self", "bond"} < {each.row_key for each in table.query()}, "they are no rows of processors, and stay"


# Names


def test_jobs_whose_names_are_the_same_but_for_signs_do_not_share_anything(
    account: MemoryAccount, running: Running
) -> None:
    first = running.start(account)
    others = [Listener() for _ in range(3)]
    for listener, job in zip(others, ["fli-ghts", "Flights", "../flights"], strict=True):
        coordinator = JobCoordinator(
            Location.in_account(account, f"box/{job}"), tasks=["a"], listener=listener, timing=TIMING, lease=LEASE
        )
        running.coordinators.append(coordinator)
        coordinator.start()
    wait_for(lambda: all(list(listener.running) == ["a"] for listener in others))
    wait_for(lambda: sorted(first.running) == TASKS)


# Tasks


@pytest.mark.parametrize("tasks", [["a", ""], ["a", 7], ["a", None], ["\ud800"], "EWR", None, 7, [["a"]]], ids=ascii)
def test_tasks_that_are_no_names_are_refused(account: MemoryAccount, running: Running, tasks: Any) -> None:
    message = "The name of a task is text|The tasks of a job are a list of names"
    if not callable(tasks):
        with pytest.raises(ConfigurationError, match=f"{message}|Argument tasks of JobCoordinator"):
            JobCoordinator(Location.in_account(account, "box/flights"), tasks=tasks, listener=Listener())
    listener = running.start(account, lambda: tasks)
    with pytest.raises(ConfigurationError, match=rf"list the tasks of box/{NAMES.blob} failed: ({message}).* Mend the"):
        raise failure_of(listener)


def test_a_function_of_tasks_that_raises_stops_the_leader_with_the_cause(
    account: MemoryAccount, running: Running
) -> None:
    def fail() -> list[str]:
        raise KeyError("topic")

    error = failure_of(running.start(account, fail))
    assert isinstance(error, ConfigurationError)
    assert f"list the tasks of box/{NAMES.blob} failed: 'topic'. Mend the function" in str(error)
    assert isinstance(error.__cause__, KeyError)


@pytest.mark.parametrize("failure", [TransientError("no answer"), KeyError("topic"), OSError("no such host")])
def test_a_function_of_tasks_that_fails_later_is_logged_and_the_model_stays(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(TASKS)
    one = job.join("one")
    job.settle(9)

    def fail() -> list[str]:
        raise failure

    one.participant._lister._source = fail
    for _ in range(3):
        job.round()
    assert set(TASKS) == set(one.running)
    one.participant._lister._source = lambda: ["t0", "t9"]
    for _ in range(4):
        job.round()
    assert {"t0", "t9"} == one.running.keys()
    assert 3 == caplog.text.count("Mend the function that is given as tasks")


def test_only_the_leader_asks_for_the_tasks(account: MemoryAccount, running: Running) -> None:
    listener = running.start(account)
    wait_for(lambda: listener.running)

    def fail() -> list[str]:
        raise AssertionError("a follower has asked")

    other = running.start(account, fail)
    wait_for(lambda: 3 == len(other.running))
    assert other.failure is None


def test_tasks_come_and_go_some_twice_many_or_none(account: MemoryAccount, running: Running) -> None:
    tasks = ["a", "b", "a"]
    listener = running.start(account, lambda: tasks)
    wait_for(lambda: ["a", "b"] == sorted(listener.running))
    many = [f"task {number}" for number in range(10_000)]
    tasks = many
    wait_for(lambda: set(many) == listener.running.keys())
    tasks = []
    wait_for(lambda: not listener.running)
    tasks = ["b", "b"]
    wait_for(lambda: ["b"] == list(listener.running))
    assert listener.failure is None


# Listeners


@pytest.mark.parametrize(
    "raised", [ValueError("no such stream"), TransientError("no answer"), SystemExit(3), KeyboardInterrupt()]
)
def test_whatever_a_listener_raises_at_the_beginning_stops_its_coordinator(
    account: MemoryAccount, running: Running, raised: BaseException
) -> None:
    bad = Listener()

    def refuse() -> None:
        raise raised

    bad.begin = refuse
    running.start(account, listener=bad)
    error = failure_of(bad)
    assert raised in (error, error.__cause__)
    good = running.start(account)
    wait_for(lambda: sorted(good.running) == TASKS)


def test_a_listener_that_cannot_stop_keeps_its_tasks_from_the_others_until_it_is_dead(
    account: MemoryAccount, running: Running
) -> None:
    bad = Listener()
    running.start(account, listener=bad)
    wait_for(lambda: sorted(bad.running) == TASKS)

    def refuse() -> None:
        raise OSError("the query does not end")

    bad.stop = refuse
    begin = time.monotonic()
    running.coordinators[0].stop()
    assert ("the query does not end", False) == (str(bad.failure), bad.stopped)
    good = running.start(account)
    wait_for(lambda: sorted(good.running) == TASKS)
    assert time.monotonic() - begin >= TIMING.death
