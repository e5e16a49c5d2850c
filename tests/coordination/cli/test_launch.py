"""A program that dies with the process that has started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from coordination.cli import launch
from tools.reporting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

LAUNCH = [sys.executable, launch.__file__]
STARTS = """
import os, subprocess, sys
command = [sys.executable, sys.argv[1], str(os.getpid()), "sh", "-c", sys.argv[2]]
subprocess.Popen(command, start_new_session=True).wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_the_program_is_killed_with_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ > {file}; while :; do sleep 0.05; done"
    with subprocess.Popen([sys.executable, "-c", STARTS, launch.__file__, script]) as parent:
        try:
            wait_for(lambda: file.exists() and file.read_text().endswith("\n"), 60)
        finally:
            parent.kill()
    program = int(file.read_text())
    wait_for(lambda: not psutil.pid_exists(program) or psutil.Process(program).status() == psutil.STATUS_ZOMBIE, 60)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_the_program_does_not_begin_if_the_parent_has_died_before(tmp_path: Path) -> None:
    file = tmp_path / "begun"
    ended = subprocess.run([*LAUNCH, str(os.getppid()), "touch", str(file)], check=False)
    assert (128 + signal.SIGKILL, False) == (ended.returncode, file.exists())


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM), ("kill -PIPE $$; exit 7", -signal.SIGPIPE)]
)
def test_the_program_ends_as_if_it_had_been_started_directly(script: str, code: int) -> None:
    assert code == subprocess.run([*LAUNCH, str(os.getpid()), "sh", "-c", script], check=False).returncode


@pytest.mark.parametrize(("command", "code", "message"), [("absent", 127, "No such file"), ("", 126, "denied")])
def test_a_program_that_cannot_be_started(tmp_path: Path, command: str, code: int, message: str) -> None:
    arguments = [*LAUNCH, str(os.getpid()), str(tmp_path / command)]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (code, True) == (ended.returncode, message in ended.stderr)
