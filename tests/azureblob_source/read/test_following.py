from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from arrow_avro import AvroSchema, parse
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from azure_account.values import BlobAttributes
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, BlobEntry, LogEntry, Removal, Totals, to_json
from azureblob_source.log.naming import log_name, schema_name
from azureblob_source.log.stored_entries import find_entry
from azureblob_source.read.following import Backlog, Follower, SchemaGuard, TriggerLimits, new_blobs, version_at
from azureblob_source.read.query_schema import QuerySchema
from foundation.clock import ManualClock
from foundation.errors import ConflictError, NotFoundError, TransientError
from tests.azureblob_source.log.protocol import Driver, Progress, Row, SharedState, log_first
from tests.azureblob_source.write.sink_rows import NOON, new_account
from tests.histories.history import check_events
from tests.histories.machine import SeededMachine, run_histories

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from azureblob_source.log.entry import LogEntry as Entry


def blob(version: int, number: int = 0, size: int = 100) -> BlobEntry:
    name = f"flights/{version}-{number}.avro"
    return BlobEntry(name, "flights", None, "a" * 16, 1, 10, size, size, "f" * 16, "end")


def put(
    account: MemoryAccount,
    version: int,
    *,
    blobs: int | tuple[BlobEntry, ...] = 1,
    published: int | None = None,
    removed: Sequence[str] = (),
    **given: Any,
) -> Entry:
    """An entry one minute after the previous one. Its blobs are published unless `published` is given."""
    container = account.container("container")
    added = tuple(blob(version, number) for number in range(blobs)) if isinstance(blobs, int) else blobs
    before = find_entry(container, "flights", version - 1) if version else None
    entry = LogEntry(
        f"w{version}",
        (NOON + timedelta(minutes=version)).isoformat(),
        version=version,
        blobs=added,
        totals=(Totals() if before is None else before.totals).plus(added),
        published_up_to=version - 1 if published is None else published,
        removed=tuple(Removal(name, "a" * 16) for name in removed),
        **given,
    )
    container.put(log_name("flights", version), to_json(entry))
    if published is None:
        for each in entry.blobs:
            container.put(each.name, b"x", BlobAttributes({ATTEMPT: each.attempt}))
    return entry


def follower(account: MemoryAccount, faults: FaultInjector | None = None, clock: ManualClock | None = None) -> Follower:
    log = CommitLog(account.restarted(faults).container("container"), "flights", readers=2)
    return Follower(log, 30.0, clock or ManualClock())


def filled(versions: int, blobs: int = 1) -> MemoryAccount:
    account = new_account()
    for version in range(versions):
        put(account, version, blobs=blobs)
    return account


def vacuumed(versions: int, first: int) -> MemoryAccount:
    """The same, after a vacuum of the versions below `first`."""
    account = filled(versions)
    container = account.container("container")
    move_boundary(container, "flights", Boundary(), Boundary(first, {}, "w"))
    for version in range(first):
        container.delete(log_name("flights", version))
    return account


def names(found: list[tuple[Entry, BlobEntry]]) -> list[str]:
    return [each.name for _, each in found]


def test_a_stream_that_does_not_exist_yet_is_followed_from_its_beginning() -> None:
    reader = follower(new_account())
    assert (-1, -1) == (reader.version_before("earliest"), reader.version_before("latest"))
    assert -1 == reader.latest(-1, TriggerLimits())
    assert -1 == reader.latest(None, TriggerLimits())


def test_a_container_that_does_not_exist_yet_is_waited_for_and_one_that_is_gone_is_an_error() -> None:
    account = MemoryAccount()
    reader = follower(account)
    assert -1 == reader.version_before("earliest")
    assert -1 == reader.latest(-1, TriggerLimits())
    assert reader.no_container
    assert reader.head() is None
    account.container("container").create()
    put(account, 0)
    assert 0 == reader.latest(-1, TriggerLimits())
    assert reader.head() is not None
    with pytest.raises(NotFoundError, match="Container container does not exist"):
        follower(MemoryAccount()).latest(0, TriggerLimits())


