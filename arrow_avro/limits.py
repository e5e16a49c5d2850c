"""Limits of the memory that a read takes in a worker, and the error for bytes that would take more. Pure values.

A few Avro bytes can take much memory: 3 KB of bzip2 can be gigabytes of zeros, one byte in an array an item of any
width, and a column that is always null takes room for every row. So two sizes are limited:

    block_bytes   one block, stored and inflated. A larger one is refused, after at most one step (4 MiB) too many.
    batch_bytes   one batch while it is decoded. It has as many rows as fit; a single row that does not fit is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_BYTES = 256 << 20
"""By default the limit of a block, in bytes."""
BATCH_BYTES = 128 << 20
"""By default the limit of a batch in memory, in bytes."""
BATCH_ROWS = 32_768
MAX_LEVELS = 50
"""Levels of nested records, arrays and maps in a schema. Spark's JVM overflows its stack at 300."""

MAX_DEPTH = 15
"""Levels of a record that contains itself, as in Spark."""

RECURSIVE_FIELD_MAX_DEPTH = "recursiveFieldMaxDepth"
"""Name of the option for the levels of a record that contains itself."""
INVALID_UTF8 = "invalidUtf8"
"""Name of the option for strings that are not UTF-8."""
MAX_BLOCK_BYTES = "maxBlockBytes"
"""Name of the option for `block_bytes`."""
MAX_BATCH_BYTES = "maxBatchBytes"
"""Name of the option for `batch_bytes`."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of one read.

    block_bytes: of a block, before and after decompression.
    batch_bytes: of a batch in memory.
    batch_rows: rows of a batch.
    replace_invalid_utf8: read each part of a string that is not UTF-8 as U+FFFD, as Java does, and raise no error.
    """

    block_bytes: int = BLOCK_BYTES
    batch_bytes: int = BATCH_BYTES
    batch_rows: int = BATCH_ROWS
    replace_invalid_utf8: bool = False


DEFAULT_LIMITS = ReadLimits()
"""The limits of a read for which no option sets others."""


class BeyondLimitError(Exception):
    """Bytes that may be undamaged, but exceed a limit of the read. The text is the cause, `step` the next step."""

    def __init__(self, cause: str, step: str) -> None:
        super().__init__(cause)
        self.step = step


def batch_too_large(what: str = "one row") -> BeyondLimitError:
    """The error for one row that exceeds `batch_bytes`."""
    return BeyondLimitError(
        f"{what} takes more memory than option {MAX_BATCH_BYTES} allows a batch",
        f"Raise option {MAX_BATCH_BYTES} if the workers have the memory, or leave columns out by option columns.",
    )


def block_too_large(what: str, most: int) -> BeyondLimitError:
    """The error for a block of more than `most` bytes; `what` says which bytes: "it has", "it inflates to"."""
    return BeyondLimitError(
        f"{what} more than the {most:,} bytes of option {MAX_BLOCK_BYTES}",
        f"Raise option {MAX_BLOCK_BYTES} if the workers have the memory, or write the blob again in smaller blocks.",
    )
