"""Datums read by the Forth machine: from bytes to the outputs of a program. Pure.

A scanner begins with a program that can read all datums but those with longs of ten bytes. It learns which nullable
values were never null and which longs have had ten bytes, and compiles a program that assumes the same of what follows.
That program has about half the instructions. If an assumption is wrong, the same bytes are read again with fewer
assumptions, at last with none, and the scanner learns from the result. So assumptions change the speed, never the rows.

The row of `plan` is read into these outputs (continued in `arrays`):

    n0 [3]
    n1 [2]
    n2 [97, 98]
    n3 [0]
    n4 []
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from arrow_avro.decoding.forth import BUDGET, rendered
from arrow_avro.decoding.layout import Assumption
from arrow_avro.decoding.program import compiled
from arrow_avro.decoding.scan import CUT, IMPOSSIBLE, TOO_LONG, ScanResult, check_ends, outside, too_deep, unreadable
from arrow_avro.limits import batch_too_large
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arrow_avro.decoding.layout import Program
    from arrow_avro.decoding.plan import Plan
    from arrow_avro.decoding.scan import BodySlice
    from arrow_avro.types import AvroType

    _Run = tuple[Program, ScanResult]

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
    _learnt: Assumption = field(default_factory=Assumption)
    _nulls: frozenset[int] = frozenset()
    _machines: dict[Assumption, tuple[Program, Any]] = field(default_factory=dict)

    def scan(self, slices: Sequence[BodySlice], budget: int | None = None) -> ScanResult:
        """Read all slices in one run. Items of arrays and maps may take `budget` bytes; if None, they are not counted.

        Raises CorruptError, which names only the cause, for bytes that are no datums, and BeyondLimitError for items
        that take more.
        """
        data = slices[0].body if len(slices) == 1 else b"".join(each.body for each in slices)
        if self._learnt.dense and budget is None:
            with suppress(CorruptError):
                return self._run(slices, data, self._learnt)[1]
        program, scan = self._with_nulls(slices, data, budget)
        if budget is None:
            self._learn(program, scan)
        return scan

    def _with_nulls(self, slices: Sequence[BodySlice], data: memoryview | bytes, budget: int | None) -> _Run:
        """By programs in which every nullable value may be null; if need be, by one in which every long may be wide."""
        try:
            return self._run(slices, data, Assumption(wide=self._learnt.wide, budget=budget))
        except CorruptError as error:
            if f"({TOO_LONG})" not in str(error):
                raise
        return self._run(slices, data, Assumption(wide=None, budget=budget))

    def _run(self, slices: Sequence[BodySlice], data: memoryview | bytes, assumed: Assumption) -> _Run:
        program, machine = self._machine(assumed)
        counts = np.array([each.rows for each in slices], np.int64)
        error = machine.run({"data": data, "counts": counts}, *_RAISE_NOTHING)
        outputs = machine.outputs
        beyond = assumed.budget is not None and machine[BUDGET] < 0
        machine.reset()  # releases data and outputs
        if beyond:
            raise batch_too_large()
        if error:
            raise _failed(error)
        starts = accumulate((len(each.body) for each in slices), initial=0)
        ends = [int(end) - start for end, start in zip(outputs["ends"], starts, strict=False)]
        check_ends(slices, ends)
        scan = ScanResult(program.root, outputs, program.strides, sum(each.rows for each in slices), ends[-1])
        _check_bounds(program, scan)
        return program, scan

    def _machine(self, assumed: Assumption) -> tuple[Program, Any]:
        if assumed not in self._machines:
            # Imported here because it costs 13 MB and 80 ms, which a writer does not need.
            from awkward_cpp.lib._ext import ForthMachine64  # noqa: PLC0415

            program = compiled(self.avro, self.plan, assumed)
            machine = ForthMachine64(rendered(program), _STACK, _DEPTH, 0, _ITEMS, _GROWTH)
            self._machines[assumed] = program, machine
        return self._machines[assumed]

    def _learn(self, program: Program, scan: ScanResult) -> None:
        self._nulls |= {
            place for place, (tags, present) in program.nullable.items() if (scan.column(tags) != present).any()
        }
        wide = self._learnt.wide or frozenset()
        if program.assumed.wide is None:
            wide |= {place for place, slot in program.longs.items() if slot is None or (scan.column(slot) < 0).any()}
        learnt = Assumption(frozenset(program.nullable) - self._nulls, wide)
        if learnt != self._learnt:
            self._machines.pop(self._learnt, None)
            self._learnt = learnt


def _failed(error: str) -> Exception:
    return too_deep() if error == _TOO_DEEP else unreadable(_CAUSES.get(error, error))


def _check_bounds(program: Program, scan: ScanResult) -> None:
    for slot, (low, high) in program.bounds.items():
        column = scan.column(slot)
        if not len(column):
            continue
        smallest = int(column.min()) if low else 0
        largest = int((column if low else column.view(f"u{column.itemsize}")).max())
        if smallest < low or largest > high:
            raise outside(low, high)
