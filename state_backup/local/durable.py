"""Have what was written on disk, so that a loss of power does not undo it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def sync(path: Path) -> None:
    """Have a file, or the entries of a directory, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Make a folder, and those above it, that stay after a loss of power."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def replace_bytes(path: Path, data: bytes) -> None:
    """Write a file whose content is the old or the new one, whenever power is lost."""
    make_folders(path.parent)
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    sync(new)
    new.replace(path)
    sync(path.parent)
