"""The proposal's table, cell by cell, and what makes a store invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adjunct_store.versions.manifest import Generation
from adjunct_store.versions.recovery import Action, Found, Recovery, Wanted, recovery, validity

SCHEMA = {"keys": [["tail", "string"]], "ordered": False}
WANTED = Wanted(SCHEMA, 4, "planes")
GENERATION = Generation(3, SCHEMA, 4, "planes")


@pytest.mark.parametrize(
    ("persistent", "found", "bootstrap", "expected"),
    [
        (True, Found.NONE, True, Recovery(Action.CREATE, force_bootstrap=True)),
        (True, Found.INVALID, True, Recovery(Action.RECREATE, force_bootstrap=True)),
        (True, Found.VALID, True, Recovery(Action.CONTINUE, force_bootstrap=False)),
        (True, Found.NONE, False, Recovery(Action.CREATE, force_bootstrap=False)),
        (True, Found.INVALID, False, Recovery(Action.RECREATE, force_bootstrap=False)),
        (True, Found.VALID, False, Recovery(Action.CONTINUE, force_bootstrap=False)),
        (False, Found.NONE, True, Recovery(Action.CREATE, force_bootstrap=True)),
        (False, Found.INVALID, True, Recovery(Action.RECREATE, force_bootstrap=True)),
        (False, Found.VALID, True, Recovery(Action.RECREATE, force_bootstrap=True)),
        (False, Found.NONE, False, Recovery(Action.CREATE, force_bootstrap=False)),
        (False, Found.INVALID, False, Recovery(Action.RECREATE, force_bootstrap=False)),
        (False, Found.VALID, False, Recovery(Action.RECREATE, force_bootstrap=False)),
    ],
)
def test_every_cell_of_the_table(persistent: bool, found: Found, bootstrap: bool, expected: Recovery) -> None:
    assert expected == recovery(persistent, found, bootstrap)


@pytest.mark.parametrize(
    ("generation", "wanted", "happened", "expected"),
    [
        (None, WANTED, {}, (Found.NONE, "there is no generation")),
        (None, WANTED, {"rebuild": True}, (Found.NONE, "there is no generation")),
        (GENERATION, WANTED, {}, (Found.VALID, "its schema and source are the same")),
        (GENERATION, Wanted({}, 4, "planes"), {}, (Found.OTHER, "its schema has changed")),
        (GENERATION, Wanted(SCHEMA, 5, "planes"), {}, (Found.OTHER, "it has 4 partitions, not 5")),
        (GENERATION, Wanted({}, 4, "planes", bounded=True), {}, (Found.INVALID, "its schema has changed")),
        (GENERATION, Wanted(SCHEMA, 4, "x"), {}, (Found.OTHER, "it is filled from planes, not from x")),
        (GENERATION, Wanted({}, 4, "x"), {"max_age": 0.0}, (Found.OTHER, "it is filled from planes, not from x")),
        (GENERATION, Wanted({}, 5, "x"), {"rebuild": True}, (Found.INVALID, "a rebuild is asked for")),
        (
            GENERATION,
            replace(WANTED, bounded=True),
            {},
            (Found.INVALID, "it was not sealed, so it is not a whole data set"),
        ),
        (
            replace(GENERATION, sealed=True),
            replace(WANTED, bounded=True),
            {},
            (Found.VALID, "its schema and source are the same"),
        ),
        (GENERATION, WANTED, {"rebuild": True}, (Found.INVALID, "a rebuild is asked for")),
        (GENERATION, WANTED, {"age": 99.0}, (Found.VALID, "its schema and source are the same")),
        (GENERATION, WANTED, {"age": 99.0, "max_age": 99.5}, (Found.VALID, "its schema and source are the same")),
        (
            GENERATION,
            WANTED,
            {"age": 99.0, "max_age": 99.0},
            (Found.INVALID, "nothing was published for 99 s, and at most 99 s are allowed"),
        ),
    ],
)
def test_a_store_is_valid_unless_something_has_changed(
    generation: Generation | None, wanted: Wanted, happened: dict[str, Any], expected: tuple[Found, str]
) -> None:
    assert expected == validity(generation, wanted, **happened)
