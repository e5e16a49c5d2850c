"""Programs that tests run in processes of their own, and how they are killed."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from adjunct_store.host.cleaning import clean_cache
from azure_account.memory.faults import FaultInjector
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.host_locks import exclusive
from tests.adjunct_store.host.stored import account_of, downloads, is_whole, opened
from tests.state_backup.dying import OPERATIONS

T = TypeVar("T")

CONTEXT = multiprocessing.get_context("spawn")
_SECONDS = 240.0


@contextmanager
def started(program: Callable[..., object], *args: Any, context: Any = CONTEXT) -> Iterator[BaseProcess]:
    """A process that runs a program; it is killed at the end of the block."""
    process = context.Process(target=program, args=args)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def run(program: Callable[..., T], *args: Any) -> T:
    """What a program returns in a new process, which has no threads and nothing of the test's."""
    (result,) = _run_at_once([(program, *args)], CONTEXT)
    return result  # type: ignore[no-any-return]


def run_all(calls: list[tuple[Any, ...]]) -> list[Any]:
    """What programs return that run in processes of their own, at the same time: forks of one, which begin faster."""
    return run(_run_at_once, calls, None)


def _run_at_once(calls: list[tuple[Any, ...]], context: Any) -> list[Any]:
    context = context or multiprocessing.get_context("fork")
    with contextlib.ExitStack() as stack:
        receiving = []
        for program, *args in calls:
            here, there = context.Pipe(duplex=False)
            stack.enter_context(started(_send_result, there, program, *args, context=context))
            there.close()
            receiving.append(here)
        return [_received(here) for here in receiving]


def _received(here: Any) -> Any:
    assert here.poll(_SECONDS), "the process hangs"
    result = here.recv()
    here.close()
    if isinstance(result, BaseException):
        raise result
    return result


def _send_result(there: Any, program: Callable[..., object], *args: object) -> None:
    try:
        there.send(program(*args))
    except BaseException as error:  # noqa: BLE001 - raised in the test
        there.send(error)


class Killing(Intercept):
    """At a download of a file: says so by an event, waits for another one, and kills the process."""

    def __init__(self, at: int, reached: Event, go_on: Event) -> None:
        self.at, self.reached, self.go_on, self.seen = at, reached, go_on, 0

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        self.seen += request.operation == "get" and "/files/" in request.name
        if self.seen == self.at:
            self.reached.set()
            self.go_on.wait(_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)
        return send()


def kill_at_file_operation(number: int, below: Path) -> None:
    """Kill this process just before a file operation. It cannot be taken back."""
    seen = [0]

    def hook(name: str, args: tuple[Any, ...]) -> None:
        writing = name == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        relative = name in {"os.remove", "os.rmdir"}
        if (name in OPERATIONS or writing) and (relative or str(args[0]).startswith(str(below))):
            seen[0] += 1
            if seen[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def fork_while_locked(path: Path) -> str:
    with exclusive(path) as lock:
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            lock.release()
            os.write(there, b"held" if lock.held else b"not held")
            os._exit(0)
        os.waitpid(child, 0)
        of_child = os.read(here, 100).decode()
        try:
            with exclusive(path, 0.0):
                of_parent = "lost"
        except Exception as error:  # noqa: BLE001 - shown by the test
            of_parent = "held" if "has it" in str(error) else str(error)
    return f"child: {of_child}; parent: {of_parent}"


def die_with_a_child(path: Path, pid: Path) -> None:
    """The child lives on when this process has been killed."""
    with exclusive(path):
        child = os.fork()
        if child == 0:
            time.sleep(_SECONDS)
            os._exit(0)
        pid.write_text(str(child))
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)


def open_at_once(
    blobs: Mapping[str, bytes], cache_dir: Path, barrier: Barrier, generation: int, partition: int, id_: str
) -> tuple[int, bool]:
    """How many files it has downloaded, and whether it has read the whole first version."""
    faults = FaultInjector()
    cache = opened(account_of(blobs, faults), cache_dir)
    barrier.wait(_SECONDS)
    with cache.open(generation, partition, id_) as lease:
        return downloads(faults), is_whole(lease.directory, generation, partition, 0)


def open_and_die_in_a_download(
    blobs: Mapping[str, bytes], cache_dir: Path, id_: str, reached: Event, go_on: Event
) -> None:
    killing = Killing(3, reached, go_on)
    opened(account_of(blobs, killing), cache_dir).open(1, 0, id_).close()


def forked(program: Callable[[], object]) -> int:
    """The exit status of a program in a child; 0 if it has returned. Only for a process without threads."""
    child = os.fork()
    if child == 0:
        try:
            program()
        except BaseException:  # noqa: BLE001 - the child must not go on as its parent
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_each_file_operation(
    blobs: Mapping[str, bytes], cache_dir: Path, ids: Mapping[tuple[int, int], list[str]]
) -> tuple[int, list[str]]:
    """A child opens a new checkpoint when there are old ones, and is killed: how often, and what was wrong after it."""
    account, wrong = account_of(blobs), list[str]()

    def open_and_die(folder: Path, number: int) -> None:
        cache = opened(account, folder)
        kill_at_file_operation(number, folder)
        cache.open(2, 0, ids[2, 0][3]).close()

    for number in itertools.count(1):
        folder = cache_dir / str(number)
        cache = opened(account, folder)
        for place, version in [((2, 0), 0), ((2, 0), 1), ((2, 0), 2), ((1, 0), 0)]:
            cache.open(*place, ids[place][version]).close()
        status = forked(partial(open_and_die, folder, number))
        for version in (1, 2, 3, 4):
            with cache.open(2, 0, ids[2, 0][version]) as lease:
                if not is_whole(lease.directory, 2, 0, version):
                    wrong.append(f"after operation {number}, version {version} is not whole")
        (store,) = folder.iterdir()
        left = {str(path.relative_to(store)) for path in store.rglob("*") if path.is_dir()}
        if left != {"g2", "g2/p0", f"g2/p0/{ids[2, 0][3]}", f"g2/p0/{ids[2, 0][4]}"}:
            wrong.append(f"after operation {number} there are {left}")
        if status == 0:
            return number, wrong
        if status != -signal.SIGKILL:
            wrong.append(f"status {status} at operation {number}")
    raise AssertionError


def race(
    blobs: Mapping[str, bytes], cache_dir: Path, ids: Mapping[tuple[int, int], list[str]], seed: int, times: int
) -> list[str]:
    """Open any checkpoints, so many times, and delete others: what was not whole."""
    draws, account = Random(seed), account_of(blobs)
    cache, wrong = opened(account, cache_dir), list[str]()
    for _ in range(times):
        place = draws.choice(sorted(ids))
        version = draws.randrange(len(ids[place]))
        with cache.open(*place, ids[place][version]) as lease:
            if draws.random() < 0.3:
                clean_cache(cache_dir)
            try:
                sound = [is_whole(lease.directory, *place, version) for _ in range(2)]
            except OSError as error:
                wrong.append(str(error))
            else:
                wrong += [f"{place} {version} is not whole"] * (sound != [True, True])
    return wrong
