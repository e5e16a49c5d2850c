"""Clocks for what waits again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable


class ScriptedClock(ManualClock):
    """Calls one of `acts` at each sleep, then ends the command with Ctrl-C."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        super().__init__()
        self.acts = list(acts)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if not self.acts:
            raise KeyboardInterrupt
        self.acts.pop(0)()


class ActingClock(ManualClock):
    """Calls `act` with the seconds of each sleep."""

    def __init__(self, act: Callable[[float], object]) -> None:
        super().__init__()
        self.act = act

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.act(seconds)
