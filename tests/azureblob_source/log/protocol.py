"""A streaming job in miniature, for tests of the commit protocol: rows, tasks, drivers, and Spark's own progress.

The account is in memory; the code under test is the real `commit.py`. A *design* is the way in which a driver makes a
staged batch visible: `log_first` is ours, the others are mistakes that the tests must catch.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from azure_account.container import BlobContainer
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Fault, FaultInjector, NumberedAttempt
from azure_account.retrying.retry_loop import Request
from azure_account.values import IF_ABSENT, Done
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Transaction, to_json
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import log_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.metrics import batch_metrics
from foundation.errors import AzureBlobError
from tests.histories.process import SteppedProcess

T = TypeVar("T")
STREAM, BATCHES, ROWS, TASKS = "flights", 3, 4, 3
Draw = Callable[[int], int]
Row = tuple[str, int, int]
"""Query, batch, number."""


@dataclass
class Progress:
    """What Spark remembers of one query in its checkpoint."""

    committed: int = -1


@dataclass
class SharedState:
    """The storage, the queries' checkpoints, and what has happened so far."""

    account: MemoryAccount = field(default_factory=MemoryAccount)
    queries: dict[str, Progress] = field(default_factory=lambda: {"q": Progress()})
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.container.create()

    @property
    def container(self) -> BlobContainer:
        """The container without faults."""
        return self.account.container("container")

    @property
    def all_rows(self) -> dict[Row, int]:
        """Every row of every query, once."""
        return {(query, batch, i): 1 for query in self.queries for batch in range(BATCHES) for i in range(ROWS)}

    def log(self, container: BlobContainer | None = None, kind: type[CommitLog] = CommitLog) -> CommitLog:
        """The stream's log as a new process knows it, over its container or over the one without faults."""
        return kind(container or self.container, STREAM, readers=1, clock=self.account.clock)

    def visible_rows(self) -> Counter[Row]:
        """What a reader sees who lists the blobs and knows nothing of the log."""
        names = [blob.name for blob in self.container.list(f"{STREAM}/") if "/_" not in blob.name]
        return Counter(row for name in names for row in self.rows_of(name))

    def logged_rows(self) -> Counter[Row]:
        """What a reader sees who follows the log."""
        live = live_blobs(self.log().history())
        return Counter(row for name in live for row in self.rows_of(name))

    def rows_of(self, name: str) -> list[Row]:
        lines = self.container.get(name).data.decode().splitlines()
        return [tuple(json.loads(line)) for line in lines]


@dataclass
class Run:
    """One driver process of one query."""

    shared: SharedState
    container: BlobContainer
    query: str
    draw: Draw
    log: CommitLog


Design = Callable[[Run, int, list[BlobEntry]], None]


def drive(  # noqa: PLR0913 - all that a process is made of
    shared: SharedState,
    container: BlobContainer,
    query: str,
    draw: Draw,
    design: Design,
    *,
    kind: type[CommitLog] = CommitLog,
    forgetful: bool = True,
) -> None:
    """One driver process of `query`: batches until the input is through, as Spark runs and repeats them.

    `forgetful` says that it takes a new log after a failure, as a process does that is started again.
    """
    run = Run(shared, container, query, draw, shared.log(container, kind))
    progress = shared.queries[query]
    failures = 0
    while progress.committed + 1 < BATCHES:
        batch = progress.committed + 1
        try:
            design(run, batch, stage_batch(run, batch, design))
        except AzureBlobError as error:
            shared.seen[f"failed: {type(error).__name__}"] += 1
            if forgetful:
                run.log = shared.log(container, kind)
            failures += 1
            if failures > 10:
                raise
            continue
        if progress.committed + 1 != batch:
            shared.seen["zombies stopped"] += 1
            return
        progress.committed = batch


def stage_batch(run: Run, batch: int, design: Design) -> list[BlobEntry]:
    """Run the tasks of a batch: rows spread at random, tasks retried or speculated at random."""
    tasks: dict[int, list[Row]] = defaultdict(list)
    for number in range(ROWS):
        tasks[run.draw(TASKS)].append((run.query, batch, number))
    winners = []
    for task, rows in sorted(tasks.items()):
        attempts = [_stage_task(run, f"{batch}-{task}", rows, design) for _ in range(1 + (run.draw(4) == 0))]
        if len(attempts) > 1:
            run.shared.seen["attempts lost"] += 1
        winners.append(attempts[run.draw(len(attempts))])
    return winners


