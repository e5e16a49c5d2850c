"""Any directory, edited in any way, comes back as it was: bytes, permissions, empty directories, names of any bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_backup.backup.settings import MayBeEmpty, TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.local import place
from state_backup.restoring.restore import RestoreSettings, checkpoints, restore
from state_backup.sweeping.sweep import plan_sweep
from tests.state_backup.dying import state_of
from tests.state_backup.states import new_account, state_in

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
File: TypeAlias = "tuple[int, bytes]"
Dir: TypeAlias = "tuple[int, dict[bytes, File | Dir]]"

NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"000017.sst", "ünicode".encode(), b" ", b"\n", b"\xff", b"a\\b", b"..a", b'"', b"-"]),
    st.binary(min_size=1, max_size=5).filter(lambda name: name not in {b".", b".."} and not set(name) & {0, 47}),
)
FILES = st.tuples(st.sampled_from([0o644, 0o444, 0o755, 0o000]), st.binary(max_size=3))
DIR_MODES = st.sampled_from([0o755, 0o555, 0o700, 0o000])
DIRS: st.SearchStrategy[Dir] = st.recursive(
    st.tuples(DIR_MODES, st.dictionaries(NAMES, FILES, max_size=3)),
    lambda below: st.tuples(DIR_MODES, st.dictionaries(NAMES, st.one_of(FILES, below), max_size=3)),
    max_leaves=5,
)


def make(folder: Path, tree: Dir) -> None:
    """Write a tree in the place of what is there."""
    place.remove(folder)
    _make(os.fsencode(folder), tree)


def _make(path: bytes, tree: Dir) -> None:
    mode, entries = tree
    os.mkdir(path)  # noqa: PTH102 - a name of any bytes
    for name, (its_mode, content) in entries.items():
        if isinstance(content, bytes):
            with open(path + b"/" + name, "wb") as file:  # noqa: PTH123
                file.write(content)
            os.chmod(path + b"/" + name, its_mode)  # noqa: PTH101
        else:
            _make(path + b"/" + name, (its_mode, content))
    os.chmod(path, mode)  # noqa: PTH101


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads what has no permissions")
@settings(max_examples=150)
@given(trees=st.lists(DIRS, min_size=1, max_size=3), there=st.none() | DIRS, again=st.booleans())
def test_checkpoints_are_restored_over_any_directory(trees: list[Dir], there: Dir | None, again: bool) -> None:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        container = new_account().container("box")
        writer = open_state(state_in(container), TaskIdentity("flights"), WriterSettings(keep=3, threads=1))
        expected = []
        for tree in trees:
            make(folder / "live", tree)
            writer.back_up({"store": MayBeEmpty(folder / "live")})
            expected.append(state_of(folder / "live"))
        if there is not None:
            make(folder / "restored", there)
        found = checkpoints(state_in(container))[::-1]
        for checkpoint, state in [*zip(found, expected, strict=True)] * (1 + again):
            restore(
                state_in(container),
                {"store": folder / "restored"},
                checkpoint_id=str(checkpoint.id),
                settings=RestoreSettings(threads=1),
            )
            assert state == state_of(folder / "restored")
            assert {"live", "restored"} == {path.name for path in folder.iterdir()}
        assert not plan_sweep(state_in(container), min_age=0, threads=1).waste
    finally:
        place.remove(folder)


_AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from foundation.errors import ConfigurationError
from state_backup.restoring.restore import restore
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from tests.state_backup.dying import state_of
from tests.state_backup.states import new_account, state_in
os.setgroups([]); os.setgid(65534); os.setuid(65534)
folder = Path(sys.argv[1])
state = state_in(new_account().container("box"))
writer = open_state(state, TaskIdentity("flights"))
live, restored = folder / "live", folder / "restored"
(live / "sub").mkdir(parents=True)
(live / "sub" / "a").write_bytes(b"1")
(live / "sub" / "a").chmod(0o444)
(live / "sub").chmod(0o555)
live.chmod(0o555)
writer.back_up({"store": live})
for number in range(2):
    restore(state, {"store": restored})
    assert state_of(live) == state_of(restored)
(restored / "sub").chmod(0)
restored.chmod(0)
restore(state, {"store": restored})
assert state_of(live) == state_of(restored)
live.chmod(0o755)
for name, mode in (("secret", 0), ("closed", 0)):
    path = live / name
    path.mkdir() if name == "closed" else path.touch()
    path.chmod(mode)
    try:
        writer.back_up({"store": live})
    except ConfigurationError as error:
        print(error)
    path.rmdir() if name == "closed" else path.unlink()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_than_root_restores_what_nobody_may_write_and_is_told_what_it_cannot_read() -> None:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        folder.chmod(0o777)
        command = [sys.executable, "-c", _AS_ANOTHER_USER, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(folder)
    assert 0 == done.returncode, done.stderr
    secret, closed = done.stdout.splitlines()
    assert "secret cannot be read" in secret
    assert "closed/ cannot be read" in closed
