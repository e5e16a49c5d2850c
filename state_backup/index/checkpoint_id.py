"""The id of a checkpoint: `<milliseconds>-<number>`, as Samza writes it; ids of one writer rise. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from foundation.errors import CorruptError

_TEXT = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_PARTS_OF_A_MILLISECOND = 1_000_000


@dataclass(frozen=True, order=True)
class CheckpointId:
    """Ordered by time, then by number."""

    millis: int
    number: int

    def __str__(self) -> str:
        return f"{self.millis}-{self.number}"

    @staticmethod
    def parse(text: str) -> CheckpointId:
        """The id in a text, the inverse of `str`. `CorruptError` for other text."""
        found = _TEXT.fullmatch(text)
        if found is None:
            reason = f"{text[:80]!r} is no checkpoint id, which is like 1700000000000-123456. Restore the document."
            raise CorruptError(reason)
        return CheckpointId(int(found[1]), int(found[2]))


def next_id(now_ns: int, last: CheckpointId | None) -> CheckpointId:
    """An id for a checkpoint at this time (ns since 1970). It is above the last one, also if the clock was set back."""
    new = CheckpointId(now_ns // 1_000_000, now_ns % _PARTS_OF_A_MILLISECOND)
    if last is None or new > last:
        return new
    return CheckpointId(last.millis, last.number + 1)
