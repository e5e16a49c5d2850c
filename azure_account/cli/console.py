"""The console of a command line. Storage holds text that others wrote: it is shown as it is, and commands nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment

_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with control characters as escapes: what others wrote cannot steer the terminal.

    So are the lone surrogates that stand for bytes of file names which are no UTF-8: a terminal could not show them.
    """
    return _CONTROL_CHARACTER.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - the codes of one byte


class PlainConsole(Console):
    """Prints square brackets as brackets, and control characters as escapes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, with the control characters that are left in texts escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