def _stage_task(run: Run, task: str, rows: list[Row], design: Design) -> BlobEntry:
    attempt = f"{run.draw(1 << 60):016x}"
    name = f"{STREAM}/{run.query}-{task}" + ("" if design is same_names else f"-{attempt}")
    cut = run.draw(len(rows))
    blocks = [part for part in (rows[:cut], rows[cut:]) if part]
    entry = BlobEntry(
        name=name, stream=STREAM, partition=None, attempt=attempt, blocks=len(blocks), rows=len(rows),
        uncompressed=1, size=1, schema="none", rolled_by="end",
    )  # fmt: skip
    for block, part in zip(entry.block_ids, blocks, strict=True):
        run.container.stage_block(name, block, "".join(json.dumps(row) + "\n" for row in part).encode())
    if design is in_tasks:
        run.container.commit_block_list(name, entry.block_ids)
    return entry


def _draft(run: Run, batch: int, blobs: list[BlobEntry]) -> Draft:
    return Draft(
        write_id=f"{run.draw(1 << 60):x}",
        timestamp="2026-01-01T00:00:00+00:00",
        transaction=Transaction(run.query, batch),
        blobs=tuple(blobs),
        metrics=batch_metrics(blobs),
    )


def log_first(run: Run, batch: int, blobs: list[BlobEntry]) -> None:
    """Ours."""
    draft = _draft(run, batch, blobs)
    entry = commit_and_publish(run.log, draft, Publisher(run.container, threads=1))
    if not isinstance(entry, LogEntry) or entry.write_id != draft.write_id:
        run.shared.seen["rolled forward"] += 1
    if isinstance(entry, LogEntry) and entry.operation == "replace":
        run.shared.seen["replaced"] += 1


def in_tasks(run: Run, batch: int, blobs: list[BlobEntry]) -> None:
    """A mistake: tasks publish when they end; the driver has nothing left to do."""


def same_names(run: Run, batch: int, blobs: list[BlobEntry]) -> None:
    """A mistake: names that a repeat finds again, created if absent, and no record of the batch as a whole."""
    for blob in blobs:
        run.container.commit_block_list(blob.name, blob.block_ids, condition=IF_ABSENT)


def log_last(run: Run, batch: int, blobs: list[BlobEntry]) -> None:
    """A mistake: publish first, then record."""
    name = f"_batches/{run.query}-{batch}"
    if run.container.properties(name) is None:
        for blob in blobs:
            run.container.commit_block_list(blob.name, blob.block_ids)
        run.container.put(name, b"done", condition=IF_ABSENT)


def blind_retry(run: Run, batch: int, blobs: list[BlobEntry]) -> None:
    """A mistake: when the answer of the put is lost, the batch is committed again without reading back."""
    outcome: object = None
    while not isinstance(outcome, Done):
        head = run.log.refresh()
        last = run.log.remembered(Transaction(run.query, batch))
        if outcome is None and last is not None and last.version >= batch:
            entry = run.log.read(last.entry)
            break
        entry = run.log.next_entry(head, _draft(run, batch, blobs), -1)
        outcome = run.container.put(log_name(STREAM, entry.version), to_json(entry), condition=IF_ABSENT)
    Publisher(run.container, threads=1).publish(entry, STREAM)


class FaultyProcess(SteppedProcess):
    """A process that the test moves request by request. `act` is what it does with its container.

    fault: what its next request meets. faults: the late effects that are left.
    """

    def __init__(self, shared: SharedState, act: Callable[[BlobContainer], object]) -> None:
        super().__init__(lambda: act(shared.account.restarted(self).container("container")))
        self.fault: Fault | None = None
        self.faults = FaultInjector(self._next_fault)
        self.step()

    def answer(self, request: Request, send: Callable[[], T]) -> T:
        """Send the request, with the fault in its way."""
        return self.faults.attempt(request, send)

    def _next_fault(self, attempt: NumberedAttempt) -> Fault | None:
        fault, self.fault = self.fault, None
        return fault


class Driver(FaultyProcess):
    """A driver process that the test moves request by request."""

    def __init__(self, shared: SharedState, query: str, draw: Draw, design: Design) -> None:
        super().__init__(shared, lambda container: drive(shared, container, query, draw, design))
