"""What to do after an error of the disk. Pure."""

from __future__ import annotations

import errno

TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)
_STEPS = {
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
    ): "Make room, or choose a directory on another local disk, and run it again.",
    TOO_MANY_OPEN: "Raise the limit of open files (`ulimit -n`), and run it again.",
    (errno.EBUSY, errno.EXDEV): "Give a path where directories can be renamed, below a mount point and not itself one.",
    (errno.EACCES, errno.EPERM, errno.EROFS): "Give a directory that this user can write to, and so its parent.",
    (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP): "Give a directory on a local disk, which has file locks and links.",
    (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST, errno.EISDIR): "Check the path.",
}
_STEP_OF = {number: step for numbers, step in _STEPS.items() for number in numbers}


def next_step(error: OSError) -> str:
    """What the message of an operation advises that has failed with this error."""
    return _STEP_OF.get(error.errno or 0, "See what is wrong with the disk, or choose another one, and run it again.")
