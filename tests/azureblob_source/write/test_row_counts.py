"""A step that loses or doubles rows fails the task, or the commit: nothing of it is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.write import row_counts
from azureblob_source.write.row_counts import RowCounts
from azureblob_source.write.staged_task import StagedTask
from control_messages.producer import ProducerSpec
from foundation.errors import ConflictError, RowCountError
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows, visible_rows
from tests.histories.mutants import Mutant, edited, replaced

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

WRITE = "azureblob_source.write"
ROWS = pa.schema([("stream", pa.string()), ("level", pa.string()), ("n", pa.int64()), ("none", pa.struct([]))])
COUNT = 12


def rows(first: int, count: int = COUNT) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pylist(
        [{"stream": "ab"[n % 2], "level": f"l{n % 3}", "n": n, "none": {} if n % 4 else None} for n in numbers], ROWS
    )


def write(account: MemoryAccount, *, streams: bool = False) -> int:
    """Two tasks of two batches each, and their commit. Returns the number of visible rows."""
    container = account.container("container")
    named = {"streamColumn": "stream"} if streams else {}
    plan = plan_of(ROWS, partitionColumn="level", maxMessagesPerBlob=5, maxFlushThresholdSize=40, **named)
    staged = [
        stage_rows(container, plan, [rows(0), rows(40, 1)], seed=1),
        stage_rows(container, plan, [rows(20)], seed=2),
    ]
    staged = [StagedTask.from_json(task.to_json()) for task in staged]
    committer(container, plan).commit(staged, Transaction("q", 0))
    return sum(map(len, visible_rows(account).values()))


LOSSES: dict[str, tuple[Mutant, str]] = {
    "rows are received in part": (
        replaced(f"{WRITE}.staging:well_formed", lambda batch: batch.slice(0, batch.num_rows - 1)),
        "13 rows that it received",
    ),
    "batches are joined in part": (
        replaced(f"{WRITE}.routing:_joined", lambda batches: batches[:1]),
        "13 rows that it received",
    ),
    "rows are routed in part": (
        edited(f"{WRITE}.routing:Router.route", "starts, batch.num_rows)", "starts, batch.num_rows - 1)"),
        "13 rows that it received",
    ),
    "a row is encoded twice": (
        edited(
            "arrow_avro.encoding.nested:encode_rows",
            "return assemble(column.pieces(), count)",
            "rows = assemble(column.pieces(), count); "
            "return EncodedRows(rows.data, np.append(rows.offsets, rows.offsets[-1:]))",
        ),
        "13 rows that it received",
    ),
    "a blob is not finished": (
        edited(f"{WRITE}.open_blobs:OpenBlobs._finish", "if blob.rows:", "if blob.rows > 4:"),
        "13 rows that it received",
    ),
    "an Avro block has a row fewer": (
        edited(f"{WRITE}.open_blobs:_OpenBlob.seal", "tuple(self.bodies)", "tuple((n - 1, x) for n, x in self.bodies)"),
        "its blocks have",
    ),
    "a block is not staged": (
        edited(f"{WRITE}.upload:BlockUploader.submit", "self._raise_failure()", "return"),
        "its blocks have 0",
    ),
    "a blob of a task is not committed": (
        edited(f"{WRITE}.batch:BatchCommitter.commit", "blobs_of(staged)", "blobs_of(staged)[1:]"),
        "the blobs of the tasks",
    ),
    "a stream loses a blob": (
        edited(f"{WRITE}.batch:_by_stream", ".append(blob)", "[:] = [blob]"),
        "the entries",
    ),
    "a part loses a blob": (
        edited(f"{WRITE}.batch:_by_stream", ".append(blob)", "[:] = [blob]"),
        "the parts of the batch",
    ),
    "the batch entry loses a blob": (
        edited(
            f"{WRITE}.batch:BatchCommitter.commit",
            "transaction, blobs, control)\n",
            "transaction, blobs[1:], control)\n",
        ),
        "the batch entry",
    ),
}
"""Steps that lose or double rows, and what the comparison says that notices it."""

OF_STREAMS = {"a part loses a blob", "the batch entry loses a blob"}
"""Rows name their streams."""


def _ignoring(where: str) -> Mutant:
    """Without the comparison of the commit for this."""
    return replaced(
        f"{WRITE}.batch:check_named",
        lambda staged, named, what: None if what == where else row_counts.check_named(staged, named, what),
    )


COMPARISONS: dict[str, Mutant] = {
    "rows that it received": edited(f"{WRITE}.row_counts:RowCounts.check", "if not due ==", "if False and not due =="),
    "its blocks have": edited(f"{WRITE}.row_counts:check_blob", "if staged != added:", "if False:"),
    **{
        where: _ignoring(where)
        for where in ("the blobs of the tasks", "the entries", "the parts of the batch", "the batch entry")
    },
}
"""Each comparison taken away."""


@pytest.mark.parametrize("streams", [False, True])
def test_rows_of_all_tasks_and_batches_are_visible(streams: bool) -> None:
    assert 2 * COUNT + 1 == write(new_account(), streams=streams)


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_that_loses_or_doubles_rows_fails_before_anything_is_committed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    LOSSES[name][0](monkeypatch)
    check(name)


@pytest.mark.parametrize("name", LOSSES)
def test_without_its_comparison_that_is_not_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, message = LOSSES[name]
    (comparison,) = (COMPARISONS[each] for each in COMPARISONS if each in message)
    mutant(monkeypatch)
    comparison(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, ConflictError)):
        check(name)


def check(name: str) -> None:
    account, streams = new_account(), name in OF_STREAMS
    with pytest.raises(RowCountError, match=LOSSES[name][1]) as caught:
        write(account, streams=streams)
    assert "Report this, with the types of the columns" in str(caught.value)
    assert {} == visible_rows(account)
    assert [] == [each for stream in "ab" for each in history(account, stream)] + history(account, "flights")


def history(account: MemoryAccount, stream: str) -> list[object]:
    return list(CommitLog(account.container("container"), stream, readers=1).history())


def test_rows_of_structs_without_fields_are_kept() -> None:
    account = new_account()
    container = account.container("container")
    batch = pa.RecordBatch.from_arrays([pa.array([{}] * 3, pa.struct([]))], ["nothing"])
    plan = plan_of(batch.schema)
    staged = stage_rows(container, plan, [batch] * 2)
    committer(container, plan).commit([staged], None)
    assert (6, [{"nothing": {}}] * 6) == (staged.rows, visible_rows(account)["flights"])


def test_the_watermarks_that_the_sink_adds_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("partition", pa.int32()), ("value", pa.binary()), ("eventTime", pa.timestamp("us", "UTC"))])
    plan = plan_of(schema, emission=ProducerSpec("s", 2, ["only"]).to_json())
    batch = pa.RecordBatch.from_pylist(
        [{"partition": n % 2, "value": b"\0x", "eventTime": n} for n in range(5)], schema
    )
    assert 7 == stage_rows(new_account().container("container"), plan, [batch]).rows
    edited(f"{WRITE}.control_records:EnvelopeRouter._control_rows", "+= batch.num_rows", "+= 0")(monkeypatch)
    with pytest.raises(RowCountError, match="of 5 rows that it received, and 0 that it added, 7 were routed"):
        stage_rows(new_account().container("container"), plan, [batch])


def test_any_difference_of_the_counts_is_told() -> None:
    counted = {"received": 5, "added": 2, "routed": 7, "encoded": 7, "staged": 7}
    assert 7 == RowCounts(**counted).check()
    for name, count in counted.items():
        for wrong in (count - 1, count + 1):
            with pytest.raises(RowCountError, match=str(wrong)):
                RowCounts(**{**counted, name: wrong}).check()
