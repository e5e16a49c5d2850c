"""Which generations a fill may continue or replace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adjunct_store.versions.manifest import Generation
from adjunct_store.versions.recovery import StoreDefinition, difference, may_continue

SCHEMA = {"keys": [["tail", "string"]], "ordered": False}
WANTED = StoreDefinition(SCHEMA, 4, "planes")
BOUNDED = replace(WANTED, bounded=True)
GENERATION = Generation(3, SCHEMA, 4, "planes")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (WANTED, ""),
        (replace(WANTED, schema={}), "its schema has changed"),
        (replace(WANTED, partitions=5), "it has 4 partitions, not 5"),
        (replace(WANTED, source="x"), "it is filled from planes, not from x"),
        (replace(WANTED, schema={}, source="x"), "it is filled from planes, not from x"),
        (replace(BOUNDED, schema={}), ""),
        (replace(BOUNDED, partitions=5), ""),
        (replace(BOUNDED, source="x"), "it is filled from planes, not from x"),
    ],
)
def test_a_store_of_another_source_or_with_other_columns_is_another_store(
    wanted: StoreDefinition, expected: str
) -> None:
    assert expected == difference(GENERATION, wanted)


@pytest.mark.parametrize(
    ("generation", "wanted", "max_age", "expected"),
    [
        (GENERATION, WANTED, None, True),
        (GENERATION, WANTED, 99.5, True),
        (GENERATION, WANTED, 99.0, False),
        (GENERATION, replace(WANTED, schema={}), None, False),
        (GENERATION, replace(WANTED, partitions=5), None, False),
        (GENERATION, BOUNDED, None, False),
        (replace(GENERATION, sealed=True), BOUNDED, None, True),
        (replace(GENERATION, sealed=True), replace(BOUNDED, schema={}), None, False),
    ],
)
def test_a_generation_is_continued_if_nothing_has_changed_and_nothing_was_missed(
    generation: Generation, wanted: StoreDefinition, max_age: float | None, expected: bool
) -> None:
    assert expected == may_continue(generation, wanted, age=99.0, max_age=max_age)
