"""Forth that goes over values which nobody asked for and leaves nothing; the words are told in `program`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azureblob_source.avro.types import has_no_bytes, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from azureblob_source.avro.types import AvroType

SIZE = "data zigzag-> stack dup 0 < if halt then"
"""Reads a length, which must not be negative, for then `skip` would go back."""

INT32_MAX = 2**31 - 1
_NUMBER = "data zigzag-> stack drop"
_SIZES = {"boolean": 1, "float": 4, "double": 8}


@dataclass
class Unwanted:
    """Code that skips values in `avro`. `long` gives the code for one long."""

    avro: AvroType
    long: Callable[[], str]
    _recursive: list[str] = field(default_factory=list)

    def skipped(self, avro: AvroType) -> str:
        """Code for one value."""
        match avro.kind:
            case "long":
                return self.long()
            case "record" | "reference" if avro.kind == "reference" or is_recursive(avro):
                if avro.name not in self._recursive:
                    self._recursive.append(avro.name)
                return f"{self._recursive.index(avro.name)} skip-record"
            case "record":
                return " ".join(self.skipped(member.type) for member in avro.fields)
            case "union":
                if not avro.branches:
                    return "halt"
                cases = (f"{tag} of {self.skipped(branch)} endof" for tag, branch in enumerate(avro.branches))
                return f"data zigzag-> stack case {' '.join(cases)} halt endcase"
            case "array" | "map":
                return self._items(avro)
        return _plain(avro)

    def word(self) -> str:
        """The definition that the code needs: one for all records that contain themselves, for they may be mutual."""
        records = {one.name: one for one in walk(self.avro) if one.kind == "record"}
        bodies: list[str] = []
        while len(bodies) < len(self._recursive):
            place = len(bodies)
            inner = " ".join(self.skipped(member.type) for member in records[self._recursive[place]].fields)
            bodies.append(f"{place} of {inner} endof")
        return f": skip-record case {' '.join(bodies)} endcase ;" if bodies else ""

    def _items(self, avro: AvroType) -> str:
        """Blocks that tell their size are jumped over."""
        key = f"{SIZE} data skip " if avro.kind == "map" else ""
        item = key + self.skipped(avro.element)
        loop = f"0 do {item} loop" if key or not has_no_bytes(avro.element) else "drop"
        return f"begin data zigzag-> stack dup while dup 0 < if drop {SIZE} data skip else {loop} then repeat drop"


def is_recursive(avro: AvroType) -> bool:
    """Whether a record contains itself."""
    return any(one.kind == "reference" and one.name == avro.name for one in walk(avro))


def _plain(avro: AvroType) -> str:
    match avro.kind:
        case "int" | "enum":
            return _NUMBER
        case "bytes" | "string":
            return f"{SIZE} data skip"
        case "null":
            return ""
    return f"{literal(_SIZES.get(avro.kind, avro.size))} data skip"


def literal(size: int) -> int:
    """A size as the machine can hold it in its code. No body has more bytes than that."""
    return min(max(size, 0), INT32_MAX)
