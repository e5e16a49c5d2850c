"""Bytes that change on their way are fetched again; storage has them as they were backed up."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.values import BlobContent
from foundation.report import ProgressCallbacks
from state_backup import TaskIdentity, checkpoints, open_state, plan_sweep, restore
from state_backup.backup.settings import WriterSettings
from state_backup.cli.reading import checkpoint_sizes, read_record
from state_backup.restoring import download
from state_backup.restoring.restore import RestoreSettings
from state_backup.restoring.verifying import verify
from tests.histories.mutants import edited
from tests.state_backup.states import STATE, TREES, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_account.container import BlobContainer

T = TypeVar("T")


class Damage(Intercept):
    """Changes the answers to the `first` read of a blob's bytes, and to so many after it: a bit, or it cuts them."""

    def __init__(self, first: int, times: int = 1, *, cut: bool = False, names: str = "") -> None:
        self.first, self.times, self.cut, self.names, self.reads, self.done = first, times, cut, names, 0, 0

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        answer = send()
        if not isinstance(answer, BlobContent) or self.names not in request.name:
            return answer
        self.reads += 1
        if not self.first <= self.reads < self.first + self.times or not answer.data:
            return answer
        self.done += 1
        middle = len(answer.data) // 2
        flipped = bytes([*answer.data[:middle], answer.data[middle] ^ 4, *answer.data[middle + 1 :]])
        return replace(answer, data=answer.data[:-1] if self.cut else flipped)


def reached(account: MemoryAccount, damage: Damage) -> BlobContainer:
    return account.restarted(damage).container("box")


@pytest.fixture
def account(tmp_path: Path) -> MemoryAccount:
    """Two checkpoints, whose files are in several ranges."""
    account = new_account()
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"))
    for number in (0, 1):
        writer.back_up({"store": write(tmp_path / "live", TREES[number])}, {"input": str(number)})
    return account


def with_packs_or_not(request: pytest.FixtureRequest, packs: str) -> MemoryAccount:
    """The account, whose small files share blobs or do not."""
    if packs == "no_packs":
        request.getfixturevalue("no_packs")
    return cast("MemoryAccount", request.getfixturevalue("account"))


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("packs", "least"), [("packs", 3), ("no_packs", 5)])
def test_a_restore_takes_the_newest_checkpoint_whatever_was_damaged_on_the_way(
    request: pytest.FixtureRequest, tmp_path: Path, times: int, cut: bool, packs: str, least: int
) -> None:
    account = with_packs_or_not(request, packs)
    for first in itertools.count(1):
        damage = Damage(first, times, cut=cut)
        restored = restore(
            state_in(reached(account, damage)),
            {"store": tmp_path / f"{first}"},
            settings=RestoreSettings(threads=1),
        )
        assert ("1", {}) == (restored.checkpoint.offsets["input"], restored.passed_over)
        assert equal(tmp_path / f"{first}", TREES[1])
        if not damage.done:
            break
    assert first > least


def test_a_large_file_is_fetched_again_in_its_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download.Downloader.__init__, "__kwdefaults__", {"threads": 3, "range_bytes": 1000})
    account = new_account()
    live = write(tmp_path / "live", {"large": bytes(range(256)) * 40})
    open_state(state_in(account.container("box")), TaskIdentity("flights")).back_up({"store": live})
    damage = Damage(3, 2, names="/files/")
    progress: list[int] = []
    restore(
        state_in(reached(account, damage)),
        {"store": tmp_path / "restored"},
        report=ProgressCallbacks(progress=progress.append),
    )
    assert (2, live.joinpath("large").read_bytes()) == (damage.done, (tmp_path / "restored" / "large").read_bytes())
    assert 256 * 40 == sum(progress)


@pytest.mark.parametrize("times", [1, 2])
def test_a_writer_drops_no_checkpoint_because_of_what_was_damaged_on_the_way(
    account: MemoryAccount, tmp_path: Path, times: int
) -> None:
    """Else its next backup would drop a checkpoint whose index arrived damaged."""
    for first in range(1, 8):  # the record, then each index, of which every backup adds one
        damage = Damage(first, times)
        writer = open_state(state_in(reached(account, damage)), TaskIdentity("flights"), WriterSettings(keep=30))
        writer.back_up({"store": write(tmp_path / "live", TREES[first % 4])})
        assert 2 + first == len(checkpoints(state_in(account.container("box"))))
        assert damage.done or first > 3
    check_no_orphans(account.container("box"))


def test_what_looks_at_a_state_finds_no_fault_in_what_was_damaged_on_the_way(account: MemoryAccount) -> None:
    """`verify` would advise to overwrite a blob that is whole."""

    def look(container: BlobContainer) -> None:
        assert [True, True] == [each.whole for each in verify(state_in(container), deep=True, threads=1)]
        assert not plan_sweep(state_in(container), min_age=0).waste
        record = read_record(container, STATE)
        assert record is not None
        assert [""] * 2 == [each.cause for each in checkpoint_sizes(container, record)]

    for first in itertools.count(1):
        damage = Damage(first, 2)
        look(reached(account, damage))
        if not damage.done:
            break
    assert first > 10


def test_what_is_damaged_in_storage_is_fetched_three_times_and_passed_over(
    account: MemoryAccount, tmp_path: Path
) -> None:
    container = account.container("box")
    newest, older = checkpoints(state_in(container))
    victims = [newest.indexes["store"], only_in(container, newest.indexes["store"], older.indexes["store"])]
    for number, victim in enumerate(victims):
        sound = container.get(victim).data
        container.put(victim, bytes([sound[0] ^ 1, *sound[1:]]))
        damage = Damage(10**9, names=victim)
        restored = restore(
            state_in(reached(account, damage)),
            {"store": tmp_path / f"{number}"},
            settings=RestoreSettings(threads=1),
        )
        assert ("0", [str(newest.id)]) == (restored.checkpoint.offsets["input"], list(restored.passed_over))
        assert 3 == damage.reads
        container.put(victim, sound)


def only_in(container: BlobContainer, index: str, other: str) -> str:
    """A blob of a file of an index that another one has not."""
    found, there = (
        {
            part["blob-id"]
            for file in json.loads(container.get(blob).data)["dir-index"]["files-present"]
            for part in file["blobs"]
        }
        for blob in (index, other)
    )
    return str(min(found - there))


@pytest.mark.parametrize(
    ("place", "packs"),
    [
        ("azure_account.documents.document:fetch_document", "packs"),
        ("state_backup.restoring.download:Downloader._fill_verified", "no_packs"),
        ("state_backup.restoring.download:fetch_run", "packs"),
    ],
)
def test_without_a_second_fetch_an_older_checkpoint_would_be_restored(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, packs: str
) -> None:
    account = with_packs_or_not(request, packs)
    edited(place, "range(FETCHES)", "range(1)")(monkeypatch)
    names = "/index/" if "document" in place else "/files/"
    restored = restore(
        state_in(reached(account, Damage(1, names=names))),
        {"store": tmp_path / "restored"},
        settings=RestoreSettings(threads=1),
    )
    assert "0" == restored.checkpoint.offsets["input"]
