"""What goes wrong outside of the protocol: permissions, damaged indexes, full disks, links, requests that fail."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from azure_account.documents.form import sealed
from azure_account.memory.faults import FaultInjector, LostAnswer, Refuse, always, on
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, CorruptError, NotFoundError
from state_backup.backup import upload
from state_backup.backup import writer as writer_module
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.local import place
from state_backup.local.scan import scan
from state_backup.record.record import MOST_CONDEMNED
from state_backup.restoring.restore import RestoreSettings, checkpoints, restore
from state_backup.sweeping import sweep as sweep_module
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.state_backup.dying import dying, state_of
from tests.state_backup.states import STATE, TREES, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from state_backup.backup.writer import StateWriter

TTL = {"azureblobTtl": "30d"}


def opened(account: MemoryAccount, **settings: int) -> StateWriter:
    return open_state(state_in(account.container("box")), TaskIdentity("flights"), WriterSettings(**settings))  # type: ignore[arg-type]


@pytest.fixture
def container(tmp_path: Path) -> BlobContainer:
    """A state with one checkpoint."""
    account = new_account()
    opened(account).back_up({"store": write(tmp_path / "live", TREES[0])})
    return account.container("box")


def refused_tags() -> FaultInjector:
    """No tag may be set, in any way."""
    return FaultInjector(
        *(on(operation, Refuse(), times=1000) for operation in ("tags", "list_tags", "set_tags")),
        on("put", Refuse(), name=lambda name: "/files/" in name),
    )


def test_without_permission_for_tags_all_works_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    container = account.restarted(refused_tags()).container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"), WriterSettings(threads=1))
    for number in range(4):
        writer.back_up({"store": write(tmp_path / "live", TREES[number])})
    container.put(f"{STATE}/files/waste", b"1")
    check_no_orphans(container)
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[3])
    assert 1 == caplog.text.count("index tags are refused in memory://memory/box, so blobs get no TTL")
    assert "the sweep of flights/task-3 takes no TTL off" in caplog.text


def test_a_sweep_takes_the_ttl_off_blobs_in_use_whose_writer_has_died(container: BlobContainer) -> None:
    in_use = plan_sweep(state_in(container)).in_use
    for blob in in_use:
        container.set_tags(blob, TTL)
    container.put(f"{STATE}/files/young", b"1")
    container.set_tags(f"{STATE}/files/young", TTL)
    plan = plan_sweep(state_in(container))
    assert set(in_use) == set(plan.with_ttl)
    assert 0 == sweep(state_in(container), plan)
    assert [{}] * len(in_use) == [container.tags(blob) for blob in in_use]
    assert TTL == container.tags(f"{STATE}/files/young")
    assert () == plan_sweep(state_in(container)).with_ttl


@pytest.mark.parametrize("operation", ["list_tags", "set_tags"])
def test_a_sweep_without_permission_for_tags_deletes_what_it_would_delete(
    tmp_path: Path, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    opened(account).back_up({"store": write(tmp_path / "live", TREES[0])})
    for blob in plan_sweep(state_in(account.container("box"))).in_use:
        account.container("box").set_tags(blob, TTL)
    account.container("box").put(f"{STATE}/files/waste", b"1")
    container = account.restarted(FaultInjector(on(operation, Refuse(), times=1000))).container("box")
    assert 1 == sweep(state_in(container), plan_sweep(state_in(container), min_age=0))
    said = {"list_tags": "index tags are refused", "set_tags": "blobs of flights/task-3 keep their TTL"}
    assert 1 == caplog.text.count(said[operation])


@pytest.mark.parametrize("room", [2, MOST_CONDEMNED])
def test_a_blob_that_cannot_be_deleted_keeps_no_other_back(
    room: int, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_CONDEMNED", room)
    account = new_account()
    held: set[str] = set()
    faults = FaultInjector(
        on("delete", Refuse("409 BlobImmutableDueToPolicy"), name=lambda name: name in held, times=1000)
    )
    writer = opened(account.restarted(faults), threads=1)
    writer.back_up({"store": write(tmp_path / "live", TREES[0])})
    held.add(min(writer._indexes))
    for number in (1, 2, 3, 2, 3):
        writer.back_up({"store": write(tmp_path / "live", TREES[number])})
    assert held <= set(writer._record.document.condemned)
    assert held == set(plan_sweep(state_in(account.container("box")), min_age=0).waste)
    assert "BlobImmutableDueToPolicy" in caplog.text


def test_the_list_of_condemned_blobs_is_bounded_and_what_is_left_over_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_CONDEMNED", 3)
    account = new_account()
    faults = FaultInjector(on("delete", Refuse(), times=40))
    writer = opened(account.restarted(faults), threads=1)
    for number in [0, 1, 2, 3, *[0, 2] * 20]:
        writer.back_up({"store": write(tmp_path / "live", TREES[number])})
        assert len(writer._record.document.condemned) <= 3
    for _ in range(40):
        writer.back_up({"store": tmp_path / "live"})
    assert not plan_sweep(state_in(account.container("box")), min_age=0).waste


def test_a_list_full_of_blobs_whose_deletes_got_no_answer_makes_room_at_the_next_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are gone, but the writer does not know it: what else is waste waits, and stays no longer than that."""
    monkeypatch.setattr(writer_module, "MOST_CONDEMNED", 2)
    account = new_account()
    healed = threading.Event()
    faults = FaultInjector(on("delete", LostAnswer(), name=lambda _: not healed.is_set(), times=1000))
    writer = opened(account.restarted(faults), threads=1)

    def waste() -> set[str]:
        return set(plan_sweep(state_in(account.container("box")), min_age=0).waste)

    def back_up(number: int) -> set[str]:
        writer.back_up({"store": write(tmp_path / "live", TREES[number])})
        return set(writer._record.document.condemned)

    condemned = [back_up(number) for number in (0, 1, 2, 0, 1)][-1]
    there = {blob.name for blob in account.container("box").list()}
    assert (2, set()) == (len(condemned), condemned & there)
    assert waste()
    healed.set()
    back_up(1)
    assert set() == waste()


