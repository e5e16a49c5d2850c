"""What a scanner is given and what it gives: bodies of blocks, and the outputs of a program as numpy arrays. Pure.

`forth_scan` and `native_scan` are the two kinds of scanners; `scanners` chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from arrow_avro.decoding.value_errors import UnrepresentableValueError
from arrow_avro.limits import BeyondLimitError
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from arrow_avro.decoding.layout import Node

    Array = npt.NDArray[Any]


CUT = "its bytes end within it"
TOO_LONG = "it holds a number of more than 64 bits"
IMPOSSIBLE = f"{TOO_LONG}, or a length, a count or a branch that cannot be"
"""Why a row is unreadable, as both scanners say it."""


class BodySlice(NamedTuple):
    """The first `rows` datums of a body. If `whole`, nothing follows them."""

    body: memoryview
    rows: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What one run of a program has read: `rows` datums, the last of which ends at byte `end` of the last slice.

    root: which outputs are those of the rows.
    """

    root: Node
    outputs: dict[str, Array]
    rows: int
    end: int

    def values(self, output: str, count: int) -> Array:
        """The `count` values of an output. Raises CorruptError if it has more or fewer: Arrow would not check."""
        array = self.outputs[output]
        if len(array) != count:
            raise CorruptError(f"there are {len(array)} values where there should be {count}")
        return array


def too_deep() -> BeyondLimitError:
    """The error for records that contain themselves too often."""
    cause = "records that contain themselves are nested too deeply to be skipped (recursion depth exceeded)"
    return BeyondLimitError(cause, "Write the blob again with records that are not nested so deeply, or leave it out.")


def too_much_text() -> UnrepresentableValueError:
    """The error for texts that Arrow's offsets of 32 bits cannot reach."""
    return UnrepresentableValueError("the texts of a batch have more bytes than Arrow can hold", "")


def unreadable(cause: str) -> CorruptError:
    """The error for bytes that are no datum."""
    return CorruptError(f"a row is unreadable ({cause})")


def outside(low: int, high: int) -> CorruptError:
    """The error for a number that its type cannot have."""
    return unreadable(f"there is a number outside {low} to {high}")


def check_ends(slices: Sequence[BodySlice], ends: Sequence[int]) -> None:
    """Raises CorruptError if the rows of a whole slice do not end where it ends. `ends`: in each slice."""
    for each, end in zip(slices, ends, strict=True):
        if each.whole and end != len(each.body):
            left = len(each.body) - end
            where = f"{left} bytes follow its" if left > 0 else "it is too short for its"
            raise CorruptError(f"{where} {each.rows} rows")
