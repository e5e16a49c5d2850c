from __future__ import annotations

import pytest

from azure_account.memory.account import MemoryAccount
from coordination.names import job_of, leader_blob, names_of
from foundation.errors import ConfigurationError

NAMES = [
    "a",
    "A",
    "a b",
    "a%20b",
    "a/b",
    "a%2Fb",
    "a.",
    "a%2E",
    "a..",
    "a.%2E",
    ".",
    "..",
    "é",
    "e\u0301",
    " a",
    "a ",
    "?",
]


def test_every_program_has_a_blob_of_its_own() -> None:
    blobs = [leader_blob(name) for name in NAMES]
    assert len(NAMES) == len(set(blobs))
    assert "leaders/report" == leader_blob("report")
    box = MemoryAccount().container("box")
    box.create()
    for blob in blobs:
        assert not blob.endswith(".")
        assert 1 == blob.count("/")
        box.put(blob, b"")
    assert len(NAMES) == len(list(box.list("leaders/")))


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "\ud800"])
def test_a_program_without_a_usable_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="The program's name"):
        leader_blob(name)


def test_jobs_of_one_name_in_two_containers_have_tables_of_their_own() -> None:
    """A table belongs to the account; a blob belongs to its container."""
    one, two = names_of("east", "flights"), names_of("west", "flights")
    assert one.blob == two.blob
    assert one.processors != two.processors
    tables = {names_of(container, name).processors for container in ("box", "box-2", "box2") for name in NAMES}
    assert 3 * len(NAMES) == len(tables)


def test_the_job_of_a_blob_is_found_again() -> None:
    for name in NAMES:
        assert name == job_of(names_of("box", name).blob)
    for blob in ("coordination/a/b/job.json", "coordination/a/job.json.old", "x/coordination/a/job.json", "a"):
        assert job_of(blob) is None
