"""The guard of a command: it ends the command whatever happens to the process that started it."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import psutil
import pytest

from coordination.cli import guard
from coordination.cli.child import Child, Ended, Failed, Result, Stopped
from foundation.clock import SystemClock
from tools import reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FOREVER = "while :; do sleep 0.05; done"
LONG = 300.0
MOST = 60
"""Seconds to wait for what happens at once, unless the machine is busy."""


def deaf(file: Path) -> str:
    """A script that ignores SIGTERM, and then writes its process id."""
    return f"trap '' TERM; echo $$ > {file}; {FOREVER}"


def until_written(file: Path) -> str:
    """Part of a script: wait until another process has written the file."""
    return f"while [ ! -s {file} ]; do sleep 0.05; done"


def started(
    script: str, until: float = LONG, grace: float = LONG, *, command: list[str] | None = None
) -> tuple[Child, queue.SimpleQueue[Result]]:
    results: queue.SimpleQueue[Result] = queue.SimpleQueue()
    deadline = SystemClock().monotonic() + until
    return Child(command or ["sh", "-c", script], os.environ, deadline, grace, results.put), results


wait_for = partial(reporting.wait_for, seconds=MOST, poll=0.01)


def pid_in(file: Path) -> int:
    wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


def runs(process: int) -> bool:
    return psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("exit 143", 143)])
def test_a_command_that_ends_has_an_exit_code(script: str, code: int) -> None:
    assert Ended(code) == started(script)[1].get(timeout=MOST)


def test_a_command_that_cannot_be_started_fails(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    for command, reason in ((str(tmp_path / "absent"), "No such file"), (str(text), "Permission denied")):
        result = started("", command=[command])[1].get(timeout=MOST)
        assert isinstance(result, Failed)
        assert reason in result.reason


def test_a_command_that_is_asked_to_stop_can_end_in_order(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child, results = started(f"trap 'exit 5' TERM; echo $$ > {file}; {FOREVER}")
    pid_in(file)
    child.stop()
    assert Stopped(5) == results.get(timeout=MOST)


def test_a_command_that_ignores_the_request_is_killed_after_the_grace(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child, results = started(deaf(file))
    pid_in(file)
    begin = time.monotonic()
    child.stop(1.0)
    assert Stopped(137) == results.get(timeout=MOST)
    assert 0.9 < time.monotonic() - begin < 10


def test_a_second_request_can_only_bring_the_end_forward(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child, results = started(deaf(file))
    pid_in(file)
    child.stop(LONG)
    child.stop(0.0)
    assert Stopped(137) == results.get(timeout=MOST)


def test_a_command_that_nobody_extends_ends_at_its_deadline_and_is_killed_a_grace_later(tmp_path: Path) -> None:
    begin = time.monotonic()
    _, results = started(deaf(tmp_path / "pid"), until=3.0, grace=1.0)
    assert Stopped(137) == results.get(timeout=MOST)
    assert 3.9 < time.monotonic() - begin < 30


def test_a_command_that_is_extended_runs_on(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child, results = started(f"echo $$ > {file}; {FOREVER}", until=4.0)
    pid_in(file)
    child.extend(SystemClock().monotonic() + LONG)
    with pytest.raises(queue.Empty):
        results.get(timeout=5)
    child.stop()
    assert Stopped(143) == results.get(timeout=MOST)


def test_an_end_in_order_does_not_outlast_the_deadline(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child, results = started(deaf(file), until=4.0, grace=0.5)
    pid_in(file)
    child.stop(LONG)
    assert Stopped(137) == results.get(timeout=MOST), "a longer grace counts only while the process leads"


def test_a_suspended_command_is_ended_too(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child, results = started(f"echo $$ > {file}; {FOREVER}")
    os.kill(pid_in(file), signal.SIGSTOP)
    child.stop()
    assert Stopped(143) == results.get(timeout=MOST)


@pytest.mark.parametrize("script", ["exit 3", FOREVER])
def test_processes_that_the_command_has_started_end_with_it(tmp_path: Path, script: str) -> None:
    file = tmp_path / "pid"
    child, results = started(f"sh -c 'echo $$ > {file}; {FOREVER}' & {until_written(file)}; {script}", grace=3)
    process = pid_in(file)
    if script == FOREVER:
        child.stop()
        assert isinstance(results.get(timeout=MOST), Stopped)
    else:
        assert Ended(3) == results.get(timeout=MOST)
    wait_for(lambda: not runs(process))


def test_a_process_of_the_group_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    _, results = started(
        f"sh -c \"trap '' TERM; echo \\$\\$ > {file}; {FOREVER}\" & {until_written(file)}; exit 3", grace=1
    )
    process = pid_in(file)
    assert Ended(3) == results.get(timeout=MOST)
    wait_for(lambda: not runs(process))


def test_a_command_dies_with_its_guard(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    _, results = started(deaf(file))
    process = pid_in(file)
    parent = psutil.Process(process).parent()
    assert parent is not None
    parent.kill()
    assert Failed(None) == results.get(timeout=MOST)
    wait_for(lambda: not runs(process))


Guarded: TypeAlias = "Callable[[str], tuple[socket.socket, subprocess.Popen[bytes]]]"


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """Starts a guard of a script, with the end of `run` of its socket. No guard outlives its test."""
    with ExitStack() as ends:

        def start(script: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
            ours, theirs = socket.socketpair()
            ends.enter_context(ours)
            with theirs:
                arguments = [str(theirs.fileno()), str(SystemClock().monotonic() + LONG), "1.0", "sh", "-c", script]
                process = subprocess.Popen([sys.executable, guard.__file__, *arguments], pass_fds=(theirs.fileno(),))
            ends.callback(process.wait)
            ends.callback(process.kill)
            return ours, process

        yield start


def test_a_command_ends_when_the_process_that_started_its_guard_is_gone(guarded: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    ours, process = guarded(deaf(file))
    command = pid_in(file)
    assert b"started" in ours.recv(4096)
    ours.close()
    assert 137 == process.wait(timeout=MOST)
    assert not runs(command)


def test_a_command_ends_when_the_process_that_started_its_guard_dies_before_the_guards_first_line(
    guarded: Guarded, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    ours, process = guarded(deaf(file))
    ours.close()  # long before Python has started in the guard
    assert process.wait(timeout=MOST) in {128 + signal.SIGTERM, 128 + signal.SIGKILL}, "before its trap, or after it"
    assert not (file.exists() and (text := file.read_text()) and runs(int(text)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_command_dies_with_its_guard_even_if_nobody_is_left_to_end_it(guarded: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    _, process = guarded(deaf(file))
    command = pid_in(file)
    process.kill()
    process.wait()
    wait_for(lambda: not runs(command))


def test_a_guard_that_gets_nonsense_kills_its_command(guarded: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    ours, process = guarded(deaf(file))
    command = pid_in(file)
    ours.sendall(b"until tomorrow\n")
    assert 1 == process.wait(timeout=MOST)
    assert not runs(command)


def test_a_guard_ignores_signals_for_all_processes_and_its_command_does_not(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child, results = started(f"echo $$ > {file}; {FOREVER}")
    parent = psutil.Process(pid_in(file)).parent()
    assert parent is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        parent.send_signal(number)
    with pytest.raises(queue.Empty):
        results.get(timeout=0.5)
    child.stop()
    assert Stopped(143) == results.get(timeout=MOST)


def test_the_guard_has_the_clock_of_the_elector() -> None:
    assert abs(guard.clock() - SystemClock().monotonic()) < 1
