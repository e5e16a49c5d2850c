"""The driver's time to commit a batch of many blobs, beside what the same blobs cost without a protocol.

The floor is one `Put Block List` per blob by as many threads; what lies between is the log entry, the check of the
batch's transaction, the writer schema.
"""

from __future__ import annotations

import itertools
import statistics
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from azure_account import BlobAttributes
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.write.batch import BatchCommitter
from benchmarks.emulator import drop
from benchmarks.flights import PARTITION, repeated, spread
from benchmarks.report import Report
from benchmarks.rounds import alternate, seconds
from benchmarks.writer import open_container, plan_of, stage_batches
from tools.azurite import running_azurite
from tools.flights import flights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account import BlobContainer
    from azureblob_source.write.planning import WritePlan
    from azureblob_source.write.staged_task import StagedTask
    from tools.azurite import Azurite

BLOBS = 1_000
OURS = "commit"
FLOOR = "block lists alone"

Commit = "Callable[[WritePlan, BlobContainer, StagedTask], None]"


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - each blob has ten rows, however many there are
    """One table: the commit and its floor."""
    with running_azurite() as azurite:
        containers = (f"commit-{number}" for number in itertools.count())

        def staged_then(act: Callable[[WritePlan, BlobContainer, StagedTask], None]) -> Callable[[], float]:
            return lambda: _timed(azurite, next(containers), act)

        contenders = {
            OURS: staged_then(_commit),
            FLOOR: staged_then(_block_lists),
            "block lists, one by one": staged_then(_one_by_one),
        }
        taken = alternate("commit", contenders, rounds)
    floor = statistics.median(taken[FLOOR])
    lines = [_line(name, each, floor) for name, each in taken.items()]
    return [Report(f"Driver's time to commit {BLOBS:,} blobs", lines, f"{Publisher.threads} threads, but one by one")]


def _timed(azurite: Azurite, container_name: str, act: Callable[[WritePlan, BlobContainer, StagedTask], None]) -> float:
    """Seconds of `act` on a batch that was staged into a container of its own."""
    rows = spread(flights().slice(0, 10 * BLOBS), BLOBS)
    options = {"path": f"{container_name}/flights", "partitionColumn": PARTITION}
    plan = plan_of(azurite.connection_string, options, rows.schema)
    container = open_container(plan)
    container.create()
    staged = stage_batches(plan, repeated(rows, 1))
    if len(staged.blobs) != BLOBS:
        raise AssertionError(f"{len(staged.blobs)} blobs were staged, not {BLOBS}.")
    taken = seconds(lambda: act(plan, container, staged))
    drop(azurite, container_name)
    return taken


def _commit(plan: WritePlan, container: BlobContainer, staged: StagedTask) -> None:
    def log_of(stream: str) -> CommitLog:
        return CommitLog(container, stream)

    committer = BatchCommitter(plan.of_commit, container, log_of, lambda: uuid.uuid4().hex)
    committer.commit([staged], Transaction("query", 0))


def _block_lists(plan: WritePlan, container: BlobContainer, staged: StagedTask) -> None:  # noqa: ARG001
    with ThreadPoolExecutor(Publisher.threads) as pool:
        for _ in pool.map(lambda blob: _block_list(container, blob.name, blob.block_ids), staged.blobs):
            pass


def _one_by_one(plan: WritePlan, container: BlobContainer, staged: StagedTask) -> None:  # noqa: ARG001
    for blob in staged.blobs:
        _block_list(container, blob.name, blob.block_ids)


def _block_list(container: BlobContainer, blob: str, ids: Sequence[str]) -> None:
    container.commit_block_list(blob, ids, BlobAttributes())


def _line(name: str, taken: Sequence[float], floor: float) -> dict[str, str | float]:
    median = statistics.median(taken)
    return {"path": name, "seconds": median, "blobs/s": BLOBS / median, f"x {FLOOR}": median / floor}
