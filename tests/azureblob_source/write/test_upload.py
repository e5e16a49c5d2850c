from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from arrow_avro import codec
from azure_account.memory.faults import FaultInjector, Unreachable, on
from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source.log.naming import block_id
from azureblob_source.write.open_blobs import BlobFormat, SealedBlock
from azureblob_source.write.upload import BlockUploader, Staged
from foundation.errors import ConfigurationError, TransientError
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount

FORMAT = BlobFormat('{"type":"record","name":"row","fields":[]}', "f" * 16, codec("null"))
WAIT = 60.0
"""Time limit (s) of a test that would hang otherwise."""


class Gate(Intercept):
    """Blocks every request until the test opens it, and records the threads that sent them."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.threads: list[str] = []

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        self.threads.append(threading.current_thread().name)
        if threading.current_thread() is not threading.main_thread():
            self.waiting.release()
            assert self.open.wait(WAIT)
        return send()

    def wait_for(self, requests: int) -> None:
        for _ in range(requests):
            assert self.waiting.acquire(timeout=WAIT)


def block(number: int, blob: str = "b") -> SealedBlock:
    body = bytes(10 + number)
    return SealedBlock(
        blob, "flights", block_id("0" * 16, number), b"s" * 16, ((1, body),), len(body), is_first=number == 0
    )


def over(account: MemoryAccount, intercept: Intercept) -> BlobContainer:
    return account.restarted(intercept).container("container")


def pool_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("azureblob-upload")]


def test_all_blocks_are_staged_and_counted_by_blob() -> None:
    account = new_account()
    blocks = [block(n, blob) for blob in ("x", "y") for n in range(20)]
    with BlockUploader(account.container("container"), FORMAT) as uploader:
        for each in blocks:
            uploader.submit(each)
        uploader.drain()
        sizes: Counter[str] = Counter()
        rows: Counter[str] = Counter()
        for each in blocks:
            sizes[each.blob] += len(each.render(FORMAT))
            rows[each.blob] += each.rows
        assert {name: Staged(sizes[name], rows[name]) for name in "xy"} == uploader.staged
    staged = account.service.staged("container")
    assert 40 == sum(map(len, staged.values()))
    assert {name: {b.id for b in blocks} for name in "xy"} == {name: set(ids) for name, ids in staged.items()}


def test_a_full_queue_makes_the_caller_upload() -> None:
    account, gate = new_account(), Gate()
    with BlockUploader(over(account, gate), FORMAT, threads=2, queue=3) as uploader:
        for number in range(5):
            uploader.submit(block(number))
        gate.wait_for(2)
        assert "MainThread" not in gate.threads
        uploader.submit(block(5))
        assert ["MainThread"] == [name for name in gate.threads if not name.startswith("azureblob-upload")]
        assert (block(5).id,) == account.service.staged("container")["b"]
        gate.open.set()
        uploader.drain()
    assert 6 == len(account.service.staged("container")["b"])


def test_with_a_queue_of_size_zero_there_are_as_many_uploads_as_threads() -> None:
    account, gate = new_account(), Gate()
    with BlockUploader(over(account, gate), FORMAT, threads=1, queue=0) as uploader:
        uploader.submit(block(0))
        gate.wait_for(1)
        uploader.submit(block(1))
        assert 1 == gate.threads.count("MainThread")
        gate.open.set()
        uploader.drain()


def test_a_failure_is_raised_at_the_next_submit_and_waiting_blocks_are_dropped() -> None:
    account = new_account()
    gate = Gate()
    bad = SealedBlock("b", "flights", "", b"s" * 16, ((1, b"x"),), 1, is_first=False)
    with pytest.raises(ConfigurationError, match="Block id '' is not valid"):  # noqa: SIM117, PT012
        with BlockUploader(over(account, gate), FORMAT, threads=1, queue=10) as uploader:
            uploader.submit(bad)
            (failed,) = uploader._pending
            assert failed.exception(WAIT) is not None
            uploader.submit(block(0))
    assert {} == account.service.staged("container")


def test_a_failure_of_the_last_block_is_raised_when_draining() -> None:
    account = new_account()
    faults = FaultInjector(on("stage_block", Unreachable(), times=1000, name=lambda name: name == "lost"))
    with BlockUploader(over(account, faults), FORMAT) as uploader:
        uploader.submit(block(0))
        uploader.submit(block(0, "lost"))
        with pytest.raises(TransientError, match="no connection"):
            uploader.drain()


def test_draining_fails_at_the_deadline_and_names_the_option() -> None:
    account, gate = new_account(), Gate()
    with BlockUploader(over(account, gate), FORMAT, threads=1, deadline=0.01) as uploader:
        uploader.submit(block(0))
        gate.wait_for(1)
        with pytest.raises(
            TransientError, match=r"upload 1 blocks to .*container failed after 0.0 s.*`flushTimeoutMs`"
        ):
            uploader.drain()
        gate.open.set()


def test_after_an_error_no_further_block_is_sent_and_the_threads_end() -> None:
    account, gate = new_account(), Gate()
    before = set(pool_threads())

    def fail_with_blocks_waiting() -> None:
        with BlockUploader(over(account, gate), FORMAT, threads=1, queue=10) as uploader:
            for number in range(8):
                uploader.submit(block(number))
            gate.wait_for(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail_with_blocks_waiting()
    gate.open.set()
    for thread in set(pool_threads()) - before:
        thread.join(WAIT)
    assert set() == set(pool_threads()) - before
    assert {"b": (block(0).id,)} == account.service.staged("container")
    assert 1 == len(gate.threads)
