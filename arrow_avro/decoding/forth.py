"""Renders programs as text for the Forth machine of awkward-cpp. Pure.

The machine reads the input `data` once, from left to right, and appends to typed outputs. The words used here:

    data zigzag-> stack    read a varint and push it; `-> n1` appends it to output n1 instead
    data #zigzag-> n1      pop a count and read as many; the same for `B->` (bytes), `f->` and `d->` (floats)
    n1 <- stack            pop a number and append it to output n1
    dup drop swap over     order the stack; `if … then`, `case 0 of … endof endcase`, `while` pop what they test
    k 0 do … loop          do it k times
    data skip, halt        step over as many bytes as the stack says; stop with an error

An instruction of the machine costs some 8 ns, whatever it does. So values that may be repeated (items, and a nullable
value, which comes 0 or 1 times) are read by a counted word (`#zigzag->`) rather than a loop or an `if` where there is
one.

The row of `plan` is read by this text. Its score has tag 0, so the last word reads 0 varints.

    data zigzag-> n0
    data zigzag-> stack dup n1 <- stack data #B-> n2
    data zigzag-> stack dup n3 <- stack data #zigzag-> n4
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from arrow_avro.decoding.instructions import (
    MAX_EMPTY_ITEMS,
    ReadFixed,
    ReadItems,
    ReadNullable,
    ReadPrimitive,
    ReadText,
    ReadUnion,
    ReadVarints,
    ReadWideLong,
    SkipFixed,
    SkipInstruction,
    SkipItems,
    SkipRecord,
    SkipText,
    SkipUnion,
    SkipVarint,
    SkipWideLong,
)
from arrow_avro.decoding.layout import INT32_MAX

if TYPE_CHECKING:
    from arrow_avro.decoding.instructions import Code, ReadInstruction
    from arrow_avro.decoding.layout import Program

BUDGET = "budget"
"""The variable from which the bytes of items are subtracted, if they are limited. Below zero they took too many."""

_LETTERS = {"boolean": "B", "float": "f", "double": "d"}
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


def rendered(program: Program) -> str:
    """The program's text.

    Its input `counts` says how many datums to read at a time; output `ends` gets the position after each time.
    """
    budget = program.assumed.budget
    return "\n".join(
        [
            "input data",
            "input counts",
            "output ends int64",
            *(f"output {name} {dtype}" for name, dtype in program.outputs.items()),
            _WIDE,
            *([f": skip-record case {_cases(program.records)} endcase ;"] if program.records else []),
            *([] if budget is None else [f"variable {BUDGET} {budget} {BUDGET} !"]),
            "begin counts end 0= while counts q-> stack 0 do",
            _text(program.code),
            "loop data pos ends <- stack repeat",
        ]
    )


def _text(code: Code) -> str:
    return "\n".join(_skip(one) if isinstance(one, SkipInstruction) else _read(one) for one in code)


def _cases(branches: tuple[Code, ...]) -> str:
    return " ".join(f"{tag} of {_text(branch)} endof" for tag, branch in enumerate(branches))


def _read(instruction: ReadInstruction) -> str:
    match instruction:
        case ReadVarints(output, 1):
            return f"data zigzag-> {output}"
        case ReadVarints(output, count):
            return f"{count} data #zigzag-> {output}"
        case ReadWideLong(output):
            return f"wide {output} <- stack"
        case ReadPrimitive(output, kind):
            return f"data {_LETTERS[kind]}-> {output}"
        case ReadFixed(output, size):
            return f"{_literal(size)} data #B-> {output}"
        case ReadText(lengths, data):
            return f"data zigzag-> stack dup {lengths} <- stack data #B-> {data}"
        case ReadNullable(tags, present, value):
            return f"data zigzag-> stack dup {tags} <- stack {_nullable(present, value)}"
        case ReadUnion(tags, branches):
            return f"data zigzag-> stack dup {tags} <- stack case {_cases(branches)} endcase"
        case ReadItems():
            return _items(instruction)
        case _:
            assert_never(instruction)


def _skip(instruction: SkipInstruction) -> str:
    match instruction:
        case SkipVarint():
            return "data zigzag-> stack drop"
        case SkipWideLong():
            return "wide drop"
        case SkipFixed(size):
            return f"{_literal(size)} data skip"
        case SkipText():
            return f"{_SIZE} data skip"
        case SkipUnion(()):
            return "halt"
        case SkipUnion(branches):
            return f"data zigzag-> stack case {_cases(branches)} halt endcase"
        case SkipItems(item):
            loop = f"0 do {_text(item)} loop" if item else "drop"
            # A negative count says that the size of the block follows.
            return f"begin data zigzag-> stack dup while dup 0 < if drop {_SIZE} data skip else {loop} then repeat drop"
        case SkipRecord(number):
            return f"{number} skip-record"
        case _:
            assert_never(instruction)


def _nullable(present: int, value: Code) -> str:
    """Reads the value as often as the tag on the stack says, 0 or 1 times.

    `0=` gives -1 for a tag of 0. A run or a primitive is read at most once, whatever the tag is. A single varint is
    read as often as the tag says, which cannot be more often than there are bytes. Wrong tags are found after the run.
    """
    counted = _counted(value)
    if counted is None:
        return f"{'' if present else '0= '}if\n{_text(value)}\nthen"
    match value:
        case (ReadVarints(count=1),):
            return counted if present else f"0= negate {counted}"
    return f"{'' if present else '0= '}1 and {counted}"


def _items(array: ReadItems) -> str:
    """Reads blocks of items until one has none. The stack has the number of all items below that of the block's."""
    limit = _BYTES_LEFT if array.item else f"dup {MAX_EMPTY_ITEMS} > if halt then"
    each = array.item_bytes
    budget = "" if each is None else f"dup {each} * negate {BUDGET} +! {BUDGET} @ 0 < if halt then"
    times = _counted(array.item) or f"0 do\n{_text(array.item)}\nloop"
    return (
        "0 begin data zigzag-> stack dup while\n"
        f"dup 0 < if negate {_SIZE} drop then {limit} {budget} swap over + swap\n"
        f"{times}\n"
        f"repeat drop {array.counts} <- stack"
    )


def _counted(code: Code) -> str | None:
    """Reads as many values as the stack says, if the machine has a word for that."""
    match code:
        case ():
            return "drop"
        case (ReadVarints(output, 1),):
            return f"data #zigzag-> {output}"
        case (ReadVarints(output, count),):
            return f"{count} * data #zigzag-> {output}"
        case (ReadPrimitive(output, kind),):
            return f"data #{_LETTERS[kind]}-> {output}"
    return None


def _literal(size: int) -> int:
    """A size as the machine can hold it in its code. No body has more bytes than that."""
    return min(max(size, 0), INT32_MAX)
