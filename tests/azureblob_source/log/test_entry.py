from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.values import BlobAttributes
from azureblob_source.log.entry import (
    BlobEntry,
    Draft,
    LastCommitted,
    LogEntry,
    MovedRows,
    Operation,
    Removal,
    Totals,
    Transaction,
    from_json,
    to_json,
)
from azureblob_source.log.naming import batches_stream, log_name
from foundation.errors import ConfigurationError, CorruptError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "log"
GOLDEN = FIXTURES / "entry_format_1.json"

FULL = LogEntry(
    version=7,
    write_id="6f9619ff8b86d011",
    timestamp="2013-01-31T12:00:05.000+00:00",
    operation="replace",
    commit_info="after the outage in Zürich",
    transaction=Transaction("0f8fad5b-d9cb-469f-a165-70867728950e", 12),
    epoch=3,
    published_up_to=6,
    blobs=(
        BlobEntry(
            name="flights/São Paulo/2013/01/31/12/00-05-0a1b2c3d.avro", stream="flights", partition="São Paulo",
            attempt="0123456789abcdef", blocks=2, rows=1000, uncompressed=52000, size=21000, schema="89abcdef01234567",
            rolled_by="size", min_event_time=1359633600000000, max_event_time=1359633605000000,
            partition_column="origin",
            bounds={"id": (200, 299), "dest": ("ATL", "BOS"), "ratio": (-0.5, 2.0)},
            moved=(
                MovedRows(
                    "flights/São Paulo/2013/01/31/11/58-00-11111111.avro", 1, "2013-01-31T11:58:01.000+00:00",
                    120, 9000, 0, 400, 20000, 1359633600000000, 1359633605000000,
                ),
                MovedRows(
                    "flights/São Paulo/2013/01/31/11/59-00-22222222.avro", 2, "2013-01-31T11:59:01.000+00:00",
                    120, 21000, 400, 600, 32000,
                ),
            ),
        ),
        BlobEntry(
            name="flights/2013/01/31/12/00-06-1b2c3d4e.avro", stream="flights", partition=None,
            attempt="fedcba9876543210", blocks=1, rows=1, uncompressed=52, size=540, schema="89abcdef01234567",
            rolled_by="end",
        ),
    ),
    removed=(Removal("flights/2013/01/31/11/59-00-00000000.avro", "89abcdef01234567"),),
    replaces=5,
    control=(
        {
            "type": "watermark", "version": 1, "taskName": "task 1", "taskCount": 2, "generation": 3,
            "timestamp": 1359633600000, "partitions": ["0", "1", "São Paulo"],
        },
        {"type": "drain", "version": 1, "taskName": "Partition 0", "generation": 0, "runId": "run1"},
    ),
    metrics={"messagesSent": 1001, "bytesSent": 52052},
    writers=({"task": 0, "query": "q", "batch": 12, "durationMs": 7, "metrics": {"messagesSent": 1001}},),
    attributes=BlobAttributes({"owner": "ops"}, {"class": "raw"}, "Cool"),
    transactions={
        "other": LastCommitted(4, 2, 3, 9), "0f8fad5b-d9cb-469f-a165-70867728950e": LastCommitted(12, 7, 11, None),
    },
    list_version=7,
    last_compaction=5,
    kept_until="2013-02-07T12:00:05.000+00:00",
    last_kept=4,
    since=3,
    schemas=("0123456789abcdef", "89abcdef01234567"),
    log_id="d9cb469fa1657086",
    totals=Totals(9, 5001, 121540),
)  # fmt: skip


def test_the_first_format_is_read_for_ever() -> None:
    assert FULL == from_json(GOLDEN.read_bytes(), "golden")


def test_the_first_format_is_still_the_one_that_is_written() -> None:
    assert json.loads(GOLDEN.read_bytes()) == json.loads(to_json(FULL))
    assert list(json.loads(GOLDEN.read_bytes())) == list(json.loads(to_json(FULL)))


