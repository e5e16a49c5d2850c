"""New directories of a checkpoint, made of links to immutable directories and of downloads."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, Refuse, at, on
from azure_account.memory.service import MemoryService
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.local.scan import ChecksumCache
from state_backup.restoring.restore import LinkSources, RestoreSettings, checkpoints, materialise
from tests.limits import file_size_limit
from tests.state_backup.dying import dying
from tests.state_backup.states import STATE, TREES, equal, state_in, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.state_backup.index.trees import Tree


def backed_up(folder: Path, *trees: Tree, soft_delete: float | None = None) -> tuple[MemoryAccount, list[str]]:
    """An account with a checkpoint of each tree, and their ids, oldest first."""
    account = MemoryAccount(MemoryService(soft_delete=soft_delete))
    account.container("box").create()
    writer = open_state(
        state_in(account.container("box")),
        TaskIdentity("planes"),
        WriterSettings(keep=len(TREES), threads=1),
    )
    ids = [str(writer.back_up({"store": write(folder / "live", tree)}).id) for tree in trees]
    return account, ids


def is_blob_of_file(name: str) -> bool:
    return "/files/" in name


def test_a_new_directory_has_what_was_backed_up_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, *TREES)
    for id_, tree in zip(ids, TREES, strict=True):
        materialise(state_in(account.container("box")), "store", id_, tmp_path / "a" / id_)
        assert equal(tmp_path / "a" / id_, tree)
        made = [tmp_path / "a" / id_, *(tmp_path / "a" / id_).rglob("*")]
        assert {0o700 if path.is_dir() else 0o600 for path in made} == {path.stat().st_mode & 0o777 for path in made}
    assert set(ids) == {path.name for path in (tmp_path / "a").iterdir()}


def test_content_that_a_source_has_under_any_name_is_linked_and_nothing_else(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, *TREES)
    container = account.container("box")
    old, new = tmp_path / "old", tmp_path / "new"
    materialise(state_in(container), "store", ids[1], old)
    made = materialise(state_in(container), "store", ids[2], new, LinkSources([tmp_path / "absent", old]))
    assert equal(old, TREES[1])
    assert equal(new, TREES[2])
    assert (1, 1) == (made.downloaded_files, made.downloaded_bytes)
    assert (old / "2.sst").samefile(new / "2.sst")
    assert (old / "1.sst").samefile(new / "3.sst")
    assert not (old / "CURRENT").samefile(new / "CURRENT")


def test_a_source_whose_bytes_have_changed_is_not_linked(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, *TREES)
    materialise(state_in(account.container("box")), "store", ids[1], tmp_path / "old")
    (tmp_path / "old" / "2.sst").write_bytes(b"twX")
    materialise(
        state_in(account.container("box")),
        "store",
        ids[2],
        tmp_path / "new",
        LinkSources([tmp_path / "old"]),
    )
    assert equal(tmp_path / "new", TREES[2])


def test_files_that_are_known_are_not_read_again(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, *TREES)
    known, old = ChecksumCache(), tmp_path / "old"
    materialise(state_in(account.container("box")), "store", ids[1], old)
    for path in old.iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    materialise(
        state_in(account.container("box")),
        "store",
        ids[2],
        tmp_path / "new",
        LinkSources([old], known=known),
    )
    assert equal(tmp_path / "new", TREES[2])
    (old / "2.sst").write_bytes(b"twX")
    os.utime(old / "2.sst", (1_600_000_000, 1_600_000_000))
    materialise(
        state_in(account.container("box")),
        "store",
        ids[2],
        tmp_path / "trusted",
        LinkSources([old], known=known),
    )
    assert (old / "2.sst").samefile(tmp_path / "trusted" / "2.sst"), "what nobody should do shows that it was not read"
    materialise(state_in(account.container("box")), "store", ids[2], tmp_path / "read", LinkSources([old]))
    assert equal(tmp_path / "read", TREES[2])


def test_of_a_source_with_other_permissions_files_are_copied(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, *TREES)
    source = write(tmp_path / "source", TREES[1])
    (source / "2.sst").chmod(0o644)
    materialise(state_in(account.container("box")), "store", ids[2], tmp_path / "new", LinkSources([source]))
    assert not (source / "2.sst").samefile(tmp_path / "new" / "2.sst")
    assert 0o644 == (source / "2.sst").stat().st_mode & 0o777
    assert equal(tmp_path / "new", TREES[2])


@pytest.mark.parametrize("there", ["directory", "file", "link"])
def test_a_directory_that_exists_is_refused_and_stays(tmp_path: Path, there: str) -> None:
    account, ids = backed_up(tmp_path, TREES[0])
    target = tmp_path / "new"
    if there == "directory":
        target.mkdir()
    elif there == "file":
        target.touch()
    else:
        target.symlink_to(tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match=r"it exists|it is no directory"):
        materialise(state_in(account.container("box")), "store", ids[0], target)
    assert {"live", "new"} == {path.name for path in tmp_path.iterdir()}


def test_a_checkpoint_that_is_gone_is_named(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, TREES[0])
    with pytest.raises(NotFoundError, match=r"no checkpoint 1700000000000-1 with store; there are: " + ids[0]):
        materialise(state_in(account.container("box")), "store", "1700000000000-1", tmp_path / "new")
    with pytest.raises(NotFoundError, match=r"with other; there are: "):
        materialise(state_in(account.container("box")), "other", ids[0], tmp_path / "new")
    assert ["live"] == [path.name for path in tmp_path.iterdir()]


def test_a_damaged_blob_and_a_full_disk_leave_nothing(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, {"a.sst": b"a" * 3000, "b.sst": b"b"})
    container = account.container("box")
    with pytest.raises(ConfigurationError, match=r"a\.sst.*Make room"), file_size_limit(2000):
        materialise(state_in(container), "store", ids[0], tmp_path / "new")
    assert ["live"] == [path.name for path in tmp_path.iterdir()]
    for blob in list(container.list(f"{STATE}/files/")):
        container.put(blob.name, b"x" * blob.size)
    with pytest.raises(CorruptError, match="another checksum"):
        materialise(state_in(container), "store", ids[0], tmp_path / "new")
    assert ["live"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.usefixtures("no_packs")
def test_a_refused_download_leaves_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, TREES[1])
    refusing = account.restarted(FaultInjector(on("get", Refuse(), name=is_blob_of_file, skip=2)))
    with pytest.raises(ConfigurationError, match="403"):
        materialise(state_in(refusing.container("box")), "store", ids[0], tmp_path / "new")
    assert ["live"] == [path.name for path in tmp_path.iterdir()]
    materialise(state_in(refusing.container("box")), "store", ids[0], tmp_path / "new")
    assert equal(tmp_path / "new", TREES[1])


@pytest.mark.usefixtures("no_packs")
def test_blobs_that_were_deleted_are_undeleted_once(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, TREES[1], soft_delete=3600.0)
    container = account.container("box")
    for blob in list(container.list(f"{STATE}/files/")):
        container.delete(blob.name)
    made = materialise(state_in(container), "store", ids[0], tmp_path / "new")
    assert 4 == len(made.undeleted)
    assert equal(tmp_path / "new", TREES[1])


def test_one_that_dies_at_any_file_operation_leaves_no_directory_or_the_whole_one(tmp_path: Path) -> None:
    account, ids = backed_up(tmp_path, *TREES)
    container = account.container("box")
    old, folder = tmp_path / "old", tmp_path / "made"
    materialise(state_in(container), "store", ids[1], old, settings=RestoreSettings(threads=1))
    died = set[str]()

    def make(target: Path) -> None:
        sources, settings = LinkSources([old]), RestoreSettings(threads=1)
        materialise(state_in(container), "store", ids[2], target, sources, settings)

    for number in itertools.count(1):
        target = folder / str(number)
        with dying(tmp_path, number) as death:
            make(target)
        assert not target.exists() or equal(target, TREES[2])
        if not death.died:
            break
        died.add(death.done[number - 1])
        if not target.exists():
            make(target)
        assert equal(target, TREES[2])
        assert equal(old, TREES[1])
        assert str(number) in {path.name for path in folder.iterdir()}
        assert not list(folder.glob("*.restoring"))
    assert {"open", "os.chmod", "os.link", "os.mkdir", "os.rename"} <= died


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize("after_effect", [False, True])
def test_one_that_dies_at_any_storage_call_leaves_no_directory(tmp_path: Path, after_effect: bool) -> None:
    account, ids = backed_up(tmp_path, TREES[1])
    for number in itertools.count(1):
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        with contextlib.suppress(ProcessDied):
            dead = account.restarted(faults).container("box")
            materialise(
                state_in(dead),
                "store",
                ids[0],
                tmp_path / "new",
                settings=RestoreSettings(threads=1),
            )
        if not faults.died:
            break
        assert ["live"] == [path.name for path in tmp_path.iterdir()]
    assert number > 5
    assert equal(tmp_path / "new", TREES[1])


def test_the_checkpoints_are_unharmed(tmp_path: Path) -> None:
    """A materialise reads only."""
    account, ids = backed_up(tmp_path, *TREES)
    before = {blob.name: blob.etag for blob in account.container("box").list()}
    materialise(state_in(account.container("box")), "store", ids[0], tmp_path / "new")
    assert before == {blob.name: blob.etag for blob in account.container("box").list()}
    assert ids == [str(each.id) for each in checkpoints(state_in(account.container("box")))][::-1]


def test_a_source_with_a_file_that_is_written_anew_meanwhile_is_read_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, ids = backed_up(tmp_path, *TREES)
    container = account.container("box")
    materialise(state_in(container), "store", ids[1], tmp_path / "old")
    scanned, fstat = [], os.fstat

    def touched(descriptor: int) -> os.stat_result:
        """The first file changes while it is read."""
        found = fstat(descriptor)
        scanned.append(descriptor)
        if len(scanned) == 1:
            os.utime(descriptor, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000))
        return found

    monkeypatch.setattr(os, "fstat", touched)
    made = materialise(
        state_in(container),
        "store",
        ids[2],
        tmp_path / "new",
        LinkSources([tmp_path / "old"]),
        settings=RestoreSettings(threads=1),
    )
    assert equal(tmp_path / "new", TREES[2])
    assert (1, 1) == (made.downloaded_files, made.downloaded_bytes)
