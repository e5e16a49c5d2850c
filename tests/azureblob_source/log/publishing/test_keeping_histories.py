"""Random histories of a stream whose overwrites and restores keep what they remove, some of them killed; and mutants.

The truth is plain: the rows at each version, and of each row when it was removed and until which day it was kept.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at
from azureblob_source.log import live_state
from azureblob_source.log.entry import Draft, LogEntry
from azureblob_source.log.publishing import copying, keeping
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.roll_forward import publish_committed
from azureblob_source.log.relocating.restore import Restoration, restore
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read import deletions, moved, snapshot
from azureblob_source.read.following import Follower, TriggerLimits
from foundation.errors import ConfigurationError, NotFoundError
from tests.azureblob_source.log.publishing.test_keeping import log_of, move_rows, numbers, rows_in, seeds, write
from tests.azureblob_source.write.sink_rows import NOON, new_account

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.account import MemoryAccount

NEVER = 1_000_000
EVENTS = ["write"] * 6 + ["overwrite"] * 4 + ["restore"] * 5 + ["compact"] * 2 + ["vacuum"] * 2


@dataclass
class _History:
    """A stream. removed: of each row, at which versions it was removed, and until which day it was kept then."""

    draws: random.Random
    account: MemoryAccount = field(default_factory=new_account)
    live: frozenset[int] = frozenset()
    at_version: list[frozenset[int]] = field(default_factory=list)
    removed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    day: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def happen(self, number: int) -> None:
        """One event, perhaps killed at some request, and then what the log says of it."""
        what = self.draws.choice(EVENTS) if self.at_version else "write"
        kept_until = self.day + self.draws.choice([1, 3, 30]) if self.draws.random() < 0.8 else -1
        keep = None if kept_until < 0 else timedelta(days=kept_until)
        version = self.draws.randrange(len(self.at_version) or 1)
        killed = at(self.draws.randrange(1, 60), Crash(after_effect=self.draws.random() < 0.5))
        faults = FaultInjector(killed) if what in ("overwrite", "restore") and self.draws.random() < 0.4 else None
        wanted = {"write": self.live | {number}, "overwrite": frozenset((number,))}.get(what, self.live)
        if what == "restore":
            wanted = self.at_version[version]
        try:
            self.act(what, (number, version), keep, faults)
        except ProcessDied:
            self.done["killed"] += 1
        except ConfigurationError:
            assert what == "restore"
            assert not self.must_be_there(version), version
            self.done["refused"] += 1
        log = log_of(self.account)
        with suppress(NotFoundError):
            publish_committed(log, Draft(f"settle-{next(seeds)}", NOON.isoformat()), Publisher(log.container))
        new = log.history()[len(self.at_version) :]
        if any(entry.operation in ("append", "overwrite", "restore") for entry in new):
            for row in self.live - wanted:
                self.removed.setdefault(row, []).append((new[0].version, kept_until))
            self.done[f"{what}, {len(wanted - self.live) and 'brings back' if what == 'restore' else ''}"] += 1
            self.live = wanted
        self.at_version += [self.live] * len(new)

    def act(self, what: str, of: tuple[int, int], keep: timedelta | None, faults: FaultInjector | None) -> None:
        """The event, by a process of its own."""
        account, (number, version) = self.account.restarted(faults), of
        if what == "compact":
            move_rows(account)
        elif what == "vacuum":
            self.day += self.draws.choice([0, 1, 5])
            log = log_of(account)
            plan = plan_vacuum(log, NOON - timedelta(days=9), now=NOON + timedelta(days=self.day, hours=1))
            self.done["copies deleted"] += vacuum(log.container, plan, lambda: f"v-{next(seeds)}").copies
        elif what == "restore":
            log = type(log_of(account))(account.container("container"), "flights", readers=1, clock=account.clock)
            draft = Draft(f"restore-{next(seeds)}", NOON.isoformat(), keep=keep)
            restore(log, version, draft, Publisher(log.container, threads=1))
        else:
            kept = None if keep is None else f"{keep.days} days"
            write(account, [number], overwrite=what == "overwrite", keep=kept)

    def must_be_there(self, version: int) -> bool:
        """Whether the first removal of each row after the version has kept it, and its time is not over."""
        first = [next((each for each in self.removed.get(row, ()) if each[0] > version), (0, NEVER))
                 for row in self.at_version[version]]  # fmt: skip
        return all(until > self.day for _, until in first)

    def check(self) -> None:
        """The head, all versions that must be there, a streaming read from the beginning, and an audit."""
        assert sorted(self.live) == numbers(self.account)
        for version, expected in enumerate(self.at_version):
            if self.must_be_there(version):
                assert sorted(expected) == numbers(self.account, version), version
                self.done["version read"] += 1
                self.done["version read from copies"] += not expected <= self.live
        follower = Follower(log_of(self.account), 60.0, self.account.clock)
        after, found = follower.version_before("earliest"), list[int]()
        while after < len(self.at_version) - 1:
            end = follower.latest(after, TriggerLimits(self.draws.choice([None, 1, 3])))
            found += rows_in(follower.log, [blob for blob, _ in follower.blobs(after, end)])
            after = end
        assert sorted(self.live) == sorted(found)
        if self.draws.random() < 0.3:
            checkpoints.make(log_of(self.account))
        audited = audit(log_of(self.account), timedelta(0), history=self.draws.random() < 0.5)
        now = NOON + timedelta(days=self.day, hours=1)  # drafts have the time NOON, whatever the day
        over = {entry.version for entry in log_of(self.account).history() if not entry.is_kept_at(now)}
        assert [] == [each for each in audited.findings if each.version not in over or "keeps it" not in each.what]


def play(seed: int) -> Counter[str]:
    """A history; what has happened in it."""
    history = _History(random.Random(seed))
    for number in range(12):
        history.happen(number)
        if number % 3 == 2:
            history.check()
    return history.done


def test_random_histories_of_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Counter[str]()
    for seed in (*range(SEEDS), 86):  # 86: a restore that was undone, a compaction, and a third restore
        for name in ("FEW_ENTRIES", "MANY_ENTRIES"):
            monkeypatch.setattr(live_state, name, 0 if seed % 3 else 1000)
        monkeypatch.setattr(moved, "_STEPS", 16 if seed % 2 else 0)
        try:
            done += play(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    for what in ("killed", "refused", "copies deleted", "version read from copies", "restore, brings back"):
        assert done[what], what


SEEDS = 25


def _no_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(copying, "keep_copy", lambda *_: True)


def _deletes_first(patch: pytest.MonkeyPatch) -> None:
    keep = Publisher._keep

    def late(self: Any, there: Any, name: str, entry: Any) -> bool:
        self.container.delete(there.name)
        return keep(self, there, name, entry)

    patch.setattr(Publisher, "_keep", late)


def _no_chain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keeping, "keepers_after", lambda log, version: [*_keepers(log, version)][:1])


_keepers = keeping.keepers_after


def _since_of_head(patch: pytest.MonkeyPatch) -> None:
    succeeding = Restoration.succeeding

    def high(self: Restoration, entry: LogEntry) -> LogEntry:
        return replace(succeeding(self, entry), since=entry.since if self.back else succeeding(self, entry).since)

    patch.setattr(Restoration, "succeeding", high)


def _short_time(patch: pytest.MonkeyPatch) -> None:
    is_kept = LogEntry.is_kept_at
    patch.setattr(LogEntry, "is_kept_at", lambda self, time: is_kept(self, time + timedelta(days=2)))


def _undone_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletions, "_standing", lambda entries: entries)


def _reads_only_the_original(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot, "_where_they_are", lambda _log, held, _version, _selection: held)
    patch.setattr(keeping, "kept_after", lambda _log, _version: {})


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    _no_copies, _deletes_first, _no_chain, _since_of_head, _short_time, _undone_counts, _reads_only_the_original,
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    for seed in range(8 * SEEDS):
        try:
            play(seed)
        except (AssertionError, NotFoundError, ConfigurationError):
            return
    pytest.fail("no history has caught it")
