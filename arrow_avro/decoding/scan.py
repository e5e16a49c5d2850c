"""Datums read by the Forth machine: from bytes to numpy arrays, the outputs of a program. Pure.

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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arrow_avro.decoding.forth import BUDGET, rendered
from arrow_avro.decoding.layout import Assumption
from arrow_avro.decoding.program import compiled
from arrow_avro.limits import BeyondLimitError, batch_too_large
from azure_account.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from arrow_avro.arrow_values import I64
    from arrow_avro.decoding.layout import Program, Slot
    from arrow_avro.decoding.plan import Plan
    from arrow_avro.types import AvroType

    Array = npt.NDArray[Any]

_RAISE_NOTHING = (False,) * 13  # one for each error of the machine: its name is returned instead
_TOO_LONG = "varint too big"
_TOO_DEEP = "recursion depth exceeded"
_CAUSES = {
    "user halt": "it holds a number of more than 64 bits, or a length, a count or a branch that cannot be",
    "read beyond": "its bytes end within it",
    "skip beyond": "its bytes end within it",
    _TOO_LONG: "it holds a number of more than 64 bits",
}
_STACK = 4096
_DEPTH = 1 << 20  # of calls, about three for each level of a recursive record; 40 MB, which are touched only when used
_ITEMS, _GROWTH = 4096, 2.0  # the first size of an output, and the factor by which it grows


class BodySlice(NamedTuple):
    """The first `rows` datums of a body. If `whole`, nothing follows them."""

    body: memoryview
    rows: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What one run of a program has read: `rows` datums, the last of which ends at byte `end` of the last slice."""

    program: Program
    outputs: dict[str, Array]
    rows: int
    end: int

    def numbers(self, slot: Slot, count: int) -> I64:
        """The `count` numbers of a slot, perhaps strided."""
        stride = self.program.strides.get(slot.output, 1)
        return self.values(slot.output, count * stride)[slot.first :: stride]

    def values(self, output: str, count: int) -> Array:
        """The `count` values of an output. Raises CorruptError if it has more or fewer: Arrow would not check."""
        array = self.outputs[output]
        if len(array) != count:
            raise CorruptError(f"there are {len(array)} values where there should be {count}")
        return array

    def column(self, slot: Slot) -> Array:
        """The numbers of a slot, however many there are."""
        return self.outputs[slot.output][slot.first :: self.program.strides.get(slot.output, 1)]


@dataclass
class Scanner:
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
                return self._run(slices, data, self._learnt)
        scan = self._with_nulls(slices, data, budget)
        if budget is None:
            self._learn(scan)
        return scan

    def _with_nulls(self, slices: Sequence[BodySlice], data: memoryview | bytes, budget: int | None) -> ScanResult:
        """By programs in which every nullable value may be null; if need be, by one in which every long may be wide."""
        try:
            return self._run(slices, data, Assumption(wide=self._learnt.wide, budget=budget))
        except CorruptError as error:
            if f"({_CAUSES[_TOO_LONG]})" not in str(error):
                raise
        return self._run(slices, data, Assumption(wide=None, budget=budget))

    def _run(self, slices: Sequence[BodySlice], data: memoryview | bytes, assumed: Assumption) -> ScanResult:
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
        end = _checked_end(slices, outputs["ends"].tolist())
        scan = ScanResult(program, outputs, sum(each.rows for each in slices), end)
        _check_bounds(scan)
        return scan

    def _machine(self, assumed: Assumption) -> tuple[Program, Any]:
        if assumed not in self._machines:
            # Imported here because it costs 13 MB and 80 ms, which a writer does not need.
            from awkward_cpp.lib._ext import ForthMachine64  # noqa: PLC0415

            program = compiled(self.avro, self.plan, assumed)
            machine = ForthMachine64(rendered(program), _STACK, _DEPTH, 0, _ITEMS, _GROWTH)
            self._machines[assumed] = program, machine
        return self._machines[assumed]

    def _learn(self, scan: ScanResult) -> None:
        program = scan.program
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
    if error == _TOO_DEEP:
        step = "Write the blob again with records that are not nested so deeply, or leave it out."
        return BeyondLimitError(f"records that contain themselves are nested too deeply to be skipped ({error})", step)
    return CorruptError(f"a row is unreadable ({_CAUSES.get(error, error)})")


def _checked_end(slices: Sequence[BodySlice], ends: list[int]) -> int:
    """Where the rows of the last slice end. Raises CorruptError if those of a whole slice do not end where it ends."""
    begin = end = 0
    for each, stop in zip(slices, ends, strict=True):
        end = stop - begin
        begin += len(each.body)
        if each.whole and end != len(each.body):
            where = f"{begin - stop} bytes follow its" if stop < begin else "it is too short for its"
            raise CorruptError(f"{where} {each.rows} rows")
    return end


def _check_bounds(scan: ScanResult) -> None:
    for slot, (low, high) in scan.program.bounds.items():
        column = scan.column(slot)
        if not len(column):
            continue
        smallest = int(column.min()) if low else 0
        largest = int((column if low else column.view(f"u{column.itemsize}")).max())
        if smallest < low or largest > high:
            raise CorruptError(f"a row is unreadable (there is a number outside {low} to {high})")
