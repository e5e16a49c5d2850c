"""What a discovery costs: requests of a trigger by the number of partitions, however many old blobs there are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from azureblob_source.adoption.known_blobs import KnownBlobs
from azureblob_source.log.name_places import name_place
from tests.azureblob_source.adoption.folder_writer import AT_ONCE, FOLDER, NOON, avro, capture_name, fill
from tests.azureblob_source.adoption.test_adopter import Folder

FEW_NAMES = replace(AT_ONCE, most_names=100)


@pytest.mark.parametrize("lists_from_name", [True, False])
@pytest.mark.parametrize(("partitions", "minutes"), [(1, 1500), (32, 45)])
def test_a_trigger_lists_a_range_for_each_partition(partitions: int, minutes: int, *, lists_from_name: bool) -> None:
    folder = Folder(lists_from_name=lists_from_name)
    fill(folder.container, partitions, minutes)
    folder.clock.advance(minutes * 60.0)
    adopter = folder.new_adopter(replace(FEW_NAMES, whole_every=1e9))
    assert partitions * minutes == adopter.discover().adopted
    adopter.discover()  # learns whether the service can begin at a name
    now = NOON + timedelta(minutes=minutes)
    for partition in range(partitions):
        folder.container.put(capture_name(partition, now), avro([0]))
    before = folder.requests.seen.copy()
    found = adopter.discover()
    made = folder.requests.seen - before
    assert (partitions, False) == (found.adopted, found.is_whole)
    assert made["list"] == partitions if lists_from_name else partitions <= made["list"] <= 3 * partitions
    assert found.listed <= partitions * 17 if lists_from_name else found.listed <= partitions * 121
    assert partitions + 4 >= made["get"], "one for each new blob, and those of the log"
    assert 1 == made["put"]
    before = folder.requests.seen.copy()
    assert 0 == adopter.discover().adopted
    made = folder.requests.seen - before
    assert 3 >= sum(made.values()) - made["list"], "whether there is a newer entry"


def test_a_whole_listing_is_compared_with_the_names_of_the_log() -> None:
    folder = Folder()
    fill(folder.container, 4, 400)
    adopter = folder.new_adopter(replace(FEW_NAMES, entry_blobs=50, checkpoint_interval=8))
    adopter.discover()
    late = capture_name(2, NOON + timedelta(minutes=7, seconds=30))
    folder.container.put(late, avro([1]))
    assert 0 == adopter.discover().adopted
    folder.clock.advance(601.0)
    before = folder.requests.seen.copy()
    found = adopter.discover()
    assert (1, True) == (found.adopted, found.is_whole)
    assert 20 >= sum((folder.requests.seen - before).values())
    assert 1601 == len(folder.names())
    assert late == folder.names()[-1]


def test_few_names_are_listed_as_a_whole_if_that_is_cheaper() -> None:
    folder = Folder()
    fill(folder.container, 20, 5)
    adopter = folder.new_adopter()
    adopter.discover()
    lists = folder.requests.seen["list"]
    assert adopter.discover().is_whole
    assert 1 == folder.requests.seen["list"] - lists


def test_a_process_keeps_the_names_of_the_last_minutes_only() -> None:
    names = [capture_name(part, NOON + timedelta(minutes=each)) for part in range(3) for each in range(1000)]
    known = KnownBlobs.of(lambda: ((name, "1") for name in names), len(names), 100)
    assert 3 * 16 == known.names
    assert [f"{FOLDER}/{part}/2026/01/02/04/24" for part in range(3)] == sorted(
        each.floor for each in known.partitions.values()
    )
    assert "1" == known.etag(names[-1])
    assert None is known.etag(capture_name(1, NOON + timedelta(minutes=999, seconds=3)))
    assert None is known.etag(capture_name(7, NOON))
    with pytest.raises(KeyError):
        known.etag(names[0])


def test_a_directory_without_times_is_listed_whole_or_from_its_newest_name() -> None:
    names = [(f"t/partition=0/t+0+{number:010d}.avro", "1") for number in range(5001)]
    few, many = KnownBlobs(), KnownBlobs()
    few.add(names[:5000])
    many.add(names)
    ends = [next(iter(known.partitions.values())).since for known in (few, many)]
    assert ["t/partition=0/", "t/partition=0/t+0+0000005000.avro"] == ends
    assert "t/partition=0/" == name_place(ends[1]).prefix
