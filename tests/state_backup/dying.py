"""A process that dies before one of its file operations, which Python's audit events announce."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azure_account.memory.faults import ProcessDied

OPERATIONS = {
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "shutil.copyfile",
    "shutil.rmtree",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass
class Death:
    """Comes at the operation `at`, and at all later ones. below: only operations on paths in this folder count."""

    below: Path
    at: int
    done: list[str] = field(default_factory=list)

    @property
    def died(self) -> bool:
        """Whether it has come."""
        return len(self.done) >= self.at

    def event(self, name: str, args: tuple[Any, ...]) -> None:
        """An audit event."""
        if _changes(name, args, self.below):
            self.done.append(name)
            if self.died:
                raise ProcessDied


@dataclass
class Watch:
    """Looks before each operation."""

    below: Path
    look: Callable[[], object]

    def event(self, name: str, args: tuple[Any, ...]) -> None:
        """An audit event."""
        if _changes(name, args, self.below):
            self.look()


def _changes(name: str, args: tuple[Any, ...], below: Path) -> bool:
    """Whether it is an operation on what is in the folder."""
    writing = name == "open" and isinstance(args[2], int) and args[2] & _WRITING
    return bool(name in OPERATIONS or writing) and (name in _RELATIVE or str(args[0]).startswith(str(below)))


_RELATIVE = {"os.remove", "os.rmdir"}
"""`shutil.rmtree` deletes relative to an open directory."""
_waiting: list[Death | Watch] = []


def _hook(name: str, args: tuple[Any, ...]) -> None:
    for each in _waiting:
        each.event(name, args)


@contextmanager
def dying(below: Path, at: int) -> Iterator[Death]:
    """Die at this file operation. Suppresses the death; `died` says whether it came."""
    death = Death(below, at)
    with suppress(ProcessDied), _called(death):
        yield death


@contextmanager
def watching(below: Path, look: Callable[[], object]) -> Iterator[None]:
    """Look before each change of what is in a folder."""
    with _called(Watch(below, look)):
        yield


@contextmanager
def _called(each: Death | Watch) -> Iterator[None]:
    """It gets the audit events of the block."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)
    _waiting.append(each)
    try:
        yield
    finally:
        _waiting.remove(each)


_installed: list[bool] = []
"""A hook cannot be removed."""


def state_of(folder: Path) -> dict[str, tuple[int, bytes | None]] | None:
    """All paths in a directory, with permissions and bytes; None if there is none."""
    if not folder.exists():
        return None
    return {
        str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes() if path.is_file() else None)
        for path in [folder, *folder.rglob("*")]
    }