def test_a_query_starts_at_the_version_of_the_option() -> None:
    reader = follower(filled(5))
    assert (-1, 4) == (reader.version_before("earliest"), reader.version_before("latest"))
    assert (-1, 2, 4) == (reader.version_before(0), reader.version_before(3), reader.version_before(5))
    with pytest.raises(NotFoundError, match=r"version 6 of .*earliest kept is 0, the newest 4"):
        reader.version_before(6)


@pytest.mark.parametrize(
    ("minutes", "before"), [(-1, -1), (0, -1), (0.5, 0), (1, 0), (3, 2), (3.99, 3), (4, 3), (5, 4), (99, 4)]
)
def test_a_query_starts_at_the_first_version_committed_at_a_time(minutes: float, before: int) -> None:
    assert before == follower(filled(5)).version_before(NOON + timedelta(minutes=minutes))


def committed_at(account: MemoryAccount, times: Sequence[datetime]) -> None:
    """A log without blobs, with a version at each of these times."""
    for version, time in enumerate(times):
        entry = LogEntry(f"w{version}", time.isoformat(), version=version, published_up_to=version - 1)
        account.container("container").put(log_name("flights", version), to_json(entry))


@example(gaps=[2**version for version in range(50)], version=25, later=0)
@given(
    gaps=st.lists(st.sampled_from([0, 1, 10**6, 10**11]), min_size=1, max_size=40),
    version=st.integers(0, 39),
    later=st.integers(-1, 1),
)
def test_versions_may_be_committed_at_any_pace(gaps: list[int], version: int, later: int) -> None:
    times = [NOON + timedelta(microseconds=each) for each in accumulate(gaps)]
    account, faults = new_account(), FaultInjector()
    committed_at(account, times)
    moment = times[version % len(times)] + timedelta(microseconds=later)
    reader = follower(account, faults)
    reader.log.head()
    before = faults.count
    assert sum(time < moment for time in times) - 1 == reader.version_before(moment)
    assert faults.count - before <= 4 + 2 * len(times).bit_length()


