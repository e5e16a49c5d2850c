"""A state in the in-memory account, and directories to back up in it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from state_backup.local.scan import scan
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.state_backup.index.trees import local
from tests.state_backup.local.test_scan import dirs_in, found_in, put

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer
    from tests.state_backup.index.trees import Tree

STATE = "flights/task-3"
TREES: tuple[Tree, ...] = (
    {"1.sst": b"one", "CURRENT": b"1", "sub": {"a": b"a"}, "empty": {}},
    {"1.sst": b"one", "2.sst": b"two", "CURRENT": b"2", "sub": {"a": b"a", "b": b""}},
    {"2.sst": b"two", "3.sst": b"one", "CURRENT": b"3"},
    {"2.sst": b"owt", "CURRENT": b"4"},
)


def write(folder: Path, tree: Tree) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    put(tree, folder)
    return folder


def equal(folder: Path, tree: Tree) -> bool:
    found = scan(folder)
    return found_in(found) == found_in(local(tree)) and dirs_in(found) == dirs_in(local(tree))


def state_in(container: BlobContainer) -> Location:
    """The state."""
    return Location.in_container(container, STATE)


def check_no_orphans(container: BlobContainer) -> None:
    plan = plan_sweep(state_in(container), min_age=0)
    sweep(state_in(container), plan)
    needed = set(plan_sweep(state_in(container), min_age=0).in_use) | {f"{STATE}/checkpoint.json"}
    assert needed == {blob.name for blob in container.list(uncommitted=True)}


def new_account() -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    return account
