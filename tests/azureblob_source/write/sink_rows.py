"""Set-up of the sink's tests: plans from options, tasks with fixed time and names, drivers, and blobs read back."""

from __future__ import annotations

import gzip
import io
import random
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import ProcessDied
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft
from azureblob_source.log.naming import schema_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import WritePlan, plan_for_rows
from azureblob_source.write.staged_task import StagedTask
from azureblob_source.write.staging import StreamCalls, stage
from foundation.clock import SYSTEM_CLOCK, Clock, ManualClock
from foundation.errors import AzureBlobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from azure_account.container import BlobContainer
    from azureblob_source.log.entry import BlobEntry

ACCOUNT = {"accountName": "memory", "accountKey": "a2V5"}
NOON = datetime(2013, 1, 31, 12, 0, 5, tzinfo=UTC)


def plan_of(schema: pa.Schema, path: str = "container/flights", **given: Any) -> WritePlan:
    """A validated plan; the dots of an option's name are written as `__`."""
    raw = {name.replace("__", "."): str(value) for name, value in given.items()}
    return plan_for_rows(sink_options({"path": path, **ACCOUNT, **raw}, {}), schema)


def new_account() -> MemoryAccount:
    """An account with the container `container`."""
    account = MemoryAccount()
    account.container("container").create()
    return account


def stage_rows(
    container: BlobContainer,
    plan: WritePlan,
    batches: Iterable[pa.RecordBatch],
    *,
    seed: int = 0,
    publish: Callable[[BlobEntry], object] | None = None,
) -> StagedTask:
    """One task. Each blob is opened a second after the one before."""
    return stage(
        batches,
        plan,
        container,
        names=BlobIds(random.Random(seed).randbytes, suffixed=plan.options.random_suffix),
        clock=_SecondForEachBlob(),
        calls=StreamCalls(publish=publish),
    )


class _SecondForEachBlob(ManualClock):
    """A blob asks once for the time, and its age does not change."""

    def __init__(self) -> None:
        super().__init__(NOON.timestamp() - 1)

    def now(self) -> float:
        self.advance(1)
        return super().now()

    def monotonic(self) -> float:
        return 0.0


def committer(container: BlobContainer, plan: WritePlan, seed: int = 0, clock: Clock = SYSTEM_CLOCK) -> BatchCommitter:
    """A driver process."""
    logs: dict[str, CommitLog] = {}
    ids = random.Random(seed)
    return BatchCommitter(
        plan.of_commit,
        container,
        lambda stream: logs.setdefault(stream, CommitLog(container, stream, readers=1, clock=clock)),
        lambda: f"{ids.getrandbits(64):016x}",
        ManualClock(NOON.timestamp()),
    )


def put_anyway(container: BlobContainer, plan: WritePlan, batch: pa.RecordBatch, seed: int = 99) -> None:
    """Commit rows that the writer would refuse, as a program does that does not look at the stream."""
    staged, stream = stage_rows(container, plan, [batch], seed=seed), plan.options.router.stream or ""
    container.put(schema_name(stream, plan.avro.fingerprint), plan.avro.json.encode())
    draft = Draft(f"anyway{seed}", "2013-01-31T12:00:05+00:00", blobs=staged.blobs)
    commit_and_publish(CommitLog(container, stream, readers=1), draft, Publisher(container))


def survives(run: Callable[[int], object]) -> bool:
    """Whether a process lives to the end of its batch; after an error it repeats the batch. `run` gets the repeat."""
    for repeat in range(4):
        try:
            run(repeat)
        except ProcessDied:
            return False
        except AzureBlobError:
            continue
        return True
    pytest.fail("the batch fails again and again")


def blob_rows(data: bytes) -> list[Any]:
    """The rows of one blob, as fastavro reads them."""
    plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return list(fastavro.reader(io.BytesIO(plain)))


def visible_blobs(account: MemoryAccount) -> dict[str, bytes]:
    """The visible data blobs, by name."""
    contents = account.service.contents("container")
    return {name: data for name, data in contents.items() if not any(x.startswith("_") for x in name.split("/"))}


def visible_rows(account: MemoryAccount) -> dict[str, list[Any]]:
    """The rows of visible blobs, in name order, by the part of the blob's name before the time."""
    rows: dict[str, list[Any]] = defaultdict(list)
    for name, data in visible_blobs(account).items():
        rows[name.rsplit("/", 5)[0]] += blob_rows(data)
    return dict(rows)
