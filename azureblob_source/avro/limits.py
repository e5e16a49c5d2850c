"""What a read may take of a worker's memory, and the error for bytes that would take more. Pure values.

Avro bytes can stand for far more memory than they have: 3 KB of bzip2 are gigabytes of zeros, one byte of an array is
an item of any width, a column that is always null has a place in every row. So two sizes are bounded:

    block_bytes   one block, stored and inflated. A larger one is refused, after one step (4 MiB) too many at most.
    batch_bytes   one batch while it is decoded. It has as many rows as fit; a single row that does not fit is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_BYTES = 256 << 20
BATCH_BYTES = 128 << 20
MAX_LEVELS = 50
"""Levels of records, arrays and maps within each other in a schema. The JVM of Spark overflows its stack at 300."""

MAX_BLOCK_BYTES = "maxBlockBytes"
MAX_BATCH_BYTES = "maxBatchBytes"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The bounds of one read, in bytes."""

    block_bytes: int = BLOCK_BYTES
    batch_bytes: int = BATCH_BYTES


DEFAULT_LIMITS = ReadLimits()


class BeyondLimitError(Exception):
    """Bytes that may be sound, but take more than a limit of the read. The text is the cause, `step` what to do."""

    def __init__(self, cause: str, step: str) -> None:
        super().__init__(cause)
        self.step = step


def batch_too_large(what: str = "one row") -> BeyondLimitError:
    """The error for a row that takes more than a batch may."""
    return BeyondLimitError(
        f"{what} takes more memory than option {MAX_BATCH_BYTES} allows a batch",
        f"Raise option {MAX_BATCH_BYTES} if the workers have the memory, or leave columns out by option columns.",
    )


def block_too_large(what: str, most: int) -> BeyondLimitError:
    """The error for a block of more than `most` bytes, `what` being one or the other size."""
    return BeyondLimitError(
        f"{what} more than the {most:,} bytes of option {MAX_BLOCK_BYTES}",
        f"Raise option {MAX_BLOCK_BYTES} if the workers have the memory, or write the blob anew in smaller blocks.",
    )