@pytest.mark.usefixtures("no_packs")
def test_more_waste_with_each_backup_than_the_list_has_room_for_does_not_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_CONDEMNED", 5)
    monkeypatch.setattr(sweep_module, "MOST_CONDEMNED", 5)
    account = new_account()
    container = account.container("box")
    writer = opened(account)
    needed_by_two = 2 * (12 + 1)
    for number in range(10):
        tree = {f"{number}-{file}": b"%d-%d" % (number, file) for file in range(12)}
        writer.back_up({"store": write(tmp_path / "live", tree)})
        assert len(writer._record.document.condemned) <= 5
        assert len([blob for blob in container.list() if blob.name != f"{STATE}/checkpoint.json"]) <= needed_by_two
    for name in ("one", "two"):
        container.put(f"{STATE}/files/{name}", b"1")
    assert 2 == sweep(state_in(container), plan_sweep(state_in(container), min_age=0)), "the list has room for a sweep"


@pytest.mark.usefixtures("no_packs")
def test_sweeps_go_on_though_no_writer_takes_names_off_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a writer takes names off: those of blobs that are gone must not keep others from being condemned."""
    monkeypatch.setattr(sweep_module, "MOST_CONDEMNED", 5)
    account = new_account()
    opened(account).back_up({"store": write(tmp_path / "live", TREES[0])})
    container = account.container("box")
    for number in range(17):
        container.put(f"{STATE}/files/waste-{number:02}", b"1")
    assert [5, 5, 5, 2, 0] == [sweep(state_in(container), plan_sweep(state_in(container), min_age=0)) for _ in range(5)]
    faults = FaultInjector()
    writer = opened(account.restarted(faults))
    assert 0 == sum(each.operation == "delete" for each in faults.attempts), "a listing shows that they are gone"
    writer.back_up({"store": write(tmp_path / "live", TREES[0])})
    assert () == writer._record.document.condemned


def test_a_record_that_was_deleted_ends_the_writer_also_if_another_one_makes_a_new_one(tmp_path: Path) -> None:
    account = new_account()
    opened(account)
    old = opened(account)
    live = write(tmp_path / "live", TREES[0])
    old.back_up({"store": live})
    account.container("box").delete(f"{STATE}/checkpoint.json")
    with pytest.raises(ConflictError, match=r"its record was deleted\. Restore blob flights/task-3/checkpoint"):
        old.back_up({"store": live})
    with pytest.raises(
        ConflictError, match=r"it has blobs, but .*checkpoint.json was deleted\. Bring that blob back, or"
    ):
        opened(account)
    for blob in list(account.container("box").list()):
        account.container("box").delete(blob.name)
    opened(account).back_up({"store": live})
    with pytest.raises(AzureBlobError, match="another writer of epoch 1 has taken it over from epoch 2"):
        old.back_up({"store": live})


def test_two_writers_of_one_epoch_are_told_apart(tmp_path: Path) -> None:
    account = new_account()
    live = write(tmp_path / "live", TREES[0])
    first, second = opened(account, epoch=7), opened(account, epoch=7)
    with pytest.raises(AzureBlobError, match=r"another writer of epoch 7 has taken it over from epoch 7"):
        first.back_up({"store": live})
    second.back_up({"store": live})


def test_indexes_that_are_damaged_newer_or_lead_out_of_the_directory_restore_nothing(
    container: BlobContainer, tmp_path: Path
) -> None:
    target = write(tmp_path / "restored", TREES[3])
    before = state_of(target)
    (newest,) = checkpoints(state_in(container))
    data = container.get(newest.indexes["store"]).data
    fields = json.loads(data)
    fields.pop("digest")

    def named(name: str) -> bytes:
        changed = json.loads(json.dumps(fields))
        changed["dir-index"]["files-present"][0]["file-name"] = name
        return sealed(changed)

    bad = [
        (data.replace(b"1.sst", b"2.sst"), CorruptError, "its digest is not that of its content"),
        (
            sealed({**fields, "format-version": 2}),
            ConfigurationError,
            "has format version 2; this release reads up to 1",
        ),
        *((named(name), CorruptError, "would leave its directory") for name in ("..", ".", "a/b", "/etc/a", "a\0b")),
    ]
    for content, kind, text in bad:
        container.put(newest.indexes["store"], content)
        with pytest.raises(AzureBlobError, match=text) as caught:
            restore(state_in(container), {"store": target}, checkpoint_id=str(newest.id))
        assert isinstance(caught.value, kind)
        assert before == state_of(target)
        assert {"live", "restored"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.usefixtures("no_packs")
def test_a_blob_with_other_bytes_or_a_full_disk_leave_the_old_directory(
    container: BlobContainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write(tmp_path / "restored", TREES[3])
    before = state_of(target)
    (newest,) = checkpoints(state_in(container))
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", _full)
        with pytest.raises(ConfigurationError, match=r"No space left on device.*Make room"):
            restore(state_in(container), {"store": target})
    assert before == state_of(target)
    blob = max(name for name in plan_sweep(state_in(container)).in_use if "/files/" in name)
    container.put(blob, b"?" * len(container.get(blob).data))
    with pytest.raises(CorruptError, match="have another checksum"):
        restore(state_in(container), {"store": target}, checkpoint_id=str(newest.id))
    assert before == state_of(target)
    assert {"live", "restored"} == {path.name for path in tmp_path.iterdir()}


def _full(*_: int) -> None:
    raise OSError(28, os.strerror(28))


def test_a_link_to_a_directory_stays_and_what_it_leads_to_is_restored(container: BlobContainer, tmp_path: Path) -> None:
    write(tmp_path / "disk", TREES[3])
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    (tmp_path / "nowhere").symlink_to(tmp_path / "new")
    for name in ("link", "nowhere"):
        restore(state_in(container), {"store": tmp_path / name})
        assert equal(tmp_path / name, TREES[0])
        assert (tmp_path / name).is_symlink()
    assert {"live", "disk", "link", "nowhere", "new"} == {path.name for path in tmp_path.iterdir()}
    with pytest.raises(ConfigurationError, match="are not apart"):
        restore(state_in(container), {"store": tmp_path / "link", "other": tmp_path / "disk" / "sub"})


def test_links_in_the_directory_are_replaced_and_what_they_lead_to_stays(
    container: BlobContainer, tmp_path: Path
) -> None:
    write(tmp_path / "outside", TREES[2])
    before = state_of(tmp_path / "outside")
    target = write(tmp_path / "restored", TREES[3])
    (target / "link").symlink_to(tmp_path / "outside")
    (target / "sub").symlink_to(tmp_path / "outside")
    restore(state_in(container), {"store": target})
    assert equal(target, TREES[0])
    assert before == state_of(tmp_path / "outside")


def test_a_file_in_the_place_of_the_directory_is_refused(container: BlobContainer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"precious")
    with pytest.raises(ConfigurationError, match="it is no directory"):
        restore(state_in(container), {"store": tmp_path / "file"})
    assert b"precious" == (tmp_path / "file").read_bytes()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(ConfigurationError, match="circle"):
        restore(state_in(container), {"store": tmp_path / "circle"})


def test_a_directory_that_cannot_be_renamed_is_named_with_the_reason(container: BlobContainer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"lock .*restore\.lock failed: .*Not a directory.*Check the path"):
        restore(state_in(container), {"store": tmp_path / "file" / "store"})


def test_what_a_crash_has_half_deleted_is_never_put_in_place(container: BlobContainer, tmp_path: Path) -> None:
    """The old directory is half deleted, then the new one is deleted by hand, and the next restore fails."""
    for at in range(1, 100):
        (tmp_path / str(at)).mkdir()
        target = write(tmp_path / str(at) / "restored", TREES[0])
        with dying(tmp_path, at) as death:
            restore(state_in(container), {"store": target}, settings=RestoreSettings(threads=1))
        if death.done[at - 1] == "os.rmdir":
            break
    assert {"restored", "restored.restoring", "restored.restore.lock"} == {
        path.name for path in target.parent.iterdir()
    }
    place.remove(target)
    with pytest.raises(NotFoundError):
        restore(state_in(container), {"other": target})
    assert not list(target.parent.iterdir())


def test_the_old_files_keep_their_permissions_until_the_switch(
    container: BlobContainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write(tmp_path / "restored", TREES[0])
    (target / "1.sst").chmod(0o600)
    before = state_of(target)
    with monkeypatch.context() as broken:
        broken.setattr(place, "switch", lambda *_: _full())
        with pytest.raises(ConfigurationError, match="No space left"):
            restore(state_in(container), {"store": target})
    assert before == state_of(target)
    restored = restore(state_in(container), {"store": target})
    assert 0 == restored.downloaded_bytes
    assert state_of(tmp_path / "live") == state_of(target)


def test_answers_of_writes_that_are_always_lost_change_nothing(tmp_path: Path) -> None:
    account = new_account()
    failing = [True]
    faults = FaultInjector(lambda attempt: LostAnswer() if failing[0] and attempt.operation == "put" else None)
    live = write(tmp_path / "live", TREES[0])
    writer = opened(account)
    writer._storage = replace(writer._storage, container=account.restarted(faults).container("box"))
    writer.back_up({"store": live})
    failing[0] = False
    writer.back_up({"store": write(live, TREES[1])})
    restore(state_in(account.container("box")), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[1])
    check_no_orphans(account.container("box"))


def test_a_take_over_without_a_network_is_an_error_and_its_clean_up_alone_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    opened(account).back_up({"store": write(tmp_path / "live", TREES[0])})
    for blob in plan_sweep(state_in(account.container("box"))).in_use:
        account.container("box").set_tags(blob, TTL)
    with pytest.raises(ConfigurationError, match="no network"):
        opened(account.restarted(FaultInjector(always(Refuse("no network")))))
    opened(account.restarted(FaultInjector(on("set_tags", Refuse("no network"), times=100))))
    assert "goes on with the next backup: no network" in caplog.text


def test_a_failed_block_ends_the_reading_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all of a large file would be read for nothing, and the blocks that have failed stay in memory."""
    monkeypatch.setattr(upload, "_SMALL", 0)
    account = new_account()
    faults = FaultInjector(on("stage_block", Refuse(), times=10_000))
    (tmp_path / "large").write_bytes(b"1" * 1000)
    with (
        upload.FileUploader(
            account.restarted(faults).container("box"), lambda: "files/1", threads=2, block_bytes=1
        ) as sending,
        pytest.raises(ConfigurationError),
    ):
        sending.files(tmp_path, scan(tmp_path).files)
    assert faults.count < 50


