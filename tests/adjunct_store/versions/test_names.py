"""Names of the blobs of a store."""

from __future__ import annotations

import pytest

from adjunct_store.versions.names import StoreNames
from foundation.errors import ConfigurationError

NAMES = StoreNames("stores/planes")


def test_every_blob_of_a_store_has_its_place() -> None:
    assert "stores/planes/store.json" == NAMES.manifest
    assert "stores/planes/g12/p3" == NAMES.state(12, 3)
    assert "stores/planes/g12/" == NAMES.generation_prefix(12)
    assert "stores/planes/pins/query/00000000000000000042.json" == NAMES.pin("query", 42)


def test_names_of_pins_are_ordered_by_batch() -> None:
    batches = [0, 1, 9, 10, 99, 12345678901234567890]
    assert [NAMES.pin("query", batch) for batch in batches] == sorted(NAMES.pin("query", batch) for batch in batches)


@pytest.mark.parametrize(
    ("blob", "generation"),
    [
        ("stores/planes/g1/p0/checkpoint.json", 1),
        ("stores/planes/g12/p0/files/a", 12),
        ("stores/planes/g01/p0/files/a", None),
        ("stores/planes/g1", None),
        ("stores/planes/gulls/p0", None),
        ("stores/planes/store.json", None),
        ("stores/planes2/g1/p0", None),
    ],
)
def test_a_blob_says_its_generation(blob: str, generation: int | None) -> None:
    assert generation == NAMES.generation_of(blob)


@pytest.mark.parametrize(("first", "later"), [(1, 10), (1, 2), (9, 90), (10, 100)])
def test_after_a_generation_come_the_others_in_name_order(first: int, later: int) -> None:
    after = NAMES.after_generation(first)
    assert NAMES.state(first, 9) < after <= NAMES.state(later, 0)


@pytest.mark.parametrize(
    "store", ["", "/a", "a//b", "a/../b", "a/g1", "pins/a", "a/store.json", "a/index", "a" * 701, "g7"]
)
def test_a_store_cannot_be_inside_another_one(store: str) -> None:
    with pytest.raises(ConfigurationError, match="is not valid"):
        StoreNames(store)


@pytest.mark.parametrize("reader", ["", "a/b", ".", "a" * 201])
def test_the_name_of_a_reader_is_one_level(reader: str) -> None:
    with pytest.raises(ConfigurationError, match="is not valid"):
        NAMES.pins(reader)


@pytest.mark.parametrize("batch", [-1, 10**20])
def test_batches_are_numbered_from_0(batch: int) -> None:
    with pytest.raises(ConfigurationError, match=f"Batch {batch} of reader query is not valid"):
        NAMES.pin("query", batch)
