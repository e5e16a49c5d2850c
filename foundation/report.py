"""Whom a transfer is reported to while it runs, such as a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foundation.arguments import checked


@checked
@dataclass(frozen=True)
class ProgressCallbacks:
    """Whom a transfer is reported to. Both are called by several threads.

    planned: with the number and bytes of files that will be transferred, each time that more are known.
    progress: with the bytes of each piece that was.
    """

    planned: Callable[[int, int], object] = lambda _files, _bytes: None
    progress: Callable[[int], object] = lambda _bytes: None
