"""Restores that are killed go on where they were: what is there and verified is not downloaded again."""

from __future__ import annotations

import os
import signal
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.memory.faults import FaultInjector, Refuse, Unreachable, on
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.errors import ConfigurationError, TransientError
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.local import place
from state_backup.restoring.download import RANGE_BYTES, Downloader
from state_backup.restoring.restore import RestoreSettings, materialise, restore
from tests.state_backup.dying import dying
from tests.state_backup.states import equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_account.memory.account import MemoryAccount
    from tests.state_backup.index.trees import Tree

T = TypeVar("T")
PIECE = 1000
LARGE, SMALL = 40 * PIECE + 1, 3 * PIECE
TREE: Tree = {
    "large.sst": Random(1).randbytes(LARGE),
    "sub": {"small.sst": Random(2).randbytes(SMALL), "other.sst": Random(3).randbytes(SMALL)},
}
PIECES = 41 + 3 + 3


class KilledAt(Intercept):
    """Sends SIGKILL to its process before a download of a file's bytes."""

    def __init__(self, number: int) -> None:
        self.left = number

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "get" and "/files/" in request.name:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return send()


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryAccount:
    """A state with one checkpoint, whose files are downloaded in many pieces."""
    monkeypatch.setattr("state_backup.index.packs.SMALL_FILE", 0)
    monkeypatch.setitem(Downloader.__init__.__kwdefaults__, "range_bytes", PIECE)  # type: ignore[arg-type]
    account = new_account()
    open_state(state_in(account.container("box")), TaskIdentity("flights")).back_up(
        {"store": write(tmp_path / "live", TREE)}
    )
    return account


def killed(act: Callable[[], object]) -> None:
    """Run it in a process of its own, which kills itself."""
    child = os.fork()
    if not child:
        act()
        os._exit(0)
    assert signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) * -1


def restored(account: MemoryAccount, target: Path, intercept: Intercept) -> None:
    restore(
        state_in(account.restarted(intercept).container("box")),
        {"store": target},
        settings=RestoreSettings(threads=1),
    )


def unreachable_after(number: int) -> FaultInjector:
    """The storage does not answer after so many downloads of a file's bytes."""
    return FaultInjector(on("get", Unreachable(), name=is_of_file, skip=number, times=1000))


def is_of_file(name: str) -> bool:
    return "/files/" in name


def downloads(faults: FaultInjector) -> int:
    return sum(each.operation == "get" and "/files/" in each.name for each in faults.attempts)


@pytest.mark.parametrize("fetched", [0, 1, 36, 41, 44, 46])
def test_a_restore_that_was_killed_downloads_only_what_is_left(
    account: MemoryAccount, tmp_path: Path, fetched: int
) -> None:
    target, faults = tmp_path / "restored", FaultInjector()
    killed(lambda: restored(account, target, KilledAt(fetched)))
    assert not target.exists()
    restored(account, target, faults)
    assert equal(target, TREE)
    assert PIECES - fetched == downloads(faults)
    assert {"live", "restored"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("fetched", [0, 1, 36, 41, 44, 46])
def test_a_restore_that_the_storage_has_ended_downloads_only_what_is_left(
    account: MemoryAccount, tmp_path: Path, fetched: int
) -> None:
    target, faults = write(tmp_path / "restored", {"old": b"1"}), FaultInjector()
    with pytest.raises(TransientError):
        restored(account, target, unreachable_after(fetched))
    assert equal(target, {"old": b"1"})
    restored(account, target, faults)
    assert equal(target, TREE)
    assert PIECES - fetched == downloads(faults)
    assert {"live", "restored"} == {path.name for path in tmp_path.iterdir()}


def test_one_that_ends_in_any_way_again_and_again_downloads_nothing_twice(
    account: MemoryAccount, tmp_path: Path
) -> None:
    """Kills and outages in any order; a full disk or a refused request ends what was downloaded."""
    draws = Random(4)
    for number in range(3):
        target, left, refused = tmp_path / f"restored-{number}", PIECES, 0
        while True:
            fetched, faults = draws.randrange(9), FaultInjector()
            match draws.choice(["killed", "unreachable", "unreachable", "refused"] if left > 8 else ["whole"]):
                case "killed":
                    killed(partial(restored, account, target, KilledAt(fetched)))
                    left -= fetched
                case "unreachable":
                    with pytest.raises(TransientError):
                        restored(account, target, unreachable_after(fetched))
                    left -= fetched
                case "refused":
                    with pytest.raises(ConfigurationError):
                        restored(account, target, FaultInjector(on("get", Refuse(), name=is_of_file, skip=fetched)))
                    assert not [path for path in tmp_path.iterdir() if path.name.startswith(f"{target.name}.")]
                    left, refused = PIECES, refused + 1
                case _:
                    restored(account, target, faults)
                    break
        assert equal(target, TREE)
        assert left == downloads(faults)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(f"{target.name}.")]


