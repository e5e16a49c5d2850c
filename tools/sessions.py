"""Signals to all processes of a session, such as a Spark driver, its JVM, and its Python workers."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import subprocess


def session_of(leader: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The living processes of a session: the driver, its JVM, and the workers, which have a group of their own."""
    return [process for process in psutil.process_iter() if _lives_in(process, leader.pid)]


def _lives_in(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def signal_session(leader: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send a signal to every process of the session. Returns how many there were."""
    processes = session_of(leader)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return len(processes)


def kill_session(leader: subprocess.Popen[bytes]) -> int:
    """SIGKILL to every process of the session, until none is left. Returns how many there were at first."""
    killed = signal_session(leader, signal.SIGKILL)
    while signal_session(leader, signal.SIGKILL):
        time.sleep(0.001)
    leader.wait()
    return killed
