"""Random histories of a stream that is deleted by hand and begun again, beside paused, killed and restarted writers.

Each history is a function of its seed: all that a writer does, it does in its turns, request by request, by the
account's clock. A reader looks in between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from azure_account.errors import AzureBlobError, ConflictError
from azure_account.memory.faults import ProcessDied
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import log_version, schema_name
from azureblob_source.options import EARLIEST
from azureblob_source.read.following import Follower, TriggerLimits, new_blobs
from tests.azureblob_source.log.commit_histories.many import run_many
from tests.azureblob_source.log.committing import ROWS, rows
from tests.azureblob_source.log.protocol import SharedState, SteppedProcess
from tests.azureblob_source.write.sink_rows import blob_rows, committer, plan_of, stage_rows
from tests.mutating import Mutant, edited, replaced

if TYPE_CHECKING:
    from azure_account.account import BlobContainer
    from azureblob_source.write.planning import WritePlan

STREAM, HISTORIES = "flights", 120
RARE = (903,)
"""Seeds of histories that catch a mistake which few others catch."""
PLANS = (plan_of(ROWS), plan_of(ROWS.append(pa.field("note", pa.string()))))
"""Of different writer schemas: nobody else stores the second one for a writer that does not."""
EVENTS = (
    "stream deleted",
    "deleted again",
    "writer of a deleted log says so",
    "put after a deletion",
    "killed after such a put",
    "stray above the log",
    "stray removed",
    "reader of a deleted log",
    "reader passes over a stray",
)


class Writer(SteppedProcess):
    """A writer process. `deletions` is how often the stream had been deleted when it began."""

    def __init__(self, history: History, query: str) -> None:
        self.query, self.deletions = query, history.deletions
        draws = history.draws
        batches, seed, plan = draws.choice([1, 2, 4, 7]), draws.getrandbits(32), draws.choice(PLANS)
        super().__init__(history.shared, lambda container: history.write(container, query, batches, seed, plan))

    @property
    def next(self) -> str:
        """The request that it is about to make."""
        request = self.turns.next
        return "its end" if request is None else f"{request.operation} {request.name}"

    def is_about_to(self, operation: str) -> bool:
        """Whether that is an operation on an entry of a log."""
        request = self.turns.next
        return request is not None and request.operation == operation and log_version(request.name) is not None


def _batch(row: int, plan: WritePlan) -> pa.RecordBatch:
    """One row of a plan's schema."""
    batch = rows([row])
    return pa.record_batch([*batch.columns, *[[""]] * (len(plan.arrow) - 2)], schema=plan.arrow)


