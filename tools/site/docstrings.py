"""The house's docstrings as reStructuredText, so that Sphinx shows parameters, errors and code as what they are.

    text of a docstring, names of parameters ─► paragraphs ─► text, code, `name: meaning`, `SomeError` if … ─► lines

A docstring is Markdown in small: `code` in single backticks, blocks of code in fences or indented by four spaces,
paragraphs of lines `name: meaning` for parameters or fields, and sentences that begin with an error. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

ITEM = re.compile(r"(?:^|(?<=[.;] ))(\w+(?:, \w+)*): ", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
RAISED = re.compile(r"(?:^|(?<=[.;] )|(?<=, ))(?:Raises )?(?=`?\w+Error`?(?:,? (?!is\b|of\b|that\b|and\b)))")
ERROR = re.compile(r"`?(\w+Error)`?,? (.*)", re.DOTALL)
TABLE = re.compile(r"\S {2,}\S|[─►┐┘]")

Kind = Literal["text", "code", "item", "error"]


@dataclass(frozen=True)
class Part:
    """A piece of a docstring. name: of an item, or the error's."""

    kind: Kind
    text: str
    name: str = ""


@dataclass
class _Paragraph:
    lines: list[str] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether a fence has begun and not ended."""
        return sum(line.startswith("```") for line in self.lines) == 1

    @property
    def is_code(self) -> bool:
        return all(line.startswith("    ") for line in self.lines)

    @property
    def is_fence(self) -> bool:
        return self.lines[0].startswith("```")

    @property
    def is_table(self) -> bool:
        return len(self.lines) > 1 and sum(bool(TABLE.search(line)) for line in self.lines) > len(self.lines) / 2


def parts(text: str, names: Collection[str] = ()) -> list[Part]:
    """The pieces of a docstring in their order. names: of parameters or fields: other words with a colon are text."""
    found: list[Part] = []
    for paragraph in _paragraphs(text):
        if paragraph.is_fence:
            found.append(Part("code", "\n".join(paragraph.lines[1:-1])))
        elif paragraph.is_code or paragraph.is_table:
            found.append(Part("code", "\n".join(paragraph.lines)))
        else:
            found += _items("\n".join(paragraph.lines), names)
    return found


def rest(text: str, names: Collection[str] = (), *, fields: Callable[[Part], list[str]] | None = None) -> list[str]:
    """The lines in reStructuredText. fields: how an item is written; by default as a parameter.

    Items and errors come after the text, as Sphinx has them in one list.
    """
    found = parts(text, names)
    lines: list[str] = []
    for part in found:
        if part.kind == "code":
            lines += ["::", "", *(f"    {line}" for line in part.text.split("\n")), ""]
        elif part.kind == "text":
            lines += [with_code(part.text), ""]
    for part in found:
        if part.kind == "item":
            lines += (fields or _parameter)(part)
    lines += [f":raises {part.name}: {with_code(part.text)}" for part in found if part.kind == "error"]
    return [*lines, ""]


def with_code(text: str) -> str:
    """Text whose single backticks are the role that links names, and whose other markup is taken as it is."""
    pieces = CODE.split(text)
    return "".join(
        f":py:obj:`{piece}`" if at % 2 and piece.isidentifier() else f"``{piece}``" if at % 2 else _escaped(piece)
        for at, piece in enumerate(pieces)
    )


def _escaped(text: str) -> str:
    return re.sub(r"([\\*`|]|(?<=\w)_(?!\w))", r"\\\1", text)


def _parameter(part: Part) -> list[str]:
    return [f":param {part.name}: {with_code(part.text)}"]


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    paragraph = _Paragraph()
    for line in [*text.expandtabs().split("\n"), ""]:
        if line.strip() or paragraph.is_open:
            paragraph.lines.append(line.rstrip())
        elif paragraph.lines:
            yield paragraph
            paragraph = _Paragraph()


def _items(text: str, names: Collection[str]) -> Iterator[Part]:
    """The sentences of a paragraph before its first item, and its items. An item goes on until the next one."""
    starts = [match for match in ITEM.finditer(text) if set(match[1].split(", ")) <= set(names)]
    ends = [match.start() for match in starts] + [len(text)]
    yield from _sentences(_one_line(text[: ends[0]]))
    for match, end in zip(starts, ends[1:], strict=True):
        meaning = _one_line(text[match.end() : end])
        yield from (Part("item", meaning, name) for name in match[1].split(", "))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _sentences(text: str) -> Iterator[Part]:
    """Text, and from each sentence that begins with an error on: what the error means."""
    before, *errors = RAISED.split(text)
    if before.strip():
        yield Part("text", _sentence(before) if errors else before.strip())
    for name, meaning in (match.groups() for match in map(ERROR.match, errors) if match):
        yield Part("error", _sentence(meaning), name)


def _sentence(text: str) -> str:
    text = text.strip().rstrip(",;")
    return text if text.endswith((".", ":")) else f"{text}."
