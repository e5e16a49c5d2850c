"""Processes that share work: locks, elections, jobs, checkpoints of tasks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from coordination import CheckpointStore, JobCoordinator, LeaseLock
from coordination.cli.app import app
from coordination.timing import CoordinatorTiming, LeaseTiming
from tests.features.place import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.features.place import Place

QUICK = CoordinatorTiming(heartbeat=0.5, death=4, margin=0.5, barrier=4, request=2)
LEASE = LeaseTiming(duration=15, renew_every=0.5, poll_every=0.5, margin=1, request=2)
WAIT_SECONDS = 30.0


class Listener:
    """Notes whether tasks began, or the failure."""

    def __init__(self) -> None:
        self.done, self.tasks, self.failure = threading.Event(), dict[str, int](), list[Exception]()

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        self.tasks = dict(tasks)
        if tasks:
            self.done.set()

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None: ...

    def on_coordinator_stop(self) -> None: ...

    def on_coordinator_failure(self, error: Exception) -> None:
        self.failure.append(error)
        self.done.set()


def run_job(place: Place) -> list[str]:
    """A processor that gets the tasks of a job, and leaves. Its failure is raised."""
    listener = Listener()
    coordinator = JobCoordinator(place.at("job"), tasks=["a", "b"], listener=listener, timing=QUICK, lease=LEASE)
    coordinator.start()
    try:
        assert listener.done.wait(WAIT_SECONDS), "no task began"
        if listener.failure:
            raise listener.failure[0]
        return sorted(listener.tasks)
    finally:
        coordinator.stop(within=10)


def lock(place: Place) -> bool:
    """Hold a lock."""
    with LeaseLock(place.at("locks/report"), "driver", timeout=5, timing=LEASE) as held:
        held.check()
        return held.epoch is not None


def _table(place: Place) -> CheckpointStore:
    return CheckpointStore(place.account.table(place.table_name))


def _offsets(place: Place) -> Any:
    store = _table(place)
    store.begin("task", 7)
    store.write("task", 7, {"flights/0": "1042"})
    return dict(store.read("task").offsets)


FEATURES = [
    Feature("`coordination`: jobs", "job", run_job, ["a", "b"], sas_of="account"),
    Feature(
        "`coordination`: `status`",
        "`status`",
        lambda place: "task" in place.command(app, "status", "{}/job"),
        True,
        run_job,
        sas_of="account",
    ),
    Feature("`coordination`: locks, elections, `run`", "lock or election", lock, True),
    Feature(
        "`coordination`: `CheckpointStore`, its table being there",
        "checkpoints of tasks",
        _offsets,
        {"flights/0": "1042"},
        lambda place: _table(place).create(),
        sas_of="table",
    ),
]
