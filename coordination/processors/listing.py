"""The tasks of a job, as the user lists them: a list, or a function, which may take long, fail, or hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from coordination.names import check_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordination.waits import Waits

TaskSource: TypeAlias = "Sequence[str] | Callable[[], Sequence[str]]"


class TaskLister:
    """Calls the function of tasks in a thread that does nothing else; the polls of a leader look at its last answer."""

    def __init__(self, source: TaskSource, waits: Waits) -> None:
        self._source, self._waits = source, waits
        self._fixed = None if callable(source) else check_tasks(source)
        self._last: tuple[int, tuple[str, ...] | Exception] | None = None

    def ask(self, epoch: int) -> None:
        """Call the function, for the leader of this epoch."""
        if not callable(self._source):
            return
        try:
            with self._waits.on("the function of tasks"):
                self._last = epoch, check_tasks(self._source())
        except Exception as error:  # noqa: BLE001 - the leader reports it
            self._last = epoch, error
        except BaseException as error:  # noqa: BLE001 - such as SystemExit, which would end this thread in silence
            self._last = epoch, RuntimeError(f"it has ended with {error!r}")

    def answer(self, epoch: int) -> tuple[str, ...] | Exception | None:
        """The last answer to the leader of this epoch, or what the function has raised; None if there was none yet."""
        if self._fixed is not None:
            return self._fixed
        return self._last[1] if self._last is not None and self._last[0] == epoch else None
