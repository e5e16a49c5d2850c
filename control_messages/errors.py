"""What can be wrong with control messages: two kinds, told apart by what the caller does next.

    ControlMessageError
    ├── BadEnvelopeError     these bytes are no envelope, or its control data cannot be read: reject the one message
    └── ContradictionError   a message contradicts earlier ones of its generation: mend the producer

The package stands by itself, so its errors are `ValueError`s and no part of another tree.
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
    """A control message that cannot be true together with earlier ones of the same generation."""


def listed(items: Collection[T], most: int = 20, show: Callable[[T], str] = repr) -> str:
    """The first `most` of the items as a text for people, and how many more there are."""
    shown = ", ".join(map(show, islice(items, most)))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
