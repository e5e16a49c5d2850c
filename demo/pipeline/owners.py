"""Which driver had which task when, by the events that the drivers print; and how soon others took lost tasks over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demo.pipeline.driver import LEASE, TIMING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demo.pipeline.faults import Fault
    from tools.reporting import Reporting

LEADER = "leader"
_FATAL = ("driver killed", "driver and its disk lost", "driver suspended")


@dataclass(frozen=True)
class Tenure:
    """A driver had a task, or led. Times are seconds since 1970. started: when the query ran."""

    task: str
    driver: str
    epoch: int
    begin: float
    end: float
    started: float | None


@dataclass(frozen=True)
class Takeover:
    """A task of a lost driver has begun elsewhere after so many seconds. alone: nothing else was lost meanwhile."""

    kind: str
    task: str
    seconds: float
    bound: float
    alone: bool


def tenures(lives: Iterable[Reporting], end: float) -> list[Tenure]:
    """All of them, by the events of all lives of drivers."""
    return [tenure for driver in lives for tenure in _of(driver, end)]


def _of(driver: Reporting, end: float) -> Iterator[Tenure]:
    started = {(event["task"], event["epoch"]): event["at"] for event in driver.named("started")}
    had: dict[tuple[str, int], float] = {}

    def tenure(key: tuple[str, int], begin: float, until: float) -> Tenure:
        return Tenure(key[0], driver.name, key[1], begin, until, started.get(key))

    for event in list(driver.events):
        begun, over = _changes(event)
        yield from (tenure(key, had.pop(key), event["at"]) for key in over if key in had)
        had |= dict.fromkeys(begun, event["at"])
    yield from (tenure(key, begin, driver.ended_at or end) for key, begin in had.items())


def _changes(event: dict[str, Any]) -> tuple[Iterable[tuple[str, int]], Iterable[tuple[str, int]]]:
    """What begins and what is over with an event."""
    match event["event"]:
        case "begin":
            return event["tasks"].items(), ()
        case "stop":
            return (), event["tasks"].items()
        case "leads":
            return [(LEADER, 0)], ()
        case "no longer leads":
            return (), [(LEADER, 0)]
        case _:
            return (), ()


def takeovers(faults: Sequence[Fault], known: Sequence[Tenure]) -> list[Takeover]:
    """How soon the tasks of lost drivers began elsewhere, beside the bound that coordination documents."""
    found = []
    for fault in faults:
        led = any(each.task == LEADER and each.driver == fault.target and _covers(each, fault.at) for each in known)
        bound = TIMING.takeover + (LEASE.takeover if led else 0)
        for task in fault.tasks if fault.kind in _FATAL else ():
            begin = min((each.begin for each in known if each.task == task and each.begin > fault.at), default=None)
            if begin is not None:
                others = [each for each in faults if each is not fault and _meets(each, fault.at - 30, begin)]
                found.append(Takeover(fault.kind, task, begin - fault.at, bound, not others))
    return found


def _meets(fault: Fault, begin: float, end: float) -> bool:
    return fault.at < end and (fault.until or fault.at) > begin


def _covers(tenure: Tenure, at: float) -> bool:
    return tenure.begin <= at <= tenure.end + 1
