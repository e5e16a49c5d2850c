"""The console of the command line. Streams hold text that others wrote: it is shown as it is, and commands nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console

from azureblob_source.cli.as_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment


class PlainConsole(Console):
    """Prints square brackets as brackets, and control characters as escapes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, with the control characters that are left in texts escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