@pytest.mark.parametrize("versions", [1_000, 20_000])
def test_where_versions_come_evenly_few_entries_are_read_for_a_time(versions: int) -> None:
    account, faults = new_account(), FaultInjector()
    committed_at(account, [NOON + timedelta(minutes=version) for version in range(versions)])
    reader = follower(account, faults)
    reader.log.head()
    for version in (0, 1, versions // 3, versions - 60, versions - 1):
        for seconds in (0, 30):
            before = faults.count
            moment = NOON + timedelta(minutes=version, seconds=seconds)
            assert version - (not seconds) == reader.version_before(moment)
            assert faults.count - before <= 8


@pytest.mark.parametrize(("minutes", "version"), [(0, 0), (0.5, 0), (1, 1), (3.99, 3), (4, 4), (5, 4)])
def test_a_time_is_read_as_the_last_version_committed_up_to_it(minutes: float, version: int) -> None:
    clock = ManualClock((NOON + timedelta(minutes=5)).timestamp())
    assert version == version_at(follower(filled(5)).log, NOON + timedelta(minutes=minutes), clock)


def test_a_time_before_the_first_version_or_in_the_future_is_refused() -> None:
    clock, log = ManualClock(NOON.timestamp()), follower(filled(5)).log
    assert 4 == version_at(log, NOON + timedelta(minutes=4), clock)  # the clock of a writer may be ahead
    with pytest.raises(NotFoundError, match=r"read as of 20\S+ \S+/flights failed: this time is in the future"):
        version_at(log, NOON + timedelta(minutes=4, seconds=1), clock)
    with pytest.raises(NotFoundError, match=r"version 0, the oldest kept, was committed at 20\S+\. Ask for that time"):
        version_at(log, NOON - timedelta(seconds=1), clock)


def test_after_a_vacuum_a_time_is_of_a_version_that_is_kept() -> None:
    clock, log = ManualClock((NOON + timedelta(minutes=9)).timestamp()), follower(vacuumed(5, 3)).log
    assert 3 == version_at(log, NOON + timedelta(minutes=3), clock)
    with pytest.raises(NotFoundError, match="version 3, the oldest kept, was committed at"):
        version_at(log, NOON + timedelta(minutes=2), clock)


def test_a_stream_without_a_log_has_no_times() -> None:
    with pytest.raises(NotFoundError, match="there is none. Check container and stream"):
        version_at(follower(new_account()).log, NOON)


def test_a_time_may_be_in_another_zone() -> None:
    moment = (NOON + timedelta(minutes=2)).astimezone(timezone(timedelta(hours=-5)))
    assert 1 == follower(filled(5)).version_before(moment)


def test_limits_are_kept_but_one_version_is_always_read() -> None:
    reader = follower(filled(6, blobs=2))
    assert 5 == reader.latest(-1, TriggerLimits())
    assert 0 == reader.latest(-1, TriggerLimits(blobs=1))
    assert 1 == reader.latest(-1, TriggerLimits(blobs=4))
    assert 3 == reader.latest(1, TriggerLimits(blobs=5))
    assert 2 == reader.latest(-1, TriggerLimits(bytes=650))
    assert 0 == reader.latest(-1, TriggerLimits(blobs=4, bytes=1))
    assert 0 == reader.latest(-1, TriggerLimits(blobs=4), at_most=0)
    assert 3 == reader.latest(-1, TriggerLimits(), at_most=3)
    assert 5 == reader.latest(5, TriggerLimits(blobs=1))


def test_a_range_gives_the_blobs_that_its_versions_add() -> None:
    reader = follower(filled(4, blobs=2))
    assert [f"flights/{v}-{n}.avro" for v in (1, 2) for n in (0, 1)] == names(new_blobs(reader.entries(0, 2)))
    assert [3, 3] == [entry.version for entry, _ in new_blobs(reader.entries(2, 3))]


def test_entries_that_were_read_for_the_limits_are_not_read_again() -> None:
    faults = FaultInjector()
    reader = follower(filled(10), faults)
    assert 4 == reader.latest(-1, TriggerLimits(blobs=5))
    before = faults.count
    assert 5 == len(reader.entries(-1, 4))
    assert before == faults.count
    reader.forget(4)
    assert 5 == len(reader.entries(-1, 4))
    assert faults.count > before


def test_nothing_new_costs_one_request() -> None:
    faults = FaultInjector()
    reader = follower(filled(40), faults)
    assert 39 == reader.latest(39, TriggerLimits())
    before = faults.count
    assert 39 == reader.latest(39, TriggerLimits())
    assert before + 1 == faults.count


def test_a_restarted_reader_searches_the_head_from_its_offset_on() -> None:
    account = filled(300)
    faults = FaultInjector()
    assert 299 == follower(account, faults).latest(299, TriggerLimits())
    assert faults.count <= 5


def test_a_batch_that_is_being_published_is_waited_for() -> None:
    account, clock = filled(2), ManualClock()
    unpublished = put(account, 2, blobs=2, published=1)
    reader = follower(account, clock=clock)
    assert 1 == reader.latest(0, TriggerLimits())
    assert 1 == reader.latest(1, TriggerLimits())
    assert 1 == reader.version_before("latest")
    clock.advance(29.0)
    account.container("container").put(
        unpublished.blobs[0].name, b"x", BlobAttributes({ATTEMPT: unpublished.blobs[0].attempt})
    )
    assert 1 == reader.latest(1, TriggerLimits())
    clock.advance(2.0)
    with pytest.raises(TransientError, match=r"version 2 of .*flights.*committed.*repair") as caught:
        reader.latest(1, TriggerLimits())
    assert "31" in str(caught.value)
    account.container("container").put(
        unpublished.blobs[1].name, b"x", BlobAttributes({ATTEMPT: unpublished.blobs[1].attempt})
    )
    assert 2 == reader.latest(1, TriggerLimits())


def test_a_reader_that_goes_on_elsewhere_meanwhile_begins_to_wait_again() -> None:
    account, clock = filled(2), ManualClock()
    put(account, 2, published=1)
    reader = follower(account, clock=clock)
    assert 1 == reader.latest(1, TriggerLimits())
    clock.advance(20.0)
    assert 1 == reader.latest(0, TriggerLimits())
    clock.advance(20.0)
    assert 1 == reader.latest(1, TriggerLimits())


def test_a_reader_without_a_position_waits_for_each_batch_by_itself() -> None:
    account, clock = filled(1), ManualClock()
    late = put(account, 1, published=0)
    reader = follower(account, clock=clock)
    assert 0 == reader.latest(None, TriggerLimits())
    clock.advance(20.0)
    account.container("container").put(late.blobs[0].name, b"x", BlobAttributes({ATTEMPT: late.blobs[0].attempt}))
    put(account, 2, published=1)
    assert 1 == reader.latest(None, TriggerLimits())
    clock.advance(20.0)
    assert 1 == reader.latest(None, TriggerLimits())


def test_waiting_begins_anew_with_each_batch() -> None:
    account, clock = filled(1), ManualClock()
    late = put(account, 1, published=0)
    reader = follower(account, clock=clock)
    assert 0 == reader.latest(0, TriggerLimits())
    clock.advance(20.0)
    account.container("container").put(late.blobs[0].name, b"x", BlobAttributes({ATTEMPT: late.blobs[0].attempt}))
    assert 1 == reader.latest(0, TriggerLimits())
    put(account, 2, published=1)
    assert 1 == reader.latest(1, TriggerLimits())
    clock.advance(25.0)
    assert 1 == reader.latest(1, TriggerLimits())


@pytest.mark.parametrize("limit", [None, 1, 2, 3])
def test_a_voided_batch_has_no_rows_whatever_the_limits(limit: int | None) -> None:
    account = filled(1)
    lost = put(account, 1, blobs=2, published=0)
    gone = tuple(each.name for each in lost.blobs)
    put(account, 2, blobs=0, operation="void", replaces=1, removed=gone)
    put(account, 3, operation="replace", replaces=1, removed=gone)
    put(account, 4)
    reader, at, found = follower(account), -1, []
    ranges = []
    while at < 4:
        until = reader.latest(at, TriggerLimits(blobs=limit))
        assert until > at
        found += names(new_blobs(reader.entries(at, until)))
        ranges.append((at, until))
        at = until
    assert found == ["flights/0-0.avro", "flights/3-0.avro", "flights/4-0.avro"]
    assert not [each for each in ranges if each[1] == 1], f"the voided batch ended a range: {ranges}"


def test_no_range_ends_between_a_batch_and_its_void_where_an_epoch_was_opened_between_the_two() -> None:
    account = filled(1)
    lost = put(account, 1, blobs=2, published=0)
    put(account, 2, blobs=0, operation="epoch", published=0, epoch=7)
    gone = tuple(each.name for each in lost.blobs)
    put(account, 3, blobs=0, operation="void", replaces=1, removed=gone, published=0)
    put(account, 4)
    reader, at, found = follower(account), -1, []
    while at < 4:
        until = reader.latest(at, TriggerLimits(blobs=1))
        found += names(new_blobs(reader.entries(at, until)))
        assert until not in {at, 1, 2}
        at = until
    assert ["flights/0-0.avro", "flights/4-0.avro"] == found


def test_an_overwrite_adds_its_rows_and_removes_those_of_its_range() -> None:
    account = filled(2)
    put(account, 2, operation="overwrite", removed=("flights/0-0.avro", "flights/1-0.avro"))
    reader = follower(account)
    assert ["flights/2-0.avro"] == names(new_blobs(reader.entries(-1, 2)))
    assert ["flights/2-0.avro"] == names(new_blobs(reader.entries(1, 2)))


def test_the_earliest_version_is_the_last_overwrite() -> None:
    account = filled(3)
    put(account, 3, operation="overwrite", removed=tuple(f"flights/{v}-0.avro" for v in range(3)), since=3)
    put(account, 4, since=3)
    assert 2 == follower(account).version_before("earliest")


def test_a_reader_that_has_reached_its_target_waits_for_nothing_more() -> None:
    account, clock = filled(5), ManualClock()
    reader = follower(account, clock=clock)
    for seconds in (0.0, 31.0):
        clock.advance(seconds)
        assert 2 == reader.latest(2, TriggerLimits(), at_most=2)


def test_a_stream_that_was_deleted_and_written_anew_is_a_conflict() -> None:
    with pytest.raises(ConflictError, match=r"version 7 of .*newest version is 2.*new checkpoint"):
        follower(filled(3)).latest(7, TriggerLimits())
    with pytest.raises(ConflictError, match=r"has no log.*new checkpoint"):
        follower(new_account()).latest(7, TriggerLimits())


def test_vacuumed_versions_are_an_error_that_names_the_earliest_kept() -> None:
    account = vacuumed(8, 5)
    reader = follower(account)
    assert 4 == reader.version_before("earliest")
    with pytest.raises(NotFoundError, match=r"version 3 .*earliest kept is 5"):
        reader.version_before(3)
    until = reader.latest(1, TriggerLimits())
    overtaken = (
        r"read on from version 1 of .*the earliest kept is 5. Start the query with a new checkpoint: .* version 5"
    )
    with pytest.raises(NotFoundError, match=overtaken):
        reader.entries(1, until)
    with pytest.raises(NotFoundError, match=overtaken):
        follower(account).latest(1, TriggerLimits(blobs=2))
    anew = follower(account)
    begin = anew.version_before("earliest")
    assert [5, 6, 7] == [entry.version for entry in anew.entries(begin, anew.latest(begin, TriggerLimits()))]


# --- the backlog ------------------------------------------------------------------------------------------------------

ONE = TriggerLimits(blobs=1)


def backlog(versions: int, blobs: int | None = None) -> Backlog:
    """That of versions of one blob each, or of as many as are given: each has 10 rows in 100 bytes."""
    blobs = versions if blobs is None else blobs
    return Backlog(versions, blobs, 10 * blobs, 100 * blobs)


def test_the_backlog_falls_to_nothing_without_a_request_of_its_own() -> None:
    faults = FaultInjector()
    reader, at = follower(filled(4, blobs=2), faults), -1
    for left in (3, 2, 1, 0):
        at = reader.latest(at, ONE)
        before = faults.count
        assert backlog(left, 2 * left) == reader.backlog(at)
        reader.forget(at - 1)  # as Spark does it: when the next range is found
        assert before == faults.count
    reader.forget(at)
    assert backlog(0) == reader.backlog(reader.latest(at, ONE))


def test_the_backlog_grows_while_a_query_stands_still() -> None:
    account = filled(2)
    reader = follower(account)
    assert 0 == reader.latest(-1, ONE)
    reader.forget(0)
    for version in (2, 3):
        put(account, version)
        reader.latest(1, ONE)
        assert backlog(version) == reader.backlog(0)


@pytest.mark.parametrize(
    ("start", "left"),
    [("earliest", 4), ("latest", 0), (0, 4), (3, 1), (4, 0), (NOON + timedelta(minutes=2), 2)],
    ids=str,
)
def test_the_backlog_of_a_new_query_begins_at_its_start(start: int | str | datetime, left: int) -> None:
    limited, unlimited = follower(filled(4)), follower(filled(4))
    at = limited.version_before(start)
    reached = limited.latest(at, ONE)
    assert (backlog(left), backlog(3 - reached)) == (limited.backlog(at), limited.backlog(reached))
    assert backlog(0) == unlimited.backlog(unlimited.latest(at, TriggerLimits()))


def test_after_a_vacuum_the_backlog_counts_from_the_first_entry_that_is_kept() -> None:
    reader = follower(vacuumed(8, 5))
    at = reader.version_before("earliest")
    assert None is reader.backlog(at), "no entry was read yet"
    assert 5 == reader.latest(at, ONE)
    assert (backlog(3), backlog(2)) == (reader.backlog(at), reader.backlog(5))


def test_a_batch_that_is_being_published_is_in_the_backlog() -> None:
    account = filled(2)
    reader = follower(account)
    assert 1 == reader.latest(-1, TriggerLimits())
    late = put(account, 2, blobs=3, published=1)
    put(account, 3, blobs=0, published=1, operation="epoch", epoch=7)
    for one in (reader, follower(account)):  # it has read version 1 before, or is restarted
        assert 1 == one.latest(1, ONE)
        assert backlog(2, 3) == one.backlog(1)
        assert backlog(2, 3) == one.backlog(one.version_before("latest"))
    for each in late.blobs:
        account.container("container").put(each.name, b"x", BlobAttributes({ATTEMPT: each.attempt}))
    assert 3 == reader.latest(1, TriggerLimits())
    assert backlog(0) == reader.backlog(3)


def test_a_restarted_query_knows_its_backlog_when_its_last_range_is_planned_again() -> None:
    reader = follower(filled(5))
    reader.blobs(0, 2)
    assert backlog(2) == reader.backlog(2)
    restarted = follower(filled(5))
    assert 4 == restarted.latest(4, ONE)
    assert backlog(0) == restarted.backlog(4)


def test_blobs_of_revoked_entries_stay_in_the_backlog_until_the_query_has_passed_them() -> None:
    account = filled(1)
    lost = put(account, 1, blobs=2, published=0)
    put(account, 2, blobs=0, operation="void", replaces=1, removed=[each.name for each in lost.blobs])
    put(account, 3)
    put(account, 4, blobs=0, operation="revert", reverts=(3,), removed=["flights/3-0.avro"])
    reader = follower(account)
    assert 0 == reader.latest(-1, ONE)
    assert backlog(4, 3) == reader.backlog(0)
    assert 4 == reader.latest(0, TriggerLimits())
    assert backlog(0) == reader.backlog(4)


def test_without_a_log_there_is_no_backlog_and_all_of_a_new_log_is_one() -> None:
    account = new_account()
    reader = follower(account)
    assert -1 == reader.latest(-1, ONE)
    assert None is reader.backlog(-1)
    put(account, 0)
    put(account, 1)
    assert 0 == reader.latest(-1, ONE)
    assert (backlog(2), backlog(1)) == (reader.backlog(-1), reader.backlog(0))


def test_a_log_that_was_begun_again_has_a_backlog_of_its_own() -> None:
    account = filled(3)
    reader = follower(account)
    assert 0 == reader.latest(-1, ONE)
    container = account.container("container")
    for each in list(container.list("")):
        container.delete(each.name)
    for version in range(4):
        put(account, version, log_id="another")
    with pytest.raises(ConflictError, match=r"begun again"):
        reader.latest(0, ONE)
    anew = follower(account)
    assert 0 == anew.latest(-1, ONE)
    assert (backlog(4), backlog(3)) == (anew.backlog(-1), anew.backlog(0))


def guarded(*schemas: str, strict: bool = True, **given: Any) -> tuple[MemoryAccount, SchemaGuard]:
    """A stream whose version n was written by the schema `schemas[n]`, and a query that was started with the first."""
    account = new_account()
    container = account.container("container")
    written = {letter: parse(_record(letter)) for letter in "".join(schemas)}
    for avro in written.values():
        container.put(schema_name("flights", avro.fingerprint), avro.json.encode())
    for version, letters in enumerate(schemas):
        blobs = tuple(
            replace(blob(version, number), schema=written[letter].fingerprint) for number, letter in enumerate(letters)
        )
        more = given.get(f"of_{version}", {})
        put(account, version, **{"since": 0, "schemas": used(schemas, version, written), "blobs": blobs, **more})
    reader = follower(account)
    return account, SchemaGuard(reader, QuerySchema(written[schemas[0][0]], None, strict))


def used(schemas: Sequence[str], version: int, written: Mapping[str, AvroSchema]) -> tuple[str, ...]:
    return tuple(written[letter].fingerprint for letter in dict.fromkeys("".join(schemas[: version + 1])))


def _record(column: str) -> str:
    """The schema `a` has a column `a` alone; any other one has its own letter as well."""
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in dict.fromkeys(("a", column))]
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def ended(guard: SchemaGuard, after: int) -> int:
    return guard.end(after, guard.follower.latest(after, TriggerLimits()))


