"""Wrong designs of processors and leaders, each as a change of the code, which the tests of participants must catch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.values import Unknown
from coordination.leadership.lease import Lease
from coordination.leadership.lease_document import LeaseDocument, from_json
from coordination.processors import coordinator_state, liveness, participant
from coordination.processors.coordinator_state import Confirm, ProcessorRow, StopTasks
from coordination.processors.job_model import BarrierState, Members, PublishedModel, from_content, next_model
from coordination.processors.liveness import CounterObservation, FailureDetector
from coordination.processors.participant import Participant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pytest

    from azure_account.values import Outcome
    from coordination.leadership.lease import Term
    from coordination.processors.coordinator_state import Action, Observation, ProcessorState
    from coordination.timing import CoordinatorTiming

NEVER = 1e9
"""A barrier that does not time out: then no task may be run by two processors at one time."""
AT_ONE_TIME = "are run by two processors at one time"
IN_ONE_EPOCH = "is run in epoch .* by two processors"
NEVER_ALL = "tasks do not run"


@dataclass(frozen=True)
class Mistake:
    """A wrong design, the barrier (s) with which it is tried, and the property that it breaks."""

    make: Callable[[pytest.MonkeyPatch], None]
    barrier: float
    found: str


def never_stops_by_itself(patch: pytest.MonkeyPatch) -> None:
    """A processor does not look at the deadline of its heartbeats."""

    def without_deadline(
        state: ProcessorState, seen: Observation, now: float, timing: CoordinatorTiming
    ) -> tuple[ProcessorState, tuple[Action, ...]]:
        return coordinator_state.step(state, replace(seen, overdue=False), now, timing)

    patch.setattr(participant, "step", without_deadline)
    patch.setattr(Participant, "overdue", property(lambda _: False))


def has_only_the_leader_s_epoch(patch: pytest.MonkeyPatch) -> None:
    """A task's epoch is the leader's, so it is the same for all processors that get the task in a term."""

    def of_the_term(
        published: PublishedModel | None, tasks: Iterable[str], members: Members, first: int
    ) -> PublishedModel:
        made = next_model(published, tasks, members, first)
        one_epoch = {task: replace(to, epoch=first) for task, to in made.current.tasks.items()}
        return replace(made, current=replace(made.current, tasks=one_epoch))

    patch.setattr(coordinator_state, "next_model", of_the_term)


def begins_at_version_one(patch: pytest.MonkeyPatch) -> None:
    """The versions of a new blob begin at 1."""

    def from_one(
        published: PublishedModel | None, tasks: Iterable[str], members: Members, first: int
    ) -> PublishedModel:
        return next_model(published, tasks, members, 1)

    patch.setattr(coordinator_state, "next_model", from_one)


def confirms_before_it_stops(patch: pytest.MonkeyPatch) -> None:
    """A processor confirms the version first, and then stops the tasks that it loses."""
    right = coordinator_state._run

    def confirm_first(state: ProcessorState, wanted: Mapping[str, int], version: int | None) -> tuple[Action, ...]:
        actions = right(state, wanted, version)
        confirms = tuple(action for action in actions if isinstance(action, Confirm))
        return (*confirms, *(action for action in actions if not isinstance(action, Confirm)))

    patch.setattr(coordinator_state, "_run", confirm_first)


def begins_at_start(patch: pytest.MonkeyPatch) -> None:
    """A processor does not wait for the end of the barrier."""
    right = coordinator_state._work

    def at_once(state: ProcessorState, published: PublishedModel | None) -> tuple[Action, ...]:
        return right(state, None if published is None else replace(published, barrier=BarrierState.END))

    patch.setattr(coordinator_state, "_work", at_once)


def stops_after_the_barrier(patch: pytest.MonkeyPatch) -> None:
    """A processor runs what it loses until the end of the barrier."""
    right = coordinator_state._work

    def later(state: ProcessorState, published: PublishedModel | None) -> tuple[Action, ...]:
        actions = right(state, published)
        if published is None or published.barrier is BarrierState.END:
            return actions
        return tuple(action for action in actions if not isinstance(action, StopTasks))

    patch.setattr(coordinator_state, "_work", later)


def compares_clocks(patch: pytest.MonkeyPatch) -> None:
    """The row has the time of its processor, and the leader compares it with its own."""
    put = Participant._put

    def with_time(self: Participant, row: ProcessorRow) -> bool:
        return put(self, replace(row, counter=int(self._clock.monotonic())))

    def by_time(_: FailureDetector, counters: Mapping[str, int], *__: object) -> FailureDetector:
        return FailureDetector(
            {each: CounterObservation(counter, float(counter), 2) for each, counter in counters.items()}
        )

    patch.setattr(Participant, "_put", with_time)
    patch.setattr(coordinator_state, "observe", by_time)


def publishes_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """The model is in a blob of its own, which is written without lease and ETag."""
    right = Lease.read

    def with_model(self: Lease) -> tuple[LeaseDocument, str] | None:
        found = right(self)
        if found is None or self._container.properties(f"{self._blob}.model") is None:
            return found
        data = self._container.get(f"{self._blob}.model").data
        return replace(found[0], content=from_json(data, self._blob).content), found[1]

    def write(self: Lease, term: Term, content: Mapping[str, object], etag: str) -> Outcome:
        return self._container.put(f"{self._blob}.model", LeaseDocument(term.epoch, content=content).to_json())

    patch.setattr(Lease, "read", with_model)
    patch.setattr(Lease, "write", write)


def publishes_from_memory(patch: pytest.MonkeyPatch) -> None:
    """A leader whose write got no answer takes it for done, and counts on from there."""
    right, poll = Lease.write, Participant.poll
    unanswered: dict[tuple[Lease, int], PublishedModel] = {}
    polling: list[Lease] = []

    def write(self: Lease, term: Term, content: Mapping[str, object], etag: str) -> Outcome:
        answer = right(self, term, content, etag)
        if isinstance(answer, Unknown):
            found = from_content(content)
            assert found is not None
            unanswered[self, term.epoch] = found
        return answer

    def remember_whose(self: Participant) -> None:
        polling[:] = [self._election.lease]
        poll(self)

    def step(
        state: ProcessorState, seen: Observation, now: float, timing: CoordinatorTiming
    ) -> tuple[ProcessorState, tuple[Action, ...]]:
        believed = unanswered.get((polling[0], seen.epoch)) if seen.leads else None
        newer = believed is not None and (
            seen.published is None or believed.current.version >= seen.published.current.version
        )
        return coordinator_state.step(state, replace(seen, published=believed) if newer else seen, now, timing)

    patch.setattr(Lease, "write", write)
    patch.setattr(Participant, "poll", remember_whose)
    patch.setattr(participant, "step", step)


def waits_for_every_processor(patch: pytest.MonkeyPatch) -> None:
    """A barrier waits for all processors of the model, also for those that lose no task."""

    def losing(self: PublishedModel) -> frozenset[str]:
        return frozenset(self.current.processors)

    patch.setattr(PublishedModel, "losing", property(losing))


def gives_newcomers_tasks_at_once(patch: pytest.MonkeyPatch) -> None:
    """A newcomer gets tasks when its first heartbeat is seen."""
    patch.setattr(FailureDetector, "settled", lambda self, *_: frozenset(self.seen))


def trusts_newcomers_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A newcomer gets tasks after two heartbeats, also when others have died young."""
    patch.setattr(liveness, "SETTLED_CHANGES", (2, 2, 2))


MISTAKES = {
    mistake.make.__name__: mistake
    for mistake in (
        Mistake(never_stops_by_itself, NEVER, AT_ONE_TIME),
        Mistake(has_only_the_leader_s_epoch, 20, IN_ONE_EPOCH),
        Mistake(begins_at_version_one, 20, IN_ONE_EPOCH),
        Mistake(begins_at_start, NEVER, AT_ONE_TIME),
        Mistake(stops_after_the_barrier, NEVER, AT_ONE_TIME),
        Mistake(compares_clocks, NEVER, f"{AT_ONE_TIME}|{NEVER_ALL}"),
        Mistake(publishes_from_memory, 20, f"{IN_ONE_EPOCH}|{NEVER_ALL}"),
    )
}

IDLE_MISTAKES = {make.__name__: make for make in (waits_for_every_processor, gives_newcomers_tasks_at_once)}
"""Wrong designs that are safe, but leave tasks idle."""
