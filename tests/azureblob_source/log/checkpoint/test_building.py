"""A checkpoint that is made of another one has what the entries have: random logs, small manifests, mistakes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from azureblob_source.log.checkpoint import building
from azureblob_source.log.checkpoint.building import begun, extended
from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
from azureblob_source.log.entry import BlobEntry, LogEntry
from tests.azureblob_source.log.checkpoint import random_logs
from tests.azureblob_source.log.checkpoint.random_logs import COLUMNS, MemoryManifests, RandomLog
from tests.histories.history import check_events
from tests.histories.mutants import Mutant, edited

LOGS = 60
EVENTS = (
    "compared",
    "below the boundary",
    "manifest used again",
    "manifest written again",
    "manifests fewer than before",
    "no base for the next checkpoint",
    "no base for a read",
    "several partition fields",
    "manifest without a partition",
)
MUTANTS: dict[str, Mutant] = {
    "an entry that is revoked stays in the checkpoint": edited(
        "azureblob_source.log.checkpoint.tail:tail_effect", "if version <= base.version", "if False"
    ),
    "a blob that is removed stays in the checkpoint": edited(
        "azureblob_source.log.checkpoint.tail:tail_effect",
        "removal.name for entry in entries_in_effect(later)",
        "removal.name for entry in ()",
    ),
    "a revoked entry has removed blobs of the checkpoint": edited(
        "azureblob_source.log.checkpoint.tail:tail_effect",
        "for entry in entries_in_effect(later) for removal",
        "for entry in later for removal",
    ),
    "an overwrite leaves the checkpoint a base": edited(
        "azureblob_source.log.checkpoint.tail:tail_effect", "later and later[-1].since != base.since", "False"
    ),
    "a remover may be revoked": edited(
        "azureblob_source.log.checkpoint.tail:tail_effect", "not revoked.isdisjoint(base.removers)", "False"
    ),
    "an overwrite of the checkpoint may be voided": edited(
        "azureblob_source.log.checkpoint.tail:tail_effect", "(each or 0) <= base.version", "False"
    ),
    "removers are forgotten by the next checkpoint": edited(
        "azureblob_source.log.checkpoint.building:extended", "if each >= last.since)", "if False)"
    ),
    "removers after the base are forgotten": edited(
        "azureblob_source.log.checkpoint.building:extended", "*removers_from(base.version + 1, entries)", "*()"
    ),
    "removers are forgotten by the first checkpoint": edited(
        "azureblob_source.log.checkpoint.building:begun", "removers_from(last.since, entries)", "()"
    ),
    "the blobs of the open manifest are lost": edited(
        "azureblob_source.log.checkpoint.building:extended", "store.read(kept.pop())", "store.read(kept.pop())[:0]"
    ),
    "the blobs of the open manifest are there twice": edited(
        "azureblob_source.log.checkpoint.building:extended", "store.read(kept.pop())", "store.read(kept[-1])"
    ),
    "a manifest with a blob that is gone is used again": edited(
        "azureblob_source.log.checkpoint.building:extended",
        "[manifest] if left.num_rows == table.num_rows else _written(left, last.version, store)",
        "[manifest]",
    ),
    "a manifest is not looked at for blobs that are removed": edited(
        "azureblob_source.log.checkpoint.tail:TailEffect.touches", "bool(self.names) or ", ""
    ),
    "a manifest is not looked at for entries that are revoked": edited(
        "azureblob_source.log.checkpoint.tail:TailEffect.touches",
        "any(manifest.first <= version <= manifest.last for version in self.versions)",
        "False",
    ),
    "manifests that are merged stay": edited(
        "azureblob_source.log.checkpoint.building:_merged", "*manifests[:-small]", "*manifests"
    ),
    "the last of the manifests that are merged is lost": edited(
        "azureblob_source.log.checkpoint.building:_merged", "manifests[-small:]", "manifests[-small:-1]"
    ),
    "the rest of a table that is split is lost": edited(
        "azureblob_source.log.checkpoint.building:_written", "for start in starts", "for start in starts[:1]"
    ),
    "a manifest has blobs of two partition fields": edited(
        "azureblob_source.log.checkpoint.building:_written", "len(fields) > 1", "False"
    ),
    "what is below the boundary is read": edited(
        "azureblob_source.log.checkpoint.manifest:without", 'table["version"], kept_from', 'table["version"], 0'
    ),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "OPEN_BLOBS", 3)
    monkeypatch.setattr(building, "MANIFEST_BLOBS", 8)
    monkeypatch.setattr(building, "MERGED", 3)
    monkeypatch.setattr(random_logs, "MANIFEST_BLOBS", 8)


def run(seed: int) -> Counter[str]:
    """What has happened to a log; it has been compared at each version."""
    draws = Random(seed)
    log = RandomLog(draws, repartitioned=draws.choice([0.0, 0.0, 0.1, 0.5]))
    often = draws.choice([0.2, 0.5, 1.0])
    for _ in range(draws.choice([10, 30])):
        log.grow()
        if draws.random() < often:
            log.make()
    log.check()
    return log.seen


def test_a_checkpoint_has_what_the_entries_have_in_every_log() -> None:
    seen: Counter[str] = Counter()
    for seed in range(LOGS):
        seen.update(run(seed))
    check_events(seen, EVENTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_checkpoint_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    for seed in range(10 * LOGS):
        try:
            run(seed)
        except AssertionError:
            return
    pytest.fail("no log shows it")


def entry(version: int, blobs: int, *, since: int = 0) -> LogEntry:
    """An entry that adds so many blobs."""
    attempts = [f"{version:08x}{number:08x}" for number in range(blobs)]
    added = tuple(BlobEntry(f"s/{each}.avro", "s", None, each, 1, 1, 1, 1, "f", "end") for each in attempts)
    return LogEntry(f"w{version}", "2026-01-01T00:00:00+00:00", version=version, since=since, blobs=added, log_id="w0")


def test_a_manifest_is_written_once_it_is_full_and_never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the work of a checkpoint does not grow with the log."""
    monkeypatch.setattr(building, "MERGED", 1000)
    store = MemoryManifests()
    made: LogCheckpoint | None = begun([entry(0, 2)], store, COLUMNS)
    for version in range(1, 40):
        assert made is not None
        made = extended(made, [entry(version, 2)], store, COLUMNS, 0)
    assert made is not None
    assert 80 == made.blobs
    assert [4] * 20 == [each.blobs for each in made.manifests]
    assert (40, 20) == (len(store.tables), store.reads)


