"""What log, name and listing say of a stream's blobs."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.values import BlobProperties
from azureblob_source.log.entry import BlobEntry, LogEntry
from azureblob_source.log.folder import is_avro
from azureblob_source.log.naming import blob_name, partition_level
from azureblob_source.log.times import microseconds, name_time
from azureblob_source.read.blob_table import BlobTable
from azureblob_source.read.blobs import PLANNED, BlobSelection, StreamBlob, listed_blobs, stream_blob
from azureblob_source.read.options import source_options

NOON = datetime(2013, 1, 31, 12, 0, 5, tzinfo=UTC)
SECOND = 1_000_000
AT_NOON = 1_359_633_605 * SECOND

ENTRY = LogEntry("write", "2013-01-31T12:00:09.123+00:00", version=7)
BLOB = BlobEntry("flights/2013/01/31/12/00-05-0a1b2c3d.avro", "flights", "JFK", "a", 1, 2, 3, 44, "f" * 16, "end")


def listed(*names: str, size: int = 9) -> list[BlobProperties]:
    return [BlobProperties(name, size, '"1"', NOON) for name in names]


def names_of(stream: str, *names: str) -> list[str]:
    return [blob.name for blob in listed_blobs(stream, listed(*names))]


# --- times in names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("flights/2013/01/31/12/00-05.avro", 8),
        ("flights/2013/01/31/12/00-05-0a1b2c3d.avro.gz", 8),
        ("flights/JFK/2013/01/31/12/00-05-0a1b2c3d.avro", 12),
        ("namespace/hub/0/2013/01/31/12/00/05.avro", 16),
        ("lake/raw/namespace/hub/0/2013/01/31/12/00/05.avro", 25),
        ("2013/01/31/12/00/05/namespace/hub/0.avro", 0),
        ("s/1999/01/01/00/00/00/2013/01/31/12/00/05.avro", 22),
    ],
)
def test_the_time_in_a_name_is_found(name: str, place: int) -> None:
    assert (place, AT_NOON) == name_time(name)


@pytest.mark.parametrize(
    "name",
    [
        "flights/part-00000.avro",
        "flights/2013/01/31/part-00000.avro",
        "flights/2013/13/31/12/00-05.avro",
        "flights/2013/01/31/12/00-60.avro",
        "flights/2013/01/31/12/0005.avro",
        "flights/x2013/01/31/12/00/05.avro",
        "flights/2013/01/31/12/00/055.avro",
        "flights/\u0662013/01/31/12/00/05.avro",
    ],
)
def test_a_name_without_a_time_has_none(name: str) -> None:
    assert (None, None) == name_time(name)


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001 - as hypothesis wants it
    st.none() | st.text("abc_%.-/0123456789").map(partition_level),
    st.none() | st.text("0123456789abcdef", min_size=8, max_size=8),
)
def test_the_time_of_the_sinks_own_names_is_found(started: datetime, partition: str | None, suffix: str | None) -> None:
    name = blob_name("flights", partition, started, suffix, ".avro")
    assert microseconds(started.replace(microsecond=0)) == name_time(name)[1]
    (blob,) = listed_blobs("flights", listed(name))
    assert partition == blob.partition


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_event_times_are_the_range_if_the_log_has_them() -> None:
    found = stream_blob(ENTRY, replace(BLOB, min_event_time=5, max_event_time=8))
    assert StreamBlob(BLOB.name, 44, 7, "JFK", 5, 8) == found


def test_without_event_times_the_range_is_from_the_first_row_to_the_commit() -> None:
    found = stream_blob(ENTRY, BLOB)
    assert (AT_NOON, AT_NOON + 4_123_999) == (found.earliest, found.latest)
    assert (None, AT_NOON + 4_123_999) == (
        (unnamed := stream_blob(ENTRY, replace(BLOB, name="flights/x.avro"))).earliest,
        unnamed.latest,
    )


def test_the_range_of_a_listed_blob_ends_with_its_last_modification() -> None:
    (found,) = listed_blobs("flights", listed("flights/JFK/2013/01/31/12/00-01.avro"))
    assert StreamBlob(found.name, 9, None, "JFK", AT_NOON - 4 * SECOND, AT_NOON + SECOND - 1, '"1"') == found


def test_clocks_that_disagree_make_the_range_larger() -> None:
    early = replace(ENTRY, timestamp=(NOON - timedelta(hours=1)).isoformat())
    found = stream_blob(early, BLOB)
    assert (AT_NOON - 3600 * SECOND + 999, AT_NOON) == (found.earliest, found.latest)


@pytest.mark.parametrize(
    ("between", "held"),
    [
        ((None, None), True),
        ((20, None), True),
        ((21, None), False),
        ((None, 10), False),
        ((None, 11), True),
        ((12, 13), True),
        ((0, 10), False),
        ((21, 30), False),
    ],
)
def test_a_blobs_range_includes_both_ends_and_the_requested_one_excludes_its_end(
    between: tuple[int | None, int | None], held: bool
) -> None:
    assert held == BlobSelection(between).keeps(StreamBlob("s/1.avro", 1, earliest=10, latest=20))
    assert BlobSelection(between).keeps(StreamBlob("s/1.avro", 1))


PARTITIONS = ["EWR", "EW", "JFK", "gate 7", "a,b", "a*b", "a\\b", "a/b", "_x", "50%", "São Paulo", "a\nb", " c ", ""]


@pytest.mark.parametrize(
    ("partitions", "kept"),
    [
        ("EWR", ["EWR"]),
        ("JFK, EWR ,none", ["EWR", "JFK"]),
        ("E*", ["EWR", "EW"]),
        ("E?", ["EW"]),
        ("*7,??", ["EW", "gate 7", "_x"]),
        ("a\\,b", ["a,b"]),
        ("a\\*b", ["a*b"]),
        ("a\\\\b", ["a\\b"]),
        ("a?b", ["a,b", "a*b", "a\\b", "a/b", "a\nb"]),
        ("a/b", ["a/b"]),
        ("a%2Fb", []),
        ("_x,50%", ["_x", "50%"]),
        ("São*", ["São Paulo"]),
        ("\\ c\\ ,ew", [" c "]),
        ("[A-Z]*", []),
        ("*", PARTITIONS),
    ],
)
def test_partitions_are_selected_by_the_values_of_their_column(partitions: str, kept: list[str]) -> None:
    raw = {"path": "data/flights", "accountName": "acme", "accountKey": "a2V5", "partitions": partitions}
    selection = source_options(raw, {}).selection
    blobs = {value: StreamBlob("s/1.avro", 1, partition=partition_level(value)) for value in PARTITIONS}
    assert kept == [value for value, blob in blobs.items() if selection.keeps(blob)]
    assert not selection.keeps(StreamBlob("s/1.avro", 1))
    assert not BlobSelection((5, None), selection.partitions).keeps(replace(blobs["EWR"], latest=4))


@pytest.mark.parametrize("partitions", [None, "JFK|E.*"])
@pytest.mark.parametrize("between", [(None, None), (15, None), (None, 15), (15, 16)])
def test_a_table_of_many_blobs_selects_as_one_by_one(
    partitions: str | None, between: tuple[int | None, int | None]
) -> None:
    ranges = itertools.product([None, "EWR", "JFK", "LGA"], [None, 5, 15], [15, 25])
    blobs = [
        StreamBlob(f"s/{number}.avro", 9, 0, partition, earliest, latest)
        for number, (partition, earliest, latest) in enumerate(ranges)
    ]
    table = BlobTable(pa.table({name: [getattr(blob, name) for blob in blobs] for name in PLANNED}))
    selection = BlobSelection(between, None if partitions is None else re.compile(partitions))
    assert list(filter(selection.keeps, blobs)) == list(table.selected(selection))


def test_partitions_of_other_programs_are_selected_by_all_their_levels() -> None:
    names = ["flights/0/2013/01/31/12/00/05.avro", "flights/dt=2013-01-31/h=12/2013/01/31/12/00-01.avro"]
    names += ["flights/%FF/2013/01/31/12/00-01.avro", "flights/a.avro"]
    blobs = listed_blobs("flights", listed(*names))

    def kept(partitions: str) -> list[str]:
        selection = BlobSelection(partitions=re.compile(partitions))
        return [blob.name for blob in blobs if selection.keeps(blob)]

    assert [names[0]] == kept("0")
    assert [names[1]] == kept("dt=2013-01-31/.*")
    assert [names[2]] == kept("%FF")
    assert set(names[:3]) == set(kept(".*"))


# --- listings ---------------------------------------------------------------------------------------------------------


def test_levels_between_stream_and_time_are_the_partition() -> None:
    names = {
        "s/2013/01/31/12/00-05.avro": None,
        "s/hub/0/2013/01/31/12/00/05.avro": "hub/0",
        "s/x/other.avro": None,
    }
    assert names == {blob.name: blob.partition for blob in listed_blobs("s", listed(*names))}
    (deep,) = listed_blobs("s/2013/01", listed("s/2013/01/31/12/00-05.avro"))
    assert (None, AT_NOON) == (deep.partition, deep.earliest)


def test_hidden_levels_are_left_out_and_other_files_are_known_by_their_names() -> None:
    found = names_of(
        "_s/.x", "_s/.x/_a/b.avro", "_s/.x/.b.avro", "_s/.x/a.avro", "_s/.x/b/c.avro.gz", "_s/.x/d.txt", "_s/.x/e.gz"
    )
    assert ["_s/.x/a.avro", "_s/.x/b/c.avro.gz", "_s/.x/d.txt", "_s/.x/e.gz"] == found
    assert found[:2] == [name for name in found if is_avro(name)]
    assert [] == listed_blobs("s", listed("s/a.avro", size=0))


def test_a_nested_stream_is_left_out() -> None:
    log = "_log/00000000000000000003.json"
    assert ["a/b.avro", "a/bc/1.avro"] == names_of(
        "a", "a/b.avro", "a/b/1.avro", f"a/b/{log}", "a/b/x/2.avro", "a/bc/1.avro", f"a/d/e/{log}", "a/d/e/3.avro"
    )
