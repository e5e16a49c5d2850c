"""Datums read by the compiled decoder: from bytes to the outputs of a program."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from pyspark_azureblob_native import Program

from arrow_avro.decoding.program import BYTES, LONGS, WORDS, compiled
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from arrow_avro.decoding.plan import Plan
    from arrow_avro.decoding.scan import BodySlice
    from arrow_avro.types import AvroType

_CAUSES = {"end": CUT, "wide": TOO_LONG, "impossible": IMPOSSIBLE}
_ALIGNED = 64
_SHARED = 16 << 20


@dataclass(eq=False)
class NativeScanner:
    """Reads datums of one type for one plan, as `forth_scan.ForthScanner` does."""

    avro: AvroType
    plan: Plan

    def __post_init__(self) -> None:
        self._program = compiled(self.avro, self.plan, columns=True)
        self._machine = Program(self._program.code, self._program.records, self._program.counts)
        kinds = zip((WORDS, LONGS, BYTES), self._program.counts, strict=True)
        self._names = [f"{kind}{place}" for kind, count in kinds for place in range(count)]
        self._dtypes = [self._program.dtypes[name] for name in self._names]

    def scan(self, slices: Sequence[BodySlice], budget: int | None = None) -> ScanResult:
        """Read all slices in one run, with the arguments and errors of `ForthScanner.scan`."""
        rows = [each.rows for each in slices]
        fault, ends, sizes = self._machine.run([_of_bytes(each.body) for each in slices], rows, budget)
        if fault:
            raise _failed(*fault)
        check_ends(slices, ends)
        buffers = _MEMORY.take(sizes)
        self._machine.take(buffers)
        outputs = {name: each.view(dtype) for name, dtype, each in zip(self._names, self._dtypes, buffers, strict=True)}
        return ScanResult(self._program.root, outputs, sum(rows), ends[-1])


class _Memory:
    """Gives arrays of bytes, of one large array for many batches of all scanners of the process.

    numpy asks for large pages where an array has 4 MiB or more, so that new memory costs a tenth of the time. A batch
    keeps the memory of those that share its array; what nobody has written to is no memory yet.
    """

    def __init__(self) -> None:
        self._free = np.empty(0, np.uint8)
        self._lock = threading.Lock()

    def take(self, sizes: Sequence[int]) -> list[npt.NDArray[np.uint8]]:
        """Arrays of these sizes. Each begins at a multiple of 64 bytes, as Arrow recommends."""
        starts = list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))
        with self._lock:
            if starts[-1] > len(self._free):
                self._free = np.empty(max(starts[-1], _SHARED) + _ALIGNED, np.uint8)
                self._free = self._free[-self._free.ctypes.data % _ALIGNED :]
            mine, self._free = self._free[: starts[-1]], self._free[starts[-1] :]
        return [mine[start : start + size] for start, size in zip(starts, sizes, strict=False)]


_MEMORY = _Memory()


def _of_bytes(body: memoryview) -> tuple[bytes, memoryview]:
    """A body, and the bytes object that it shows a part of. A copy if it shows something else."""
    if isinstance(body.obj, bytes):
        return body.obj, body
    copy = bytes(body)
    return copy, memoryview(copy)


def _failed(fault: str, low: int, high: int) -> Exception:
    if fault == "budget":
        return batch_too_large()
    if fault == "depth":
        return too_deep()
    if fault == "outside":
        return outside(low, high)
    if fault == "arrow":
        return too_much_text()
    return unreadable(_CAUSES[fault])
