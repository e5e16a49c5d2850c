"""What can be wrong with control messages: two kinds, told apart by what the caller does next.

    ControlMessageError
    ├── BadEnvelopeError     these bytes are no envelope, or its control data cannot be read: reject the one message
    └── ContradictionError   a message contradicts earlier ones of its generation: mend the producer

The package stands by itself, so its errors are `ValueError`s and no part of another tree.
"""

from __future__ import annotations


class ControlMessageError(ValueError):
    """Root of the errors of this package."""


class BadEnvelopeError(ControlMessageError):
    """Bytes that are no envelope, or whose control data cannot be read or is of a later version."""


class ContradictionError(ControlMessageError):
    """A control message that cannot be true together with earlier ones of the same generation."""
