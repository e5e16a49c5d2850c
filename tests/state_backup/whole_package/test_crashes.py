"""A process dies at every storage call or file operation; what is committed stays, no directory is a mixture."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at, on
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.local import place
from state_backup.restoring.restore import RestoreSettings, checkpoints, restore
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.state_backup.dying import dying, state_of
from tests.state_backup.states import STATE, TREES, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer


def back_up_all(account: MemoryAccount, folder: Path, committed: list[int], first: int = 0) -> None:
    """What a process does: it opens the state and backs the trees up, one after the other."""
    names = (f"{first + number:08x}" for number in itertools.count())
    writer = open_state(
        state_in(account.container("box")),
        TaskIdentity("flights"),
        WriterSettings(threads=1),
        new_id=lambda: next(names),
    )
    for number, tree in enumerate(TREES):
        writer.back_up({"store": write(folder, tree)}, {"input": str(number)})
        committed.append(number)


@pytest.mark.parametrize("after_effect", [False, True])
def test_whatever_was_committed_is_restored_wherever_a_backup_dies(tmp_path: Path, after_effect: bool) -> None:
    died = 0
    for number in itertools.count(1):
        account = new_account()
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        committed: list[int] = []
        try:
            back_up_all(account.restarted(faults), tmp_path / "live", committed)
        except ProcessDied:
            died += 1
        container = account.container("box")
        found = checkpoints(state_in(container))
        last = committed[-1] if committed else -1
        if found:
            restored = restore(state_in(container), {"store": tmp_path / "restored"})
            got = int(restored.checkpoint.offsets["input"])
            assert got in {last, last + 1}
            assert equal(tmp_path / "restored", TREES[got])
        else:
            assert last == -1
        again: list[int] = []
        back_up_all(account, tmp_path / "live", again, first=1 << 20)
        check_no_orphans(container)
        restore(state_in(container), {"store": tmp_path / "restored"})
        assert equal(tmp_path / "restored", TREES[-1])
        if not faults.died:
            break
    assert died > 25


def backed_up(folder: Path, trees: int = 2) -> MemoryAccount:
    """An account with checkpoints of the first trees, the last of them with permissions that are not usual."""
    account = new_account()
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"), WriterSettings(threads=1))
    for number in range(trees):
        live = write(folder / "live", TREES[number])
        (live / "1.sst").chmod(0o440) if number else None
        (live / "sub").chmod(0o550) if number else None
        writer.back_up({"store": live}, {"input": str(number)})
    return account


def other_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"restored", "live"}


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_restore_that_dies_at_any_file_operation_leaves_the_old_directory_or_the_new_one(
    tmp_path: Path, exchanged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every moment there is a directory; only where names cannot be exchanged, there is a moment without."""
    if not exchanged:
        monkeypatch.setattr("state_backup.local.linux._renameat2", None)
    container = backed_up(tmp_path).container("box")
    target, where = tmp_path / "restored", Random(1)
    write(target, TREES[0])
    (target / "CURRENT").chmod(0o600)
    old = state_of(target)
    restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
    new = state_of(target)
    assert old != new
    died: Counter[str] = Counter()
    for number in itertools.count(1):
        place.remove(target)
        write(target, TREES[0])
        (target / "CURRENT").chmod(0o600)
        with dying(tmp_path, number) as death:
            restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
        found = state_of(target)
        assert found in ((old, new) if exchanged else (old, new, None))
        assert found is not None or state_of(tmp_path / "restored.replaced") == old
        if not death.died:
            break
        died[death.done[number - 1]] += 1
        with dying(tmp_path, where.randrange(1, number + 3)):
            restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
        assert state_of(target) in (old, new, None)
        restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
        assert new == state_of(target)
        assert set() == other_names(tmp_path)
    assert {"open", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "shutil.rmtree"} <= set(died)


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_restore_that_dies_at_any_storage_call_leaves_the_old_directory(tmp_path: Path, after_effect: bool) -> None:
    account = backed_up(tmp_path)
    target = write(tmp_path / "restored", TREES[3])
    old = state_of(target)
    for number in itertools.count(1):
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        with contextlib.suppress(ProcessDied):
            restore(
                state_in(account.restarted(faults).container("box")),
                {"store": target},
                settings=RestoreSettings(threads=1),
            )
        if not faults.died:
            break
        assert old == state_of(target)
    assert number > 4
    assert equal(target, TREES[1])
    assert set() == other_names(tmp_path)


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_sweep_that_dies_at_any_storage_call_is_finished_by_the_next_one(tmp_path: Path, after_effect: bool) -> None:
    for number in itertools.count(1):
        account = backed_up(tmp_path)
        container = account.container("box")
        for waste in ("a", "b", "c"):
            container.put(f"{STATE}/files/{waste}", b"1")
        for blob in plan_sweep(state_in(container)).in_use:
            container.set_tags(blob, {"azureblobTtl": "30d"})
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        swept = account.restarted(faults).container("box")
        with contextlib.suppress(ProcessDied):
            sweep(
                state_in(swept),
                plan_sweep(state_in(swept), min_age=0, threads=1),
                threads=1,
            )
        check_no_orphans(container)
        assert not any(container.tags(blob.name) for blob in container.list())
        restore(
            state_in(container),
            {"store": tmp_path / "restored"},
            settings=RestoreSettings(threads=1),
        )
        assert equal(tmp_path / "restored", TREES[1])
        if not faults.died:
            break
    assert number > 12


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_take_over_that_dies_at_any_storage_call_is_finished_by_the_next_one(
    tmp_path: Path, after_effect: bool
) -> None:
    """The writer before has died after its commit: TTLs and condemned blobs are left."""
    for number in itertools.count(1):
        account = backed_up(tmp_path)
        container = account.container("box")
        committing = FaultInjector(on("set_tags", Crash()))
        with contextlib.suppress(ProcessDied):
            writer = open_state(state_in(account.container("box")), TaskIdentity("flights"), WriterSettings(threads=1))
            writer._storage = replace(writer._storage, container=account.restarted(committing).container("box"))
            writer.back_up({"store": write(tmp_path / "live", TREES[2])}, {"input": "2"})
        assert committing.died
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        with contextlib.suppress(ProcessDied):
            open_state(
                state_in(account.restarted(faults).container("box")),
                TaskIdentity("flights"),
                WriterSettings(threads=1),
            )
        open_state(state_in(container), TaskIdentity("flights"), WriterSettings(threads=1))
        assert not any(container.tags(blob.name) for blob in container.list())
        assert not plan_sweep(state_in(container), min_age=0).waste
        for tree in (2, 1):
            restore(
                state_in(container),
                {"store": tmp_path / "restored"},
                checkpoint_id=id_of(container, tree),
            )
            assert equal(tmp_path / "restored", TREES[tree])
        if not faults.died:
            break
    assert number > 8


def id_of(container: BlobContainer, tree: int) -> str:
    return next(str(each.id) for each in checkpoints(state_in(container)) if each.offsets["input"] == str(tree))
