"""Each feature's permissions, by the requests that it makes and by what happens without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.features.every import ALL
from tests.features.place import Feature
from tests.permissions.__main__ import found_of
from tests.permissions.operations import letters_of
from tests.permissions.proxy import checking_proxy
from tests.permissions.table import Found, stored, table
from tests.permissions.trial import AzuriteBench, memory_bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.permissions.trial import MemoryBench
    from tools.azurite import Azurite

OF_A_SECOND = [each for each in ALL if each.group != "`coordination`: jobs"]
NAMED = {each.feature: each for each in stored()}


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[MemoryBench]:
    with memory_bench(tmp_path) as bench:
        yield bench


@pytest.mark.parametrize("feature", OF_A_SECOND, ids=lambda each: each.name)
def test_a_feature_requests_what_was_found(in_memory: MemoryBench, feature: Feature) -> None:
    found = NAMED[feature.name]
    trial = in_memory.needs(feature)
    assert set(found.letters + found.spared) == set(letters_of(trial.operations))
    assert (feature.group, feature.sas_of) == (found.group, found.sas)


@pytest.mark.slow
@pytest.mark.parametrize("feature", ALL, ids=lambda each: each.name)
def test_a_feature_works_with_its_letters_and_says_which_one_it_lacks(
    azurite: Azurite, tmp_path: Path, in_memory: MemoryBench, feature: Feature
) -> None:
    """It loses nothing: with the letter it has the same result afterwards."""
    with checking_proxy(azurite) as proxy:
        bench = in_memory if feature.needs_undelete else AzuriteBench(azurite, proxy, tmp_path)
        trial = bench.tried(feature)
    for letter, text in trial.errors.items():
        assert any(f"{each} (" in text for each in ({"w": "wc"}.get(letter, letter))), text
    assert NAMED[feature.name] == found_of(trial)


def test_all_features_are_found() -> None:
    assert [each.name for each in ALL] == [each.feature for each in stored()]


def test_a_group_needs_what_one_of_its_features_needs() -> None:
    reader, contributor = ("Storage Blob Data Reader",), ("Storage Blob Data Contributor",)
    tables = ("Storage Blob Data Reader", "Storage Table Data Contributor")
    found = [
        Found("a", "1", "container", "rl", "", reader),
        Found("a", "2", "container", "rw", "d", contributor),
        Found("a", "3", "container", "rd", "t", contributor),
        Found("b", "4", "account", "ra", "", tables),
    ]
    assert [
        "| a | *Contributor* | `rlwd` (`t`) |",
        "| b | *Reader* and *Storage Table Data Contributor* | `ra` of the account |",
    ] == table(found)[2:]
