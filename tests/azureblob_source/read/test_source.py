"""How many requests a read costs on the driver, in this process and on the in-memory account."""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source.log import commit
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.naming import log_name
from azureblob_source.log.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, SplitsPartition, _as, spark_schema
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, NotFoundError
from tests.arrow_avro.spark_arrays import array_of, in_nanoseconds, kind_of
from tests.azureblob_source.write.sink_rows import ACCOUNT, committer, new_account, plan_of, put_anyway, stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.stream_notes import LogFacts

VERSIONS = 40


class RequestCounter(Intercept):
    """Counts requests by operation and name."""

    def __init__(self) -> None:
        self.made = Counter[tuple[str, str]]()

    def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
        self.made[request.operation, request.name] += 1
        return send()


@pytest.fixture(scope="module")
def account() -> MemoryAccount:
    """A stream of many versions whose rows have one schema."""
    account = new_account()
    container = account.container("container")
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    plan = plan_of(rows.schema)
    for seed in range(VERSIONS):
        committer(container, plan, seed).commit([stage_rows(container, plan, [rows], seed=seed)], None)
    return account


def read_plan(
    account: MemoryAccount, requests: RequestCounter, facts: LogFacts | None = None, **options: str
) -> ReadPlan:
    plan = ReadPlan(source_options({"path": "container/flights", **ACCOUNT, **options}, {}), facts=facts)
    plan.container = account.restarted(requests).container("container")
    return plan


@pytest.mark.parametrize("options", [{}, {"versionAsOf": "30"}])
def test_the_head_of_the_log_is_searched_for_once(account: MemoryAccount, options: dict[str, str]) -> None:
    requests = RequestCounter()
    plan = read_plan(account, requests, None, **options)
    schema = spark_schema(plan)
    assert SnapshotReader(plan, schema).partitions()
    searched = [requests.made["properties", log_name("flights", version)] for version in range(1, 2 * VERSIONS)]
    assert {0, 1} == set(searched)
    assert sum(searched) <= 12


def test_the_process_that_plans_a_read_need_not_search_for_what_that_of_the_schema_has_found(
    account: MemoryAccount,
) -> None:
    first, second = RequestCounter(), RequestCounter()
    plan = read_plan(account, first)
    schema = spark_schema(plan)
    facts: LogFacts = pickle.loads(pickle.dumps(plan.log.facts()))  # noqa: S301 - its own
    assert VERSIONS == sum(len(each.splits) for each in planned(read_plan(account, second, facts), schema))
    apart = sum(count for (_, name), count in second.made.items() if "/_log/0" not in name)
    assert VERSIONS + 2 == second.made.total() - apart  # each entry, and listings of what follows the head
    assert 3 == apart  # the retention boundary twice, and whether the newest blob is visible


def planned(plan: ReadPlan, schema: StructType) -> list[SplitsPartition]:
    return [each for each in SnapshotReader(plan, schema).partitions() if isinstance(each, SplitsPartition)]


def test_a_view_of_schemas_reads_each_schema_once(account: MemoryAccount) -> None:
    requests = RequestCounter()
    plan = read_plan(account, requests, view="schemas")
    reader = SnapshotReader(plan, spark_schema(plan))
    (partition,) = reader.partitions()
    (batch,) = reader.read(partition)
    assert VERSIONS == batch["blobs"][0].as_py()
    assert 1 == sum(count for (_, name), count in requests.made.items() if "/_schemas/" in name)


def test_a_stream_that_has_only_an_epoch_has_nothing_to_read_yet_and_the_advice_helps() -> None:
    account = new_account()
    container = account.container("container")
    commit.append_epoch(CommitLog(container, "flights"), new_draft(SYSTEM_CLOCK, 1), Publisher(container))
    with pytest.raises(NotFoundError, match="read .*/container/flights failed: nothing has been written yet") as caught:
        spark_schema(read_plan(account, RequestCounter()))
    assert "Write rows first, or set option `avroSchema` to read none until then." in str(caught.value)
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    plan = plan_of(rows.schema, epoch=1)
    waiting = read_plan(account, RequestCounter(), avroSchema=plan.avro.json)
    assert [SplitsPartition((), waiting.reader_schema)] == SnapshotReader(waiting, spark_schema(waiting)).partitions()
    committer(container, plan, 1).commit([stage_rows(container, plan, [rows], seed=1)], None)
    assert ["id"] == spark_schema(read_plan(account, RequestCounter())).names


