"""Becomes a program that dies with its parent: `python launch.py PARENT COMMAND...`, with the standard library only.

It is started where a process with threads has forked: nothing but an exec is safe there.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and COMMAND would inherit that
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it had died before
            sys.exit(128 + signal.SIGKILL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command is what the user wants to run
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
