"""A range of many versions: by a checkpoint it has the blobs that its entries say, and costs few requests."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azureblob_source.log import live_state
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.checkpointing import make_checkpoint
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, LogEntry, Totals, to_json
from azureblob_source.log.live import entries_in_effect
from azureblob_source.log.naming import log_name, metadata_prefix, schema_name
from azureblob_source.read import following
from azureblob_source.read.blobs import stream_blob
from azureblob_source.read.following import Follower, TriggerLimits, new_blobs
from foundation.clock import ManualClock
from foundation.errors import NotFoundError
from tests.azureblob_source.log.checkpoint.random_logs import RandomLog
from tests.azureblob_source.log.checkpoint.stored_logs import STREAM, Requests, checkpoint, entry
from tests.azureblob_source.write.sink_rows import NOON, new_account
from tests.histories.history import check_events
from tests.histories.mutants import Mutant, edited

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

LOGS = 12
EVENTS = ("by a checkpoint", "with a revert", "with an overwrite", "with an overwrite of partitions", "vacuumed")
_FOUND = "azureblob_source.read.following:Follower._by_checkpoint"
MUTANTS: dict[str, Mutant] = {
    "blobs before the range are delivered": edited(_FOUND, "effect, after + 1)", "effect, 0)"),
    "the first version of the range is lost": edited(_FOUND, "effect, after + 1)", "effect, after + 2)"),
    "a manifest that the range begins in is left out": edited(_FOUND, "each.last > after", "each.first > after"),
    "what was reverted later is delivered": edited(_FOUND, "for entry in reverts]", "for entry in ()]"),
    "what the entries after the checkpoint add is lost": edited(_FOUND, "in effect.added)", "in ())"),
    "what a vacuum has removed is passed over": edited(_FOUND, "after + 1 < self.log.kept_from", "False"),
}


def follower(account: MemoryAccount, requests: Requests, stream: str) -> Follower:
    return Follower(CommitLog(account.restarted(requests).container("container"), stream), 30.0, ManualClock())


@pytest.fixture
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are used for few entries."""
    monkeypatch.setattr(live_state, "FEW_ENTRIES", 1)
    monkeypatch.setattr(following, "_MANY", 2)


def stored(draws: Random) -> tuple[RandomLog, MemoryAccount]:
    """A random log in an account, with a checkpoint at every fourth version."""
    random_log, account = RandomLog(draws, named=1.0), new_account()
    container = account.container("container")
    container.put(schema_name("s", "f"), b'{"type": "record", "name": "row", "fields": []}')
    for version in range(draws.randint(8, 40)):
        random_log.grow()
        container.put(log_name("s", version), to_json(random_log.entries[-1]))
        if version % 4 == 3:
            make_checkpoint(CommitLog(container, "s"), random_log.entries[-1])
    move_boundary(container, "s", Boundary(), Boundary(random_log.kept_from, {}, "w"))
    for version in range(random_log.kept_from):
        container.delete(log_name("s", version))
    return random_log, account


def compare(seed: int, seen: Counter[str]) -> None:
    """Some ranges of a random log."""
    draws = Random(f"following {seed}")
    random_log, account = stored(draws)
    entries = random_log.entries
    for _ in range(30):
        after = draws.randrange(-1, len(entries) - 4)
        until = draws.randrange(after + 3, len(entries))
        requests = Requests()
        reader = follower(account, requests, "s")
        reader.log.refresh()
        if after + 1 < random_log.kept_from:
            seen["vacuumed"] += 1
            with pytest.raises(NotFoundError, match="a vacuum has removed the versions"):
                reader.blobs(after, until)
            continue
        found = sorted(reader.blobs(after, until), key=lambda each: each[0].name)
        later = entries_in_effect(entries[until + 1 :])
        reverts = [entry for entry in later if entry.operation == "revert"]
        removing = [entry for entry in later if entry.operation in ("append", "overwrite-partitions", "void")]
        done = [entry for entry in removing if entry.version <= entries[-1].published_up_to]
        gone = {removal.name for entry in (*done, *reverts) for removal in entry.removed}
        new = [each for each in new_blobs(entries[after + 1 : until + 1], reverts) if each[1].name not in gone]
        expected = [(stream_blob(entry, blob), blob.schema) for entry, blob in new]
        assert sorted(expected, key=lambda each: each[0].name) == found, (after, until)
        used = ("get", "manifest") in requests.of_checkpoints()
        seen["by a checkpoint"] += used
        seen["with a revert"] += used and bool(reverts)
        seen["with an overwrite of partitions"] += used and bool(gone)
        seen["with an overwrite"] += used and entries[until].since > after + 1


