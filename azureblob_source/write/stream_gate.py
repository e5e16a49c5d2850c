"""Refuses what would make a stream unreadable: before a block is staged for it, and when its entry is put.

Two writers may each fit the schemas that they have seen, and not each other. So the decision is made once more for
every head that an entry is to follow: the put succeeds only if that is still the head.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azureblob_source.log.commit_log import adoption_error
from azureblob_source.log.publishing.fencing import AT_LEAST_ONCE, NOTHING
from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry, Transaction
    from azureblob_source.write.commit_plan import CommitPlan


@dataclass(frozen=True)
class StreamGate:
    """Compares a write with the streams that it goes to. `logs` gives the process's one `CommitLog` of a stream."""

    plan: CommitPlan
    logs: Callable[[str], CommitLog]

    def check(self, stream: str, *, overwrite: bool = False) -> None:
        """`ConfigurationError` if rows of this write cannot go to the stream as it is now.

        An overwrite replaces all rows, so their schemas do not count. No request is made if the process knows that the
        stream has the schema.
        """
        log = self.logs(stream)
        head = log.head()
        if head is not None and not overwrite and self.plan.schema not in head.live_schemas:
            head = log.refresh()
        if head is None:
            log.check_no_files(own_are_right=self.plan.at_least_once)
        elif head.adopts:
            raise adoption_error(log, "append", head)
        elif not overwrite:
            self.admit(stream, head, [self.plan.schema])

    def admit(
        self, stream: str, head: LogEntry | None, added: Iterable[str], *, part_of: Transaction | None = None
    ) -> None:
        """`ConfigurationError` if rows of the schemas `added` cannot follow `head`. No request for those it names.

        part_of: the batch over many streams, if it is committed and other streams have their rows.
        """
        known = [] if head is None else list(head.live_schemas)
        for fingerprint in dict.fromkeys(added):
            if known and fingerprint not in known:
                self._compare(stream, known, fingerprint, part_of)
            known.append(fingerprint)

    def _compare(self, stream: str, known: list[str], added: str, part_of: Transaction | None) -> None:
        from azureblob_source.write.schema_evolution import (  # noqa: PLC0415 - few writes have a schema that is new
            refusal,
        )

        log = self.logs(stream)
        log.notes.schema_texts.setdefault(self.plan.schema, self.plan.schema_json)
        there, written = [], log.writer_schema(added)
        for each in known:
            try:
                there.append(log.writer_schema(each))
            except NotFoundError:  # deleted by hand: the next writer of such rows stores it again
                continue
        refused = refusal(there, written, fixed=self.plan.fixed_schema) if there else None
        if refused is None:
            return
        step = f"{refused.next_step} {AT_LEAST_ONCE if self.plan.at_least_once else NOTHING}"
        if part_of is not None:
            step = (
                "The batch is committed, and its other streams have their rows. Take it back by "
                f"{self.revert_command(stream, part_of)}, correct the query, and start it again."
            )
        raise ConfigurationError("write to", log.place, refused.cause, step)

    def revert_command(self, stream: str, batch: Transaction) -> str:
        """The command that takes a batch and later ones of its query back."""
        place = shlex.quote(f"{self.plan.address.container}/{stream}")
        epoch = "" if self.plan.epoch is None else f" -o epoch={self.plan.epoch}"
        return f"`python -m azureblob_source revert {place} --query {batch.id} --after {batch.version - 1}{epoch}`"
