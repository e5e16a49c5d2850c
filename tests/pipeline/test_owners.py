"""Who had which task when, and how soon lost tasks begin elsewhere, by the events that drivers print."""

from __future__ import annotations

from typing import Any, cast

from demo.pipeline.driver import LEASE, TIMING
from demo.pipeline.faults import Fault
from demo.pipeline.owners import LEADER, Tenure, takeovers, tenures


class Life:
    """The events of a driver."""

    def __init__(self, name: str, *events: tuple[float, str, dict[str, Any]], ended_at: float | None = None) -> None:
        self.name, self.ended_at = name, ended_at
        self.events = [{"at": at, "event": event, **more} for at, event, more in events]

    def named(self, *names: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] in names]


def begin(at: float, **tasks: int) -> tuple[float, str, dict[str, Any]]:
    return at, "begin", {"tasks": tasks}


def stop(at: float, **tasks: int) -> tuple[float, str, dict[str, Any]]:
    return at, "stop", {"tasks": tasks}


def started(at: float, task: str, epoch: int) -> tuple[float, str, dict[str, Any]]:
    return at, "started", {"task": task, "epoch": epoch}


KILLED = Life(
    "driver-1", (1, "leads", {}), begin(2, days=7, flights=7), started(4, "days", 7), stop(9, flights=7), ended_at=20
)
OTHER = Life("driver-2", begin(10, flights=8), begin(30, days=9), started(33, "days", 9), (36, "leads", {}))


def test_a_task_is_a_driver_s_until_it_is_stopped_or_the_driver_has_ended() -> None:
    found = tenures(cast("Any", [KILLED, OTHER]), 50)
    assert [
        Tenure("flights", "driver-1", 7, 2, 9, None),
        Tenure(LEADER, "driver-1", 0, 1, 20, None),
        Tenure("days", "driver-1", 7, 2, 20, 4),
        Tenure("flights", "driver-2", 8, 10, 50, None),
        Tenure("days", "driver-2", 9, 30, 50, 33),
        Tenure(LEADER, "driver-2", 0, 36, 50, None),
    ] == found


def test_a_takeover_lasts_from_the_loss_to_the_begin_elsewhere_and_longer_if_the_leader_is_lost() -> None:
    known = tenures(cast("Any", [KILLED, OTHER]), 50)
    killed = Fault("driver killed", "driver-1", 20, ("days",), 20)
    (found,) = takeovers([killed], known)
    assert (10, TIMING.takeover + LEASE.takeover, True) == (found.seconds, found.bound, found.alone)

    paused = Fault("emulator paused", "emulator", 25)
    (found,) = takeovers([killed, paused], known)
    assert not found.alone
    assert [] == takeovers([Fault("driver paused", "driver-1", 20, ("days",))], known)
    assert [] == takeovers([Fault("driver killed", "driver-2", 40, ("days",))], known), "nobody has taken it over"