def test_a_range_ends_before_the_version_that_brings_a_column_and_the_next_one_is_refused() -> None:
    _, guard = guarded("a", "a", "b", "a")
    assert 1 == ended(guard, -1)
    with pytest.raises(ConflictError, match=r"version 2 of .*flights failed: it adds column 'b'") as caught:
        ended(guard, 1)
    assert "goes on with this version" in str(caught.value)
    with pytest.raises(ConflictError, match="version 2 of .*'b'"):
        guard.check(-1, 3)
    guard.check(-1, 1)


def test_a_query_that_was_started_with_every_column_reads_on_and_reads_no_entry_for_the_check() -> None:
    faults = FaultInjector()
    account, before = guarded("b", "a", "b", "a")
    guard = SchemaGuard(follower(account, faults), before.query)
    assert 3 == ended(guard, -1)
    guard.check(2, 3)
    seen = faults.count
    assert 3 == guard.end(-1, 3)
    assert seen == faults.count


def test_a_query_that_ignores_new_columns_reads_past_them() -> None:
    _, guard = guarded("a", "b", "a", strict=False)
    assert 2 == ended(guard, -1)


def test_overwritten_blobs_stop_no_query() -> None:
    gone = {"operation": "overwrite", "since": 2, "removed": ("flights/0-0.avro", "flights/1-0.avro")}
    a = parse(_record("a")).fingerprint
    _, guard = guarded("a", "b", "a", of_2={**gone, "schemas": (a,)})
    assert 2 == ended(guard, -1)
    assert 1 == guard.end(0, 1), "the read of its blobs reports that they are deleted, not the schema"


