"""What storage refuses, damages or loses, more than once: a writer and a sweep go on, and lose nothing."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, Unreachable, on
from azure_account.memory.service import MemoryService
from azure_account.retrying.retry_loop import Request
from azure_account.values import NO_ATTRIBUTES
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, ConflictError, CorruptError, TransientError
from state_backup import StateWriter, TaskIdentity, open_state, plan_sweep, restore, sweep
from state_backup.backup import upload
from state_backup.backup.settings import WriterSettings
from state_backup.backup.upload import FileUploader
from state_backup.record.names import StateNames
from state_backup.record.store import record_store
from state_backup.record.ttl import TAG
from state_backup.restoring.restore import RestoreSettings
from state_backup.restoring.verifying import verify
from state_backup.sweeping.sweep import DAY_SECONDS
from tests.state_backup.states import STATE, TREES, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account.container import BlobContainer
    from azure_account.values import BlobAttributes, Bytes, Condition

T = TypeVar("T")
MANY = {f"{number}.sst": b"many %d" % number for number in range(8)}


def opened(container: BlobContainer, threads: int = 16) -> StateWriter:
    return open_state(state_in(container), TaskIdentity("flights"), WriterSettings(threads=threads))


class RefusesTags(MemoryService):
    """An account without index tags: four requests at once are refused together."""

    def __init__(self) -> None:
        super().__init__()
        self.together = threading.Barrier(4)

    def put(
        self,
        container: str,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes,
        condition: Condition,
        lease_id: str | None,
    ) -> str:
        if attributes.tags:
            try:
                self.together.wait(2)
            except threading.BrokenBarrierError:
                self.together.reset()
            raise ConfigurationError("400 FeatureNotSupportedForAccount")
        return super().put(container, blob, data, attributes, condition, lease_id)


def test_an_account_without_tags_backs_up_many_files_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    account = MemoryAccount(RefusesTags())
    container = account.container("box")
    container.create()
    writer = opened(container)
    for tree in (MANY, TREES[1], MANY):
        writer.back_up({"store": write(tmp_path / "live", tree)})
    assert 1 == caplog.text.count("index tags are refused")
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", MANY)
    check_no_orphans(container)


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_index_costs_its_checkpoint_and_stops_nobody(tmp_path: Path, which: int) -> None:
    account = new_account()
    container = account.container("box")
    writer = opened(container)
    kept = [writer.back_up({"store": write(tmp_path / "live", tree)}, {"batch": str(number)})
            for number, tree in enumerate(TREES[:2])]  # fmt: skip
    container.put(kept[which].indexes["store"], b"{broken")
    with pytest.raises(CorruptError, match=r"sweep state .*Open the state and back it up once"):
        plan_sweep(state_in(container))

    again = opened(container)
    again.back_up({"store": write(tmp_path / "live", TREES[2])}, {"batch": "2"})
    stored = record_store(container, StateNames(STATE)).read()
    assert stored is not None
    assert ["2", str(1 - which)] == [each.offsets["batch"] for each in stored.document.checkpoints]
    check_no_orphans(container)
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[2])


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize("data", [b"", b"many", b"many 3 and more"])
def test_a_blob_of_another_size_is_uploaded_again(tmp_path: Path, data: bytes) -> None:
    account = new_account()
    container = account.container("box")
    live = write(tmp_path / "live", MANY)
    opened(container).back_up({"store": live})
    victim = next(blob for blob in container.list(f"{STATE}/files/") if container.get(blob.name).data == b"many 3")
    container.put(victim.name, data, NO_ATTRIBUTES)
    done = opened(container)
    done.back_up({"store": live})
    assert 1 == done.backed_up["store"].uploaded_files
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", MANY)


def test_a_block_that_is_cancelled_before_it_begins_gives_its_slot_back() -> None:
    free = threading.Event()
    with FileUploader(new_account().container("box"), lambda: "files/1", threads=2) as uploader:
        try:
            for _ in range(2):
                uploader._blocks.submit(free.wait, 30)
            staging = [uploader._stage("files/1", number, b"block", lambda _: None) for number in range(2)]
            assert [True, True] == [each.cancel() for each in staging]
            assert [True, True] == [uploader._slots.acquire(timeout=0) for _ in staging]
        finally:
            free.set()


@pytest.mark.parametrize("threads", [0, -1])
def test_a_number_of_threads_that_can_do_nothing_is_refused(tmp_path: Path, threads: int) -> None:
    container = new_account().container("box")
    writer = opened(container)
    writer.back_up({"store": write(tmp_path / "live", MANY)})
    plan = plan_sweep(state_in(container))
    for refused in (
        lambda: opened(container, threads),
        lambda: restore(
            state_in(container),
            {"store": tmp_path / "restored"},
            settings=RestoreSettings(threads=threads),
        ),
        lambda: verify(state_in(container), threads=threads),
        lambda: plan_sweep(state_in(container), threads=threads),
        lambda: sweep(state_in(container), plan, threads=threads),
    ):
        with pytest.raises(
            ConfigurationError, match=rf"threads of \w+ is {threads}: give a whole number of at least 1"
        ):
            refused()
    writer.back_up({"store": tmp_path / "live"})  # what was refused has fenced nobody


def test_a_blob_under_a_legal_hold_keeps_no_other_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    account = new_account()
    container = account.container("box")
    opened(container).back_up({"store": write(tmp_path / "live", TREES[0])})
    for number in range(30):
        container.put(f"{STATE}/files/waste-{number:02}", b"1")
    held = on("delete", Refuse("409 BlobImmutableDueToLegalHold"), name=lambda name: name.endswith("waste-07"))
    holding = account.restarted(FaultInjector(held)).container("box")
    assert 29 == sweep(state_in(holding), plan_sweep(state_in(holding), min_age=0), threads=4)
    assert "1 blobs of flights/task-3 are left for the next sweep: " in caplog.text
    check_no_orphans(container)


class Sweeps(FaultInjector):
    """Another process sweeps when the n-th request of an operation has been answered."""

    def __init__(self, operation: str, number: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.operation, self.number, self.act, self.seen = operation, number, act, 0

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        answer = super().attempt(request, send)
        self.seen += request.operation == self.operation
        if request.operation == self.operation and self.seen == self.number:
            self.act()
        return answer


@pytest.mark.usefixtures("no_packs")
def test_a_repeat_after_a_sweep_uploads_only_what_was_condemned(tmp_path: Path) -> None:
    account = new_account()
    container = account.container("box")
    opened(container).back_up({"store": write(tmp_path / "live", TREES[0])})

    def condemn_one() -> None:
        plan = plan_sweep(state_in(container), min_age=0)
        first = min(name for name in plan.waste if "/files/" in name)
        sweep(state_in(container), type(plan)(plan.stored, plan.in_use, {first: 1}, {}, plan.sizes))

    sweeping = Sweeps("put", 1 + len(MANY), condemn_one)  # the record, then the files
    writer = opened(account.restarted(sweeping).container("box"), threads=1)
    writer.back_up({"store": write(tmp_path / "live", MANY)})
    files = [each.name for each in sweeping.attempts if each.operation == "put" and "/files/" in each.name]
    assert len(MANY) + 1 == len(files)
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", MANY)


@pytest.mark.parametrize("sweeps", [1, 2])
def test_a_file_whose_staged_blocks_are_swept_is_uploaded_again(tmp_path: Path, sweeps: int) -> None:
    account = new_account()
    container = account.container("box")
    opened(container).back_up({"store": write(tmp_path / "live", TREES[0])})
    live = write(tmp_path / "live", {"large": os.urandom(9 << 20)})
    left = [sweeps]

    def sweep_now() -> None:
        if left[0]:
            left[0] -= 1
            sweeping.seen = 0
            sweep(state_in(container), plan_sweep(state_in(container), min_age=0))

    sweeping = Sweeps("stage_block", 3, sweep_now)
    opened(account.restarted(sweeping).container("box"), threads=1).back_up({"store": live})
    assert 0 == left[0]
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert (live / "large").read_bytes() == (tmp_path / "restored" / "large").read_bytes()


def test_a_file_that_is_swept_each_time_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    account = new_account()
    container = account.container("box")
    opened(container).back_up({"store": write(tmp_path / "live", TREES[0])})

    def sweep_now() -> None:
        sweeping.seen = 0
        sweep(state_in(container), plan_sweep(state_in(container), min_age=0))

    sweeping = Sweeps("stage_block", 3, sweep_now)
    writer = opened(account.restarted(sweeping).container("box"), threads=1)
    with pytest.raises(ConflictError, match="staged blocks of large were deleted 3 times.*minimum age"):
        writer.back_up({"store": write(tmp_path / "live", {"large": os.urandom(9 << 20)})})


@pytest.mark.usefixtures("no_packs")
def test_deletes_that_are_refused_for_good_do_not_make_backups_ever_slower(tmp_path: Path) -> None:
    account = new_account()
    faults = FaultInjector(on("delete", Refuse(), times=10**9))
    writer = opened(account.restarted(faults).container("box"))
    requests: list[int] = []
    for number in range(40):
        before = len(faults.attempts)
        tree = {f"{number}-{file}": b"%d-%d" % (number, file) for file in range(10)}
        writer.back_up({"store": write(tmp_path / "live", tree)})
        requests.append(len(faults.attempts) - before)
    assert max(requests[20:]) <= 100 + 40
    assert max(requests[30:]) <= max(requests[20:30])


def test_an_unchanged_directory_of_new_hard_links_gets_no_new_index(tmp_path: Path) -> None:
    container = new_account().container("box")
    live = write(tmp_path / "live", MANY)
    writer = opened(container)
    first = writer.back_up({"store": live})
    again = tmp_path / "linked"
    again.mkdir()
    for file in live.iterdir():
        os.link(file, again / file.name)
    assert first.indexes == writer.back_up({"store": again}).indexes


def test_a_sweep_leaves_the_list_of_condemned_blobs_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_backup.sweeping.sweep.MOST_CONDEMNED", 10)
    account = new_account()
    opened(account.container("box")).back_up({"store": write(tmp_path / "live", TREES[0])})
    container = account.restarted(FaultInjector(on("delete", Refuse(), times=10**9))).container("box")
    for number in range(30):
        container.put(f"{STATE}/files/waste-{number:02}", b"1")
    for _ in range(3):
        sweep(state_in(container), plan_sweep(state_in(container), min_age=0))
    stored = record_store(container, StateNames(STATE)).read()
    assert stored is not None
    assert 10 == len(stored.document.condemned)


def test_a_very_large_file_has_blocks_that_fit_its_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "BLOCKS_OF_A_BLOB", 3)
    monkeypatch.setattr(upload, "_SMALL", 10)
    container = new_account().container("box")
    live = write(tmp_path / "live", {"large": os.urandom(1001)})
    monkeypatch.setattr(
        FileUploader.__init__, "__kwdefaults__", {**(FileUploader.__init__.__kwdefaults__ or {}), "block_bytes": 10}
    )
    opened(container).back_up({"store": live})
    blobs: Sequence[str] = [blob.name for blob in container.list(f"{STATE}/files/")]
    assert [3] == [len(container.block_ids(blob)) for blob in blobs]


def test_blobs_that_can_be_deleted_are_even_if_many_before_them_cannot(tmp_path: Path) -> None:
    account = new_account()
    container = account.container("box")
    opened(container).back_up({"store": write(tmp_path / "live", TREES[0])})
    for number in range(200):
        container.put(f"{STATE}/files/waste-{number:03}", b"1")
    refused = FaultInjector(on("delete", Refuse(), times=10**9))
    sweep(
        state_in(account.restarted(refused).container("box")),
        plan_sweep(state_in(container), min_age=0),
    )

    held = on("delete", Refuse(), times=10**9, name=lambda name: name < f"{STATE}/files/waste-150")
    faults = FaultInjector(held)
    writer = opened(account.restarted(faults).container("box"), threads=1)
    assert 20 == sum(each.operation == "delete" for each in faults.attempts)
    for _ in range(20):
        writer.back_up({"store": tmp_path / "live"})
    assert 150 == len(list(container.list(f"{STATE}/files/waste-")))


def test_a_sweep_deletes_what_is_condemned_though_the_list_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_backup.sweeping.sweep.MOST_CONDEMNED", 10)
    account = new_account()
    container = account.container("box")
    opened(container).back_up({"store": write(tmp_path / "live", TREES[0])})
    for number in range(12):
        container.put(f"{STATE}/files/waste-{number:02}", b"1")
    refused = account.restarted(FaultInjector(on("delete", Refuse(), times=10**9))).container("box")
    assert 0 == sweep(state_in(refused), plan_sweep(state_in(container), min_age=0))
    assert 10 == sweep(state_in(container), plan_sweep(state_in(container), min_age=0))


class RefusesTheSecondTag(MemoryService):
    """The first file is put with its tag, and answered when the second one, whose tag is refused, is there without."""

    def __init__(self) -> None:
        super().__init__()
        self.second_is_there = threading.Event()
        self.numbers = itertools.count(1)

    def put(
        self,
        container: str,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes,
        condition: Condition,
        lease_id: str | None,
    ) -> str:
        number = next(self.numbers) if "/files/" in blob and attributes.tags else 0
        if number == 2:
            raise ConfigurationError("403 AuthorizationFailure")
        etag = super().put(container, blob, data, attributes, condition, lease_id)
        if number == 1:
            self.second_is_there.wait(10)
        elif "/files/" in blob:
            self.second_is_there.set()
        return etag


@pytest.mark.usefixtures("no_packs")
def test_a_tag_that_was_put_while_another_one_was_refused_is_taken_off(tmp_path: Path) -> None:
    account = MemoryAccount(RefusesTheSecondTag())
    container = account.container("box")
    container.create()
    opened(container).back_up({"store": write(tmp_path / "live", {"1.sst": b"one", "2.sst": b"two"})})
    assert [] == [blob for blob in plan_sweep(state_in(container), min_age=0).in_use if TAG in container.tags(blob)]


@pytest.mark.usefixtures("no_packs")
def test_what_verify_says_about_a_damaged_blob_mends_it_with_soft_delete_too(tmp_path: Path) -> None:
    container = MemoryAccount(MemoryService(soft_delete=DAY_SECONDS)).container("box")
    container.create()
    live = write(tmp_path / "live", MANY)
    opened(container).back_up({"store": live})
    victim = next(blob for blob in container.list(f"{STATE}/files/") if container.get(blob.name).data == b"many 3")
    container.put(victim.name, b"MANY 3")
    ((fault,),) = [each.faults for each in verify(state_in(container), deep=True)]
    assert (victim.name, True) == (fault.blob, "overwrite the blob with an empty one" in fault.cause)
    container.put(fault.blob, b"")
    opened(container).back_up({"store": live})
    assert verify(state_in(container), deep=True)[0].whole


@pytest.mark.parametrize("operation", ["set_tags", "delete"])
def test_a_clean_up_ends_when_the_service_is_out_of_reach_and_does_not_try_each_blob(
    tmp_path: Path, operation: str
) -> None:
    clock = ManualClock()
    account = MemoryAccount(MemoryService(clock=clock))
    account.container("box").create()
    opened(account.container("box")).back_up({"store": write(tmp_path / "live", MANY)})
    for number in range(50):
        account.container("box").put(f"{STATE}/files/waste-{number:02}", b"1")
    faults = FaultInjector(on(operation, Unreachable(), times=10**9))
    writer = opened(account.restarted(faults).container("box"), threads=1)
    tried = {each.name for each in faults.attempts if each.operation == operation}
    assert len(tried) <= 1
    writer.back_up({"store": write(tmp_path / "live", TREES[1])})
    tried = {each.name for each in faults.attempts if each.operation == operation}
    assert 1 <= len(tried) <= 2
    opened(account.container("box")).back_up({"store": write(tmp_path / "live", TREES[2])})
    check_no_orphans(account.container("box"))


def test_a_sweep_ends_when_the_service_is_out_of_reach_and_does_not_try_each_blob(tmp_path: Path) -> None:
    account = new_account()
    container = account.container("box")
    opened(container).back_up({"store": write(tmp_path / "live", TREES[0])})
    for number in range(50):
        container.put(f"{STATE}/files/waste-{number:02}", b"1")
    faults = FaultInjector(on("delete", Unreachable(), times=10**9))
    with pytest.raises(TransientError):
        sweep(
            state_in(account.restarted(faults).container("box")),
            plan_sweep(state_in(container), min_age=0),
            threads=2,
        )
    assert len({each.name for each in faults.attempts if each.operation == "delete"}) <= 4
