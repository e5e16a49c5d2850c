"""Epochs: a writer of a lower epoch than the stream's is refused, and so is one that carries none (decision 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.values import BlobAttributes
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.log.publishing.publish import Publisher

NOTHING = "Nothing of this batch was published."
AT_LEAST_ONCE = "What its tasks have published stays visible in the listing, and is in no version (at-least-once)."
IN_PART = "The batch is committed for many streams; its repeat publishes what other streams lack of it."


def check_epoch(log: CommitLog, head: LogEntry | None, epoch: int | None, outcome: str = NOTHING) -> None:
    """`FencedError` if the stream's head is at a higher epoch. `outcome`: which of the writer's rows are visible."""
    if head is None or head.epoch is None or (epoch is not None and epoch >= head.epoch):
        return
    own = "carries none" if epoch is None else f"has epoch {epoch}"
    cause = f"the stream is at epoch {head.epoch} (version {head.version} of its log), this writer {own}"
    step = f"Another writer has taken over: stop this one. {outcome}"
    raise FencedError("commit to", log.place, cause, step)


def publish_unless_fenced(
    log_of: Callable[[str], CommitLog], publisher: Publisher, attributes: BlobAttributes, epoch: int | None
) -> Callable[[BlobEntry], object]:
    """What a task with `at-least-once` calls for each finished blob: it reads the head of the stream's log first.

    A blob that cannot be published is left to the driver, whose commit publishes it or fails.
    """

    def publish(blob: BlobEntry) -> None:
        log = log_of(blob.stream)
        head = log.refresh()
        check_epoch(log, head, epoch, "What this task has published before stays visible (at-least-once).")
        publisher.admit(blob.stream, head, [blob.schema])
        publisher.publish_blob(blob, attributes)

    return publish
