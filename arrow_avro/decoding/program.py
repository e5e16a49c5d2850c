"""From a writer's type and a plan to the program that reads datums. Pure.

Varints that follow each other become one *run*: one instruction reads them all into one output, and a `Slot` says which
of each k numbers belong to a place.

A program must end soon and within bounds of memory whatever bytes it reads. It checks itself what would move it back,
make it loop for long or overflow its memory: lengths and counts of items. All other numbers are checked after the run
(`Program.bounds`).

The row of `plan` is read by these instructions (continued in `forth` and `scan`; `layout` has what the outputs mean).
If score were assumed never to be null, its branch and its value would be one run: ReadVarints(output='n3', count=2).

    ReadVarints(output='n0', count=1)
    ReadText(lengths='n1', data='n2')
    ReadNullable(tags='n3', present=1, value=(ReadVarints(output='n4', count=1),))
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from arrow_avro.decoding import layout
from arrow_avro.decoding import plan as plans
from arrow_avro.decoding.instructions import (
    ReadFixed,
    ReadItems,
    ReadNullable,
    ReadPrimitive,
    ReadText,
    ReadUnion,
    ReadVarints,
    ReadWideLong,
    SkipVarint,
    SkipWideLong,
)
from arrow_avro.decoding.layout import INT32_MAX, Node, Program, Slot
from arrow_avro.decoding.memory_bounds import NUMBER, scanned_bytes
from arrow_avro.decoding.skip_program import SkipCompiler, is_recursive
from arrow_avro.types import has_no_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_avro.decoding.instructions import Code, ReadInstruction, SkipInstruction
    from arrow_avro.decoding.layout import Assumption
    from arrow_avro.decoding.plan import Plan
    from arrow_avro.types import AvroType

_DTYPES = {"boolean": "uint8", "float": "float32", "double": "float64"}


def compiled(avro: AvroType, plan: Plan, assumed: Assumption) -> Program:
    """The program that reads datums of `avro` and keeps what `plan` wants."""
    compiler = _Compiler(avro, assumed)
    root = compiler.value(avro, (plan,))
    return Program(
        code=tuple(compiler.code),
        records=compiler.skipping.records(),
        assumed=assumed,
        root=root,
        outputs=compiler.outputs,
        strides=compiler.strides,
        bounds=compiler.bounds,
        nullable=compiler.nullable,
        longs=compiler.longs,
    )


class _Compiler:
    """The code of one program as it grows, and what is known of its outputs."""

    def __init__(self, avro: AvroType, assumed: Assumption) -> None:
        self.code: list[ReadInstruction | SkipInstruction] = []
        self.skipping = SkipCompiler(avro, self._skip_long)
        self.outputs: dict[str, str] = {}
        self.strides: dict[str, int] = {}
        self.bounds: dict[Slot, tuple[int, int]] = {}
        self.nullable: dict[int, tuple[Slot, int]] = {}
        self.longs: dict[int, Slot | None] = {}
        self._assumed = assumed
        self._places = 0

    def value(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        """Adds the code for one value, which the reader wants for each of some plans.

        If no plan wants it, numbers and branches are read all the same, because they belong to runs; the rest is
        skipped.
        """
        wanted = plans.of_values(wanted)
        match avro.kind:
            case "null":
                return layout.NoOutput()
            case "int":
                return self._int(-(2**31), INT32_MAX)
            case "enum":
                return self._int(0, len(avro.symbols) - 1)
            case "long":
                return self._long()
            case "union":
                return self._union(avro, wanted)
            case "record" if wanted or not is_recursive(avro):
                return self._record(avro, wanted)
        if wanted:
            return self._wanted(avro, wanted)
        self.code += self.skipping.value(avro)
        return layout.NoOutput()

    def _wanted(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        match avro.kind:
            case "boolean" | "float" | "double":
                return self._primitive(avro.kind)
            case "bytes" | "string":
                return self._text()
            case "fixed":
                data = self._output("uint8")
                self.code.append(ReadFixed(data, avro.size))
                return layout.Fixed(data, avro.size)
        return self._items(avro, wanted)

    def _output(self, dtype: str) -> str:
        name = f"n{len(self.outputs)}"
        self.outputs[name] = dtype
        return name

    def _numbers(self, low: int, high: int) -> Slot:
        """An output of its own for numbers between two bounds."""
        slot = Slot(self._output("int64"))
        self.bounds[slot] = low, high
        return slot

    def _varint(self) -> Slot:
        """Reads one more varint, in the run that the code ends with, or in a new one."""
        match self.code:
            case [*_, ReadVarints(output, count)]:
                self.code[-1] = ReadVarints(output, count + 1)
            case _:
                output, count = self._output("int64"), 0
                self.code.append(ReadVarints(output, 1))
        self.strides[output] = count + 1
        return Slot(output, count)

    def _apart(self, read: Callable[[], Node]) -> tuple[Node, Code]:
        """What `read` adds to the code, apart from the code before it."""
        outer, self.code = self.code, []
        node = read()
        code, self.code = tuple(self.code), outer
        return node, code

    def _place(self) -> int:
        """The number of the next place that assumptions are made of."""
        self._places += 1
        return self._places

    def _int(self, low: int, high: int) -> layout.Number:
        slot = self._varint()
        self.bounds[slot] = low, high
        return layout.Number(slot)

    def _long(self) -> layout.Number:
        """A long of 64 bits has up to ten bytes, but the machine's instruction for varints reads nine at most.

        A wide long is read byte by byte, which costs up to 0.4 µs instead of 8 ns, and it cannot be part of a run. So a
        program has wide longs only in places where one of ten bytes has been seen, or everywhere if nothing is assumed.
        """
        place = self._place()
        wide = self._is_wide(place)
        slot = Slot(self._output("int64")) if wide else self._varint()
        if wide:
            self.code.append(ReadWideLong(slot.output))
        self.longs[place] = slot
        return layout.Number(slot, wide)

    def _skip_long(self) -> SkipInstruction:
        place = self._place()
        self.longs[place] = None
        return SkipWideLong() if self._is_wide(place) else SkipVarint()

    def _is_wide(self, place: int) -> bool:
        return self._assumed.wide is None or place in self._assumed.wide

    def _primitive(self, kind: str) -> layout.Primitive:
        data = self._output(_DTYPES[kind])
        if kind == "boolean":
            self.bounds[Slot(data)] = 0, 1
        self.code.append(ReadPrimitive(data, kind))
        return layout.Primitive(data)

    def _text(self) -> layout.Text:
        lengths, data = self._numbers(0, INT32_MAX), self._output("uint8")
        self.code.append(ReadText(lengths.output, data))
        return layout.Text(lengths, data)

    def _record(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.Fields:
        return layout.Fields({key: self.value(inner, some) for key, inner, some in plans.of_fields(avro, wanted)})

    def _union(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        kinds = [branch.kind for branch in avro.branches]
        if len(kinds) == 1 and kinds != ["null"]:
            tags = self._varint()
            self.bounds[tags] = 0, 0
            return layout.Nullable(tags, 0, dense=True, inner=self.value(avro.branches[0], wanted))
        if avro.nullable and len(kinds) == 2:  # noqa: PLR2004 - null and another
            return self._nullable(avro.nullable, 1 - kinds.index("null"), wanted)
        return self._tagged(avro, wanted)

    def _nullable(self, avro: AvroType, present: int, wanted: tuple[Plan, ...]) -> layout.Nullable:
        place = self._place()
        if place in self._assumed.dense:
            tags = self._varint()
            self.bounds[tags] = present, present
            self.nullable[place] = tags, present
            return layout.Nullable(tags, present, dense=True, inner=self.value(avro, wanted))
        tags = self._numbers(0, 1)
        self.nullable[place] = tags, present
        inner, code = self._apart(lambda: self.value(avro, wanted))
        self.code.append(ReadNullable(tags.output, present, code))
        return layout.Nullable(tags, present, dense=False, inner=inner)

    def _tagged(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.TaggedUnion:
        tags = self._numbers(0, len(avro.branches) - 1)
        read = [self._apart(partial(self._branch, avro, tag, wanted)) for tag in range(len(avro.branches))]
        self.code.append(ReadUnion(tags.output, tuple(code for _, code in read)))
        null = next((tag for tag, branch in enumerate(avro.branches) if branch.kind == "null"), -1)
        return layout.TaggedUnion(tags, tuple(node for node, _ in read), null)

    def _branch(self, avro: AvroType, tag: int, wanted: tuple[Plan, ...]) -> Node:
        return self.value(avro.branches[tag], plans.of_branch(tag, wanted))

    def _items(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.Items:
        counts = self._numbers(0, INT32_MAX)
        empty = avro.kind == "array" and has_no_bytes(avro.element)
        node, code = self._apart(lambda: self._item(avro, wanted))
        each = scanned_bytes(avro.element) + (NUMBER if avro.kind == "map" else 0)
        item_bytes = None if self._assumed.budget is None else each
        self.code.append(ReadItems(counts.output, () if empty else code, item_bytes))
        return layout.Items(counts, node, empty)

    def _item(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        inner = plans.of_items(wanted)
        if avro.kind == "array":
            return self.value(avro.element, inner)
        key = self._text()
        return layout.Fields({"key": key, "value": self.value(avro.element, inner)})