@dataclass
class History:
    """One history, and what it has seen."""

    seed: int
    shared: SharedState = field(default_factory=SharedState)
    seen: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    """What has happened, in order."""
    owed: set[int] = field(default_factory=set)
    """Rows that were acknowledged since the last deletion."""
    deleted: set[str] = field(default_factory=set)
    """Blobs that were published when their stream was deleted.

    A batch that is acknowledged with one of them owes nothing: its last request may have published it, and the
    writer has no reason to look at the log again before it returns.
    """
    deletions: int = 0
    next_row: int = 0

    def __post_init__(self) -> None:
        self.draws = Random(self.seed)
        self.reader = self._follower()
        self.at = -1

    def _follower(self) -> Follower:
        return Follower(self.shared.log(), 30.0, self.shared.account.clock)

    def write(self, container: BlobContainer, query: str, batches: int, seed: int, plan: WritePlan = PLANS[0]) -> None:
        """One writer process. It repeats a batch after an error, as a query does that is started again."""
        draws = Random(seed)
        writer = committer(container, plan, seed, self.shared.account.clock)
        for batch in range(batches):
            self.next_row += 1
            row = self.next_row
            for _ in range(9):
                staged = stage_rows(container, plan, [_batch(row, plan)], seed=draws.getrandbits(60))
                try:
                    entries = writer.commit([staged], Transaction(query, batch))
                except AzureBlobError as error:
                    last = error
                    self.lines.append(f"{query}: batch {batch} with row {row} fails: {error}")
                    self.seen["writer of a deleted log says so"] += "was deleted since" in str(error)
                else:
                    self.lines.append(f"{query}: batch {batch} with row {row} is acknowledged")
                    published = {blob.name for entry in entries for blob in entry.blobs}
                    if not published & self.deleted:
                        self.owed.add(row)
                    break
            else:
                raise AssertionError(f"batch {batch} of {query} fails again and again: {last}")

    def delete(self) -> None:
        """A person deletes everything below the stream, and another writer begins it again."""
        self.deleted |= {blob.name for blob in self.shared.container.list(f"{STREAM}/")}
        for blob in list(self.shared.container.list(f"{STREAM}/", uncommitted=True)):
            self.shared.container.delete(blob.name)
        self.lines.append("the stream is deleted")
        self.owed.clear()
        self.deletions += 1
        self.write(self.shared.container, f"new{self.deletions}", 1, self.draws.getrandbits(32))
        self.seen["stream deleted"] += 1
        self.seen["deleted again"] += self.deletions > 1

    def look(self) -> None:
        """The reader goes on; after the error for a deleted log it starts with a new checkpoint."""
        gap = self._gap()
        try:
            if self.at < 0:
                self.at = self.reader.version_before(EARLIEST)
            until = self.reader.latest(self.at, TriggerLimits())
            entries = self.reader.entries(self.at, until)
            blobs = [blob.name for _, blob in new_blobs(entries)]
        except ConflictError:
            self.seen["reader of a deleted log"] += 1
            self.reader, self.at = self._follower(), -1
            return
        except AzureBlobError:
            return
        identities = {self.reader.log_id, *(entry.log_id for entry in entries)}
        assert 1 == len(identities), f"a reader mixes the logs {identities}"
        assert list(range(self.at + 1, until + 1)) == [entry.version for entry in entries]
        assert len(blobs) == len(set(blobs))
        self.seen["reader passes over a stray"] += gap and until >= 0
        self.at = until

    def versions(self) -> list[int]:
        names = self.shared.account.service.contents("container")
        return sorted(version for name in names if (version := log_version(name)) is not None)

    def _gap(self) -> bool:
        found = self.versions()
        return bool(found) and found[-1] - found[0] >= len(found)

    def run(self) -> None:
        """Writers, deletions, kills and looks in random order; then everybody ends, and everything is compared."""
        writers: list[Writer] = []
        for number in range(self.draws.choice([30, 60, 90])):
            match self.draws.choices(["start", "go", "one", "delete", "kill", "look"], [3, 8, 8, 2, 2, 3])[0]:
                case "start" if len(writers) < 3:
                    writers.append(Writer(self, f"q{number}"))
                case "go" | "one" as kind if writers:
                    writer = self.draws.choice(writers)
                    for _ in range(1 if kind == "one" else self.draws.choice([3, 8, 20])):
                        self._step(writer)
                case "delete" if self.deletions < 3 and self.versions():
                    self.delete()
                case "kill" if writers:
                    self._kill(writers.pop(self.draws.randrange(len(writers))))
                case "look":
                    self.look()
                    self.shared.account.clock.sleep(self.draws.choice([1.0, 601.0]))
        for writer in writers:
            while self._step(writer):
                pass
        self._end()

    def _step(self, writer: Writer) -> bool:
        """One request; a put of a log entry by a writer that may know a deleted log is noted."""
        if writer.turns.next is None:
            return False
        self.lines.append(f"{writer.query}: {writer.next}")
        is_put, removes, before = writer.is_about_to("put"), writer.is_about_to("delete"), self._gap()
        alive = writer.step()
        self.seen["put after a deletion"] += is_put and writer.deletions < self.deletions
        self.seen["stray above the log"] += not before and self._gap()
        self.seen["stray removed"] += removes
        if writer.error is not None and not isinstance(writer.error, ProcessDied):
            raise writer.error
        return alive

    def _kill(self, writer: Writer) -> None:
        if writer.deletions < self.deletions and self.draws.random() < 0.7:
            self._until_put_is_done(writer)
        self.lines.append(f"{writer.query} is killed before {writer.next}")
        writer.kill()

    def _until_put_is_done(self, writer: Writer) -> None:
        for _ in range(60):
            done = writer.is_about_to("put")
            if not self._step(writer):
                return
            if done:
                self.seen["killed after such a put"] += 1
                return

    def _end(self) -> None:
        """Two more writers, of which the second knows nothing; the log is whole, and has what it owes."""
        for query in ("last", "fresh"):
            self.write(self.shared.container, query, 4, self.draws.getrandbits(32))
        container, log = self.shared.container, CommitLog(self.shared.container, STREAM)
        history = log.history()
        assert list(range(history[0].version, history[-1].version + 1)) == [entry.version for entry in history]
        assert 1 == len({entry.log_id for entry in history}), "entries of two logs are one"
        live = live_blobs(history).values()
        schemas = {schema_name(STREAM, blob.schema) for blob in live}
        assert [] == [name for name in schemas if container.properties(name) is None], "a schema is missing"
        found = Counter(row["n"] for blob in live for row in blob_rows(container.get(blob.name).data))
        assert [] == sorted(self.owed - set(found)), f"rows are lost: {sorted(self.owed - set(found))}"
        assert [1] * len(found) == list(found.values()), "a row is there twice"
        for _ in range(2):
            self.shared.account.clock.sleep(601.0)
            self.look()
        assert history[-1].version == self.at, "the reader stalls"


