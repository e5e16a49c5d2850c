"""A process dies at every storage call, before and after its effect; the next one goes on."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.pins import pin_version, release
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at
from foundation.errors import NotFoundError
from tests.adjunct_store.stores import (
    NAMES,
    OTHER,
    SCHEMA,
    STORE,
    generations_in,
    manifest_of,
    new_account,
    numbers,
    opened,
    published,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.manifest_store import Fill
    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount

    Act = Callable[[BlobContainer], object]


def fill_a_stream(container: BlobContainer) -> None:
    """Versions of two generations, the later one after a bootstrap. A batch goes on after the base that is there."""
    fill = _made(container, SCHEMA)
    for batch in range(3):
        published(fill, batch)
    fill = _made(container, OTHER)
    for batch in range(3):
        published(fill, batch, bootstrapped=batch > 0)
    fill.clean_up()


def _made(container: BlobContainer, schema: dict[str, Any]) -> Fill:
    """A fill of a store with this schema, which replaces one that has another."""
    manifest = read_manifest(container, STORE)
    other = manifest is not None and manifest.current is not None and manifest.current.schema != schema
    return opened(container, schema, keep=1, rebuild=other)


def load_data_sets(container: BlobContainer) -> None:
    """Two data sets, one after the other, from the beginning."""
    fill = opened(container, bounded=True)
    published(fill, 0)
    published(fill, 1, sealed=True)
    beside = fill.build_beside(OTHER, "planes")
    published(beside, 0)
    published(beside, 1, sealed=True)
    beside.clean_up()


def newest_batch(container: BlobContainer) -> tuple[int, int]:
    """Generation and batch of the newest version that readers may see."""
    manifest = read_manifest(container, STORE)
    newest = None if manifest is None else manifest.newest
    return (0, -1) if newest is None else (newest.generation, newest.batch)


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("act", [fill_a_stream, load_data_sets])
def test_a_fill_that_dies_anywhere_is_followed_by_another_one(act: Act, after_effect: bool) -> None:
    for number in itertools.count(1):
        account = new_account()
        container = account.container("box")
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        with contextlib.suppress(ProcessDied):
            act(account.restarted(faults).container("box"))
        before = newest_batch(container)
        with contextlib.suppress(NotFoundError):
            assert before == tuple(_of(pin_version(container, STORE, "q", 0)[0]))
        release(container, STORE, "q")
        act(container)
        assert before <= newest_batch(container)
        manifest = manifest_of(container)
        assert ["serving"] == list(numbers(manifest).values())
        assert {each.number for each in manifest.generations} == generations_in(container)
        if not faults.died:
            break
    assert number > 30


def _of(version: object) -> tuple[int, int]:
    return version.generation, version.batch  # type: ignore[attr-defined]


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_task_that_dies_while_it_pins_is_followed_by_others(after_effect: bool) -> None:
    for number in itertools.count(1):
        account = new_account()
        container = account.container("box")
        fill = opened(container, keep=1)
        published(fill, 0)
        for batch in (0, 1):
            pin_version(container, STORE, "q", batch)
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        with contextlib.suppress(ProcessDied):
            pin_version(account.restarted(faults).container("box"), STORE, "q", 2)
        confirmed = b'"confirmed":true' in _data(container, NAMES.pin("q", 2))
        last = [published(fill, batch) for batch in range(1, 3)][-1]
        version, _ = pin_version(container, STORE, "q", 2)
        assert (1 if confirmed else last.number) == version.number
        assert version == manifest_of(container).version(version.number)
        published(fill, 3)
        assert version.number == pin_version(container, STORE, "q", 2)[0].number
        pin_version(container, STORE, "q", 3)
        assert [NAMES.pin("q", 2), NAMES.pin("q", 3)] == [blob.name for blob in container.list(NAMES.pins("q"))]
        if not faults.died:
            break
    assert number > 6


def _data(container: BlobContainer, blob: str) -> bytes:
    try:
        return container.get(blob).data
    except NotFoundError:
        return b""


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_clean_up_that_dies_anywhere_is_finished_by_the_next_one(after_effect: bool) -> None:
    for number in itertools.count(1):
        account, container = _with_waste()
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        with contextlib.suppress(ProcessDied):
            fill = opened(account.restarted(faults).container("box"), OTHER, keep=1)
            fill.clean_up()
        pinned = manifest_of(container).version(1)
        assert pinned is not None
        assert {1} <= generations_in(container), "its version is pinned"
        release(container, STORE, "q")
        opened(container, OTHER, keep=1).clean_up()
        assert ["serving"] == list(numbers(manifest_of(container)).values())
        assert {2} == generations_in(container)
        if not faults.died:
            break
    assert number > 8


def _with_waste() -> tuple[MemoryAccount, BlobContainer]:
    """Versions that can retire, a version of an old generation that is pinned."""
    account = new_account()
    container = account.container("box")
    published(opened(container, SCHEMA), 0)
    pin_version(container, STORE, "q", 0)
    fill = opened(container, OTHER, rebuild=True)
    for batch in range(3):
        published(fill, batch, bootstrapped=True)
    return account, container
