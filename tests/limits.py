"""Limits of this process that stand for a full disk, and for too many open files."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes within the block."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with _limit(resource.RLIMIT_FSIZE, size):
            yield
    finally:
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def no_more_open_files() -> Iterator[None]:
    """No file can be opened within the block."""
    with Path(os.devnull).open() as file:
        lowest = file.fileno()
    with _limit(resource.RLIMIT_NOFILE, lowest):
        yield


@contextmanager
def _limit(kind: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)
