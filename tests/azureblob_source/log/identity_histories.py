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

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.live import live_blobs
from azureblob_source.log.live_state import live_state
from azureblob_source.log.naming import log_version, schema_name
from azureblob_source.options import EARLIEST
from azureblob_source.read.following import Follower, TriggerLimits, new_blobs
from foundation.errors import AzureBlobError, ConflictError
from tests.azureblob_source.log.committing import ROWS, rows
from tests.azureblob_source.write.sink_rows import blob_rows, committer, plan_of, stage_rows
from tests.histories.history import Event, History, draw_events
from tests.histories.pools import inline_pools
from tests.histories.process import MAX_STEPS, HistoryProcess
from tests.histories.world import BOX, Truth, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from azure_account.container import BlobContainer
    from azure_account.memory.faults import Fault
    from azure_account.retrying.retry_loop import Request
    from azureblob_source.write.planning import WritePlan

STREAM = "flights"
PLANS = (plan_of(ROWS), plan_of(ROWS.append(pa.field("note", pa.string()))))
"""Of different writer schemas: nobody else stores the second one for a writer that does not."""


class Writer(HistoryProcess):
    """A writer process, or a person who deletes. deletions: how often the stream had been deleted when it began."""

    query = ""
    deletions = 0

    def aim_of(self, request: Request) -> str:
        """The operation, if it is on an entry of a log."""
        return str(request.operation) if log_version(request.name) is not None else "other"


def _batch(row: int, plan: WritePlan) -> pa.RecordBatch:
    """One row of a plan's schema."""
    batch = rows([row])
    return pa.record_batch([*batch.columns, *[[""]] * (len(plan.arrow) - 2)], schema=plan.arrow)


@dataclass(kw_only=True)
class IdentityWorld(World[Writer]):
    """One history's storage and writers, and the reader."""

    truth: Truth = field(default_factory=Truth)
    make: Callable[..., Writer] = Writer
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
        super().__post_init__()
        self.reader, self.at = self._follower(), -1

    def _follower(self) -> Follower:
        return Follower(CommitLog(self.container, STREAM, readers=1, clock=self.clock), 30.0, self.clock)

    @property
    def seen(self) -> Counter[str]:
        """How often each event was seen."""
        return self.truth.seen

    def note(self, process: Writer, request: Request, fault: Fault | None) -> None:
        """A process makes a request; a put of a log entry by a writer that may know a deleted log is counted."""
        super().note(process, request, fault)
        aim = process.aim_of(request)
        self.seen["put after a deletion"] += aim == "put" and process.deletions < self.deletions
        self.seen["stray removed"] += aim == "delete"

    def write(self, container: BlobContainer, query: str, batches: int, seed: int, plan: WritePlan = PLANS[0]) -> None:
        """One writer process. It repeats a batch after an error, as a query does that is started again."""
        draws = Random(seed)
        writer = committer(container, plan, seed, self.clock)
        for batch in range(batches):
            self.next_row += 1
            row = self.next_row
            for _ in range(9):
                staged = stage_rows(container, plan, [_batch(row, plan)], seed=draws.getrandbits(60))
                try:
                    entries = writer.commit([staged], Transaction(query, batch))
                except AzureBlobError as error:
                    last = error
                    self.trace(f"{query}: batch {batch} with row {row} fails: {error}")
                    self.seen["writer of a deleted log says so"] += "was deleted since" in str(error)
                else:
                    self.trace(f"{query}: batch {batch} with row {row} is acknowledged")
                    published = {blob.name for entry in entries for blob in entry.blobs}
                    if not published & self.deleted:
                        self.owed.add(row)
                    break
            else:
                raise AssertionError(f"batch {batch} of {query} fails again and again: {last}")

    def delete(self, seed: int) -> None:
        """A person deletes everything below the stream, and another writer begins it again."""
        self.deleted |= {blob.name for blob in self.container.list(f"{STREAM}/")}
        for blob in list(self.container.list(f"{STREAM}/", uncommitted=True)):
            self.container.delete(blob.name)
        self.trace("the stream is deleted")
        self.owed.clear()
        self.deletions += 1
        self.write(self.container, f"new{self.deletions}", 1, seed)
        self.seen["stream deleted"] += 1
        self.seen["deleted again"] += self.deletions > 1

    def look(self) -> None:
        """The reader goes on; after the error for a deleted log it starts with a new checkpoint."""
        gap = self.gap()
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

    def load(self, container: BlobContainer) -> None:
        """A batch read of the log: it finds the head, then reads the entries."""
        deletions = self.deletions
        try:
            found = live_state(CommitLog(container, STREAM, readers=1, clock=self.clock)).entries
        except ConflictError:
            self.seen["batch read of a deleted log"] += 1
            return
        except AzureBlobError:
            return
        identities = {entry.log_id for entry in found}
        self.seen["batch read beside a deletion"] += deletions < self.deletions
        if len(identities) > 1:
            self.truth.fail(f"a batch read mixes the logs {sorted(map(str, identities))}")

    def versions(self) -> list[int]:
        """The versions whose entries are there."""
        names = self.service.contents(BOX)
        return sorted(version for name in names if (version := log_version(name)) is not None)

    def gap(self) -> bool:
        """Whether an entry lies above the log, with none before it."""
        found = self.versions()
        return bool(found) and found[-1] - found[0] >= len(found)

    def end(self, draws: Random) -> None:
        """Two more writers, of which the second knows nothing; the log is whole, and has what it owes."""
        for query in ("last", "fresh"):
            self.write(self.container, query, 4, draws.getrandbits(32))
        container, log = self.container, CommitLog(self.container, STREAM)
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
            self.clock.sleep(601.0)
            self.look()
        assert history[-1].version == self.at, "the reader stalls"