def test_a_column_of_a_voided_batch_stops_no_query() -> None:
    void = {"operation": "void", "replaces": 1, "removed": ("flights/1-0.avro",), "blobs": ()}
    _, guard = guarded("a", "b", "a", "a", of_2=void)
    assert 3 == ended(guard, -1)


def test_a_range_does_not_end_between_a_batch_and_its_replacement_that_brings_a_column() -> None:
    again = {"operation": "replace", "replaces": 2, "removed": ("flights/2-0.avro",)}
    _, guard = guarded("a", "a", "a", "b", of_3=again)
    assert 1 == ended(guard, -1)
    with pytest.raises(ConflictError, match=r"version 3 of .*'b'"):
        ended(guard, 1)


def test_a_replacement_of_what_an_earlier_range_read_does_not_hold_back_the_versions_before_it() -> None:
    again = {"operation": "replace", "replaces": 0, "removed": ("flights/0-0.avro",)}
    _, guard = guarded("a", "a", "a", "b", of_3=again)
    assert 2 == ended(guard, 1)


class StreamingQuery:
    """A streaming query: plans a range, reads it, commits it. Position, plan and committed rows survive a kill."""

    def __init__(self, shared: SharedState, limit: int | None) -> None:
        self.shared, self.limit = shared, limit
        self.at, self.planned = -1, -1
        self.rows: Counter[Row] = Counter()
        self.first_seen: list[Row] | None = None
        self.start()

    def start(self) -> None:
        log = CommitLog(self.shared.container, "flights", readers=1)
        self.follower = Follower(log, float("inf"), ManualClock())

    def step(self, *, killed: bool) -> None:
        """One micro-batch; killed after reading, it will be repeated."""
        if self.planned == self.at:
            self.planned = self.follower.latest(self.at, TriggerLimits(blobs=self.limit))
        if self.planned == self.at:
            return
        rows = [row for _, each in new_blobs(self.follower.entries(self.at, self.planned)) for row in self.read(each)]
        assert self.first_seen in (None, rows), "the range gave other rows than before"
        if killed:
            self.first_seen = rows
            self.shared.seen["reader killed"] += 1
            self.start()
            return
        self.rows.update(rows)
        self.at, self.first_seen = self.planned, None
        self.shared.seen["micro-batches"] += 1

    def read(self, each: BlobEntry) -> list[Row]:
        lines = self.shared.container.get(each.name).data.decode().splitlines()
        return [tuple(json.loads(line)) for line in lines]


