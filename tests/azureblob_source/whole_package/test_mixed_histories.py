"""Random histories of all that removes rows or brings them back, over partitions, killed at random requests.

Overwrites of all and of partitions, kept or not, restores, reverts, compactions, blobs that are deleted by hand and
left out, checkpoints. The truth knows the live rows of each version, whatever blobs they are in.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at
from azureblob_source.log import live_state
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.roll_forward import publish_committed
from azureblob_source.log.publishing.void import leave_out
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.repair import missing_blobs
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.read import moved
from azureblob_source.read.blobs import BlobSelection
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.snapshot import take_snapshot
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from tests.azureblob_source.log.publishing.test_keeping import rows_in
from tests.azureblob_source.log.relocating.compacting import BEFORE, ROWS
from tests.azureblob_source.write.sink_rows import NOON, blob_rows, committer, new_account, plan_of, stage_rows
from tests.histories.mutants import edited, replaced

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.entry import LogEntry

SEEDS = (3, 5, 16, 41, *range(20, 27))
"""The first ones find what is rare, and catch the mutants."""
EVENTS = {"write": 7, "static": 2, "dynamic": 4, "take_back": 2, "go_back": 5, "move": 5, "lose": 1, "checkpoint": 2}
ids = itertools.count(1)


def gate(number: int) -> str:
    """The partition of a row."""
    return "abc"[number % 3]


@dataclass
class _History:
    """A stream.

    live: its rows at each version; added: the version of each row; removed: of each row, each time, the version, the
    operation and whether it was kept.
    """

    draws: random.Random
    account: MemoryAccount = field(default_factory=new_account)
    entries: list[LogEntry] = field(default_factory=list)
    live: list[frozenset[int]] = field(default_factory=list)
    added: dict[int, int] = field(default_factory=dict)
    removed: dict[int, list[tuple[int, str, bool]]] = field(default_factory=lambda: defaultdict(list))
    lost: frozenset[int] = frozenset()
    next_row: int = 0
    next_batch: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def log(self, faults: FaultInjector | None = None) -> CommitLog:
        container = self.account.restarted(faults).container("container")
        return CommitLog(container, "flights", readers=1, clock=self.account.clock)

    def draft(self) -> Draft:
        return Draft(f"draft-{next(ids)}", NOON.isoformat())

    def happen(self) -> None:
        """One event, perhaps killed, and what the log says of it."""
        what = self.draws.choices([*EVENTS], [*EVENTS.values()])[0] if self.live else "write"
        killed = at(self.draws.randrange(1, 70), Crash(after_effect=self.draws.random() < 0.5))
        log = self.log(FaultInjector(killed) if what not in ("write", "lose") and self.draws.random() < 0.3 else None)
        keep = timedelta(days=7) if self.draws.random() < 0.6 else None
        try:
            getattr(self, what)(log, keep)
        except ProcessDied:
            self.done["killed"] += 1
        except (ConfigurationError, NotFoundError, ConflictError):
            assert what in ("go_back", "take_back")
        self.done[what] += 1
        log = self.log()
        with suppress(NotFoundError):
            publish_committed(log, self.draft(), Publisher(log.container, threads=1))
        for entry in log.history()[len(self.entries) :]:
            self.learn(log, entry)
        self.lost = frozenset()

    def learn(self, log: CommitLog, entry: LogEntry) -> None:
        """What is live at the version of a new entry."""
        before, rows = self.live[-1] if self.live else frozenset[int](), frozenset[int]()
        if entry.operation in ("append", "overwrite", "overwrite-partitions"):
            data = (log.container.get(blob.name).data for blob in entry.blobs)
            rows = frozenset(row["n"] for each in data for row in blob_rows(each))
            self.added |= dict.fromkeys(rows, entry.version)
        gates = {"overwrite": set("abc"), "overwrite-partitions": {*map(gate, rows)}}.get(entry.operation, set())
        taken_back = {row for row, version in self.added.items() if version in entry.reverts}
        now = frozenset(row for row in before if gate(row) not in gates) - taken_back - self.lost | rows
        now = now if entry.restores is None else self.live[entry.restores]
        for row in before - now:
            self.removed[row].append((entry.version, entry.operation, entry.kept_until is not None))
        self.entries.append(entry)
        self.live.append(now)

    def write(self, log: CommitLog, keep: timedelta | None, mode: str | None = None) -> None:
        rows = [self.next_row + number for number in range(self.draws.choice([1, 1, 2, 3]))]
        self.next_row = rows[-1] + self.draws.choice([1, 2, 3])
        options = (
            {} if mode is None else {"partitionOverwriteMode": mode, **({"keepReplaced": "7 days"} if keep else {})}
        )
        plan, seed, query = plan_of(ROWS, partitionColumn="gate", **options), next(ids), None
        if mode is None and self.draws.random() < 0.7:
            query, self.next_batch = Transaction("q", self.next_batch), self.next_batch + 1
        batch = pa.record_batch([[*map(gate, rows)], rows], schema=ROWS)
        staged = stage_rows(log.container, plan, [batch], seed=seed)
        committer(log.container, plan, seed).commit([staged], query, overwrite=mode is not None)

    def static(self, log: CommitLog, keep: timedelta | None) -> None:
        self.write(log, keep, "static")

    def dynamic(self, log: CommitLog, keep: timedelta | None) -> None:
        self.write(log, keep, "dynamic")

    def go_back(self, log: CommitLog, keep: timedelta | None) -> None:
        version = self.draws.randrange(max(0, len(self.live) - 8), len(self.live))
        restore(log, version, replace(self.draft(), keep=keep), Publisher(log.container, threads=1))

    def take_back(self, log: CommitLog, _: object) -> None:
        last = max(-1, self.next_batch - 1 - self.draws.choice([1, 1, 2, 3]))
        plan = plan_revert(log.container, "flights", Transaction("q", last))
        carry_out(log.container, plan, self.draft, Publisher(log.container, threads=1))
        self.next_batch = last + 1

    def move(self, log: CommitLog, _: object) -> None:
        gates = self.draws.choice([None, re.compile("a"), re.compile("[bc]")])
        rules = CompactionRules(BEFORE, partitions=gates, large=self.draws.choice([1 << 20, 900]))
        plan = plan_compaction(log, rules, checkpoints.last_published(log).version)
        compact(log, plan, self.draft, Publisher(log.container, threads=1))

    def checkpoint(self, _: object, __: object) -> None:
        checkpoints.make(self.log())

    def lose(self, log: CommitLog, _: object) -> None:
        """Somebody deletes a blob, and leaves it out."""
        log.refresh()
        live = blobs_live_at(log, len(self.live) - 1)
        if live:
            name = self.draws.choice(live).name
            self.lost = frozenset(row["n"] for row in blob_rows(log.container.get(name).data))
            log.container.delete(name)
            leave_out(log, missing_blobs(log), self.draft(), Publisher(log.container, threads=1))

    def is_kept(self, row: int, version: int) -> bool:
        """Whether a row that is live at a version is there still, or was kept each time that it was removed."""
        return all(kept for at, _, kept in self.removed[row] if at > version)

    def check_versions(self) -> None:
        voided = {entry.replaces for entry in self.entries}
        for version, rows in enumerate(self.live):
            if version in voided or (version < len(self.live) - 1 and self.draws.random() < 0.4):
                continue
            log, selection = self.log(), BlobSelection(by_version=self.draws.random() < 0.5)
            try:
                blobs = take_snapshot(log, version, self.account.clock, publish_timeout=0, selection=selection).blobs
                assert sorted(rows) == rows_in(log, list(blobs)), version
                self.done["version"] += 1
            except NotFoundError:
                assert not all(self.is_kept(row, version) for row in rows), version
                self.done["version is gone"] += 1

    def check_follower(self) -> None:
        """A streaming read that may lag: rows that are live now once, none of those that others have replaced."""
        head, follower = len(self.live) - 1, Follower(self.log(), 60.0, self.account.clock)
        after = -1 if self.draws.random() < 0.5 else self.draws.randrange(head + 1)
        follower.log.refresh()
        while after < head:
            until = follower.latest(after, TriggerLimits(self.draws.choice([None, 1, 2, 3])))
            until = self.draws.randrange(after + 1, head + 1) if self.draws.random() < 0.3 else until
            there = self.live[last := self.not_undone(until)]
            new = {row for row, version in self.added.items() if after < version <= last and row in there}
            overwritten = {
                row: [
                    kept
                    for version, operation, kept in self.removed[row]
                    if version > last and operation == "overwrite"
                ]
                for row in new - self.live[head]
            }
            try:
                found = rows_in(follower.log, [blob for blob, _ in follower.blobs(after, until)])
                assert len(set(found)) == len(found)
                assert new & self.live[head] <= set(found) <= new, (after, until)
                self.done["range"] += 1
            except NotFoundError:
                assert not all(map(all, overwritten.values())), (after, until)
                self.done["range is gone"] += 1
            after = until

    def not_undone(self, until: int) -> int:
        """The version up to one after which restores that have followed have undone all."""
        undone, last = set[int](), until
        for entry in reversed(self.entries[until + 1 :]):
            if entry.restores is not None and entry.version not in undone:
                undone |= {*entry.taken_back}
                last = min(last, entry.restores)
        return last


def play(seed: int) -> Counter[str]:
    """A history; what has happened in it."""
    history = _History(random.Random(seed))
    for number in range(16):
        history.happen()
        if number % 3 == 2:
            history.check_versions()
            history.check_follower()
    assert not audit(history.log(), timedelta(0), history=True).findings
    return history.done


def play_all(patch: pytest.MonkeyPatch) -> Counter[str]:
    done = Counter[str]()
    for seed in SEEDS:
        for name in ("FEW_ENTRIES", "MANY_ENTRIES"):
            patch.setattr(live_state, name, 0 if seed % 3 else 1000)
        patch.setattr(moved, "_STEPS", 0 if seed % 2 else 16)
        try:
            done += play(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return done


def test_each_version_and_each_range_has_its_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done = play_all(monkeypatch)
    for what in ("killed", "version", "version is gone", "range", "range is gone", *EVENTS):
        assert done[what], what


MUTANTS = {
    "what was kept after many compactions is not found": replaced(
        "azureblob_source.read.moved:MovedRowsFinder._last_live", lambda *_: []
    ),
    "a follower looks for blobs that were left out": edited(
        "azureblob_source.read.deletions:DeletionFinder.after",
        "entry.operation in _REMOVING or entry.leaves_out",
        'entry.operation == "overwrite-partitions"',
    ),
    "a copy is looked for by its own name": edited(
        "azureblob_source.read.moved:MovedRowsFinder._moved",
        "of_replaced(self.log.stream, blob.name) or (0, blob.name)",
        "(0, blob.name)",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises((AssertionError, NotFoundError, RuntimeError)):
        play_all(monkeypatch)
