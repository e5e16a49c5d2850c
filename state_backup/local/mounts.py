"""Where file systems are mounted on this machine: what is there cannot be renamed, and is not a directory's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_POINT = 4
"""The field of a line that has the mount point."""


def mount_at_or_below(directory: Path) -> Path | None:
    """A mount point that the directory is, or has below it. Off Linux only the directory itself is looked at.

    directory: without symbolic links.
    """
    if directory.is_mount():
        return directory
    return next((each for each in _mount_points() if each.is_relative_to(directory)), None)


def _mount_points() -> list[Path]:
    """Of this process. A directory of the same disk may be one (a bind mount), which only this list says."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:  # another system
        return []
    return [Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", _character, line.split()[_POINT]))) for line in lines]


def _character(escape: re.Match[bytes]) -> bytes:
    """Spaces and such are written as three octal digits."""
    return bytes([int(escape[1], 8)])
