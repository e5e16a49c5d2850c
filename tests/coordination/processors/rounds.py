"""Participants that are polled in turn, on an in-memory account whose clock only the test moves."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from azure_account.retrying.policy import RetryPolicy
from coordination.leadership.election import Election
from coordination.leadership.lease import Lease
from coordination.metrics import ProcessorMetrics
from coordination.processors.job_model import PublishedModel, from_content
from coordination.processors.participant import Participant
from coordination.processors.processor_table import ProcessorTable
from coordination.timing import JOB_LEASE, CoordinatorTiming
from foundation.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from azure_account.memory.faults import Script
    from foundation.clock import ManualClock

BLOB = "jobs/flights"
JOB = "flights"
TIMING = CoordinatorTiming()
LEASE = JOB_LEASE


class Runs:
    """Runs tasks by noting them."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        self.running |= tasks

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        for task in tasks:
            del self.running[task]


@dataclass
class Member:
    """One process of the job."""

    faults: FaultInjector
    participant: Participant
    election: Election
    listener: Runs

    @property
    def id(self) -> str:
        return self.participant.state.processor

    @property
    def running(self) -> dict[str, int]:
        return self.listener.running


def turn(member: Member) -> None:
    """What the threads of a process do in a heartbeat."""
    member.participant.expire()
    member.participant.elect()
    member.participant.list_tasks()
    member.participant.poll()
    if member.election.term is None:
        member.participant.elect()  # the poll may have found the lease free
    member.participant.beat()


def turn_in_spite_of_errors(member: Member) -> None:
    """A heartbeat whose threads go on when storage does not answer."""
    one = member.participant
    for act in (one.expire, one.elect, one.list_tasks, one.poll, one.beat):
        with suppress(TransientError):
            act()


@dataclass
class Job:
    """The processes of a job. `round` is what all of them do in a heartbeat."""

    tasks: Sequence[str]
    members: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.account = MemoryAccount()
        self.clock: ManualClock = self.account.clock  # type: ignore[assignment]
        self.account.container("box").create()
        self.table = ProcessorTable(self.account.table("processors"))
        self.table.create()
        self._numbers = itertools.count(1)

    def join(self, name: str, *scripts: Script, listener: Runs | None = None) -> Member:
        """A process starts."""
        faults = FaultInjector(*scripts)
        account = MemoryAccount(self.account.service, intercept=faults, policy=RetryPolicy(max_attempts=2, deadline=3))
        lease = Lease(
            account.container("box"),
            BLOB,
            name,
            LEASE,
            clock=self.clock,
            new_id=lambda: f"40000000-0000-0000-0000-{next(self._numbers):012}",
        )
        election, runs = Election(lease), listener or Runs()
        participant = Participant(
            election,
            ProcessorTable(account.table("processors")),
            runs,
            lambda: self.tasks,
            TIMING,
            new_id=lambda: f"{name}-{next(self._numbers)}",
            metrics=ProcessorMetrics(JOB, name),
        )
        member = Member(faults, participant, election, runs)
        self.members.append(member)
        return member

    def round(self, members: Iterable[Member] | None = None) -> None:
        """Each member takes a step in the election and polls; then a heartbeat passes."""
        for member in self.members if members is None else members:
            turn(member)
        self.clock.advance(TIMING.heartbeat)

    def settle(self, rounds: int) -> int:
        """The number of rounds until all tasks run, each once and evenly, which is at most `rounds`."""
        for number in range(1, rounds + 1):
            self.round()
            if self.shared():
                return number
        raise AssertionError(f"after {rounds} rounds the tasks run {[member.running for member in self.members]}")

    def shared(self) -> bool:
        """Whether all tasks run, each once, evenly, as the model says, whose barrier has ended."""
        running = Counter(task for member in self.members for task in member.running)
        counts = [len(member.running) for member in self.members]
        if running != Counter(set(self.tasks)) or max(counts) - min(counts) > 1:
            return False
        model = self.model().current
        return all(model.of(member.id) == member.running for member in self.members)

    def model(self) -> PublishedModel:
        """What is published now."""
        found = self.members[0].election.lease.read()
        assert found is not None
        published = from_content(found[0].content)
        assert published is not None
        return published

    @property
    def leader(self) -> Member:
        (member,) = (member for member in self.members if member.election.leads())
        return member
