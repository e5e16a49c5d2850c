"""Errors of single values, which do not know their blob: `decode` adds blob, block and row. Pure values."""

from __future__ import annotations

from typing import TypeAlias

Path: TypeAlias = "tuple[str, ...]"


class UnresolvedError(TypeError):
    """Values of the writer's type cannot be read as the reader's type. `path` names the column and what is in it.

    recursive: what was written contains itself, and may be one level too much.
    """

    def __init__(self, path: Path, reason: str, *, recursive: bool = False) -> None:
        super().__init__(f"column {'.'.join(path) or '*'!r}: {reason}")
        self.path = path
        self.reason = reason
        self.recursive = recursive


class UnrepresentableValueError(Exception):
    """A value is encoded correctly, but the type it is read as cannot hold it. `path` names its column from outside in.

    plain: the Avro type without logical type and hint, which can hold any such value; empty if there is none.
    """

    def __init__(self, reason: str, plain: str, path: Path = ()) -> None:
        super().__init__(f"column {'.'.join(path)!r}: {reason}" if path else reason)
        self.reason = reason
        self.plain = plain
        self.path = path

    def within(self, name: str) -> UnrepresentableValueError:
        """An error as this one, said of the record that has the value in field `name`."""
        return UnrepresentableValueError(self.reason, self.plain, (name, *self.path))


class DamagedValueError(Exception):
    """Bytes are no value of the type they were written as. `path` names the column from outside in."""

    def __init__(self, reason: str, path: Path = ()) -> None:
        super().__init__(f"column {'.'.join(path)!r}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def within(self, name: str) -> DamagedValueError:
        """An error as this one, said of the record that has the value in field `name`."""
        return DamagedValueError(self.reason, (name, *self.path))
