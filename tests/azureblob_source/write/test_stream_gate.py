"""What would make a stream unreadable is refused: before the first block, at the put, and the same when repeated."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from arrow_avro import superset
from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.naming import log_name
from azureblob_source.log.publishing.fencing import publish_unless_fenced
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.read.snapshot import writer_schemas
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.staging import StreamCalls, stage
from azureblob_source.write.stream_gate import StreamGate
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, ConflictError
from tests.azureblob_source.write.sink_rows import (
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
    visible_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.entry import LogEntry
    from azureblob_source.write.planning import WritePlan

NUMBERS = pa.RecordBatch.from_pydict({"id": pa.array([1], pa.int32())})
TEXTS = pa.RecordBatch.from_pydict({"id": ["x"]})
DAYS = pa.RecordBatch.from_pydict({"new": pa.array([0], pa.date32())})
FLAGS = pa.RecordBatch.from_pydict({"new": [True]})
BOTH = "column 'new' is int date in the stream and boolean in this write"
NAMED: dict[str, Any] = {"streamColumn": "stream"}


def named(batch: pa.RecordBatch, *streams: str) -> pa.RecordBatch:
    """The row of a batch once for each stream."""
    rows = pa.Table.from_batches([batch] * len(streams)).combine_chunks().to_batches()[0]
    return rows.append_column("stream", pa.array(list(streams)))


def write(
    account: MemoryAccount,
    batch: pa.RecordBatch,
    transaction: Transaction | None = None,
    *,
    overwrite: bool = False,
    seed: int = 0,
    **options: Any,
) -> list[LogEntry]:
    """One batch, by a process of its own."""
    container, plan = account.container("container"), plan_of(batch.schema, **options)
    staged = [stage_rows(container, plan, [batch], seed=seed)] if batch.num_rows else []
    return committer(container, plan, seed).commit(staged, transaction, overwrite=overwrite)


def gate(account: MemoryAccount, plan: WritePlan) -> StreamGate:
    container = account.container("container")
    return StreamGate(plan.of_commit, lambda stream: CommitLog(container, stream, readers=1))


class Meanwhile(Intercept):
    """Another process acts just before the first put of this blob."""

    def __init__(self, name: str, act: Callable[[], object]) -> None:
        self._name = name
        self._act: Callable[[], object] | None = act

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        if self._act is not None and (request.operation, request.name) == ("put", self._name):
            act, self._act = self._act, None
            act()
        return send()


def history(account: MemoryAccount, stream: str = "flights") -> list[LogEntry]:
    return CommitLog(account.container("container"), stream, readers=1).history()


# --- at the put -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transaction", [None, Transaction("q", 0)])
def test_of_two_writers_that_fit_the_stream_and_not_each_other_the_second_is_refused(
    transaction: Transaction | None,
) -> None:
    account = new_account()
    write(account, NUMBERS)
    other = account.restarted(Meanwhile(log_name("flights", 1), lambda: write(account, DAYS, seed=1)))
    with pytest.raises(ConfigurationError, match=BOTH) as first:
        write(other, FLAGS, transaction, seed=2)
    with pytest.raises(ConfigurationError, match=BOTH) as repeated:
        write(account, FLAGS, transaction, seed=3)
    assert str(first.value).replace("memory://memory", "") == str(repeated.value).replace("memory://memory", "")
    assert 2 == len(history(account))
    assert [{"id": 1}, {"new": date(1970, 1, 1)}] == visible_rows(account)["flights"]
    write(account, DAYS, transaction, seed=4)
    assert 3 == len(history(account)), "the advice, followed: cast"


class MeanwhileAt(Intercept):
    """Another process acts just before the request of this number."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left, self._act = number, act

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == -1:
            self._act()
        return send()


