"""Backups of many small files: how many requests they make, what their packs waste, and what damage to one does."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from azure_account.memory.service import MemoryService
from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.values import BlobContent
from foundation.errors import CorruptError
from foundation.report import ProgressCallbacks
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.index import packs
from state_backup.index.snapshot_index import from_json
from state_backup.restoring import download
from state_backup.restoring.restore import LinkSources, RestoreSettings, checkpoints, materialise, restore
from state_backup.restoring.verifying import verify
from state_backup.sweeping.sweep import plan_sweep
from tests.state_backup.states import STATE, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_account.container import BlobContainer
    from state_backup.backup.writer import StateWriter
    from tests.state_backup.index.trees import Tree

T = TypeVar("T")
FILES = 300


def many(draws: Random, files: int = FILES) -> dict[str, bytes]:
    return {f"{number:04}": draws.randbytes(draws.randint(1, 2000)) for number in range(files)}


def opened(container: BlobContainer, **settings: int) -> StateWriter:
    return open_state(state_in(container), TaskIdentity("flights"), WriterSettings(**settings))  # type: ignore[arg-type]


def file_blobs(container: BlobContainer) -> list[str]:
    return [blob.name for blob in container.list(f"{STATE}/files/")]


def in_newest(container: BlobContainer) -> dict[str, int]:
    """The blobs that the newest checkpoint needs for its files, with their bytes."""
    (index,) = checkpoints(state_in(container))[0].indexes.values()
    return dict(from_json(container.get(index).data, index).blob_sizes())


def requests(faults: FaultInjector, since: int, *operations: str) -> int:
    return sum(not operations or each.operation in operations for each in faults.attempts[since:])


@pytest.fixture
def faults() -> FaultInjector:
    return FaultInjector()


@pytest.fixture
def counted(faults: FaultInjector) -> MemoryAccount:
    """An account whose requests are counted."""
    return new_account().restarted(faults)


def test_three_hundred_small_files_are_backed_up_changed_and_restored_in_a_few_requests(
    tmp_path: Path, counted: MemoryAccount, faults: FaultInjector
) -> None:
    container = counted.container("box")
    tree = many(Random(1))
    live = write(tmp_path / "live", tree)
    opened(container).back_up({"store": live})
    first = faults.count
    for number in (3, 150, 299):
        tree[f"{number:04}"] = b"changed %d" % number
        (live / f"{number:04}").write_bytes(tree[f"{number:04}"])
    opened(container).back_up({"store": live})
    second = faults.count
    restore(state_in(container), {"store": tmp_path / "restored"})
    third = faults.count
    assert equal(tmp_path / "restored", tree)
    assert (11, 10, 4) == (first, second - first, third - second)


def test_a_new_process_makes_no_request_for_each_file_if_nothing_has_changed(
    tmp_path: Path, counted: MemoryAccount, faults: FaultInjector
) -> None:
    container = counted.container("box")
    live = write(tmp_path / "live", many(Random(2), 2000))
    opened(container).back_up({"store": live})
    before = faults.count
    opened(container).back_up({"store": live})
    assert requests(faults, before) < 12


def test_small_files_come_back_byte_for_byte_with_packs_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = Random(3)
    for number in range(20):
        monkeypatch.setattr(packs, "PACK_BYTES", draws.choice([100, 1000, 4 << 20]))
        monkeypatch.setattr(packs, "SMALL_FILE", draws.choice([2, 50, 500, 256 << 10]))
        monkeypatch.setattr(packs, "_WIDEST_GAP", draws.choice([0, 10, 1000]))
        tree: Tree = {
            "empty": b"",
            "again": b"same",
            "sub": {"same": b"same", "dir": {}},
            **{f"{each}": draws.randbytes(draws.choice([0, 1, 49, 50, 99, 100, 500, 999])) for each in range(30)},
        }
        container = new_account().container("box")
        writer = opened(container, threads=draws.choice([1, 3]))
        writer.back_up({"store": write(tmp_path / "live", tree)})
        target = tmp_path / "restored" if draws.random() < 0.5 else tmp_path / f"restored-{number}"
        restore(
            state_in(container),
            {"store": target},
            settings=RestoreSettings(threads=draws.choice([1, 3])),
        )
        assert equal(target, tree)
        assert [True] == [each.whole for each in verify(state_in(container), deep=True)]
        assert [()] == [each.faults for each in verify(state_in(container))]


def test_waste_of_packs_and_their_number_stay_bounded_however_often_a_few_files_change(tmp_path: Path) -> None:
    """As of a Spark checkpoint: some new files with each backup, the oldest ones deleted."""
    container = new_account().container("box")
    writer = opened(container)
    draws = Random(4)
    tree: dict[str, bytes] = {}
    for number in range(100):
        tree |= {f"{number}-{each}": draws.randbytes(500) for each in range(4)}
        tree = dict([*tree.items()][-80:])
        writer.back_up({"store": write(tmp_path / "live", tree)})
        used = in_newest(container)
        assert sum(used.values()) <= 2 * 500 * len(tree)
        assert len(used) <= packs.MOST_SMALL_BLOBS + 1
        assert len(file_blobs(container)) <= 2 * (packs.MOST_SMALL_BLOBS + 1)
    before = file_blobs(container)
    check_no_orphans(container)
    assert before == file_blobs(container), "the writer has deleted what no checkpoint needs"


def test_a_pack_stays_while_one_checkpoint_needs_one_file_of_it_and_goes_as_a_whole(tmp_path: Path) -> None:
    container = new_account().container("box")
    writer = opened(container)
    tree = {"a": b"a" * 60, "b": b"b" * 30, "c": b"c" * 10}
    writer.back_up({"store": write(tmp_path / "live", tree)})
    (pack,) = file_blobs(container)
    del tree["b"]
    writer.back_up({"store": write(tmp_path / "live", tree)})
    assert [pack] == file_blobs(container), "70 of 100 bytes are needed"
    del tree["a"]
    for _ in range(2):
        writer.back_up({"store": write(tmp_path / "live", tree)})
    assert pack not in file_blobs(container), "10 of 100 bytes were needed: they are uploaded again"
    assert 1 == len(file_blobs(container))
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", tree)
    check_no_orphans(container)


def test_a_store_does_not_use_a_pack_of_another_one_of_which_it_needs_little(tmp_path: Path) -> None:
    """Else the store that needs little uploads its files again with the next backup, though nothing has changed."""
    container = new_account().container("box")
    one, other = write(tmp_path / "one", many(Random(5), 20)), tmp_path / "other"
    write(other, {"same": (one / "0001").read_bytes(), "own": b"own"})
    writer = opened(container)
    first = writer.back_up({"one": one, "other": other})
    again = writer.back_up({"one": one, "other": other})
    assert first.indexes == again.indexes


def test_files_with_blobs_of_their_own_are_packed_by_the_next_backup_that_changes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = new_account().container("box")
    tree = many(Random(6), 100)
    live = write(tmp_path / "live", tree)
    with monkeypatch.context() as alone:
        alone.setattr(packs, "SMALL_FILE", 0)
        first = opened(container).back_up({"store": live})
    assert 100 == len(file_blobs(container))
    writer = opened(container)
    assert first.indexes == writer.back_up({"store": live}).indexes
    changed = {**tree, min(tree): b"changed"}
    second = writer.back_up({"store": write(live, changed)}, keep=[str(first.id)])
    assert 1 == len(in_newest(container))
    for each, expected in ((first, tree), (second, changed)):
        restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=str(each.id))
        assert equal(tmp_path / "restored", expected)
    for _ in range(2):
        writer.back_up({"store": live})
    assert 1 == len(file_blobs(container))


def damaged(container: BlobContainer, pack: str) -> None:
    data = bytearray(container.get(pack).data)
    data[5] ^= 1
    data[-5] ^= 1
    container.put(pack, bytes(data))


def test_damage_in_a_pack_names_the_files_whose_bytes_are_not_theirs(tmp_path: Path) -> None:
    container = new_account().container("box")
    tree = {name: name.encode() * 10 for name in "abcd"}
    checkpoint = opened(container).back_up({"store": write(tmp_path / "live", tree)})
    (pack,) = file_blobs(container)
    damaged(container, pack)
    (found,) = verify(state_in(container), deep=True)
    assert [("a", pack), ("d", pack)] == [(fault.path, fault.blob) for fault in found.faults]
    with pytest.raises(CorruptError, match=f"files from pack {pack} failed: the bytes of a, d have another checksum"):
        restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=str(checkpoint.id))
    container.put(pack, b"")
    (cut,) = verify(state_in(container))
    assert {("store", name, "it has 0 bytes, not 40") for name in "abcd"} == {
        (fault.store, fault.path, fault.cause) for fault in cut.faults
    }
    with pytest.raises(CorruptError, match="the bytes of a, b, c, d have another checksum, or are not there"):
        restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=str(checkpoint.id))
    opened(container).back_up({"store": tmp_path / "live"})
    newest, older = verify(state_in(container), deep=True)
    assert (True, False) == (newest.whole, older.whole), "the next writer has uploaded the files again"


def needed(container: BlobContainer, store: str) -> dict[str, set[str]]:
    """By pack, the files of a store in the newest checkpoint."""
    index = checkpoints(state_in(container))[0].indexes[store]
    found: dict[str, set[str]] = {}
    for path, file in from_json(container.get(index).data, index).root.files():
        found.setdefault(file.blobs[0].blob_id, set()).add(path)
    return found


def test_overwriting_a_damaged_pack_loses_its_other_files_until_the_next_writer_has_backed_up(tmp_path: Path) -> None:
    container = new_account().container("box")
    writer = opened(container)
    tree = {name: name.encode() * 10 for name in "abcd"}
    for changed in (b"b", b"B"):
        tree["b"] = changed * 10
        writer.back_up({"store": write(tmp_path / "live", tree)})
    (pack,) = [blob for blob, paths in needed(container, "store").items() if "a" in paths]
    damaged(container, pack)
    newest, older = verify(state_in(container), deep=True)
    assert [{"a", "d"}, {"a", "d"}] == [{fault.path for fault in each.faults} for each in (newest, older)]
    advice = (
        "its bytes have another checksum than the file had. If the newest checkpoint is whole, leave the blob as it "
        "is. Else overwrite it with an empty one: all files of this pack are lost for older checkpoints, and the first "
        "backup of the next writer that opens the state uploads again what its directory has"
    )
    assert {advice} == {fault.cause for fault in (*newest.faults, *older.faults)}
    container.put(pack, b"")
    lost, older = verify(state_in(container))
    assert [{"a", "c", "d"}, set("abcd")] == [{fault.path for fault in each.faults} for each in (lost, older)]
    opened(container).back_up({"store": tmp_path / "live"})
    newest, older = verify(state_in(container), deep=True)
    assert (True, False) == (newest.whole, older.whole)


def test_what_verify_says_of_a_damaged_pack_mends_the_newest_checkpoint_and_costs_none_that_is_whole(
    tmp_path: Path,
) -> None:
    mended = left = 0
    for seed in range(40):
        draws = Random(seed)
        container = new_account().container("box")
        writer = opened(container, keep=4)
        trees = {store: {f"{each}": draws.randbytes(50) for each in range(6)} for store in ("one", "other")}
        trees["other"]["same"] = trees["one"]["0"]
        for _ in range(4):
            for store in draws.sample(sorted(trees), draws.randint(0, 2)):
                trees[store] |= {f"{each}": draws.randbytes(50) for each in draws.sample(range(6), draws.randint(1, 3))}
            stores = {store: write(tmp_path / store, tree) for store, tree in trees.items()}
            without = draws.choice([[], [], ["other"]])
            writer.back_up({store: stores[store] for store in stores if store not in without}, leave_out=without)
        pack = draws.choice(file_blobs(container))
        data = bytearray(container.get(pack).data)
        data[draws.randrange(len(data))] ^= 1
        container.put(pack, bytes(data))
        before = verify(state_in(container), deep=True)
        if before[0].whole:
            left += any(not each.whole for each in before)
        else:
            mended += 1
            assert all(re.search("[Oo]verwrite.* with an empty one", fault.cause) for fault in before[0].faults)
            container.put(pack, b"")
        assert [each.whole for each in before] == [each.whole for each in verify(state_in(container), deep=True)]
        writer = opened(container)
        assert writer.newest is not None
        restored = restore(state_in(container), {store: stores[store] for store in writer.newest.indexes})
        assert writer.newest == restored.checkpoint, "what it needs of the pack is in the directory"
        writer.back_up(stores)
        newest, *older = verify(state_in(container), deep=True)
        assert [True, *(each.whole for each in before[:3])] == [newest.whole, *(each.whole for each in older)]
    assert min(mended, left) > 3, (mended, left)


class FlipsInTurn(Intercept):
    """Flips a bit of the first file of a pack in the first answer, of the second file in the second one, and so on."""

    def __init__(self, size: int, times: int) -> None:
        self.size, self.left, self.done = size, times, 0

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        answer = send()
        if "/files/" not in request.name or not isinstance(answer, BlobContent) or not self.left:
            return answer
        place = self.size * self.done
        self.left, self.done = self.left - 1, self.done + 1
        flipped = bytes([*answer.data[:place], answer.data[place] ^ 1, *answer.data[place + 1 :]])
        return replace(answer, data=flipped)


def test_a_file_of_a_pack_is_whole_if_it_arrived_whole_once(tmp_path: Path) -> None:
    """Else a file that is damaged in storage, or bad luck, condemns its neighbours."""
    account = new_account()
    tree = {name: name.encode() * 10 for name in "abcd"}
    opened(account.container("box")).back_up({"store": write(tmp_path / "live", tree)})
    flips = FlipsInTurn(10, 3)
    restore(state_in(account.restarted(flips).container("box")), {"store": tmp_path / "restored"})
    assert (2, True) == (flips.done, equal(tmp_path / "restored", tree))
    (pack,) = file_blobs(account.container("box"))
    stored = bytearray(account.container("box").get(pack).data)
    stored[-1] ^= 1
    account.container("box").put(pack, bytes(stored))
    flips, progress = FlipsInTurn(10, 3), list[int]()
    container = account.restarted(flips).container("box")
    (found,) = verify(state_in(container), deep=True, report=ProgressCallbacks(progress=progress.append))
    assert (3, ["d"], 40) == (flips.done, [fault.path for fault in found.faults], sum(progress))


def test_many_damaged_files_of_a_pack_are_not_all_named(tmp_path: Path) -> None:
    container = new_account().container("box")
    checkpoint = opened(container).back_up({"store": write(tmp_path / "live", many(Random(7), 50))})
    (pack,) = file_blobs(container)
    container.put(pack, bytes(len(container.get(pack).data)))
    names = ", ".join(f"{number:04}" for number in range(download._NAMED))
    with pytest.raises(CorruptError, match=f"the bytes of {names} and 45 more have another"):
        restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=str(checkpoint.id))


def test_a_deleted_pack_is_undeleted_and_has_no_ttl(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    account = MemoryAccount(MemoryService(soft_delete=60.0))
    container = account.container("box")
    container.create()
    tree = many(Random(8), 20)
    opened(container).back_up({"store": write(tmp_path / "live", tree)})
    (pack,) = file_blobs(container)
    assert {} == container.tags(pack)
    container.delete(pack)
    (gone,) = verify(state_in(container))
    assert {"it is gone"} == {fault.cause for fault in gone.faults}
    assert 20 == len(gone.faults)
    with caplog.at_level(logging.WARNING):
        restored = restore(state_in(container), {"store": tmp_path / "restored"})
    assert (pack,) == restored.undeleted
    assert equal(tmp_path / "restored", tree)


def test_only_the_needed_part_of_a_pack_is_downloaded(
    tmp_path: Path, counted: MemoryAccount, faults: FaultInjector
) -> None:
    container = counted.container("box")
    tree = many(Random(9))
    checkpoint = opened(container).back_up({"store": write(tmp_path / "live", tree)})
    there = write(tmp_path / "there", {name: data for name, data in tree.items() if name != "0150"})
    before = faults.count
    made = materialise(state_in(container), "store", str(checkpoint.id), tmp_path / "made", LinkSources([there]))
    assert (1, len(tree["0150"])) == (made.downloaded_files, made.downloaded_bytes)
    assert 3 == requests(faults, before, "get")
    assert equal(tmp_path / "made", tree)


def test_a_sweep_condemns_packs_that_no_checkpoint_has(tmp_path: Path) -> None:
    container = new_account().container("box")
    opened(container).back_up({"store": write(tmp_path / "live", many(Random(10), 20))})
    container.put(f"{STATE}/files/left-by-a-crash", b"pack")
    plan = plan_sweep(state_in(container), min_age=0)
    assert {f"{STATE}/files/left-by-a-crash": 4} == plan.waste
    assert 2 == len(plan.in_use)
