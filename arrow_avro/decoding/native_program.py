"""From a writer's type and a plan to the program of the compiled decoder. Pure.

It reads each place into outputs of its own, checks numbers as it reads them, and steps over what no plan wants. What
`program` does for speed (runs, assumptions) the compiled decoder does not need.

The row of `plan` is read by

    ('column', ('int', 0, -2147483648, 2147483647), None)
    ('column', ('text', 1, 0), None)
    ('column', ('long', 0), (1, 1))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from arrow_avro.decoding import layout
from arrow_avro.decoding import plan as plans
from arrow_avro.decoding.instructions import (
    SkipFixed,
    SkipItems,
    SkipRecord,
    SkipText,
    SkipUnion,
    SkipVarint,
    SkipWideLong,
)
from arrow_avro.decoding.layout import INT32_MAX, Node, Slot
from arrow_avro.decoding.memory_bounds import NUMBER, scanned_bytes
from arrow_avro.decoding.skip_program import SkipCompiler
from arrow_avro.types import has_no_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_avro.decoding.instructions import Code, ReadInstruction, SkipInstruction
    from arrow_avro.decoding.plan import Plan
    from arrow_avro.types import AvroType

Instruction: TypeAlias = "tuple[Any, ...]"

WORDS, LONGS, BYTES = "w", "l", "b"
"""The kinds of outputs: of 32 bits, of 64 bits, and bytes. An output is named by its kind and its number."""

_COLUMNS = frozenset(("int", "enum", "long", "boolean", "float", "double", "bytes", "string"))
_NULLABLE_COLUMNS = _COLUMNS - {"enum"}  # the first symbol, in the place of a null, may be one that the reader lacks


@dataclass
class NativeProgram:
    """What the compiled decoder is given, and what its outputs mean.

    code: reads a row. records: steps over the records that contain themselves. root: the row's outputs.
    outputs: the numpy types of the outputs, by name. counts: how many there are of words, longs and bytes.
    """

    code: tuple[Instruction, ...]
    records: tuple[tuple[Instruction, ...], ...]
    root: Node
    outputs: dict[str, str]
    counts: tuple[int, int, int]


def compiled_natively(avro: AvroType, plan: Plan) -> NativeProgram:
    """The program that reads datums of `avro` and keeps what `plan` wants."""
    compiler = _Compiler(avro)
    root = compiler.value(avro, (plan,))
    records = tuple(_skips(code, checked=False) for code in compiler.skipping.records())
    words, longs, of_bytes = (compiler.counts[kind] for kind in (WORDS, LONGS, BYTES))
    return NativeProgram(tuple(compiler.code), records, root, compiler.outputs, (words, longs, of_bytes))


class _Compiler:
    """The code of one program as it grows, and its outputs."""

    def __init__(self, avro: AvroType) -> None:
        self.code: list[Instruction] = []
        self.skipping = SkipCompiler(avro, SkipWideLong)
        self.outputs: dict[str, str] = {}
        self.counts = dict.fromkeys((WORDS, LONGS, BYTES), 0)
        self._in_row = True  # the value is one that each row has once

    def value(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        """Adds the code for one value, which the reader wants for each of some plans, perhaps none."""
        resolved = plans.of_values(wanted)
        match avro.kind:
            case "null":
                return layout.NoOutput()
            case "union" if wanted:  # which branch a value has matters also to plans that cannot read it
                return self._union(avro, resolved)
            case _ if not resolved:
                return self._unwanted(avro)
            case "record":
                return self._record(avro, resolved)
        return self._wanted(avro, resolved)

    def _record(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.Fields:
        return layout.Fields({key: self.value(inner, some) for key, inner, some in plans.of_fields(avro, wanted)})

    def _unwanted(self, avro: AvroType) -> Node:
        """Steps over values that follow each other are one instruction."""
        skips = _skips(self.skipping.value(avro), checked=True)
        match self.code:
            case [*_, ("unwanted", before)]:
                self.code[-1] = ("unwanted", (*before, *skips))
            case _:
                self.code.append(("unwanted", skips))
        return layout.NoOutput()

    def _wanted(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        if avro.kind in ("array", "map"):
            return self._items(avro, wanted)
        node, leaf = self._leaf(avro)
        self.code.append(("column", leaf, None) if self._in_row and avro.kind in _COLUMNS else leaf)
        return node

    def _leaf(self, avro: AvroType) -> tuple[Node, Instruction]:
        match avro.kind:
            case "int":
                return self._int(-(2**31), INT32_MAX)
            case "enum":
                return self._int(0, len(avro.symbols) - 1)
            case "long":
                number, name = self._output(LONGS, "int64")
                return layout.Number(Slot(name)), ("long", number)
            case "boolean":
                number, name = self._output(BYTES, "uint8")
                return layout.Primitive(name, in_bits=self._in_row), ("boolean", number)
            case "float":
                number, name = self._output(WORDS, "float32")
                return layout.Primitive(name), ("float", number)
            case "double":
                number, name = self._output(LONGS, "float64")
                return layout.Primitive(name), ("double", number)
            case "fixed":
                number, name = self._output(BYTES, "uint8")
                return layout.Fixed(name, avro.size), ("fixed", number, avro.size)
        return self._text()

    def _output(self, kind: str, dtype: str) -> tuple[int, str]:
        """The number of one more output among those of its kind, and its name."""
        number = self.counts[kind]
        self.counts[kind] += 1
        name = f"{kind}{number}"
        self.outputs[name] = dtype
        return number, name

    def _int(self, low: int, high: int) -> tuple[Node, Instruction]:
        number, name = self._output(WORDS, "int32")
        return layout.Number(Slot(name)), ("int", number, low, high)

    def _text(self) -> tuple[Node, Instruction]:
        ends, name = self._output(WORDS, "int32")
        data, text = self._output(BYTES, "uint8")
        return layout.EndedText(name, text), ("text", ends, data)

    def _apart(self, read: Callable[[], Node]) -> tuple[Node, tuple[Instruction, ...]]:
        """What `read` adds to the code, apart from the code before it, for a value that not each row has once."""
        outer, in_row = self.code, self._in_row
        self.code, self._in_row = [], False
        node = read()
        code, self.code, self._in_row = tuple(self.code), outer, in_row
        return node, code

    def _union(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        kinds = [branch.kind for branch in avro.branches]
        if len(kinds) == 1 and kinds != ["null"]:
            self.code.append(("unwanted", (("within", 0, 0),)))
            return layout.Nullable(Slot(""), 0, dense=True, inner=self.value(avro.branches[0], wanted))
        if avro.nullable and len(kinds) == 2:  # noqa: PLR2004 - null and another
            return self._nullable(avro.nullable, 1 - kinds.index("null"), wanted)
        return self._tagged(avro, wanted)

    def _nullable(self, avro: AvroType, present: int, wanted: tuple[Plan, ...]) -> Node:
        valid, name = self._output(BYTES, "uint8")
        if wanted and self._in_row and avro.kind in _NULLABLE_COLUMNS:
            inner, leaf = self._leaf(avro)
            self.code.append(("column", leaf, (valid, present)))
            return layout.NullableColumn(name, inner)
        inner, code = self._apart(lambda: self.value(avro, wanted))
        self.code.append(("nullable", valid, present, code))
        return layout.Nullable(Slot(name), 1, dense=False, inner=inner)

    def _tagged(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.TaggedUnion:
        tags, name = self._output(LONGS, "int64")
        branches = [
            self._apart(partial(self.value, branch, plans.of_branch(tag, wanted)))
            for tag, branch in enumerate(avro.branches)
        ]
        self.code.append(("union", tags, tuple(code for _, code in branches)))
        null = next((tag for tag, branch in enumerate(avro.branches) if branch.kind == "null"), -1)
        return layout.TaggedUnion(Slot(name), tuple(node for node, _ in branches), null)

    def _items(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.Items:
        counts, name = self._output(LONGS, "int64")
        empty = avro.kind == "array" and has_no_bytes(avro.element)
        node, code = self._apart(partial(self._item, avro, plans.of_items(wanted)))
        each = scanned_bytes(avro.element) + (NUMBER if avro.kind == "map" else 0)
        self.code.append(("items", counts, () if empty else code, empty, each))
        return layout.Items(Slot(name), node, empty)

    def _item(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        if avro.kind == "array":
            return self.value(avro.element, wanted)
        key, leaf = self._text()
        self.code.append(leaf)
        return layout.Fields({"key": key, "value": self.value(avro.element, wanted)})


def _skips(code: Code, *, checked: bool) -> tuple[Instruction, ...]:
    """Steps over values. `checked` if numbers have bounds, which `program` does not check in items either."""
    return tuple(_skip(one, checked=checked) for one in code)


def _skip(instruction: ReadInstruction | SkipInstruction, *, checked: bool) -> Instruction:
    match instruction:
        case SkipVarint(int(low), int(high)) if checked:
            return ("within", low, high)
        case SkipVarint():
            return ("number",)
        case SkipWideLong():
            return ("long",)
        case SkipFixed(size):
            return ("fixed", size)
        case SkipText():
            return ("text",)
        case SkipUnion(branches):
            return _skip_union(branches, checked=checked)
        case SkipItems(item):
            return ("items", _skips(item, checked=False))
        case SkipRecord(number):
            return ("record", number)
    raise TypeError(f"{instruction} skips nothing")


def _skip_union(branches: tuple[Code, ...], *, checked: bool) -> Instruction:
    match branches:
        case ((), (SkipVarint() | SkipWideLong() | SkipFixed() | SkipText() as value,)):
            return ("nullable", 1, _skip(value, checked=checked))
        case ((SkipVarint() | SkipWideLong() | SkipFixed() | SkipText() as value,), ()):
            return ("nullable", 0, _skip(value, checked=checked))
    return ("union", tuple(_skips(branch, checked=checked) for branch in branches))