names = st.text(st.characters(codec="utf-8"), max_size=8)
counts = st.integers(0, 2**63 - 1)
maps = st.dictionaries(names, names, max_size=2)
bounds = st.integers(-(10**38), 10**38) | st.floats(allow_nan=False, allow_infinity=False) | names
pairs = st.tuples(bounds, bounds)
blobs = st.builds(
    BlobEntry,
    name=names, stream=names, partition=st.none() | names, attempt=names, blocks=st.integers(1, 50_000), rows=counts,
    partition_column=st.none() | names,
    uncompressed=counts, size=counts, schema=names, rolled_by=st.sampled_from(["end", "size", "age"]),
    min_event_time=st.none() | st.integers(-(2**63), 2**63 - 1), max_event_time=st.none() | st.just(0),
    bounds=st.dictionaries(names, pairs, max_size=3),
)  # fmt: skip
entries = st.builds(
    LogEntry,
    version=counts, write_id=names, timestamp=names,
    operation=st.sampled_from(
        ["append", "overwrite", "overwrite-partitions", "replace", "void", "revert", "restore", "epoch"]
    ),
    commit_info=st.none() | names,
    transaction=st.none() | st.builds(Transaction, names, counts), epoch=st.none() | counts,
    published_up_to=st.integers(-1, 2**63 - 1), blobs=st.lists(blobs, max_size=3).map(tuple),
    removed=st.lists(st.builds(Removal, names, names), max_size=2).map(tuple), replaces=st.none() | counts,
    reverts=st.lists(counts, max_size=2).map(tuple), restores=st.none() | counts, last_deletion=st.none() | counts,
    control=st.lists(st.dictionaries(names, names | counts), max_size=2).map(tuple),
    metrics=st.dictionaries(names, counts, max_size=2),
    writers=st.lists(st.dictionaries(names, names), max_size=2).map(tuple),
    attributes=st.builds(BlobAttributes, maps, maps, st.none() | st.just("Cool")),
    transactions=st.dictionaries(names, st.builds(LastCommitted, *3 * [counts], st.none() | counts), max_size=3),
    since=counts, schemas=st.lists(names, max_size=2).map(tuple), log_id=names,
    totals=st.builds(Totals, counts, counts, counts),
)  # fmt: skip


@given(entries)
def test_an_entry_comes_back_as_it_was_written(entry: LogEntry) -> None:
    back = from_json(to_json(entry), "x")
    assert entry == back
    assert list(entry.transactions) == list(back.transactions)


def test_every_field_is_stored_also_one_that_is_empty() -> None:
    empty = json.loads(to_json(LogEntry("w", "2013-01-31T12:00:05+00:00", version=0)))
    assert json.loads(GOLDEN.read_bytes()).keys() == empty.keys()
    assert (None, [], {}) == (empty["transaction"], empty["blobs"], empty["tags"])


def test_fields_of_the_same_format_that_are_not_known_are_ignored() -> None:
    document = json.loads(GOLDEN.read_bytes()) | {"later": [1]}
    document["blobs"][0]["colour"] = "blue"
    assert FULL == from_json(json.dumps(document).encode(), "x")


def test_a_newer_format_asks_for_an_upgrade() -> None:
    document = json.loads(GOLDEN.read_bytes()) | {"formatVersion": 2}
    with pytest.raises(ConfigurationError, match=r"Log entry s/_log/7.json has format version 2.*up to 1, so it needs"):
        from_json(json.dumps(document).encode(), "s/_log/7.json")


def test_an_unknown_operation_asks_for_an_upgrade() -> None:
    document = json.loads(GOLDEN.read_bytes()) | {"operation": "merge"}
    with pytest.raises(ConfigurationError, match="'merge', so it needs a newer release of pyspark-azureblob"):
        from_json(json.dumps(document).encode(), "s/_log/7.json")


@pytest.mark.parametrize("field", sorted(json.loads(GOLDEN.read_bytes())))
def test_an_entry_without_one_of_its_fields_is_damaged(field: str) -> None:
    with pytest.raises(CorruptError, match=f"Log entry s/_log/7.json is damaged: KeyError\\('{field}'\\)"):
        from_json(without(field), "s/_log/7.json")


def without(*path: Any) -> bytes:
    document = json.loads(GOLDEN.read_bytes())
    place = document
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b"\xff\xfe",
        b"{}",
        b'{"formatVersion": "1"}',
        GOLDEN.read_bytes()[:-20],
        GOLDEN.read_bytes().replace(b'"blobs": [', b'"blobs": [7, '),
        GOLDEN.read_bytes().replace(b"[4, 2, 3, 9]", b"[4, 2, 3]"),
        GOLDEN.read_bytes().replace(b'"version": 7', b'"version": "x"'),
        without("transaction", "id"),
        without("blobs", 0, "name"),
        without("blobs", 1, "attempt"),
        without("blobs", 1, "blocks"),
        without("blobs", 1, "partition"),
        without("blobs", 1, "bounds"),
        GOLDEN.read_bytes().replace(b"[200, 299]", b"[200]"),
        without("totals", "rows"),
        GOLDEN.read_bytes().replace(b'"since": 3', b'"since": null'),
        b"[" * 100_000,
    ],
)
def test_a_damaged_entry_is_corrupt_and_named(data: bytes) -> None:
    assert data != GOLDEN.read_bytes()
    with pytest.raises(CorruptError, match=r"Log entry s/_log/7.json is damaged"):
        from_json(data, "s/_log/7.json")


