"""From a writer's type to a program of the Forth machine of awkward-cpp. Pure.

The machine reads the input `data` once, from left to right, and appends to typed outputs. The words used here:

    data zigzag-> stack    read a varint and push it; `-> n1` appends it to output n1 instead
    data #zigzag-> n1      pop a count and read as many; the same for `B->` (bytes), `f->` and `d->` (floats)
    n1 <- stack            pop a number and append it to output n1
    dup drop swap over     order the stack; `if … then`, `case 0 of … endof endcase`, `while` pop what they test
    k 0 do … loop          do it k times
    data skip, halt        go on by as many bytes as the stack says; give up

An instruction costs some 8 ns, whatever it does: the fewer the better. Varints that follow each other become one *run*:
one instruction reads them all into one output, and a `Slot` says which of each k numbers belong to a place. A count may
be 0 or 1, too: the branch of a nullable number is the count of its values, without any `if`.

What would lead the machine astray for long or overflow its memory is checked in Forth: lengths in loops, counts of what
may have no bytes or many. All other numbers are checked after the run (`Program.bounds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azureblob_source.avro.decoding.layout import (
    Assumption,
    Fixed,
    Items,
    Node,
    Nothing,
    Number,
    Optional,
    Program,
    Raw,
    Row,
    Slot,
    Text,
    Union,
)
from azureblob_source.avro.decoding.plan import Branches, Listed, Mapped, Member, Never, Paired, Plan, Present, Record
from azureblob_source.avro.decoding.sizes import NUMBER, scanned_bytes
from azureblob_source.avro.decoding.skip_program import INT32_MAX, SIZE, Unwanted, is_recursive, literal
from azureblob_source.avro.types import has_no_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from azureblob_source.avro.types import AvroType

MAX_FREE = 1 << 20
"""Values without any byte that an array may claim to have."""

ROOM = "room"
"""The variable that counts down what items may still take, if that is limited; below zero it was too little."""

_RAW = {"boolean": ("B", "uint8"), "float": ("f", "float32"), "double": ("d", "float64")}
_GUARD = "dup data len data pos - > if halt then"
# The 64 bits of a varint of up to ten bytes. `varint->` reads nine, and so all that end before the tenth byte.
_WIDE = """variable raw variable shift
: by-bytes
  0 raw ! 0 shift !
  begin
    data B-> stack
    shift @ 63 = if dup 1 > if halt then then
    dup 127 and shift @ lshift raw +!
    7 shift +!
    128 <
  until
  raw @ ;
