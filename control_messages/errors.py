"""What can be wrong with control messages: two errors, which differ in what the caller does next. Pure.

    ControlMessageError
    ├── BadEnvelopeError     bytes that are no envelope, or control data that cannot be read: reject this message
    └── ContradictionError   a message contradicts earlier ones of its generation: correct the producer

The package depends on no other, so its errors are `ValueError`s outside the tree of `foundation.errors`.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

T = TypeVar("T")


class ControlMessageError(ValueError):
    """Root of the errors of this package."""


class BadEnvelopeError(ControlMessageError):
    """Bytes that are no envelope, or whose control data cannot be read or is of a later version."""


class ContradictionError(ControlMessageError):
    """A control message that cannot be true if earlier ones of the same generation are."""


def listed(items: Collection[T], most: int = 20, show: Callable[[T], str] = repr) -> str:
    """The first `most` of the items as a text for people, and how many more there are."""
    shown = ", ".join(map(show, islice(items, most)))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