def test_small_manifests_become_one() -> None:
    store = MemoryManifests()
    made = begun([entry(0, 3)], store, COLUMNS)
    for version in (1, 2):
        extended_once = extended(made, [entry(version, 3)], store, COLUMNS, 0)
        assert extended_once is not None
        made = extended_once
    assert [8, 1] == [each.blobs for each in made.manifests]


def test_manifests_below_the_boundary_are_left_out_as_a_whole() -> None:
    store = MemoryManifests()
    base = begun([entry(version, 8) for version in range(3)], store, COLUMNS)
    assert [8, 8, 8] == [each.blobs for each in base.manifests]
    made = extended(base, [entry(3, 1)], store, COLUMNS, 2)
    assert made is not None
    assert [2, 3] == [each.first for each in made.manifests]


def test_nothing_that_is_live_is_no_manifest() -> None:
    store = MemoryManifests()
    base = begun([entry(0, 0)], store, COLUMNS)
    assert () == base.manifests
    made = extended(base, [entry(1, 2)], store, COLUMNS, 0)
    assert made is not None
    emptied = extended(
        made, [LogEntry("w2", "2026-01-01T00:00:00+00:00", "revert", version=2, reverts=(1,))], store, COLUMNS, 0
    )
    assert emptied is not None
    assert ((), (2,)) == (emptied.manifests, emptied.removers)