def test_what_somebody_has_deleted_is_uploaded_again_by_the_next_writer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    container = account.container("box")
    live = write(tmp_path / "live", TREES[1])
    opened(account).back_up({"store": live})
    lost = next(blob.name for blob in container.list(f"{STATE}/files/"))
    container.delete(lost)
    writer = opened(account)
    assert f"1 of the blobs of {STATE} are gone or cut, such as {lost}" in caplog.text
    writer.back_up({"store": live})
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[1])
    writer.back_up({"store": live})
    check_no_orphans(container)


def test_a_checkpoint_whose_index_somebody_has_deleted_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    container = account.container("box")
    live = write(tmp_path / "live", TREES[0])
    opened(account).back_up({"store": live})
    (newest,) = checkpoints(state_in(container))
    container.delete(newest.indexes["store"])
    writer = opened(account)
    assert f"index {newest.indexes['store']} is gone" in caplog.text
    second = writer.back_up({"store": live})
    assert (second,) == checkpoints(state_in(container))
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[0])
    check_no_orphans(container)


def test_a_backup_of_nothing_is_refused_and_paths_may_be_text(tmp_path: Path) -> None:
    account = new_account()
    writer = opened(account)
    with pytest.raises(ConfigurationError, match="no store is given"):
        writer.back_up({})
    writer.back_up({"store": str(write(tmp_path / "live", TREES[1]))})
    restore(state_in(account.container("box")), {"store": str(tmp_path / "restored")})
    assert equal(tmp_path / "restored", TREES[1])