@pytest.mark.parametrize(
    "name",
    [
        "other/2013/01/31/11/59-00-00000000.avro", "flights2/a.avro", "flights", "/flights/a.avro", "a.avro",
        "flights/_log/00000000000000000003.json", "flights/nested/_log/_first.json", "flights/_schemas/00.avsc",
        "flights/../other/a.avro", "flights//a.avro", "flights/", "flights\\_log/a.avro", "_batches/q/_log/a.avro",
    ],
)  # fmt: skip
def test_an_entry_that_names_what_is_no_data_of_its_stream_is_corrupt(name: str) -> None:
    blob = FULL.blobs[1]
    for forged in (replace(FULL, removed=(Removal(name, "a"),)), replace(FULL, blobs=(replace(blob, name=name),))):
        with pytest.raises(CorruptError, match=r"Log entry flights/_log/0{19}7\.json names the blob .*from a backup"):
            from_json(to_json(forged), log_name("flights", 7))


def test_a_batch_entry_names_data_of_any_stream_and_nothing_else() -> None:
    name, blob = log_name(batches_stream("q"), 7), FULL.blobs[1]
    other = replace(blob, name="a/b/2013/01/31/11/59-00-00000000.avro", stream="a/b")
    batch = replace(FULL, blobs=(blob, other), removed=(Removal("c/2013/01/31/11/59-00-00000000.avro", "a"),))
    assert batch == from_json(to_json(batch), name)
    for forged in (
        replace(batch, removed=(Removal("c/_log/00000000000000000003.json", "a"),)),
        replace(batch, removed=(Removal(name, "a"),)),
        replace(batch, blobs=(replace(other, stream="c"),)),
    ):
        with pytest.raises(CorruptError, match=r"Log entry _batches/q/_log/0{19}7\.json names the blob"):
            from_json(to_json(forged), name)


# --- succeeding the head ----------------------------------------------------------------------------------------------


def draft(transaction: Transaction | None = None, epoch: int | None = None) -> Draft:
    return Draft("w", "2013-01-31T12:00:05+00:00", transaction=transaction, epoch=epoch)


def test_a_draft_gets_the_next_version_and_the_epoch_and_transactions_of_the_head() -> None:
    first = draft(Transaction("a", 5), epoch=2).succeeding(None, -1, {})
    second = draft(Transaction("b", 0)).succeeding(first, 0, first.transactions)
    assert (0, 2, -1) == (first.version, first.epoch, first.published_up_to)
    assert (1, 2, 0) == (second.version, second.epoch, second.published_up_to)
    assert {"b": LastCommitted(0, 1, -1, None)} == second.transactions
    assert (0, 0) == (first.list_version, second.list_version)
    assert 3 == draft(epoch=3).succeeding(second, 1, {}).epoch


@pytest.mark.parametrize(
    ("before", "own", "expected"),
    [
        ("12:00:00.000+00:00", "12:00:00.001+00:00", "12:00:00.001+00:00"),
        ("12:00:00.000+00:00", "12:00:00.000+00:00", "12:00:00.001+00:00"),
        ("12:00:00.000+00:00", "11:59:00.000+00:00", "12:00:00.001+00:00"),
        ("12:00:00.999+00:00", "12:00:00.000+00:00", "12:00:01.000+00:00"),
        ("12:00:00.000+00:00", "12:30:00.000+01:00", "12:00:00.001+00:00"),
        ("12:00:00.000+01:00", "11:30:00.000+00:00", "11:30:00.000+00:00"),
    ],
)
def test_the_times_of_entries_rise_whatever_the_clocks_of_writers_say(before: str, own: str, expected: str) -> None:
    head = replace(draft(), timestamp=f"2026-01-01T{before}").succeeding(None, -1, {})
    assert f"2026-01-01T{before}" == head.timestamp
    assert f"2026-01-01T{expected}" == replace(draft(), timestamp=f"2026-01-01T{own}").succeeding(head, 0, {}).timestamp


def written_with(*schemas: str, operation: Operation = "append") -> Draft:
    blobs = tuple(replace(FULL.blobs[1], schema=schema) for schema in schemas)
    return replace(draft(), operation=operation, blobs=blobs)


