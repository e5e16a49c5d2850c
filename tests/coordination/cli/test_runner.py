"""A program under leadership, on an account in memory: real commands, and a lease that is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import psutil
import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.retrying.retry_loop import Intercept, Request
from coordination.cli.runner import ProgramRunner
from coordination.leadership.leader import LeaseLock
from coordination.leadership.lease_document import LeaseDocument
from coordination.names import leader_blob
from coordination.timing import LeaseTiming
from foundation.clock import Clock
from foundation.errors import ConfigurationError
from tests.coordination.leadership.electing import blob_in
from tools import reporting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")
BLOB = leader_blob("report")
QUICK = LeaseTiming(duration=15, renew_every=0.2, poll_every=0.1, request=0.1, margin=13)
"""The command's deadline is two seconds after a renewal."""
FOREVER = "while :; do sleep 0.05; done"


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount(clock=Clock())
    account.container("box").create()
    return account


class Running:
    """A runner in a thread, what it says, and what it ends with."""

    def __init__(
        self, account: MemoryAccount, script: str, *, command: list[str] | None = None, grace: float = 10.0
    ) -> None:
        self.said: list[str] = []
        where, command = blob_in(account, BLOB), command or ["sh", "-c", script]
        self.runner = ProgramRunner("report", where, "one", command, os.environ, QUICK, grace, self.said.append)
        self._ended: list[int | Exception] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._ended.append(self.runner.run())
        except (ConfigurationError, OSError) as error:
            self._ended.append(error)

    def result(self) -> int | Exception:
        self._thread.join(60)
        return self._ended[0]


wait_for = partial(reporting.wait_for, seconds=60, poll=0.01)


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def free(account: MemoryAccount) -> bool:
    found = account.container("box").properties(BLOB)
    return found is not None and not found.leased


def test_a_command_that_ends_ends_the_program_which_resigns(account: MemoryAccount, tmp_path: Path) -> None:
    file = tmp_path / "out"
    show = f"echo $COORDINATION_EPOCH $COORDINATION_NAME $COORDINATION_HOLDER > {file}; exit 3"
    running = Running(account, show)
    assert 3 == running.result()
    assert free(account)
    [(epoch, name, holder)] = [line.split() for line in lines_of(file)]
    assert (f"leads box/{BLOB}, epoch {epoch}", "report", "one") == (running.said[0], name, holder)
    assert ["the command has ended with exit code 3"] == running.said[1:]


def test_a_command_that_a_signal_ends_is_told_by_the_exit_code(account: MemoryAccount) -> None:
    running = Running(account, "kill -SEGV $$")
    assert 128 + signal.SIGSEGV == running.result()
    assert "the command has ended by SIGSEGV" == running.said[-1]


