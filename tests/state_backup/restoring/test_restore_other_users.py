"""Restores over directories of any owner, group and mode end right, or leave all as it was; a later one goes on."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from azure_account.memory.faults import FaultInjector, Unreachable, on
from foundation.errors import ConfigurationError, TransientError
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.local import linux, place
from state_backup.restoring.download import Downloader
from state_backup.restoring.restore import RestoreSettings, restore
from tests.histories.mutants import Mutant, edited
from tests.state_backup.dying import dying, state_of
from tests.state_backup.states import TREES, equal, new_account, state_in, write

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")

USER, OTHER, SHARED, FOREIGN = 40_001, 40_002, 50_001, 50_002
"""Two users; a group that the first one is in, and one that it is not in."""
STORES = ("one", "two")
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


MOUNT, UNMOUNT = (shutil.which(name) or name for name in ("mount", "umount"))


class There(NamedTuple):
    """A directory that is there, with a directory `sub` in it. tree: 1 is the one that is restored."""

    tree: int
    owner: int
    group: int
    mode: int
    sub_owner: int
    sub_mode: int

    def make(self, directory: Path) -> None:
        write(directory, TREES[self.tree])
        (directory / "sub").mkdir(exist_ok=True)
        for path in (directory, *directory.rglob("*")):
            below = path.is_relative_to(directory / "sub")
            os.chown(path, self.sub_owner if below else self.owner, self.group)
        (directory / "sub").chmod(self.sub_mode)
        directory.chmod(self.mode)


class Case(NamedTuple):
    """Who restores first, and dies where; who then; into a folder of which mode, over what, through a link or not."""

    first: int
    dies_at: int
    user: int
    folder_mode: int
    there: tuple[There | None, There | None]
    linked: bool
    exchanged: bool


OWNERS = st.sampled_from([0, USER, OTHER])
MODES = st.sampled_from([0o755, 0o775, 0o2775, 0o700, 0o000, 0o1777, 0o555])
THERE = st.builds(There, st.integers(0, 2), OWNERS, st.sampled_from([SHARED, FOREIGN]), MODES, OWNERS, MODES)
CASES = st.builds(
    Case,
    st.sampled_from([USER, USER, OTHER, 0]),
    st.integers(1, 90),
    st.sampled_from([USER, USER, USER, 0]),
    st.sampled_from([0o777, 0o777, 0o2777, 0o1777, 0o775, 0o755]),
    st.tuples(st.none() | THERE, st.none() | THERE),
    st.booleans(),
    st.booleans(),
)


MOVED = edited("state_backup.local.place:set_aside", "contextlib.suppress(PermissionError)", "contextlib.suppress()")
BEGUN = edited("state_backup.restoring.pieces:begun", "found.st_uid == os.geteuid()", "found.st_uid >= 0")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may write to, and reach."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def acting_as(user: int, group: int = SHARED) -> Iterator[None]:
    """The block acts as this user, who is in the shared group, with this one as the first."""
    groups = os.getgroups()
    if user:
        os.setgroups([SHARED])
        os.setegid(group)
        os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def all_of(folder: Path) -> dict[str, tuple[Any, ...]]:
    """All that is in a folder: who has it, its bits, and its bytes."""
    found = {}
    for path in folder.rglob("*"):
        its, data = path.lstat(), path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (its.st_uid, its.st_gid, its.st_mode, data)
    return found


def of_stores(found: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {name: its for name, its in found.items() if name.split("/")[0] in STORES}


@pytest.fixture(scope="module")
def account() -> MemoryAccount:
    """A state with two stores, one of which has directories that are not writable."""
    account = new_account()
    with tempfile.TemporaryDirectory() as folder:
        lives = [write(Path(folder) / store, TREES[1]) for store in STORES]
        (lives[0] / "sub").chmod(0o550)
        (lives[0] / "1.sst").chmod(0o440)
        open_state(state_in(account.container("box")), TaskIdentity("flights")).back_up(
            dict(zip(STORES, lives, strict=True))
        )
        EXPECTED.update({store: state_of(live) for store, live in zip(STORES, lives, strict=True)})
    return account


EXPECTED: dict[str, Any] = {}


def may_replace(user: int, folder: Path, store: str) -> bool:
    """Whether the system lets a user rename the directory of a store."""
    its, there = folder.stat(), (folder / store).stat() if (folder / store).exists() else None
    sticky = its.st_mode & stat.S_ISVTX and there is not None and there.st_uid != user
    return user in {0, its.st_uid} or bool(its.st_mode & 0o022 and not sticky)


def as_kubernetes_mounts_it(folder: Path) -> None:
    """The group of a volume gets all that is in it, as for a pod that runs as another user than the one before."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, -1, SHARED)
        path.chmod(path.stat().st_mode | (0o070 if path.is_dir() else 0o060))


