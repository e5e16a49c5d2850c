"""From a writer's type and a plan to the program that reads datums, the same for both decoders. Pure.

Each place is read into outputs of its own. Values that no plan wants are stepped over, but their numbers are checked
like others. An instruction is a tuple; `[…]` is a tuple of instructions, which are followed one after the other:

    int n low high           a number between these bounds, to words n
    long n, double n         to longs n
    float n                  to words n
    boolean n, fixed n size  to bytes n
    text n m                 its end to words n, its bytes to bytes m
    nullable n tag […]       a union with null: to bytes n whether its branch is `tag`, which has the value
    union n ([…], …)         any other: its branch to longs n, and what reads the value of each branch
    items n […] empty size   an array or map: the number of items to longs n, and each item, which takes `size` bytes of
                             the budget; `empty` if items have no bytes
    column leaf nullable     a leaf that each row has once, for the compiled decoder; `nullable` is None, or n and tag
    unwanted […]             steps over `within low high`, `long`, `fixed size`, `text`, `nullable tag step`,
                             `union ([…], …)`, `items […]`, and `record n`, a record that contains itself

The row of `plan` is read by these instructions (continued in `forth` and `forth_scan`; `layout` has what the outputs
mean):

    ('int', 0, -2147483648, 2147483647)
    ('text', 1, 0)
    ('nullable', 1, 1, (('long', 0),))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from arrow_avro.decoding import layout
from arrow_avro.decoding import plan as plans
from arrow_avro.decoding.memory_bounds import NUMBER, scanned_bytes
from arrow_avro.types import has_no_bytes, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_avro.decoding.layout import Node
    from arrow_avro.decoding.plan import Plan
    from arrow_avro.types import AvroType

Instruction: TypeAlias = "tuple[Any, ...]"
Code: TypeAlias = "tuple[Instruction, ...]"

WORDS, LONGS, BYTES = "w", "l", "b"
"""The kinds of outputs: of 32 bits, of 64 bits, and bytes. An output is named by its kind and its number."""

INT32_MAX = 2**31 - 1
MAX_EMPTY_ITEMS = 1 << 20
"""Items without bytes (nulls, records without fields, fixed of size 0) that an array may claim to have."""

_COLUMNS = frozenset(("int", "enum", "long", "boolean", "float", "double", "bytes", "string"))
_NULLABLE_COLUMNS = _COLUMNS - {"enum"}  # the first symbol, in the place of a null, may be one that the reader lacks
_SIZES = {"boolean": 1, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class Program:
    """What a decoder is given, and what its outputs mean.

    code: reads a row. records: steps over the records that contain themselves. root: the row's outputs.
    dtypes: of the outputs, as numpy has them, by name. counts: how many there are of words, longs and bytes.
    """

    code: Code
    records: tuple[Code, ...]
    root: Node
    dtypes: dict[str, str]
    counts: tuple[int, int, int]


def compiled(avro: AvroType, plan: Plan, *, columns: bool) -> Program:
    """The program that reads datums of `avro` and keeps what `plan` wants. columns: use that instruction."""
    compiler = _Compiler(avro, columns=columns)
    root = compiler.value(avro, (plan,))
    counts = (compiler.counts[WORDS], compiler.counts[LONGS], compiler.counts[BYTES])
    return Program(tuple(compiler.code), compiler.skipping.records(), root, compiler.dtypes, counts)


class _Compiler:
    """The code of one program as it grows, and its outputs."""

    def __init__(self, avro: AvroType, *, columns: bool) -> None:
        self.code: list[Instruction] = []
        self.skipping = _SkipCompiler(avro)
        self.dtypes: dict[str, str] = {}
        self.counts = dict.fromkeys((WORDS, LONGS, BYTES), 0)
        self._in_row = columns  # the value is one that each row has once

    def value(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        """Adds the code for one value, which the reader wants for each of some plans, perhaps none."""
        resolved = plans.of_values(wanted)
        match avro.kind:
            case "null":
                return layout.NoOutput()
            case "union" if wanted:  # which branch a value has matters also to plans that cannot read it
                return self._union(avro, resolved)
            case _ if not resolved:
                self._step_over(self.skipping.value(avro))
                return layout.NoOutput()
            case "record":
                fields = plans.of_fields(avro, resolved)
                return layout.Fields({key: self.value(inner, some) for key, inner, some in fields})
            case "array" | "map":
                return self._items(avro, resolved)
        node, leaf = self._leaf(avro)
        self.code.append(("column", leaf, None) if self._in_row and avro.kind in _COLUMNS else leaf)
        return node

    def _step_over(self, skips: Code) -> None:
        """Steps over values that follow each other are one instruction."""
        match self.code:
            case [*_, ("unwanted", before)]:
                self.code[-1] = ("unwanted", (*before, *skips))
            case _:
                self.code.append(("unwanted", skips))

    def _leaf(self, avro: AvroType) -> tuple[Node, Instruction]:
        match avro.kind:
            case "int":
                return self._int(-(2**31), INT32_MAX)
            case "enum":
                return self._int(0, len(avro.symbols) - 1)
            case "long":
                number, name = self._output(LONGS, "int64")
                return layout.Number(name), ("long", number)
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
        self.dtypes[name] = dtype
        return number, name

    def _int(self, low: int, high: int) -> tuple[Node, Instruction]:
        number, name = self._output(WORDS, "int32")
        return layout.Number(name), ("int", number, low, high)

    def _text(self) -> tuple[Node, Instruction]:
        ends, name = self._output(WORDS, "int32")
        data, text = self._output(BYTES, "uint8")
        return layout.Text(name, text), ("text", ends, data)

    def _apart(self, read: Callable[[], Node]) -> tuple[Node, Code]:
        """What `read` adds to the code, apart from the code before it, for a value that not each row has once."""
        outer, in_row = self.code, self._in_row
        self.code, self._in_row = [], False
        node = read()
        code, self.code, self._in_row = tuple(self.code), outer, in_row
        return node, code

    def _union(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        kinds = [branch.kind for branch in avro.branches]
        if len(kinds) == 1 and kinds != ["null"]:
            self._step_over((("within", 0, 0),))
            return self.value(avro.branches[0], wanted)
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
        return layout.Nullable(name, inner)

    def _tagged(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.TaggedUnion:
        tags, name = self._output(LONGS, "int64")
        branches = [
            self._apart(partial(self.value, branch, plans.of_branch(tag, wanted)))
            for tag, branch in enumerate(avro.branches)
        ]
        self.code.append(("union", tags, tuple(code for _, code in branches)))
        null = next((tag for tag, branch in enumerate(avro.branches) if branch.kind == "null"), -1)
        return layout.TaggedUnion(name, tuple(node for node, _ in branches), null)

    def _items(self, avro: AvroType, wanted: tuple[Plan, ...]) -> layout.Items:
        counts, name = self._output(LONGS, "int64")
        empty = avro.kind == "array" and has_no_bytes(avro.element)
        node, code = self._apart(partial(self._item, avro, plans.of_items(wanted)))
        each = scanned_bytes(avro.element) + (NUMBER if avro.kind == "map" else 0)
        self.code.append(("items", counts, () if empty else code, empty, each))
        return layout.Items(name, node, empty)

    def _item(self, avro: AvroType, wanted: tuple[Plan, ...]) -> Node:
        if avro.kind == "array":
            return self.value(avro.element, wanted)
        key, leaf = self._text()
        self.code.append(leaf)
        return layout.Fields({"key": key, "value": self.value(avro.element, wanted)})


class _SkipCompiler:
    """Makes the steps over values of types within `root`."""

    def __init__(self, root: AvroType) -> None:
        self._root = root
        self._recursive: list[str] = []

    def value(self, avro: AvroType) -> Code:
        """Steps over one value."""
        match avro.kind:
            case "null":
                return ()
            case "int":
                return (("within", -(2**31), INT32_MAX),)
            case "enum":
                return (("within", 0, len(avro.symbols) - 1),)
            case "long":
                return (("long",),)
            case "bytes" | "string":
                return (("text",),)
            case "record" | "reference":
                return self._record(avro)
            case "union":
                return (_union(tuple(self.value(branch) for branch in avro.branches)),)
            case "array":
                return (("items", () if has_no_bytes(avro.element) else self.value(avro.element)),)
            case "map":
                return (("items", (("text",), *self.value(avro.element))),)
        return (("fixed", _SIZES.get(avro.kind, avro.size)),)

    def records(self) -> tuple[Code, ...]:
        """What each `record` steps over, by its number. Such records may contain each other."""
        records = {one.name: one for one in walk(self._root) if one.kind == "record"}
        codes: list[Code] = []
        while len(codes) < len(self._recursive):
            codes.append(self._fields(records[self._recursive[len(codes)]]))
        return tuple(codes)

    def _record(self, avro: AvroType) -> Code:
        contains_itself = any(one.kind == "reference" and one.name == avro.name for one in walk(avro))
        if not contains_itself:
            return self._fields(avro)
        if avro.name not in self._recursive:
            self._recursive.append(avro.name)
        return (("record", self._recursive.index(avro.name)),)

    def _fields(self, record: AvroType) -> Code:
        return tuple(step for member in record.fields for step in self.value(member.type))


def _union(branches: tuple[Code, ...]) -> Instruction:
    match branches:
        case ((), (("within" | "long" | "fixed" | "text", *_) as step,)):
            return ("nullable", 1, step)
        case ((("within" | "long" | "fixed" | "text", *_) as step,), ()):
            return ("nullable", 0, step)
    return ("union", branches)