@pytest.mark.parametrize(
    "options",
    [{}, {"deliveryGuarantee": "at-least-once"}, {"streamColumn": "stream"}, {"schemaEvolution": "none"}],
    ids=lambda options: next(iter(options.values()), "exactly-once"),
)
@pytest.mark.parametrize("there", [True, False], ids=["later", "first"])
def test_at_whatever_request_another_writer_commits_the_stream_stays_readable(
    options: dict[str, Any], there: bool
) -> None:
    """One of the two is refused, and nothing of it is in a version."""
    seen = Counter[str]()
    for number in itertools.count():
        account = new_account()
        if there:
            write(account, named(NUMBERS, "flights"), **options)

        def attempt(process: MemoryAccount, batch: pa.RecordBatch, query: str, into: MemoryAccount = account) -> None:
            before = len(history(into))
            try:
                write(process, named(batch, "flights"), Transaction(query, 0), seed=ord(query), **options)
            except ConfigurationError:
                seen[f"{query} is refused"] += 1
                assert not any(e.transaction == Transaction(query, 0) for e in history(into)[before:])

        race = MeanwhileAt(number, partial(attempt, account, DAYS, "a"))
        attempt(account.restarted(race), FLAGS, "b")
        log = CommitLog(account.container("container"), "flights", readers=1)
        head = log.head()
        assert head is not None
        superset(writer_schemas(log, head.live_schemas))  # raises an error if there is none
        if race.left >= 0:
            break
    assert {"a is refused", "b is refused"} == seen.keys()


def test_with_fixed_columns_the_second_of_two_first_writers_is_refused() -> None:
    account = new_account()
    other = account.restarted(Meanwhile(log_name("flights", 0), lambda: write(account, NUMBERS, seed=1)))
    with pytest.raises(ConfigurationError, match="`schemaEvolution` is `none`, and this write adds column 'new'"):
        write(other, DAYS, seed=2, schemaEvolution="none")
    write(account, DAYS, seed=3)
    write(account, NUMBERS, seed=4, schemaEvolution="none")
    assert 3 == len(history(account))


def test_an_overwrite_with_rows_or_without_begins_with_schemas_of_its_own() -> None:
    account = new_account()
    write(account, NUMBERS)
    write(account, TEXTS, overwrite=True, seed=1)
    with pytest.raises(ConfigurationError, match="'id' is string in the stream and int in this write"):
        write(account, NUMBERS, seed=2)
    write(account, NUMBERS.slice(1), overwrite=True, seed=3)
    write(account, NUMBERS, seed=4)
    assert [{"id": 1}] == visible_rows(account)["flights"]


def test_a_replaced_overwrite_does_not_meet_the_schemas_that_it_replaces() -> None:
    account = new_account()
    write(account, NUMBERS)
    write(account, TEXTS, Transaction("q", 0), overwrite=True, seed=1)
    write(account, TEXTS, Transaction("q", 0), overwrite=True, seed=2)
    assert [{"id": "x"}] == visible_rows(account)["flights"]


def test_the_schema_of_a_voided_batch_binds_nobody() -> None:
    account = new_account()
    write(account, NUMBERS)
    container, plan = account.container("container"), plan_of(DAYS.schema)
    staged = stage_rows(container, plan, [DAYS], seed=1)
    container.put(staged.blobs[0].name, b"another program's")
    with pytest.raises(ConflictError, match="was voided"):
        committer(container, plan, 1).commit([staged], Transaction("q", 0))
    write(account, FLAGS, Transaction("q", 0), seed=2)
    assert ["append", "append", "void", "append"] == [entry.operation for entry in history(account)]


def test_in_at_least_once_mode_a_task_publishes_no_blob_that_does_not_fit() -> None:
    account = new_account()
    write(account, DAYS)
    plan, container = plan_of(FLAGS.schema, deliveryGuarantee="at-least-once"), account.container("container")
    log = CommitLog(container, "flights", readers=1)
    publisher = Publisher(container, admit=StreamGate(plan.of_commit, lambda _: log).admit)
    publish = publish_unless_fenced(lambda _: log, publisher, plan.options.attributes, None)
    with pytest.raises(ConfigurationError, match=f"{BOTH}.*What its tasks have published stays visible in the listing"):
        stage_rows(container, plan, [FLAGS], seed=1, publish=publish)
    assert [{"new": date(1970, 1, 1)}] == visible_rows(account)["flights"]


# --- batches over many streams ----------------------------------------------------------------------------------------


def test_a_batch_over_many_streams_is_refused_as_a_whole_before_it_is_committed() -> None:
    account = new_account()
    write(account, named(DAYS, "a"), seed=1, **NAMED)
    with pytest.raises(ConfigurationError, match=BOTH):
        write(account, named(FLAGS, "a", "b"), Transaction("q", 0), seed=2, **NAMED)
    assert {"a"} == visible_rows(account).keys()
    assert not [name for name in account.service.contents("container") if name.startswith("_batches/")]