def check_any(case: Case, container: BlobContainer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore, first with a death, then to the end, twice."""
    real = folder / "real" if case.linked else folder
    real.mkdir(exist_ok=True)
    targets = {store: folder / store for store in STORES}
    for store, there in zip(STORES, case.there, strict=True):
        if there is not None:
            there.make(real / store)
        if case.linked:
            targets[store].symlink_to(real / store)
    os.chown(real, OTHER, SHARED)
    real.chmod(case.folder_mode if case.first == case.user else 0o777)
    if not case.exchanged:
        monkeypatch.setattr("state_backup.local.linux._renameat2", None)

    def run(user: int) -> bool:
        """Whether it ends right; else all is as before."""
        before = of_stores(all_of(real))
        may = all(may_replace(user, real, store) for store in STORES)
        with acting_as(user), nullcontext() if may else pytest.raises(ConfigurationError):
            restore(state_in(container), targets, settings=RestoreSettings(threads=1))
        assert may or before == all_of(real), "what the death has left is gone too"
        return may

    old = {store: state_of(real / store) for store in STORES}
    with dying(real, case.dies_at) as death:
        run(case.first)
    if death.died and case.exchanged:
        assert all(state_of(real / store) in (old[store], EXPECTED[store]) for store in STORES)
    if case.first != case.user:
        as_kubernetes_mounts_it(real)
    for _ in range(2):
        if run(case.user):
            assert EXPECTED == {store: state_of(real / store) for store in STORES}
            assert {case.user} == {its[0] for its in of_stores(all_of(real)).values()}
            left = {each.name for each in real.iterdir()} - set(STORES)
            assert left <= {f"{store}.left-1" for store in STORES}
            assert not left or {case.first, case.user} != {0}


@settings(max_examples=150)
@given(case=CASES)
def test_a_restore_over_any_directory_ends_right_or_leaves_all_as_it_was(account: MemoryAccount, case: Case) -> None:
    check(account, case)


def check(account: MemoryAccount, case: Case) -> None:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        folder.chmod(0o755)
        with pytest.MonkeyPatch.context() as monkeypatch:
            check_any(case, account.container("box"), folder, monkeypatch)
    finally:
        place.remove(folder)


MUTANTS: dict[str, Mutant] = {
    "a directory of another user is made writable by force": edited(
        "state_backup.local.place:_open_up", "found.st_uid == os.geteuid() and ", ""
    ),
    "what cannot be deleted is an error": edited(
        "state_backup.local.place:_delete",
        "    except OSError as error:\n",
        "    except NotADirectoryError as error:\n",
    ),
    "files of another user are linked": edited(
        "state_backup.restoring.assembly:_may_link", "found.st_uid != os.geteuid()", "found.st_uid == -1"
    ),
    "one of two directories is replaced": edited(
        "state_backup.restoring.assembly:_switch_all", "place.switch_back(directory)", "directory.stat()"
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_over_any_directory_catches(
    account: MemoryAccount, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[mutant](monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], database=None, derandomize=True)
    @given(case=CASES)
    def checked(case: Case) -> None:
        check(account, case)

    with pytest.raises((AssertionError, ConfigurationError, OSError)):
        checked()


def test_a_directory_keeps_the_group_that_it_gives_to_what_is_made_in_it(account: MemoryAccount, folder: Path) -> None:
    """A volume of Kubernetes with `fsGroup`: its directories are root's, writable for the group, with setgid."""
    There(0, 0, SHARED, 0o2775, 0, 0o2775).make(folder / "one")
    os.chown(folder, 0, SHARED)
    folder.chmod(0o775)
    with acting_as(USER, group=USER):
        restore(state_in(account.container("box")), {"one": folder / "one"})
        (folder / "one" / "new").touch()
    assert EXPECTED["one"] == {name: its for name, its in (state_of(folder / "one") or {}).items() if name != "new"}
    assert {SHARED} == {each.stat().st_gid for each in (folder / "one", *(folder / "one").rglob("*"))}
    assert ["one"] == [each.name for each in folder.iterdir()]


def test_what_cannot_be_deleted_is_named_and_does_not_stop_the_next_restore(
    account: MemoryAccount, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    container, target = account.container("box"), folder / "one"
    for number in (1, 2):
        place.remove(target)
        There(0, OTHER, FOREIGN, 0o755, OTHER, 0o755).make(target)
        with acting_as(USER):
            restore(state_in(container), {"one": target})
            assert 0 == restore(state_in(container), {"one": target}).downloaded_files
        assert EXPECTED["one"] == state_of(target)
        assert f"it is {target}.left-{number} now, and stays until you delete it" in caplog.text
    assert {"one", "one.left-1", "one.left-2"} == {each.name for each in folder.iterdir()}


def test_the_lock_file_of_another_user_that_was_killed_is_named_and_its_deletion_helps(
    account: MemoryAccount, folder: Path
) -> None:
    container = account.container("box")
    with acting_as(OTHER), dying(folder, 12) as death:
        restore(state_in(container), {"one": folder / "one"})
    assert death.died
    with acting_as(USER):
        with pytest.raises(ConfigurationError, match=r"one\.restore\.lock .* user 40002 has made it\. .*delete it if"):
            restore(state_in(container), {"one": folder / "one"})
        (folder / "one.restore.lock").unlink()
        with pytest.raises(ConfigurationError, match=r"one\.restoring is there.* Move it away"):
            restore(state_in(container), {"one": folder / "one"})
        (folder / "one.restoring").rename(folder / "moved")
        restore(state_in(container), {"one": folder / "one"})
    assert EXPECTED["one"] == state_of(folder / "one")


def test_of_several_directories_none_is_replaced_if_one_cannot_be(
    account: MemoryAccount, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that has become a mount point since it was looked at is such a one, or one in an image's layer."""
    targets = {store: write(folder / store, TREES[2]) for store in STORES}
    before, real = all_of(folder), linux.exchange

    def exchanged(one: Path, other: Path) -> bool:
        if other == targets["two"]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return real(one, other)

    monkeypatch.setattr(place, "exchange", exchanged)
    with pytest.raises(ConfigurationError, match="Give a path where directories can be renamed"):
        restore(state_in(account.container("box")), targets)
    assert before == all_of(folder)


@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
@pytest.mark.parametrize("where", ["one", "one/with space"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_directory_that_is_or_has_a_mount_point_is_refused_before_a_request(
    account: MemoryAccount, folder: Path, kind: str, where: str, linked: bool
) -> None:
    point, target, faults = folder / where, folder / "one", FaultInjector()
    point.mkdir(parents=True)
    (folder / "source").mkdir()
    source = ["--bind", str(folder / "source")] if kind == "bind" else ["-t", "tmpfs", "tmpfs"]
    if subprocess.run([MOUNT, *source, str(point)], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount")
    try:
        (point / "precious").write_bytes(b"1")
        before = all_of(folder)
        given = folder / "link" if linked else target
        if linked:
            given.symlink_to(target)
        with pytest.raises(ConfigurationError, match="is a mount point, which cannot be replaced"):
            restore(state_in(account.restarted(faults).container("box")), {"one": given})
        assert not faults.attempts
        given.unlink() if linked else None
        assert before == all_of(folder)
    finally:
        subprocess.run([UNMOUNT, str(point)], check=True)
    restore(state_in(account.container("box")), {"one": target})
    assert equal(target, TREES[1])


def died_anywhere(account: MemoryAccount, target: Path) -> None:
    """A restore over a directory of another user dies at each of its operations; the next one ends right."""
    container = account.container("box")
    for number in count(1):
        There(0, OTHER, FOREIGN, 0o755, OTHER, 0o755).make(target)
        with acting_as(USER):
            with dying(target.parent, number) as death:
                restore(state_in(container), {"one": target}, settings=RestoreSettings(threads=1))
            restore(state_in(container), {"one": target}, settings=RestoreSettings(threads=1))
        assert EXPECTED["one"] == state_of(target)
        assert {"one", "one.left-1"} == {each.name for each in target.parent.iterdir()}
        place.remove(target)
        place.remove(target.with_name("one.left-1"))
        if not death.died:
            break


def test_wherever_a_restore_over_the_directory_of_another_user_dies_the_next_one_ends_right(
    account: MemoryAccount, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died_anywhere(account, folder / "one")
    MOVED(monkeypatch)
    with pytest.raises(ConfigurationError, match="Permission denied"):
        died_anywhere(account, folder / "one")


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize("mutant", [False, True])
def test_a_file_that_another_user_has_begun_is_downloaded_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mutant: bool
) -> None:
    monkeypatch.setitem(Downloader.__init__.__kwdefaults__, "range_bytes", 1000)  # type: ignore[arg-type]
    account, tree, target = new_account(), {"large": bytes(range(250)) * 40}, folder / "one"
    open_state(state_in(account.container("box")), TaskIdentity("flights")).back_up({"one": write(folder / "a", tree)})
    lost = account.restarted(
        FaultInjector(on("get", Unreachable(), name=lambda name: "/files/" in name, skip=4, times=99))
    )
    with acting_as(OTHER), pytest.raises(TransientError):
        restore(state_in(lost.container("box")), {"one": target}, settings=RestoreSettings(threads=1))
    as_kubernetes_mounts_it(folder)
    if mutant:
        BEGUN(monkeypatch)
    with acting_as(USER), pytest.raises(ConfigurationError) if mutant else nullcontext():
        restore(state_in(account.container("box")), {"one": target})
    assert mutant or equal(target, tree)