class IdentityHistory(History):
    """A history of a stream that is deleted and begun again."""

    world: IdentityWorld

    def draw(self, draws: Random) -> list[Event]:
        """What happens."""
        self.world = IdentityWorld(seed=self.seed)
        weights = {"start": 3, "go": 16, "delete": 2, "kill": 2, "look": 3, "load": 3}
        return draw_events(weights, draws.choice([30, 60, 90]), draws)

    def around(self) -> AbstractContextManager[object]:
        """No threads."""
        return inline_pools(self.seed)

    def happen(self, event: Event) -> None:
        """An event, if there is a writer that it is of."""
        world, draws, writers = self.world, event.draws, self.world.alive()
        match event.name:
            case "start" if len(writers) < 3:
                self._start(f"q{len(world.processes)}", draws)
            case "go" if writers:
                self._go(draws.choice(writers), draws.choice([1, 1, 1, 3, 8, 20]))
            case "delete" if world.deletions < 3 and world.versions():
                world.delete(draws.getrandbits(32))
            case "kill" if writers:
                self._kill(draws.choice(writers), draws)
            case "load" if len(writers) < 5:
                reader = world.start("reader", lambda process: world.load(process.container))
                self._go(reader, draws.choice([0, 1, 2, 3, 4, 5, 6]))
            case "look":
                world.look()
                world.clock.advance(draws.choice([1.0, 601.0]))

    def end(self) -> None:
        """Everybody ends, and everything is compared."""
        for writer in self.world.alive():
            self._go(writer, MAX_STEPS)
        self.world.end(self.ends)

    def _start(self, query: str, draws: Random) -> None:
        batches, seed, plan = draws.choice([1, 2, 4, 7]), draws.getrandbits(32), draws.choice(PLANS)
        deletions = self.world.deletions

        def act(process: Writer) -> None:
            process.query, process.deletions = query, deletions
            self.world.write(process.container, query, batches, seed, plan)

        self.world.start("writer", act)

    def _go(self, writer: Writer, steps: int) -> None:
        for _ in range(steps):
            before = self.world.gap()
            alive = writer.step()
            self.seen["stray above the log"] += not before and self.world.gap()
            if not alive:
                return

    def _kill(self, writer: Writer, draws: Random) -> None:
        if (
            writer.deletions < self.world.deletions
            and draws.random() < 0.7
            and (writer.is_at("put") or writer.move(60, "put"))
        ):
            self._go(writer, 1)
            self.seen["killed after such a put"] += 1
        self.world.trace(f"{writer.query} is killed")
        writer.kill()