@pytest.mark.usefixtures("short_ranges")
def test_a_range_has_the_blobs_that_its_entries_say() -> None:
    seen: Counter[str] = Counter()
    for seed in range(LOGS):
        compare(seed, seen)
    check_events(seen, EVENTS)


@pytest.mark.usefixtures("short_ranges")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant](monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_a_range_has_the_blobs_that_its_entries_say()


@pytest.mark.usefixtures("short_ranges")
@pytest.mark.parametrize("left", [b"", None])
def test_without_its_manifests_a_range_is_read_from_its_entries(
    left: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    account, requests = long_log(100, range(63, 64)), Requests()
    container = account.container("container")
    for manifest in list(container.list(f"{metadata_prefix(STREAM)}m-")):
        if left is None:
            container.delete(manifest.name)
        else:
            container.put(manifest.name, left)
    reader = follower(account, requests, STREAM)
    with caplog.at_level(logging.WARNING):
        reader.log.refresh()
        assert [*range(5, 90)] == [blob.version for blob, _ in reader.blobs(4, 89)]
    assert "is ignored, the log is read instead" in caplog.text


@given(
    sizes=st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=10, max_size=60),
    after=st.integers(-1, 20),
    blobs=st.one_of(st.none(), st.integers(5, 60)),
    size=st.one_of(st.none(), st.integers(20, 300)),
)
def test_limits_end_a_range_where_reading_each_entry_would(
    sizes: list[list[int]], after: int, blobs: int | None, size: int | None
) -> None:
    account, totals = new_account(), Totals()
    for version, of_blobs in enumerate(sizes):
        added = tuple(
            BlobEntry(f"s/{version}-{number}.avro", "s", None, "a", 1, 1, each, each, "f", "end")
            for number, each in enumerate(of_blobs)
        )
        totals = totals.plus(added)
        entry = LogEntry(
            f"w{version}", NOON.isoformat(), version=version, published_up_to=version, blobs=added, totals=totals
        )
        account.container("container").put(log_name("s", version), to_json(entry))
    after, limits = min(after, len(sizes) - 1), TriggerLimits(blobs, size)
    ends = []
    for at_once in (2, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(following, "_AT_ONCE", at_once)
            patch.setattr(following, "_MANY", at_once)
            ends.append(follower(account, Requests(), "s").latest(after, limits))
    assert ends[0] == ends[1]


def long_log(versions: int, checkpoints: range) -> MemoryAccount:
    """A log of versions with a blob each, and checkpoints."""
    account = new_account()
    container = account.container("container")
    for version in range(versions):
        found = entry(version)
        totals = Totals(version + 1, version + 1, version + 1)
        container.put(log_name(STREAM, version), to_json(replace(found, totals=totals, published_up_to=version)))
    for version in checkpoints:
        checkpoint(container, version)
    return account


@pytest.mark.parametrize(("limit", "triggers", "most"), [(None, 1, 60), (1000, 4, 100)])
def test_a_trigger_over_many_versions_costs_few_requests(limit: int | None, triggers: int, most: int) -> None:
    """At most one of `most` for each, where every entry was one."""
    requests = Requests()
    reader = follower(long_log(4_000, range(63, 4_000, 64)), requests, STREAM)
    after = reader.version_before("earliest")
    for _ in range(triggers):
        before = len(requests.made)
        until = reader.latest(after, TriggerLimits(limit))
        assert (limit or 4_000) == until - after
        assert [*range(after + 1, until + 1)] == [blob.version for blob, _ in reader.blobs(after, until)]
        backlog = reader.backlog(until)
        assert backlog is not None
        assert 3_999 - until == backlog.blobs
        reader.forget(until)
        after = until
        assert len(requests.made) - before <= most