def test_an_entry_has_the_last_overwrite_and_the_schemas_since_then() -> None:
    head = written_with("b", "a", "b").succeeding(None, -1, {})
    assert (0, ("b", "a")) == (head.since, head.schemas)
    head = written_with("c", "a").succeeding(head, 0, {})
    assert (0, ("b", "a", "c")) == (head.since, head.schemas)
    head = written_with("d", operation="overwrite").succeeding(head, 1, {})
    assert (2, ("d",)) == (head.since, head.schemas)
    head = written_with(operation="epoch").succeeding(head, 2, {})
    assert (2, ("d",)) == (head.since, head.schemas)
    head = written_with(operation="overwrite").succeeding(head, 3, {})
    assert (4, ("d",)) == (head.since, head.schemas)


def test_an_overwrite_of_partitions_leaves_the_last_overwrite_and_the_schemas_before_it() -> None:
    head = written_with("a").succeeding(None, -1, {})
    overwrite = replace(written_with("b", operation="overwrite-partitions"), removed=(head.blobs[0].removal,))
    head = overwrite.succeeding(head, 0, {})
    assert (0, ("a", "b")) == (head.since, head.schemas)


def test_an_entry_has_the_last_one_before_it_that_deletes_rows_of_others() -> None:
    head = written_with("a").succeeding(None, -1, {})
    for deletes in (
        written_with("a", operation="overwrite-partitions"),
        replace(written_with(operation="revert"), reverts=(1,)),
        replace(written_with(operation="void"), replaces=3),
    ):
        before = head.newest_deletion
        head = deletes.succeeding(head, head.version, {})
        assert (before, head.version) == (head.last_deletion, head.newest_deletion)
        for operation in ("append", "epoch", "overwrite"):
            head = written_with("a", operation=operation).succeeding(head, head.version, {})
        assert head.last_deletion == head.newest_deletion == head.version - 3


def test_after_an_overwrite_without_rows_the_next_rows_drop_the_old_schemas() -> None:
    head = written_with("a").succeeding(None, -1, {})
    head = written_with(operation="overwrite").succeeding(head, 0, {})
    assert (1, ("a",)) == (head.since, head.schemas)
    head = written_with("b").succeeding(head, 1, {})
    assert (1, ("b",)) == (head.since, head.schemas)


def test_after_a_voided_overwrite_is_live_what_was_live_before() -> None:
    before = written_with("a").succeeding(None, -1, {})
    head = written_with("b", operation="overwrite").succeeding(before, 0, {})
    voiding = replace(written_with(operation="void"), replaces=1)
    epoch = written_with(operation="epoch").succeeding(head, 0, {})
    for each in (head, epoch):
        void = voiding.succeeding(each, 0, {}, restored=before)
        assert (0, ("a",)) == (void.since, void.schemas)


def test_the_schemas_of_a_voided_entry_do_not_count() -> None:
    before = written_with("a").succeeding(None, -1, {})
    head = written_with("b").succeeding(before, 0, {})
    void = replace(written_with(operation="void"), replaces=1).succeeding(head, 0, {}, restored=before)
    assert (0, ("a",)) == (void.since, void.schemas)


def test_after_a_voided_overwrite_nothing_is_live_that_a_vacuum_has_deleted() -> None:
    before = written_with("a").succeeding(None, -1, {})
    head = written_with("b", operation="overwrite").succeeding(before, 0, {})
    head = replace(written_with(operation="void"), replaces=1).succeeding(head, 0, {})
    assert (2, ()) == (head.since, head.schemas)


def test_totals_are_of_all_blobs_that_were_ever_added() -> None:
    head = written_with("a", "a").succeeding(None, -1, {})
    assert (Totals(), Totals(2, 2, 1080)) == (head.totals_before, head.totals)
    before = head
    head = written_with("b", operation="overwrite").succeeding(head, 0, {})
    assert (Totals(2, 2, 1080), Totals(3, 3, 1620)) == (head.totals_before, head.totals)
    head = replace(written_with(operation="void"), replaces=1).succeeding(head, 0, {}, restored=before)
    assert Totals(3, 3, 1620) == head.totals
    head = written_with("c", operation="replace").succeeding(head, 0, {})
    assert Totals(4, 4, 2160) == head.totals
    assert Totals(2, 2, 1080) == head.totals.less(before.totals)


def test_rows_are_those_of_all_blobs() -> None:
    assert 1001 == FULL.rows
    assert 0 == replace(FULL, blobs=()).rows
    assert ["0123456789abcdef-00000", "0123456789abcdef-00001"] == FULL.blobs[0].block_ids
