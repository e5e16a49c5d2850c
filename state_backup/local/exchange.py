"""Exchange the names of two directories in one step: Linux's `renameat2` with RENAME_EXCHANGE."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
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