@pytest.mark.parametrize("name", ["ID", "other"])
def test_a_schema_with_a_column_that_the_stream_lacks_is_refused_on_the_driver(
    account: MemoryAccount, name: str
) -> None:
    reader = SnapshotReader(read_plan(account, RequestCounter()), StructType([StructField(name, LongType())]))
    message = rf"`\.schema\(…\)` names '{name}', which the stream has not in this case: it has id\. Correct the name"
    with pytest.raises(ConfigurationError, match=message):
        reader.partitions()


def rows_of(plan: ReadPlan) -> list[dict[str, object]]:
    reader = SnapshotReader(plan, spark_schema(plan))
    return [row for each in reader.partitions() for batch in reader.read(each) for row in batch.to_pylist()]


@pytest.mark.parametrize("has_log", [True, False], ids=["log", "listing"])
def test_only_the_blobs_of_the_partitions_are_read_and_the_log_says_how_many(
    has_log: bool, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    container, rows = account.container("container"), pa.RecordBatch.from_pydict({"gate": ["a,b", "a/b", "c", None]})
    plan = plan_of(rows.schema, partitionColumn="gate")
    committer(container, plan).commit([stage_rows(container, plan, [rows])], None)
    if not has_log:
        for blob in container.list("flights/_log/"):
            container.delete(blob.name)

    def gates(**options: str) -> list[object]:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            return [row["gate"] for row in rows_of(read_plan(account, RequestCounter(), None, **options))]

    assert ["a,b"] == gates(partitions=r"a\,b")
    assert "1 of 4 blobs are read" in caplog.text
    assert {"a,b", "a/b"} == set(gates(partitions="a?b"))
    assert "2 of 4 blobs are read" in caplog.text
    assert [] == gates(partitions="a")
    assert "0 of 4 blobs are read" in caplog.text
    assert {"a,b", "a/b", "c", None} == set(gates())
    assert [] == gates(partitions="c", endTime="2013-01-01")


def test_a_stream_with_two_types_in_a_column_is_read_without_that_column() -> None:
    account = new_account()
    container = account.container("container")
    for seed, columns in enumerate(({"n": [1], "Id": [1], "bad": [1]}, {"n": [2], "id": [2], "bad": ["x"]})):
        rows = pa.RecordBatch.from_pydict(columns)
        put_anyway(container, plan_of(rows.schema), rows, seed)
    with pytest.raises(ConfigurationError, match="column 'bad' is long in one and string in the other.*option columns"):
        spark_schema(read_plan(account, RequestCounter()))
    assert [{"n": 1}, {"n": 2}] == rows_of(read_plan(account, RequestCounter(), columns="n"))
    assert [{"id": None}, {"id": 2}] == rows_of(read_plan(account, RequestCounter(), columns="id"))
    avro = plan_of(pa.schema([pa.field("n", pa.int64())])).avro.json
    assert [{"n": 1}, {"n": 2}] == rows_of(read_plan(account, RequestCounter(), avroSchema=avro))
    with pytest.raises(ConfigurationError, match="names other; the stream has n, Id, bad, id"):
        spark_schema(read_plan(account, RequestCounter(), columns="n,other"))


def test_rows_get_sparks_types_at_every_level_whatever_is_null() -> None:
    for seed in range(100):
        random = Random(seed)
        kind = kind_of(random)
        batch = pa.RecordBatch.from_arrays([array_of(random, kind, 5)], ["c"])
        expected = pa.schema([("c", in_nanoseconds(kind))])
        rows = _as(expected, batch)
        assert (expected, batch.to_pylist()) == (rows.schema, rows.to_pylist())
    assert 5 == _as(pa.schema([]), batch.select([])).num_rows