: wide
  data len data pos - 9 < if by-bytes else
    8 data peek 128 < if data varint-> stack else by-bytes then
  then ;"""


def compiled(avro: AvroType, plan: Plan, assumed: Assumption) -> Program:
    """The program that reads datums of `avro` and keeps what `plan` wants.

    Its input `counts` says how many datums to read at a time; output `ends` gets the position after each time.
    """
    writer = _Writer(avro, assumed)
    root = writer.value(avro, (plan,))
    writer.flush()
    row, words = writer.taken(), [_WIDE, writer.unwanted.word()]
    declared = [f"output {name} {kind}" for name, kind in writer.outputs.items()]
    loop = f"begin counts end 0= while counts q-> stack 0 do\n{row}\nloop data pos ends <- stack repeat"
    room = [] if assumed.room is None else [f"variable {ROOM} {assumed.room} {ROOM} !"]
    source = "\n".join(["input data", "input counts", "output ends int64", *declared, *words, *room, loop])
    return Program(source, root, writer.strides, writer.bounds, writer.nullable, writer.longs, assumed.wide is None)


class _Writer:
    """Code of one program as it grows, and all that is known of its outputs."""

    def __init__(self, avro: AvroType, assumed: Assumption) -> None:
        self.assumed = assumed
        self.unwanted = Unwanted(avro, self._skipped_long)
        self.outputs: dict[str, str] = {}
        self.strides: dict[str, int] = {}
        self.bounds: dict[Slot, tuple[int, int]] = {}
        self.nullable: dict[int, tuple[Slot, int]] = {}
        self.longs: dict[int, Slot | None] = {}
        self._code: list[str] = []
        self._run = self._places = 0

    # --- pieces of code ---

    def emit(self, code: str) -> None:
        """Append code, behind the run of varints before it."""
        self.flush()
        self._code.append(code)

    def token(self) -> Slot:
        """One more varint of the run that is open."""
        if not self._run:
            self.strides[self._output("int64")] = 0
        self._run += 1
        return Slot(next(reversed(self.strides)), self._run - 1)

    def flush(self) -> None:
        """End the run of varints."""
        if self._run:
            name, size = self._ended()
            self._code.append(f"data zigzag-> {name}" if size == 1 else f"{size} data #zigzag-> {name}")

    def taken(self) -> str:
        """The code so far, which begins anew."""
        code, self._code = "\n".join(self._code), []
        return code

    def _ended(self) -> tuple[str, int]:
        name, size, self._run = next(reversed(self.strides)), self._run, 0
        self.strides[name] = size
        return name, size

    def _output(self, kind: str) -> str:
        name = f"n{len(self.outputs)}"
        self.outputs[name] = kind
        return name

    def _column(self) -> Slot:
        return Slot(self._output("int64"))

    def _place(self) -> int:
        self._places += 1
        return self._places

    # --- what is read ---

    def value(self, avro: AvroType, plans: tuple[Plan, ...]) -> Node:
        """Code for one value. Without plans nobody wants it, but numbers and branches are read like all others."""
        plans = tuple(plan for plan in map(_bare, plans) if not isinstance(plan, Never))
        match avro.kind:
            case "null":
                return Nothing()
            case "int":
                return self._int(-(2**31), INT32_MAX)
            case "enum":
                return self._int(0, len(avro.symbols) - 1)
            case "long":
                return self._long()
            case "union":
                return self._union(avro, plans)
            case "record" if plans or not is_recursive(avro):
                return self._record(avro, plans)
        if plans:
            return self._wanted(avro, plans)
        self.emit(self.unwanted.skipped(avro))
        return Nothing()

    def _wanted(self, avro: AvroType, plans: tuple[Plan, ...]) -> Node:
        match avro.kind:
            case "boolean" | "float" | "double":
                return self._raw(avro.kind)
            case "bytes" | "string":
                return self._text()
            case "fixed":
                data = self._output("uint8")
                self.emit(f"{literal(avro.size)} data #B-> {data}")
                return Fixed(data, avro.size)
        return self._items(avro, plans)

    def _int(self, low: int, high: int) -> Number:
        slot = self.token()
        self.bounds[slot] = low, high
        return Number(slot)

    def _long(self) -> Number:
        place = self._place()
        wide = self._is_wide(place)
        slot = self._column() if wide else self.token()
        if wide:
            self.emit(f"wide {slot.output} <- stack")
        self.longs[place] = slot
        return Number(slot, wide)

    def _skipped_long(self) -> str:
        place = self._place()
        self.longs[place] = None
        return "wide drop" if self._is_wide(place) else "data zigzag-> stack drop"

    def _is_wide(self, place: int) -> bool:
        return self.assumed.wide is None or place in self.assumed.wide

    def _raw(self, kind: str) -> Raw:
        letter, dtype = _RAW[kind]
        data = self._output(dtype)
        if kind == "boolean":
            self.bounds[Slot(data)] = 0, 1
        self.emit(f"data {letter}-> {data}")
        return Raw(data)

    def _text(self) -> Text:
        lengths, data = self._column(), self._output("uint8")
        self.bounds[lengths] = 0, INT32_MAX
        self.emit(f"data zigzag-> stack dup {lengths.output} <- stack data #B-> {data}")
        return Text(lengths, data)

    def _record(self, avro: AvroType, plans: tuple[Plan, ...]) -> Row:
        wanted: dict[str, list[Plan]] = {}
        for plan in plans:
            for key, inner in plan.fields if isinstance(plan, Record) else ():
                wanted.setdefault(key, []).append(inner)
        keyed = ((f"f{place}", member.type) for place, member in enumerate(avro.fields))
        return Row({key: self.value(inner, tuple(wanted.get(key, ()))) for key, inner in keyed})

    def _union(self, avro: AvroType, plans: tuple[Plan, ...]) -> Node:
        kinds = [branch.kind for branch in avro.branches]
        if len(kinds) == 1 and kinds != ["null"]:
            tags = self.token()
            self.bounds[tags] = 0, 0
            return Optional(tags, 0, self.value(avro.branches[0], plans), dense=True)
        if avro.nullable and len(kinds) == 2:  # noqa: PLR2004 - null and another
            return self._optional(avro.nullable, 1 - kinds.index("null"), plans)
        return self._tagged(avro, plans)

    def _optional(self, avro: AvroType, present: int, plans: tuple[Plan, ...]) -> Optional:
        place = self._place()
        if place in self.assumed.dense:
            tags = self.token()
            self.bounds[tags] = present, present
            self.nullable[place] = tags, present
            return Optional(tags, present, self.value(avro, plans), dense=True)
        tags = self._column()
        self.bounds[tags] = 0, 1
        self.nullable[place] = tags, present
        inner, code = self._times(lambda: self.value(avro, plans), "if\n{}\nthen")
        one = "" if present else "0= "
        if not code.startswith("data #zigzag") and not code.startswith("if"):
            one += "1 and "  # whatever the tag is, it counts at most one
        elif not present:
            one += "negate "
        self.emit(f"data zigzag-> stack dup {tags.output} <- stack {one}{code}")
        return Optional(tags, present, inner, dense=False)

    def _tagged(self, avro: AvroType, plans: tuple[Plan, ...]) -> Union:
        tags = self._column()
        self.bounds[tags] = 0, len(avro.branches) - 1
        nodes, cases = [], []
        self.flush()
        for tag, branch in enumerate(avro.branches):
            wanted = [plan.plans[f"b{tag}"] for plan in plans if isinstance(plan, Branches) and f"b{tag}" in plan.plans]
            outer, self._code = self._code, []
            nodes.append(self.value(branch, tuple(wanted)))
            self.flush()
            code, self._code = self.taken(), outer
            cases.append(f"{tag} of {code} endof")
        self.emit(f"data zigzag-> stack dup {tags.output} <- stack case {' '.join(cases)} endcase")
        null = next((tag for tag, branch in enumerate(avro.branches) if branch.kind == "null"), -1)
        return Union(tags, tuple(nodes), null)

    def _items(self, avro: AvroType, plans: tuple[Plan, ...]) -> Items:
        counts = self._column()
        self.bounds[counts] = 0, INT32_MAX
        free = avro.kind == "array" and has_no_bytes(avro.element)
        guard = f"dup {MAX_FREE} > if halt then" if free else _GUARD
        node, code = self._times(lambda: self._entry(avro, plans), "0 do\n{}\nloop")
        self.emit(
            "0 begin data zigzag-> stack dup while\n"
            f"dup 0 < if negate {SIZE} drop then {guard} {self._metered(avro)} swap over + swap\n"
            f"{'drop' if free else code}\nrepeat drop {counts.output} <- stack"
        )
        return Items(counts, node, free)

    def _metered(self, avro: AvroType) -> str:
        """Take the room for as many items as the stack says."""
        if self.assumed.room is None:
            return ""
        each = scanned_bytes(avro.element) + (NUMBER if avro.kind == "map" else 0)
        return f"dup {each} * negate {ROOM} +! {ROOM} @ 0 < if halt then"

    def _entry(self, avro: AvroType, plans: tuple[Plan, ...]) -> Node:
        inner = tuple(inner for plan in plans for inner in _item_plans(plan))
        if avro.kind == "array":
            return self.value(avro.element, inner)
        key = self._text()
        return Row({"key": key, "value": self.value(avro.element, inner)})

    def _times(self, read: Callable[[], Node], wrapped: str) -> tuple[Node, str]:
        """What `read` reads, as often as the number on the stack says, which is popped; `wrapped` is how in general."""
        self.flush()
        outer, self._code = self._code, []
        node = read()
        if self._run and not self._code:
            name, size = self._ended()
            code = f"data #zigzag-> {name}" if size == 1 else f"{size} * data #zigzag-> {name}"
        elif isinstance(node, Raw):
            code = self.taken().replace("data ", "data #")
        else:
            self.flush()
            inner = self.taken()
            code = wrapped.format(inner) if inner else "drop"
        self._code = outer
        return node, code


def _bare(plan: Plan) -> Plan:
    """The plan for values that are not null."""
    while isinstance(plan, Present | Member):
        plan = plan.plan
    return plan


def _item_plans(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Listed():
            return (plan.item,)
        case Mapped():
            return (plan.value,)
        case Paired():
            return (plan.entry,)
    return ()
