"""Datums read by the Forth machine: from bytes to the outputs of a program. Pure.

The row of `plan` is read into these outputs (continued in `arrays`):

    b0 [97, 98]
    b1 [False]
    l0 []
    w0 [3]
    w1 [2]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from arrow_avro.decoding.forth import BUDGET, ForthText
from arrow_avro.decoding.program import INT32_MAX, compiled
from arrow_avro.decoding.scan import (
    CUT,
    IMPOSSIBLE,
    TOO_LONG,
    ScanResult,
    check_ends,
    outside,
    too_deep,
    too_much_text,
    unreadable,
)
from arrow_avro.limits import batch_too_large
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arrow_avro.decoding.plan import Plan
    from arrow_avro.decoding.scan import Array, BodySlice
    from arrow_avro.types import AvroType

_RAISE_NOTHING = (False,) * 13  # one for each error of the machine: its name is returned instead
_TOO_DEEP = "recursion depth exceeded"
_CAUSES = {
    "user halt": IMPOSSIBLE,
    "read beyond": CUT,
    "skip beyond": CUT,
    "varint too big": TOO_LONG,
}
_STACK = 4096
_DEPTH = 1 << 20  # of calls, about three for each level of a recursive record; 40 MB, which are touched only when used
_ITEMS, _GROWTH = 4096, 2.0  # the first size of an output, and the factor by which it grows


@dataclass(eq=False)
class ForthScanner:
    """Reads datums of one type for one plan. It serves one thread at a time."""

    avro: AvroType
    plan: Plan
    _wide: bool = False  # a long of ten bytes was read
    _machines: dict[tuple[bool, int | None], tuple[ForthText, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._program = compiled(self.avro, self.plan, columns=False)

    def scan(self, slices: Sequence[BodySlice], budget: int | None = None) -> ScanResult:
        """Read all slices in one run. Items of arrays and maps may take `budget` bytes; if None, they are not counted.

        Raises CorruptError, which names only the cause, for bytes that are no datums, and BeyondLimitError for items
        that take more.
        """
        data = slices[0].body if len(slices) == 1 else b"".join(each.body for each in slices)
        try:
            return self._run(slices, data, budget)
        except CorruptError as error:
            if self._wide or f"({TOO_LONG})" not in str(error):
                raise
        self._wide = True
        try:
            return self._run(slices, data, budget)
        except CorruptError:
            self._wide = False
            raise

    def _run(self, slices: Sequence[BodySlice], data: memoryview | bytes, budget: int | None) -> ScanResult:
        text, machine = self._machine(budget)
        counts = np.array([each.rows for each in slices], np.int64)
        error = machine.run({"data": data, "counts": counts}, *_RAISE_NOTHING)
        outputs = machine.outputs
        beyond = budget is not None and machine[BUDGET] < 0
        machine.reset()  # releases data and outputs
        if beyond:
            raise batch_too_large()
        if error:
            raise too_deep() if error == _TOO_DEEP else unreadable(_CAUSES.get(error, error))
        starts = accumulate((len(each.body) for each in slices), initial=0)
        ends = [int(end) - start for end, start in zip(outputs.pop("ends"), starts, strict=False)]
        check_ends(slices, ends)
        for name, (low, high) in text.bounds.items():
            _check_bounds(outputs[name], low, high)
        outputs |= {name: _text_ends(outputs[name]) for name in text.texts}
        outputs |= {name: outputs[name] == tag for name, tag in text.tags.items()}
        if self._wide:
            outputs |= {name: _not_zigzagged(outputs[name]) for name in text.longs}
        return ScanResult(self._program.root, outputs, sum(each.rows for each in slices), ends[-1])

    def _machine(self, budget: int | None) -> tuple[ForthText, Any]:
        key = self._wide, budget
        if key not in self._machines:
            # Imported here because it costs 13 MB and 80 ms, which a writer does not need.
            from awkward_cpp.lib._ext import ForthMachine64  # noqa: PLC0415

            text = ForthText(self._program, wide=self._wide, budget=budget)
            self._machines[key] = text, ForthMachine64(text.text, _STACK, _DEPTH, 0, _ITEMS, _GROWTH)
        return self._machines[key]


def _check_bounds(numbers: Array, low: int, high: int) -> None:
    if len(numbers) and (int(numbers.min()) < low or int(numbers.max()) > high):
        raise outside(low, high)


def _text_ends(lengths: Array) -> Array:
    ends = np.cumsum(lengths)
    if len(ends) and ends[-1] > INT32_MAX:
        raise too_much_text()
    return ends


def _not_zigzagged(longs: Array) -> Array:
    raw = longs.view(np.uint64)
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
