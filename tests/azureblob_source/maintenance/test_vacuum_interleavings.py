"""Writers, a reader and a vacuum on one log, interleaved request by request, with pauses, kills and lost answers.

The code keeps its promises in all of them. The mutants, each with one mistake, must fail: so the tests can fail.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from azure_account.container import BlobContainer
from azure_account.memory.faults import Fault, LateEffect, LostAnswer, Reset, Throttle
from azureblob_source.log import entry as log_entry
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import LogEntry, from_json
from azureblob_source.log.naming import boundary_name, log_name, log_prefix, log_version
from azureblob_source.maintenance import vacuum as vacuum_module
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from foundation.errors import AzureBlobError, NotFoundError
from tests.azureblob_source.log.protocol import STREAM, FaultyProcess, Progress, Row, SharedState, drive, log_first
from tests.histories.history import check_events
from tests.histories.machine import SeededMachine, run_histories

FAULTS: list[Fault] = [LostAnswer(), Reset(), Throttle(0.5), LateEffect(2)]
FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)

Vacuum = Callable[[BlobContainer, SharedState], None]


class ObservedLog:
    """Every entry that was put at or above the boundary, with the rows of its blobs; seen after each request."""

    def __init__(self, shared: SharedState) -> None:
        self.shared = shared
        self.committed: dict[int, tuple[str, set[str]]] = {}
        self.rows: dict[str, list[Row]] = {}
        self.strays: set[str] = set()
        self._seen: set[str] = set()

    def observe(self) -> None:
        """Look at the storage after every single request."""
        first = self.shared.log().refresh_boundary().first
        for blob in self.shared.container.list(log_prefix(STREAM)):
            version = log_version(blob.name)
            if version is not None and blob.etag not in self._seen:
                self._seen.add(blob.etag)
                entry = from_json(self.shared.container.get(blob.name).data, blob.name)
                if version >= first:
                    assert version not in self.committed, f"version {version} was committed twice"
                    self.committed[version] = entry.write_id, {each.name for each in entry.blobs}
                else:
                    self.strays.add(entry.write_id)
        for blob in self.shared.container.list(f"{STREAM}/q"):
            if blob.name not in self.rows:
                self.rows[blob.name] = self.shared.rows_of(blob.name)

    def check(self, entry: LogEntry) -> None:
        """Assert that an entry that a reader got was committed as that version."""
        assert self.committed[entry.version][0] == entry.write_id, (
            f"version {entry.version} is a stale writer's entry below the boundary"
        )

    def gone(self, first: int) -> Counter[Row]:
        """The rows of the entries below the boundary."""
        names = [name for version, (_, blobs) in self.committed.items() if version < first for name in blobs]
        return Counter(row for name in names for row in self.rows.get(name, ()))


def careful(container: BlobContainer, shared: SharedState) -> None:
    """The code as it is."""
    log = shared.log(container)
    plan = plan_vacuum(log, FOR_EVER)
    ids = itertools.count(shared.seen["vacuums"] * 1000)
    vacuum(container, plan, lambda: f"v{next(ids)}", threads=1)


def boundary_last(container: BlobContainer, shared: SharedState) -> None:
    """A mutant: delete first, then move the boundary."""
    moves: list[Callable[[], Boundary]] = []
    move = move_boundary

    def later(of: BlobContainer, stream: str, old: Boundary, new: Boundary) -> Boundary:
        if new.removing:
            moves.append(lambda: move(of, stream, old, new))
            return old
        return move(of, stream, old, new)

    plan = plan_vacuum(shared.log(container), FOR_EVER)
    ids = itertools.count(shared.seen["vacuums"] * 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vacuum_module, "move_boundary", later)
        vacuum(container, plan, lambda: f"v{next(ids)}", threads=1)
    for each in moves:
        each()


class WithoutBoundaryCheck(CommitLog):
    """A mutant: after a put the boundary is not read."""

    def _accept_or_withdraw(self, there: LogEntry, put: LogEntry) -> LogEntry:
        self._keep(there)
        return there


class WithoutBoundaryOnRefresh(CommitLog):
    """A mutant: any entry found is the head, below the boundary too."""

    def refresh(self, known: int | None = None) -> LogEntry | None:
        start = self._start(known)
        found = None if start is None else self._find(self._newest(start))
        self._keep(found or self._head)
        return self._head


def machine(  # noqa: C901 - a class with its rules
    seen: Counter[str], *, sweep: Vacuum, writing: type[CommitLog], reading: type[CommitLog], queries: int
) -> type[RuleBasedStateMachine]:
    """Two places for writers (of one query or two), one for a vacuum, one for a reader that never ends."""

    class Machine(SeededMachine):
        def __init__(self) -> None:
            super().__init__()
            self.shared = SharedState(queries={f"q{i}": Progress() for i in range(queries)}, seen=seen)
            self.observed = ObservedLog(self.shared)
            self.processes: dict[str, FaultyProcess] = {}
            self.reader = self.shared.log(kind=reading)

        def process(self, place: str) -> FaultyProcess:
            if place == "vacuum":
                seen["vacuums"] += 1
                return FaultyProcess(self.shared, lambda container: sweep(container, self.shared))
            query, forgetful = f"q{int(place) % queries}", self.draw(2) == 0
            return FaultyProcess(
                self.shared,
                lambda container: drive(
                    self.shared, container, query, self.draw, log_first, kind=writing, forgetful=forgetful
                ),
            )

        def step(self, place: str) -> bool:
            alive = self.processes[place].step()
            self.observed.observe()
            return alive

        def end(self, place: str) -> None:
            process = self.processes.pop(place)
            if place == "vacuum" and isinstance(process.error, AzureBlobError):
                seen[f"vacuum: {type(process.error).__name__}"] += 1
                process.error = None
            process.finish()
            process.faults.apply_late_effects()
            self.observed.observe()

        def finish(self, place: str) -> None:
            while self.step(place):
                pass
            self.end(place)

        @rule(place=st.sampled_from(["0", "1", "vacuum"]), seed=st.integers(0, 10**6), steps=st.integers(0, 20))
        def start(self, place: str, seed: int, steps: int) -> None:
            if place not in self.processes:
                self.seed += seed
                self.processes[place] = self.process(place)
                self.go(place, steps)

        @rule(place=st.sampled_from(["0", "1", "vacuum"]), steps=st.sampled_from([1, 2, 4, 15]))
        def go(self, place: str, steps: int) -> None:
            if place in self.processes and not all(self.step(place) for _ in range(steps)):
                self.end(place)

        @initialize(
            batches=st.integers(0, 2),
            seed=st.integers(0, 10**6),
            others=st.sampled_from([[], ["1"], ["1", "vacuum"], ["vacuum", "1", "vacuum"]]),
            wakes=st.booleans(),
            list_every=st.integers(2, 3),
        )
        def a_writer_sleeps(self, batches: int, seed: int, others: list[str], wakes: bool, list_every: int) -> None:
            """It wakes up to decide behind a head that may be a thing of the past by then.

            If every second entry lists transactions, no list is kept where it would lead a reader past a stray entry.
            """
            log_entry.LIST_EVERY = list_every
            self.seed += seed
            self.decide("0", batches)
            self.read()
            for place in others:
                self.run(place)
            if wakes:
                self.read_behind("0")

        @rule(place=st.sampled_from(["0", "1"]), batches=st.integers(0, 1))
        def decide(self, place: str, batches: int) -> None:
            """Run a writer up to just before it decides its next batch, or the one after that."""
            self.start(place, 0, 0)
            for _ in range(1 + batches):
                while place in self.processes:
                    self.go(place, 1)
                    if place in self.processes and self.is_deciding(place):
                        break

        @rule(place=st.sampled_from(["0", "1", "vacuum"]))
        def run(self, place: str) -> None:
            """Run a process to its end."""
            self.start(place, 0, 0)
            self.finish(place)

        @rule(place=st.sampled_from(["0", "1"]))
        def read_behind(self, place: str) -> None:
            """Let a writer make one request, and look at what it has left."""
            self.go(place, 1)
            self.read()

        def is_deciding(self, place: str) -> bool:
            request = self.processes[place].next
            return request is not None and request.operation == "put" and "/_log/" in request.name

        @rule(place=st.sampled_from(["0", "1", "vacuum"]))
        def kill(self, place: str) -> None:
            if place in self.processes:
                seen["kills"] += 1
                process = self.processes.pop(place)
                process.kill()
                process.faults.apply_late_effects()
                self.observed.observe()

        @rule(place=st.sampled_from(["0", "1", "vacuum"]), seed=st.integers(0, 10**6))
        def disturb(self, place: str, seed: int) -> None:
            if self.processes:
                self.seed += seed
                fault = FAULTS[self.draw(len(FAULTS))]
                seen[type(fault).__name__] += 1
                self.processes.get(place, next(iter(self.processes.values()))).fault = fault

        @rule()
        def read(self) -> None:
            before = self.reader._head
            head = self.reader.refresh()
            if head is not None:
                self.observed.check(head)
                assert before is None or before.version <= head.version
                entries = self.reader.history()
                for entry in entries:
                    self.observed.check(entry)
                assert not entries or entries[-1].version >= head.version

        @rule(seconds=st.sampled_from([30.0, 700.0]))
        def wait(self, seconds: float) -> None:
            self.shared.account.clock.sleep(seconds)

        @invariant()
        def nothing_is_visible_twice(self) -> None:
            twice = {row: n for row, n in self.shared.visible_rows().items() if n > 1}
            assert not twice, f"visible twice: {twice}"

        def teardown(self) -> None:
            for place in list(self.processes):
                self.finish(place)
            for place in [str(query) for query in range(queries)]:
                self.processes[place] = self.process(place)
                self.finish(place)
            seen["strays"] += len(self.observed.strays)
            # A vacuum that died has left blobs of entries below the boundary: the next one clears them.
            self.processes["vacuum"] = self.process("vacuum")
            self.finish("vacuum")
            self.processes["vacuum"] = self.process("vacuum")
            self.finish("vacuum")
            visible, logged = self.shared.visible_rows(), self.shared.logged_rows()
            assert visible == logged, "visible is not what is logged"
            gone = self.observed.gone(self.shared.log().refresh_boundary().first)
            assert self.shared.all_rows == dict(visible + gone), "rows are lost or double"
            left = {blob.name for blob in self.shared.container.list(log_prefix(STREAM))}
            head = self.shared.log().head()
            assert head is not None
            needed = {log_name(STREAM, version) for version in (head.version, head.list_version)}
            assert needed | {boundary_name(STREAM)} == left, "the head, its list of transactions, and the boundary"
            self.shared.account.clock.sleep(700)
            self.read()
            seen["histories"] += 1

    return Machine


def explore(
    *,
    sweep: Vacuum = careful,
    writing: type[CommitLog] = CommitLog,
    reading: type[CommitLog] = CommitLog,
    queries: int = 2,
    examples: int = 40,
    phases: tuple[Phase, ...] = tuple(Phase),
) -> Counter[str]:
    seen: Counter[str] = Counter()
    run_histories(machine(seen, sweep=sweep, writing=writing, reading=reading, queries=queries), examples, 20, phases)
    return seen


@pytest.fixture(autouse=True)
def _usual_lists_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_entry, "LIST_EVERY", log_entry.LIST_EVERY)


@pytest.mark.parametrize("queries", [1, 2])
def test_each_row_is_visible_once_or_vacuumed_whatever_slow_writers_and_vacuums_do(queries: int) -> None:
    check_events(explore(queries=queries), ("kills", "vacuums"))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("queries", [1, 2])
def test_the_same_for_long(queries: int) -> None:
    seen = explore(queries=queries, examples=1500)
    check_events(seen, ("kills", "LostAnswer", "LateEffect", "vacuums", "strays", "failed: ConflictError"), 10)


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        pytest.param(
            {"sweep": boundary_last},
            "visible is not what is logged|no such blob|rows are lost|is a stale writer's entry below the boundary",
            id="boundary moved last",
        ),
        pytest.param(
            {"writing": WithoutBoundaryCheck},
            "visible is not what is logged|rows are lost|was committed twice",
            id="blind writer",
        ),
        pytest.param(
            {"reading": WithoutBoundaryOnRefresh},
            "is a stale writer's entry below the boundary",
            id="credulous reader",
        ),
    ],
)
def test_a_wrong_protocol_is_caught(mistake: dict[str, Any], found: str) -> None:
    with pytest.raises((AssertionError, NotFoundError), match=found):  # a row's blob that the log names may be gone
        explore(**mistake, examples=2000, phases=(Phase.generate,))
