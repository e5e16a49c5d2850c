"""Renders programs as text for the Forth machine of awkward-cpp. Pure.

The machine reads the input `data` once, from left to right, and appends to typed outputs. The words used here:

    data zigzag-> stack    read a varint and push it; `-> l1` appends it to output l1 instead
    data #zigzag-> l1      pop a count and read as many; the same for `B->` (bytes), `f->` and `d->` (floats)
    l1 <- stack            pop a number and append it to output l1
    dup drop swap over     order the stack; `if … then`, `case 0 of … endof endcase`, `while` pop what they test
    k 0 do … loop          do it k times
    data skip, halt        step over as many bytes as the stack says; stop with an error

A program must end soon and within bounds of memory whatever bytes it reads. So it checks itself what would move it
back, make it loop for long or overflow its memory: lengths and counts of items. Numbers that it keeps are checked after
the run.

The row of `plan` is read by this text:

    data zigzag-> w0
    data zigzag-> stack dup w1 <- stack data #B-> b0
    data zigzag-> stack dup b1 <- stack if data zigzag-> l0 then
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrow_avro.decoding.program import BYTES, INT32_MAX, LONGS, MAX_EMPTY_ITEMS, WORDS

if TYPE_CHECKING:
    from arrow_avro.decoding.program import Code, Instruction, Program

BUDGET = "budget"
"""The variable from which the bytes of items are subtracted, if they are limited. Below zero they took too many."""

_LETTERS = {"boolean": "B", "float": "f", "double": "d"}
_KINDS = {"boolean": BYTES, "float": WORDS, "double": LONGS}
_SIZE = "data zigzag-> stack dup 0 < if halt then"  # pushes a length; `skip` would go back by a negative one
_BYTES_LEFT = "dup data len data pos - > if halt then"
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


class ForthText:
    """The text of a program, and what the numbers that it keeps must be.

    wide: longs have up to ten bytes, and are kept as zig-zagged 64 bits; else they have nine, as `zigzag->` reads them,
    some ten times faster. budget: bytes that all items of arrays and maps may take; if None, they are not counted.

    bounds: of numbers, by output. tags: the branch that is not null, by the output of a nullable value, which has the
    branches. texts: outputs of lengths. longs: outputs of longs.
    """

    def __init__(self, program: Program, *, wide: bool, budget: int | None) -> None:
        self.bounds: dict[str, tuple[int, int]] = {}
        self.tags: dict[str, int] = {}
        self.texts: list[str] = []
        self.longs: list[str] = []
        self._wide, self._budget = wide, budget
        code = self._reads(program.code)
        self.text: str = "\n".join(
            [
                "input data",
                "input counts",
                "output ends int64",
                *(f"output {name} {self._type(name, dtype)}" for name, dtype in program.dtypes.items()),
                _WIDE,
                *([f": skip-record case {self._cases(program.records)} endcase ;"] if program.records else []),
                *([] if budget is None else [f"variable {BUDGET} {budget} {BUDGET} !"]),
                "begin counts end 0= while counts q-> stack 0 do",  # how many datums to read at a time
                code,
                "loop data pos ends <- stack repeat",  # where each time ends
            ]
        )

    def _type(self, name: str, dtype: str) -> str:
        """Numbers have 64 bits until they are checked."""
        return "int64" if dtype == "int32" or name in self.tags else dtype

    def _bounded(self, kind: str, number: int, low: int, high: int) -> str:
        name = f"{kind}{number}"
        self.bounds[name] = low, high
        return name

    def _reads(self, code: Code) -> str:
        return "\n".join(map(self._read, code))

    def _read(self, instruction: Instruction) -> str:
        match instruction:
            case ("int", words, low, high):
                return f"data zigzag-> {self._bounded(WORDS, words, low, high)}"
            case ("long", number):
                return self._long(f"{LONGS}{number}")
            case ("boolean" | "float" | "double" as kind, number):
                return f"data {_LETTERS[kind]}-> {self._primitive(kind, number)}"
            case ("fixed", data, size):
                return f"{_literal(size)} data #B-> {BYTES}{data}"
            case ("text", words, data):
                name = self._bounded(WORDS, words, 0, INT32_MAX)
                self.texts.append(name)
                return f"data zigzag-> stack dup {name} <- stack data #B-> {BYTES}{data}"
            case ("nullable", valid, tag, value):
                name = self._bounded(BYTES, valid, 0, 1)
                self.tags[name] = tag
                return f"data zigzag-> stack dup {name} <- stack {'' if tag else '0= '}if {self._reads(value)} then"
            case ("union", tags, branches):
                name = self._bounded(LONGS, tags, 0, len(branches) - 1)
                cases = " ".join(f"{tag} of {self._reads(branch)} endof" for tag, branch in enumerate(branches))
                return f"data zigzag-> stack dup {name} <- stack case {cases} endcase"
            case ("items", counts, item, _, item_bytes):
                return self._items(self._bounded(LONGS, counts, 0, INT32_MAX), item, item_bytes)
            case ("unwanted", skips):
                return self._skips(skips)
        raise TypeError(f"{instruction} reads nothing")

    def _long(self, name: str) -> str:
        self.longs.append(name)
        return f"wide {name} <- stack" if self._wide else f"data zigzag-> {name}"

    def _primitive(self, kind: str, number: int) -> str:
        return self._bounded(BYTES, number, 0, 1) if kind == "boolean" else f"{_KINDS[kind]}{number}"

    def _items(self, counts: str, item: Code, item_bytes: int) -> str:
        """Reads blocks of items until one has none. The stack has the number of all items below that of the block's."""
        limit = _BYTES_LEFT if item else f"dup {MAX_EMPTY_ITEMS} > if halt then"
        counted = f"dup {item_bytes} * negate {BUDGET} +! {BUDGET} @ 0 < if halt then"
        return (
            "0 begin data zigzag-> stack dup while\n"
            f"dup 0 < if negate {_SIZE} drop then {limit} {'' if self._budget is None else counted} swap over + swap\n"
            f"{self._each(item)}\n"
            f"repeat drop {counts} <- stack"
        )

    def _each(self, item: Code) -> str:
        """Reads as many values as the stack says, by one word of the machine if it has one."""
        match item:
            case ():
                return "drop"
            case (("boolean" | "float" | "double" as kind, number),):
                return f"data #{_LETTERS[kind]}-> {self._primitive(kind, number)}"
            case (("int" | "long", *_),) if not self._wide:
                return self._read(item[0]).replace("zigzag", "#zigzag")
        return f"0 do {self._reads(item)} loop"

    def _skips(self, code: Code) -> str:
        return "\n".join(map(self._skip, code))

    def _skip(self, instruction: Instruction) -> str:
        match instruction:
            case ("within", low, high):
                return f"data zigzag-> stack dup {low} < if halt then {high} > if halt then"
            case ("long",):
                return "wide drop" if self._wide else "data zigzag-> stack drop"
            case ("fixed", size):
                return f"{_literal(size)} data skip"
            case ("text",):
                return f"{_SIZE} data skip"
            case ("nullable", present, step):
                branches = ((), (step,)) if present else ((step,), ())
                return f"data zigzag-> stack case {self._cases(branches)} halt endcase"
            case ("union", ()):
                return "halt"
            case ("union", branches):
                return f"data zigzag-> stack case {self._cases(branches)} halt endcase"
            case ("items", item):
                loop = f"0 do {self._skips(item)} loop" if item else "drop"
                # A negative count says that the size of the block follows.
                sized = f"dup 0 < if drop {_SIZE} data skip else {loop} then"
                return f"begin data zigzag-> stack dup while {sized} repeat drop"
            case ("record", number):
                return f"{number} skip-record"
        raise TypeError(f"{instruction} steps over nothing")

    def _cases(self, branches: tuple[Code, ...]) -> str:
        return " ".join(f"{tag} of {self._skips(branch)} endof" for tag, branch in enumerate(branches))


def _literal(size: int) -> int:
    """A size as the machine can hold it in its code. No body has more bytes than that."""
    return min(max(size, 0), INT32_MAX)
