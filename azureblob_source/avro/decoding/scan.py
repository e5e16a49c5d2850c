"""Datums read by the Forth machine: from bytes to numpy arrays, one for each place of the type. Pure.

A scanner begins with a program that is right for any datums but those with longs of ten bytes. It remembers which
nullable values were never null and which longs were so long, and compiles a program for such data, which is about half
as long. When that fails, the safer ones are run over the same bytes, up to one that assumes nothing, and what they find
corrects the memory. So the bytes alone decide what comes out.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from azure_account.errors import CorruptError
from azureblob_source.avro.decoding.forth import BUDGET, rendered
from azureblob_source.avro.decoding.layout import Assumption
from azureblob_source.avro.decoding.program import compiled
from azureblob_source.avro.limits import BeyondLimitError, batch_too_large

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from azureblob_source.arrow_values import I64
    from azureblob_source.avro.decoding.layout import Program, Slot
    from azureblob_source.avro.decoding.plan import Plan
    from azureblob_source.avro.types import AvroType

    Array = npt.NDArray[Any]

_TELL = (False,) * 13  # of each error of the machine: return its name and raise nothing
_TOO_LONG = "varint too big"
_TOO_DEEP = "recursion depth exceeded"
_CAUSES = {
    "user halt": ": it holds a number of more than 64 bits, or a length, a count or a branch that cannot be",
    "read beyond": ": its bytes end within it",
    "skip beyond": ": its bytes end within it",
    _TOO_LONG: ": it holds a number of more than 64 bits",
}
_STACK = 4096
_DEPTH = 1 << 20  # of calls, some three for a record within itself; 40 MB that are touched only so far as they are used
_ITEMS, _GROWTH = 4096, 2.0  # what an output has room for at first, and by what it grows


class Part(NamedTuple):
    """The first `rows` datums of a body. `whole` says that nothing follows them."""

    body: memoryview
    rows: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """What one run read: `rows` datums, of which the last ends at byte `end` of the last part."""

    program: Program
    outputs: dict[str, Array]
    rows: int
    end: int

    def numbers(self, slot: Slot, count: int) -> I64:
        """The `count` numbers of a place, perhaps with strides."""
        stride = self.program.strides.get(slot.output, 1)
        return self.values(slot.output, count * stride)[slot.first :: stride]

    def values(self, output: str, count: int) -> Array:
        """The `count` items of an output. Whatever the bytes were, an array of another length never gets into Arrow."""
        array = self.outputs[output]
        if len(array) != count:
            raise CorruptError(f"there are {len(array)} values where {count} belong")
        return array

    def column(self, slot: Slot) -> Array:
        """The numbers of a place, however many there are."""
        return self.outputs[slot.output][slot.first :: self.program.strides.get(slot.output, 1)]


@dataclass
class Scanner:
    """Reads datums of one type for one plan. It serves one thread at a time."""

    avro: AvroType
    plan: Plan
    _learnt: Assumption = field(default_factory=Assumption)
    _nulls: frozenset[int] = frozenset()
    _machines: dict[Assumption, tuple[Program, Any]] = field(default_factory=dict)

    def scan(self, parts: Sequence[Part], room: int | None = None) -> Scan:
        """Read all parts in one run. Items of arrays and maps may take `room` bytes; None does not count them.

        Raises CorruptError, which names only the cause, for bytes that are no datums, and BeyondLimitError for items
        that take more.
        """
        data = parts[0].body if len(parts) == 1 else b"".join(part.body for part in parts)
        if self._learnt.dense and room is None:
            with suppress(CorruptError):
                return self._run(parts, data, self._learnt)
        scan = self._careful(parts, data, room)
        if room is None:
            self._learn(scan)
        return scan

    def _careful(self, parts: Sequence[Part], data: memoryview | bytes, room: int | None) -> Scan:
        """By programs that take no value for granted."""
        try:
            return self._run(parts, data, Assumption(wide=self._learnt.wide, budget=room))
        except CorruptError as error:
            if _TOO_LONG not in str(error):
                raise
        return self._run(parts, data, Assumption(wide=None, budget=room))

    def _run(self, parts: Sequence[Part], data: memoryview | bytes, assumed: Assumption) -> Scan:
        program, machine = self._machine(assumed)
        counts = np.array([part.rows for part in parts], np.int64)
        error = machine.run({"data": data, "counts": counts}, *_TELL)
        outputs = machine.outputs
        beyond = assumed.budget is not None and machine[BUDGET] < 0
        machine.reset()  # lets go of data and outputs
        if beyond:
            raise batch_too_large()
        if error:
            raise _failed(error)
        end = _checked_end(parts, outputs["ends"].tolist())
        scan = Scan(program, outputs, sum(part.rows for part in parts), end)
        _check_bounds(scan)
        return scan

    def _machine(self, assumed: Assumption) -> tuple[Program, Any]:
        if assumed not in self._machines:
            # Not at the top: it costs 13 MB and 80 ms, and who only writes does not need it.
            from awkward_cpp.lib._ext import ForthMachine64  # noqa: PLC0415

            program = compiled(self.avro, self.plan, assumed)
            machine = ForthMachine64(rendered(program), _STACK, _DEPTH, 0, _ITEMS, _GROWTH)
            self._machines[assumed] = program, machine
        return self._machines[assumed]

    def _learn(self, scan: Scan) -> None:
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
        step = "Write the blob anew with records that are not nested so deeply, or leave it out."
        return BeyondLimitError(f"records that contain themselves are nested too deeply to be skipped ({error})", step)
    return CorruptError(f"a row is unreadable ({error}{_CAUSES.get(error, '')})")


def _checked_end(parts: Sequence[Part], ends: list[int]) -> int:
    """Where in the last part the reading ended."""
    begin = end = 0
    for part, stop in zip(parts, ends, strict=True):
        end = stop - begin
        begin += len(part.body)
        if part.whole and end != len(part.body):
            where = f"{begin - stop} bytes are left behind its" if stop < begin else "it is too short for its"
            raise CorruptError(f"{where} {part.rows} rows")
    return end


def _check_bounds(scan: Scan) -> None:
    for slot, (low, high) in scan.program.bounds.items():
        column = scan.column(slot)
        if not len(column):
            continue
        smallest = int(column.min()) if low else 0
        largest = int((column if low else column.view(f"u{column.itemsize}")).max())
        if smallest < low or largest > high:
            raise CorruptError(f"a row is unreadable (there is a number beyond {low} to {high})")
