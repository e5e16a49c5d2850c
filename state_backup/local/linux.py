"""What only Linux has: the exchange of two names in one step (`renameat2`), and the list of mount points."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from pathlib import Path
from typing import Any

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_MOUNTS = Path("/proc/self/mountinfo")
_POINT = 4
"""The field of a line that has the mount point."""
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""Error codes when `renameat2` is not supported."""


def _load() -> Any:
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # another system, or an old C library
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


_renameat2 = _load()


def exchange(one: Path, other: Path) -> bool:
    """Give each of two directories the name of the other one. False where that cannot be done, `OSError` if it fails.

    At every moment both names are there.
    """
    if _renameat2 is None:
        return False
    sys.audit("os.rename", str(one), str(other), -1, -1)
    if _renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


def mount_at_or_below(directory: Path) -> Path | None:
    """A mount point that the directory is, or has below it. Off Linux only the directory itself is looked at.

    directory: without symbolic links.
    """
    if directory.is_mount():
        return directory
    return next((each for each in _mount_points() if each.is_relative_to(directory)), None)


def _mount_points() -> list[Path]:
    """The mount points of this process. Only they say which directory of the same disk is one (a bind mount)."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:  # another system
        return []
    return [Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", _character, line.split()[_POINT]))) for line in lines]


def _character(escape: re.Match[bytes]) -> bytes:
    """Spaces and such are written as three octal digits."""
    return bytes([int(escape[1], 8)])