def run_seed(seed: int) -> tuple[str | None, Counter[str]]:
    """What a history violates, None if nothing, and what has happened in it."""
    history = History(seed)
    try:
        history.run()
    except (AssertionError, AzureBlobError) as violation:
        return str(violation) or repr(violation), history.seen
    return None, history.seen


def test_a_stream_that_is_deleted_and_begun_again_is_one_log_in_every_history() -> None:
    seen: Counter[str] = Counter()
    for seed in (*RARE, *range(HISTORIES)):
        violation, events = run_seed(seed)
        assert violation is None, f"history {seed}: {violation}"
        seen.update(events)
    assert [] == [event for event in EVENTS if not seen[event]], seen


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories() -> None:
    """`make histories` runs more, and prints how often each event happened."""
    assert 0 == run_many(0, 3_000, 2, run_seed)


def test_a_history_depends_on_its_seed_alone() -> None:
    first, second = (History(seed) for seed in (7, 7))
    first.run()
    second.run()
    assert first.lines
    assert first.lines == second.lines


MUTANTS: dict[str, Mutant] = {
    "a writer does not look at the entry before its own": replaced(
        "azureblob_source.log.commit_log:CommitLog._check_log", lambda *_: None
    ),
    "a search takes a stray for the newest entry": replaced(
        "azureblob_source.log.commit_log:CommitLog._without_strays", lambda _, found, __: found
    ),
    "a stray is left in the way": edited(
        "azureblob_source.log.commit_log:CommitLog.put", "not there.belongs_with(before)", "False"
    ),
    "a writer remembers that the schema is stored": edited(
        "azureblob_source.log.commit_log:CommitLog._reset", "StreamNotes()", "StreamNotes(schemas=self.notes.schemas)"
    ),
    "a search that begins again does not compare with the known log": edited(
        "azureblob_source.log.commit_log:CommitLog.refresh",
        "found is not None and self._head is not None",
        "found is not None and head is not None",
    ),
    "a search takes a newer entry with the same log name for one of the known log": edited(
        "azureblob_source.log.commit_log:CommitLog._after_known",
        "there = found if",
        "there = known if found.belongs_with(known) else found if",
    ),
    "a reader compares no identities": replaced("azureblob_source.read.following:Follower._check_log", lambda *_: None),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert any(run_seed(seed)[0] for seed in (*RARE, *range(2 * HISTORIES)))
