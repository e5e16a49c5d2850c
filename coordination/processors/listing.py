"""The tasks of a job, as the user lists them: a list, or a function, which may take long, fail, or hang."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from coordination.names import check_tasks, tasks_digest
from foundation.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coordination.processors.coordinator_state import ProcessorRow
    from coordination.processors.job_model import PublishedModel
    from coordination.waits import Waits

TaskSource: TypeAlias = "Sequence[str] | Callable[[], Sequence[str]]"
logger = logging.getLogger("coordination")


class TaskLister:
    """Calls the function of tasks in a thread that does nothing else; the polls of a leader look at its last answer.

    job: the leased blob, for messages.
    """

    def __init__(self, source: TaskSource, waits: Waits, job: str) -> None:
        self._source, self._waits, self._job = source, waits, job
        self._fixed = None if callable(source) else check_tasks(source)
        self.digest: str = tasks_digest(self._fixed) if self._fixed else ""
        """Of the list, by which processors compare theirs; empty if it is a function."""
        self._last: tuple[int, tuple[str, ...] | Exception] | None = None
        self._differing: frozenset[str] = frozenset()

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

    def tasks(self, epoch: int, published: PublishedModel | None) -> tuple[str, ...] | None:
        """All tasks, for the leader of this epoch; None if they are not known.

        They are those of the model if the function fails, or has not answered. `ConfigurationError` if it fails before
        there is a model, unless storage gave it no answer.
        """
        answer = self._fixed if self._last is None or self._last[0] != epoch else self._last[1]
        if isinstance(answer, tuple):
            return answer
        model = None if published is None else tuple(published.current.tasks)
        if answer is None:
            return model
        step = "Mend the function that is given as tasks: it returns a list of names."
        error = ConfigurationError("list the tasks of", self._job, str(answer) or repr(answer), step)
        if model is not None:
            logger.error("%s The tasks stay as they are.", error)
        elif isinstance(answer, TransientError):
            raise answer
        else:
            raise error from answer
        return model

    def compare(self, rows: Iterable[ProcessorRow], leader: str) -> None:
        """Log which processors have another list than the leader, once for each."""
        differing = frozenset(
            row.processor for row in rows if self.digest and row.stated.tasks not in ("", self.digest)
        )
        if differing - self._differing:
            logger.warning(
                "the list of tasks of %s is not that of %s, which leads %s: the tasks of the leader's list run. Give "
                "all processors of the job the same list.",
                ", ".join(sorted(differing)), leader, self._job,
            )  # fmt: skip
        self._differing = differing