def test_a_command_that_cannot_be_started_ends_the_program(
    account: MemoryAccount, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    running = Running(account, "", command=[str(tmp_path / "absent")])
    assert 127 == running.result()
    assert "the command has ended with exit code 127" == running.said[-1]
    assert 126 == Running(account, "", command=[str(tmp_path)]).result()
    assert "Permission denied" in capfd.readouterr().err
    assert free(account)


def test_a_broken_lease_stops_the_command_and_the_next_term_has_a_higher_epoch(
    account: MemoryAccount, tmp_path: Path
) -> None:
    file = tmp_path / "out"
    script = f"trap 'echo stopped >> {file}; exit 0' TERM; echo $COORDINATION_EPOCH >> {file}; {FOREVER}"
    running = Running(account, script)
    wait_for(lambda: len(lines_of(file)) == 1)
    account.container("box").break_lease(BLOB)
    wait_for(lambda: len(lines_of(file)) == 3)
    running.runner.receive(signal.SIGTERM)
    assert 143 == running.result()
    first, stopped, second, last = lines_of(file)
    assert ("stopped", "stopped") == (stopped, last)
    assert int(second) > int(first)
    assert any(line.startswith("no longer leads: ") and "LeaseIsBroken" in line for line in running.said)
    assert "received SIGTERM" in running.said
    assert free(account)


def test_a_command_runs_as_long_as_the_process_leads(account: MemoryAccount, tmp_path: Path) -> None:
    file = tmp_path / "out"
    running = Running(account, f"echo begin >> {file}; sleep 5; exit 9")
    assert 9 == running.result(), "longer than the deadline of its first renewal"
    assert ["begin"] == lines_of(file)


def test_the_second_signal_kills_a_command_that_ignores_the_first(account: MemoryAccount, tmp_path: Path) -> None:
    file = tmp_path / "out"
    running = Running(account, f"trap '' TERM; echo begin > {file}; {FOREVER}")
    wait_for(lambda: lines_of(file))
    begin = time.monotonic()
    running.runner.receive(signal.SIGINT)
    running.runner.receive(signal.SIGINT)
    assert 130 == running.result()
    assert time.monotonic() - begin < 8, "the grace is ten seconds"
    assert "the command was stopped by SIGKILL" in running.said


def test_a_command_that_ignores_the_signal_is_killed_after_the_grace(account: MemoryAccount, tmp_path: Path) -> None:
    file = tmp_path / "out"
    running = Running(account, f"trap '' TERM; echo begin > {file}; {FOREVER}", grace=1.0)
    wait_for(lambda: lines_of(file))
    begin = time.monotonic()
    running.runner.receive(signal.SIGTERM)
    assert 143 == running.result()
    assert "the command was stopped by SIGKILL" in running.said
    assert 1 <= time.monotonic() - begin


def test_a_suspended_command_is_ended_too(account: MemoryAccount, tmp_path: Path) -> None:
    file = tmp_path / "out"
    running = Running(account, f"echo $$ > {file}; {FOREVER}", grace=60)
    wait_for(lambda: lines_of(file))
    os.kill(int(lines_of(file)[0]), signal.SIGSTOP)
    running.runner.receive(signal.SIGUSR1)
    assert 128 + signal.SIGUSR1 == running.result()
    assert "the command was stopped by SIGUSR1" == running.said[-1], "the signal is passed on"


@pytest.mark.parametrize("script", ["exit 3", FOREVER])
def test_processes_of_its_group_end_with_the_command(account: MemoryAccount, tmp_path: Path, script: str) -> None:
    file = tmp_path / "out"
    started = f"sh -c \"trap '' TERM; echo \\$\\$ > {file}; {FOREVER}\" & while [ ! -s {file} ]; do sleep 0.05; done"
    running = Running(account, f"{started}; {script}")
    wait_for(lambda: lines_of(file))
    if script == FOREVER:
        running.runner.receive(signal.SIGTERM)
    assert running.result() in {3, 143}
    process = int(lines_of(file)[0])
    wait_for(lambda: not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE)


def test_a_stand_by_says_who_leads_and_takes_over(account: MemoryAccount) -> None:
    with LeaseLock(blob_in(account, BLOB), "other", QUICK) as lock:
        running = Running(account, "exit 0")
        wait_for(lambda: running.said)
        assert [f"stands by: other leads box/{BLOB}, epoch {lock.epoch}"] == running.said
    assert 0 == running.result()
    assert f"leads box/{BLOB}, epoch {lock.epoch + 1}" == running.said[1]


class SlowAnswers(Intercept):
    """The answer to a write comes after some looks at who leads."""

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        answer = send()
        if request.operation == "put":
            time.sleep(0.5)
        return answer


def test_a_process_that_is_just_elected_does_not_say_that_it_stands_by(account: MemoryAccount) -> None:
    with LeaseLock(blob_in(account, BLOB), "other", QUICK) as lock:
        running = Running(account.restarted(SlowAnswers()), "exit 0")
        wait_for(lambda: running.said)
    assert 0 == running.result()
    assert f"leads box/{BLOB}, epoch {lock.epoch + 1}" == running.said[1]


class Reads(Intercept):
    """Counts the reads of blobs that were answered."""

    def __init__(self) -> None:
        self.answered = 0

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        answer = send()
        self.answered += request.operation == "get"
        return answer


def test_a_blob_whose_first_term_has_not_begun_has_no_leader_to_tell_of(account: MemoryAccount) -> None:
    container, reads, lease_id = account.container("box"), Reads(), str(uuid4())
    container.put(BLOB, LeaseDocument(0).to_json())
    container.acquire_lease(BLOB, lease_id, QUICK.duration)
    running = Running(account.restarted(reads), "exit 0")
    wait_for(lambda: reads.answered > 5)
    assert [] == running.said
    container.release_lease(BLOB, lease_id)
    assert 0 == running.result()
    assert running.said[0].startswith(f"leads box/{BLOB}")


def test_a_stand_by_ends_at_a_signal(account: MemoryAccount) -> None:
    with LeaseLock(blob_in(account, BLOB), "other", QUICK):
        running = Running(account, "exit 0")
        wait_for(lambda: running.said)
        running.runner.receive(signal.SIGTERM)
        assert 143 == running.result()
        assert not free(account)


def test_a_request_that_is_refused_stops_the_command_and_is_raised(account: MemoryAccount, tmp_path: Path) -> None:
    file = tmp_path / "out"
    script = f"trap 'echo stopped >> {file}; exit 0' TERM; echo begin >> {file}; {FOREVER}"
    running = Running(account.restarted(FaultInjector(on("renew_lease", Refuse(), skip=10))), script)
    error = running.result()
    assert isinstance(error, ConfigurationError)
    assert "AuthorizationPermissionMismatch" in str(error)
    assert ["begin", "stopped"] == lines_of(file)


class BrokenConnection(Intercept):
    """Requests for the lease raise an error that the account does not know."""

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "acquire_lease":
            raise OSError("no such device")
        return send()


def test_an_error_that_is_none_of_storage_is_raised_too(account: MemoryAccount) -> None:
    running = Running(account.restarted(BrokenConnection()), FOREVER)
    error = running.result()
    assert isinstance(error, OSError)
    assert "no such device" in str(error)


class LateRenewal(Intercept):
    """Renewals hang while it is closed, 10 s at most. Calls `released` before each release of a lease."""

    def __init__(self, released: Callable[[], None]) -> None:
        self.open, self._released = threading.Event(), released
        self.open.set()

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "renew_lease":
            self.open.wait(10)
        if request.operation == "release_lease":
            self._released()
        return send()


def test_the_lease_is_not_released_before_the_command_has_ended(account: MemoryAccount, tmp_path: Path) -> None:
    file, at_release = tmp_path / "out", list[list[str]]()
    late = LateRenewal(lambda: at_release.append(lines_of(file)))
    script = f"trap 'sleep 2; echo stopped >> {file}; exit 0' TERM; echo begin >> {file}; {FOREVER}"
    running = Running(account.restarted(late), script)
    wait_for(lambda: lines_of(file))
    late.open.clear()
    wait_for(lambda: any(line.startswith("no longer leads") for line in running.said))
    late.open.set()
    wait_for(lambda: at_release)
    running.runner.receive(signal.SIGTERM)
    assert 143 == running.result()
    assert ["begin", "stopped"] == at_release[0]
