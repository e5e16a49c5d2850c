"""A clock for commands that wait again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.clock import ManualClock

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
