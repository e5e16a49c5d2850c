"""Files uploaded and downloaded over the in-memory account: every size, and what goes wrong."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.retrying.retry_loop import Request
from foundation.errors import ConfigurationError, ConflictError, CorruptError, NotFoundError
from state_backup.backup import upload
from state_backup.backup.upload import FileUploader
from state_backup.index.dir_diff import next_index, to_upload
from state_backup.index.snapshot_index import FileBlob
from state_backup.local.scan import scan
from state_backup.restoring.download import Downloader
from tests.limits import file_size_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azure_account.container import BlobContainer
    from state_backup.index.snapshot_index import DirIndex, FileIndex

BLOCK = 1000
T = TypeVar("T")


def new_container(account: MemoryAccount | None = None) -> BlobContainer:
    container = (account or MemoryAccount()).container("box")
    container.create()
    return container


def uploaded(container: BlobContainer, folder: Path) -> DirIndex:
    names = (f"files/{number}" for number in count())
    directory = scan(folder)
    with FileUploader(container, lambda: next(names), threads=3, block_bytes=BLOCK) as uploader:
        return next_index(directory, uploader.files(folder, to_upload(directory, {})), None)


def downloaded(container: BlobContainer, index: DirIndex, folder: Path) -> None:
    folder.mkdir()
    files = {folder / path: file for path, file in index.files()}
    with Downloader(container, threads=3, range_bytes=BLOCK) as downloader:
        downloader.files(files)


@pytest.fixture
def small_puts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_SMALL", 100)


@pytest.mark.usefixtures("no_packs")
@pytest.mark.usefixtures("small_puts")
def test_files_of_every_size_come_back_byte_for_byte(tmp_path: Path) -> None:
    container, source = new_container(), tmp_path / "source"
    source.mkdir()
    sizes = (0, 1, 99, 100, 101, 999, 1000, 1001, 1999, 2000, 2001, 12_345)
    for size in sizes:
        (source / str(size)).write_bytes(random.Random(size).randbytes(size))
    downloaded(container, uploaded(container, source), tmp_path / "copy")

    for size in sizes:
        assert (source / str(size)).read_bytes() == (tmp_path / "copy" / str(size)).read_bytes()
    assert {"files"} == {blob.name.split("/")[0] for blob in container.list(uncommitted=True)}
    assert len(sizes) - 1 == len(list(container.list()))


@pytest.mark.usefixtures("no_packs")
def test_new_blobs_have_the_tag_of_the_lifecycle_rule(tmp_path: Path) -> None:
    container = new_container()
    (tmp_path / "a").write_bytes(b"1" * 5000)
    (tmp_path / "b").write_bytes(b"2")
    uploaded(container, tmp_path)
    assert [{"azureblobTtl": "30d"}] * 2 == [dict(container.tags(blob.name)) for blob in container.list()]


def test_without_permission_for_tags_a_backup_goes_on_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    container = new_container(
        MemoryAccount(intercept=FaultInjector(on("put", Refuse("403 AuthorizationPermissionMismatch"))))
    )
    (tmp_path / "a").write_bytes(b"1")
    uploaded(container, tmp_path)
    (blob,) = container.list()
    assert {} == container.tags(blob.name)
    assert {"azureblobTtl": "30d"} == blob.metadata
    assert 1 == caplog.text.count("index tags are refused in memory://memory/box, so blobs get no TTL")


def test_what_is_refused_without_tags_too_is_an_error(tmp_path: Path) -> None:
    container = new_container(
        MemoryAccount(intercept=FaultInjector(on("put", Refuse("409 BlobImmutableDueToPolicy"), times=2)))
    )
    (tmp_path / "a").write_bytes(b"1")
    with pytest.raises(ConfigurationError, match="BlobImmutableDueToPolicy"):
        uploaded(container, tmp_path)


def test_a_file_that_has_changed_since_its_scan_makes_no_blob(tmp_path: Path) -> None:
    container = new_container()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"before" * 1000)
    directory = scan(tmp_path)
    (tmp_path / "a").write_bytes(b"after!" * 1000)
    (tmp_path / "b").unlink()
    for file in directory.files:
        with (
            FileUploader(container, lambda: "files/1", block_bytes=BLOCK) as uploader,
            pytest.raises(ConflictError, match=f"{file.name} has changed since its checksum was computed. Back up a"),
        ):
            uploader.files(tmp_path, [file])
    assert [] == list(container.list())


@pytest.fixture
def stored(tmp_path: Path) -> tuple[BlobContainer, DirIndex, FileIndex]:
    container, source = new_container(), tmp_path / "source"
    source.mkdir()
    (source / "000012.sst").write_bytes(b"0123456789" * 500)
    index = uploaded(container, source)
    return container, index, index.files_present[0]


def test_other_bytes_of_the_same_size_are_noticed(
    stored: tuple[BlobContainer, DirIndex, FileIndex], tmp_path: Path
) -> None:
    container, index, file = stored
    container.put(file.blobs[0].blob_id, b"0123456789" * 499 + b"012345678X")
    with pytest.raises(CorruptError, match=r"restore file 000012.sst from files/0 failed: .* another checksum.*older"):
        downloaded(container, index, tmp_path / "copy")


def test_a_blob_that_is_too_short_or_gone_is_noticed(
    stored: tuple[BlobContainer, DirIndex, FileIndex], tmp_path: Path
) -> None:
    container, index, file = stored
    container.put(file.blobs[0].blob_id, b"0123456789" * 499)
    with pytest.raises(CorruptError, match="blob files/0 is shorter than the file"):
        downloaded(container, index, tmp_path / "short")
    container.delete(file.blobs[0].blob_id)
    with pytest.raises(NotFoundError, match="files/0"):
        downloaded(container, index, tmp_path / "gone")


def test_a_file_of_several_blobs_is_joined(stored: tuple[BlobContainer, DirIndex, FileIndex], tmp_path: Path) -> None:
    container, index, file = stored
    content = b"0123456789" * 500
    container.put("one", content[:1234])
    container.put("two", content[1234:])
    parts = replace(file, blobs=(FileBlob("one", 0), FileBlob("two", 1234)))
    downloaded(container, replace(index, files_present=(parts,)), tmp_path / "copy")
    assert content == (tmp_path / "copy" / "000012.sst").read_bytes()


def test_a_file_that_exists_is_not_overwritten(
    stored: tuple[BlobContainer, DirIndex, FileIndex], tmp_path: Path
) -> None:
    container, _, file = stored
    (tmp_path / "there").write_bytes(b"precious")
    with Downloader(container) as downloader, pytest.raises(ConfigurationError, match="File exists"):
        downloader.files({tmp_path / "there": file})
    assert b"precious" == (tmp_path / "there").read_bytes()


def test_a_full_disk_is_named(stored: tuple[BlobContainer, DirIndex, FileIndex], tmp_path: Path) -> None:
    container, index, _ = stored
    refused = pytest.raises(ConfigurationError, match=r"write .*000012.sst failed: .*Make room, or choose a directory")
    with refused, file_size_limit(2000):
        downloaded(container, index, tmp_path / "copy")


@given(st.integers(1, 5), st.integers(0, 9000))
def test_progress_adds_up(threads: int, size: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a").write_bytes(os.urandom(size))
        container, sent, got = new_container(), list[int](), list[int]()
        directory = scan(folder)
        with FileUploader(container, lambda: "files/1", threads=threads, block_bytes=BLOCK) as uploader:
            blobs = uploader.files(folder, to_upload(directory, {}), sent.append)
        index = next_index(directory, blobs, None)
        with Downloader(container, threads=threads, range_bytes=BLOCK) as downloader:
            downloader.files({folder / f"copy of {path}": file for path, file in index.files()}, got.append)
        assert size == sum(sent) == sum(got)


class Interrupted(FaultInjector):
    """Interrupts the main thread, as Ctrl-C does, when an operation is requested after 30 other attempts.

    By then it waits: an interrupt while Python starts a thread can leave that thread waiting for ever. All take 20 ms.
    """

    def __init__(self, operation: str) -> None:
        super().__init__()
        self._operation = operation
        self._once = threading.Lock()

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == self._operation:
            if self.count > 30 and self._once.acquire(blocking=False):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.02)
        return super().attempt(request, send)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, also under a shell that has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.usefixtures("no_packs")
@pytest.mark.usefixtures("small_puts")
def test_ctrl_c_ends_transfers_when_the_requests_on_their_way_are_answered(tmp_path: Path) -> None:
    account = MemoryAccount()
    container = new_container(account)
    folder = tmp_path / "live"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.sst").write_bytes(random.Random(number).randbytes(20 * BLOCK))
    up = Interrupted("stage_block")
    with pytest.raises(KeyboardInterrupt):
        uploaded(account.restarted(up).container("box"), folder)
    index = uploaded(container, folder)
    down = Interrupted("get")
    with pytest.raises(KeyboardInterrupt):
        downloaded(account.restarted(down).container("box"), index, tmp_path / "restored")
    assert 0 < up.count < 400, "of 840"
    assert 0 < down.count < 400, "of 800"
