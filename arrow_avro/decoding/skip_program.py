"""Instructions that step over values which the reader does not want. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arrow_avro.decoding.instructions import (
    SkipFixed,
    SkipItems,
    SkipRecord,
    SkipText,
    SkipUnion,
    SkipVarint,
)
from arrow_avro.decoding.layout import INT32_MAX
from arrow_avro.types import has_no_bytes, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_avro.decoding.instructions import Code, SkipInstruction
    from arrow_avro.types import AvroType

_SIZES = {"boolean": 1, "float": 4, "double": 8}


@dataclass
class SkipCompiler:
    """The part of a program that skips values in `root`. `skip_long` gives the instruction for one more long."""

    root: AvroType
    skip_long: Callable[[], SkipInstruction]
    _recursive: list[str] = field(default_factory=list)

    def value(self, avro: AvroType) -> Code:
        """Skips one value of a type within `root`."""
        match avro.kind:
            case "long":
                return (self.skip_long(),)
            case "record" | "reference" if avro.kind == "reference" or is_recursive(avro):
                if avro.name not in self._recursive:
                    self._recursive.append(avro.name)
                return (SkipRecord(self._recursive.index(avro.name)),)
            case "record":
                return self._fields(avro)
            case "union":
                return (SkipUnion(tuple(self.value(branch) for branch in avro.branches)),)
            case "array" if has_no_bytes(avro.element):
                return (SkipItems(()),)
            case "array":
                return (SkipItems(self.value(avro.element)),)
            case "map":
                return (SkipItems((SkipText(), *self.value(avro.element))),)
        return _leaf(avro)

    def records(self) -> tuple[Code, ...]:
        """What each `SkipRecord` does, by its number. Such records may contain each other."""
        records = {one.name: one for one in walk(self.root) if one.kind == "record"}
        codes: list[Code] = []
        while len(codes) < len(self._recursive):
            codes.append(self._fields(records[self._recursive[len(codes)]]))
        return tuple(codes)

    def _fields(self, record: AvroType) -> Code:
        return tuple(instruction for member in record.fields for instruction in self.value(member.type))


def is_recursive(avro: AvroType) -> bool:
    """Whether a record contains itself."""
    return any(one.kind == "reference" and one.name == avro.name for one in walk(avro))


def _leaf(avro: AvroType) -> Code:
    match avro.kind:
        case "int":
            return (SkipVarint(-(2**31), INT32_MAX),)
        case "enum":
            return (SkipVarint(0, len(avro.symbols) - 1),)
        case "bytes" | "string":
            return (SkipText(),)
        case "null":
            return ()
    return (SkipFixed(_SIZES.get(avro.kind, avro.size)),)