def test_one_that_is_killed_again_and_again_comes_to_its_end(account: MemoryAccount, tmp_path: Path) -> None:
    target, faults = tmp_path / "restored", FaultInjector()
    for _ in range(9):
        killed(lambda: restored(account, target, KilledAt(5)))
    restored(account, target, faults)
    assert equal(target, TREE)
    assert PIECES - 9 * 5 == downloads(faults)


@pytest.mark.parametrize("piece", [0, 7, 20])
def test_a_piece_whose_bytes_the_disk_has_lost_is_fetched_again(
    account: MemoryAccount, tmp_path: Path, piece: int
) -> None:
    target, faults = tmp_path / "restored", FaultInjector()
    killed(lambda: restored(account, target, KilledAt(30)))
    with (place.restoring(target) / "large.sst").open("r+b") as file:
        file.seek(piece * PIECE + 17)
        file.write(b"lost")
    restored(account, target, faults)
    assert equal(target, TREE)
    assert PIECES - 30 + 1 == downloads(faults)


def test_notes_that_fit_wrong_bytes_do_not_make_them_right(account: MemoryAccount, tmp_path: Path) -> None:
    """As if somebody had written both: the whole file is verified, and fetched again."""
    target = tmp_path / "restored"
    killed(lambda: restored(account, target, KilledAt(30)))
    begun = place.restoring(target) / "large.sst"
    data = bytearray(begun.read_bytes())
    data[:PIECE], data[PIECE : 2 * PIECE] = data[PIECE : 2 * PIECE], data[:PIECE]
    notes = LARGE
    data[notes : notes + 32], data[notes + 32 : notes + 64] = data[notes + 32 : notes + 64], data[notes : notes + 32]
    begun.write_bytes(data)
    faults = FaultInjector()
    restored(account, target, faults)
    assert equal(target, TREE)
    assert PIECES - 30 < downloads(faults)


def test_a_directory_that_is_made_goes_on_too(account: MemoryAccount, tmp_path: Path) -> None:
    container = account.container("box")
    (checkpoint,) = open_state(state_in(container), TaskIdentity("flights")).checkpoints

    def make(intercept: Intercept) -> None:
        box = account.restarted(intercept).container("box")
        materialise(
            state_in(box),
            "store",
            str(checkpoint.id),
            tmp_path / "made",
            settings=RestoreSettings(threads=1),
        )

    killed(lambda: make(KilledAt(36)))
    faults = FaultInjector()
    make(faults)
    assert PIECES - 36 == downloads(faults)


def test_a_restore_that_dies_at_any_file_operation_downloads_no_whole_file_twice(
    account: MemoryAccount, tmp_path: Path
) -> None:
    """Two deaths, at every third operation, and at one of the second restore; the third one has what both had."""
    where = Random(1)
    for number in count(1, 3):
        target, all_faults = tmp_path / f"restored-{number}", FaultInjector()
        died = False
        for at in (number, where.randrange(1, 40)):
            with dying(tmp_path, at) as death:
                restored(account, target, all_faults)
            died = died or death.died
        restored(account, target, all_faults)
        assert equal(target, TREE)
        assert downloads(all_faults) <= PIECES + 1
        assert {"live", target.name} == {path.name for path in tmp_path.iterdir() if path.name != "restored"}
        place.remove(target)
        if not died or number > 60:
            break
    assert number > 10


def test_files_are_downloaded_in_pieces_of_four_mebibytes() -> None:
    assert 4 << 20 == RANGE_BYTES