class FollowsUnpublished(Follower):
    """A mistake: what is committed is taken for published."""

    def _last_published(self, head: Entry, after: int) -> int:
        return max(head.version, after)


class EndsAnywhere(Follower):
    """A mistake: a range may end between an entry and the one that revokes it."""

    def _admitted(self, after: int, published: int, limits: TriggerLimits) -> int:
        return min(after + 1, published)


def machine(  # noqa: C901 - a class with its rules
    kind: type[Follower], limit: int | None, seen: Counter[str]
) -> type[RuleBasedStateMachine]:
    """Two drivers of one writing query, moved request by request, and a streaming reader between their requests."""

    class Machine(SeededMachine):
        def __init__(self) -> None:
            super().__init__()
            self.shared = SharedState(queries={"q": Progress()}, seen=seen)
            self.drivers: dict[int, Driver] = {}
            self.reader = StreamingQuery(self.shared, limit)
            self.renew()

        def renew(self) -> None:
            self.reader.follower.__class__ = kind

        @rule(place=st.integers(0, 1), seed=st.integers(0, 10**6), steps=st.integers(1, 12))
        def write(self, place: int, seed: int, steps: int) -> None:
            self.seed += seed
            driver = self.drivers.setdefault(place, Driver(self.shared, "q", self.draw, log_first))
            if not all(driver.step() for _ in range(steps)):
                driver.finish()
                del self.drivers[place]

        @rule(place=st.integers(0, 1))
        def kill(self, place: int) -> None:
            if place in self.drivers:
                seen["kills"] += 1
                self.drivers.pop(place).kill()

        @rule()
        def expire(self) -> None:
            seen["weeks"] += 1
            self.shared.account.clock.sleep(8 * 24 * 3600.0)

        @rule(killed=st.booleans())
        def read(self, killed: bool) -> None:
            self.reader.step(killed=killed)
            self.renew()

        @invariant()
        def no_row_was_read_twice(self) -> None:
            assert not [row for row, times in self.reader.rows.items() if times > 1]

        def teardown(self) -> None:
            Driver(self.shared, "q", self.draw, log_first).finish()
            for driver in self.drivers.values():
                driver.finish()
            Driver(self.shared, "q", self.draw, log_first).finish()
            head = CommitLog(self.shared.container, "flights").head()
            while head is not None and self.reader.at < head.version:
                self.reader.step(killed=self.reader.first_seen is None)  # each range that is left is read twice
                self.renew()
            assert self.shared.all_rows == dict(self.reader.rows)
            seen["histories"] += 1

    return Machine


def explore(
    kind: type[Follower], *, limit: int | None, examples: int, phases: tuple[Phase, ...] = tuple(Phase)
) -> Counter[str]:
    seen: Counter[str] = Counter()
    run_histories(machine(kind, limit, seen), examples, 40, phases)
    return seen


@pytest.mark.parametrize("limit", [None, 1])
def test_a_reader_beside_killed_writers_sees_each_row_once(limit: int | None) -> None:
    check_events(explore(Follower, limit=limit, examples=30), ("kills", "reader killed", "micro-batches"))


@pytest.mark.long
@pytest.mark.parametrize("limit", [None, 1])
def test_it_does_so_in_many_histories(limit: int | None) -> None:
    seen = explore(Follower, limit=limit, examples=1000)
    check_events(seen, ("kills", "weeks", "reader killed", "micro-batches", "rolled forward", "replaced"))


@pytest.mark.parametrize(("mistake", "limit"), [(FollowsUnpublished, None), (EndsAnywhere, 1)])
def test_a_wrong_reader_is_caught(mistake: type[Follower], limit: int) -> None:
    with pytest.raises((AssertionError, NotFoundError)):
        explore(mistake, limit=limit, examples=2000, phases=(Phase.generate,))