def test_a_part_that_another_writer_has_made_unfit_is_refused_until_the_batch_is_taken_back() -> None:
    account = new_account()
    write(account, named(NUMBERS, "a"), seed=1, **NAMED)
    race = Meanwhile(log_name("a", 1), lambda: write(account, named(DAYS, "a"), seed=2, **NAMED))
    for process in (account.restarted(race), account):
        with pytest.raises(ConfigurationError, match=BOTH) as caught:
            write(process, named(FLAGS, "a", "b"), Transaction("q", 0), seed=3, **NAMED)
    assert 2 == len(history(account, "a"))
    found = re.search(
        r"`python -m azureblob_source revert container/(\w+) --query (\w+) --after (-?\d+)`", str(caught.value)
    )
    assert found is not None
    container, last = account.container("container"), Transaction(found[2], int(found[3]))
    plan = plan_revert(container, found[1], last)
    carry_out(container, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container))
    assert {"a"} == visible_rows(account).keys()
    write(account, named(DAYS, "a", "b"), Transaction("q", 0), seed=4, **NAMED)
    assert (3, 1) == (len(visible_rows(account)["a"]), len(visible_rows(account)["b"])), "the advice, followed"


def test_a_task_asks_once_for_each_stream_before_it_stages_a_block_for_it() -> None:
    account, asked = new_account(), list[str]()
    container, plan = account.container("container"), plan_of(named(DAYS, "a").schema, maxFlushThresholdSize=1, **NAMED)

    def admit(stream: str) -> None:
        assert not list(container.list(f"{stream}/", uncommitted=True))
        asked.append(stream)
        if stream == "c":
            raise ConfigurationError("refused")

    with pytest.raises(ConfigurationError, match="refused"):
        stage(
            [named(DAYS, "a", "b", "a"), named(DAYS, "b", "c")],
            plan,
            container,
            names=FixedIds(),
            calls=StreamCalls(admit),
        )
    assert ["a", "b", "c"] == asked


class FixedIds(BlobIds):
    """Of the only blobs of their streams."""

    def __init__(self) -> None:
        """There is no source of random bytes."""

    def suffix(self) -> str | None:
        return "00000000"

    def attempt(self) -> str:
        return "0" * 16

    def sync(self) -> bytes:
        return bytes(16)


# --- folders of others ------------------------------------------------------------------------------------------------


def test_a_log_does_not_begin_where_others_have_files() -> None:
    account = new_account()
    container = account.container("container")
    container.put("flights/part-0.avro", b"x")
    container.put("flights/_SUCCESS.avro", b"x")
    log = CommitLog(container, "flights", readers=1)
    for act in (
        lambda: write(account, NUMBERS),
        lambda: write(account, NUMBERS, overwrite=True),
        lambda: append_epoch(log, new_draft(SYSTEM_CLOCK, 1), Publisher(container)),
        lambda: gate(account, plan_of(NUMBERS.schema)).check("flights"),
    ):
        with pytest.raises(ConfigurationError, match=r"has 1 Avro files and no commit log .*part-0\.avro"):
            act()
    write(account, NUMBERS, path="container/flights/EWR")
    with pytest.raises(ConfigurationError, match="has 1 Avro files"):
        write(account, NUMBERS)
    container.delete("flights/part-0.avro")
    write(account, NUMBERS)
    container.put("flights/part-1.avro", b"x")
    write(account, NUMBERS, seed=1)
    assert 2 == len(history(account))


def test_what_an_earlier_run_has_published_at_least_once_is_no_file_of_others() -> None:
    account = new_account()
    options: dict[str, Any] = {"deliveryGuarantee": "at-least-once"}
    container, plan = account.container("container"), plan_of(NUMBERS.schema, **options)
    publisher = Publisher(container)
    stage_rows(container, plan, [NUMBERS], publish=lambda blob: publisher.publish_blob(blob, plan.options.attributes))
    assert 1 == len(visible_blobs(account))
    with pytest.raises(ConfigurationError, match="has 1 Avro files and no commit log"):
        write(account, NUMBERS, seed=1)
    write(account, NUMBERS, seed=1, **options)
    assert 1 == len(history(account))
