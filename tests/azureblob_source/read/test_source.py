"""How many requests a read costs on the driver, in this process and on the in-memory account."""

from __future__ import annotations

import json
import logging
import pickle
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import arrow_avro
from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source.log import commit
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.naming import log_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.read.options import source_options
from azureblob_source.read.source import FilteringReader, ReadPlan, SnapshotReader, SplitsPartition, _as, spark_schema
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
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


# --- columns and limits that an engine pushes -------------------------------------------------------------------------

SYNC = bytes(range(16))
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": "string"}]}
SOUND, INVALID = b"\x02\x02a\x04\x02b\x06\x02c", b"\x02\x02a\x04\x02\xff\x06\x02c"
"""Three rows: n = 1, 2, 3, and s = a, b, c, of which b is not UTF-8 in the second."""


def reader_of(*blobs: bytes, **options: str) -> FilteringReader:
    """A reader of blobs without a log, of three rows each, in one partition."""
    account = new_account()
    for number, rows in enumerate(blobs):
        file = arrow_avro.header(json.dumps(SCHEMA), "null", SYNC) + b"".join(arrow_avro.block(3, rows, SYNC))
        account.container("container").put(f"flights/{number}.avro", file)
    plan = read_plan(account, RequestCounter(), None, **options)
    return FilteringReader(plan, spark_schema(plan))


def read_in_a_task(reader: FilteringReader) -> list[pa.RecordBatch]:
    """The batches of the only partition, read by another process."""
    (partition,) = reader.partitions()
    there: FilteringReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    there.plan.container = reader.plan.container
    return list(there.read(partition))


def rows_in_a_task(reader: FilteringReader) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in read_in_a_task(reader) for row in batch.to_pylist()]


def test_columns_that_an_engine_prunes_are_not_decoded() -> None:
    with pytest.raises(CorruptError, match="a string is not utf8"):
        read_in_a_task(reader_of(SOUND, INVALID))
    for schema in (pa.schema([("n", pa.int32())]), StructType([StructField("n", IntegerType())])):
        reader = reader_of(SOUND, INVALID)
        assert StructType([StructField("n", IntegerType(), nullable=False)]) == reader.pruneColumns(schema)
        assert [(1,), (2,), (3,)] * 2 == rows_in_a_task(reader)


def test_an_engine_gets_the_columns_in_its_order_or_none() -> None:
    reader = reader_of(SOUND, metadataColumns="blob")
    names = ["s", "_blob", "n"]
    assert names == reader.pruneColumns(pa.schema([(name, pa.string()) for name in names])).names
    assert ("a", "flights/0.avro", 1) == rows_in_a_task(reader)[0]
    reader = reader_of(SOUND, INVALID)
    assert StructType([]) == reader.pruneColumns(pa.schema([]))
    assert (6, {0}) == (
        sum(batch.num_rows for batch in read_in_a_task(reader)),
        {batch.num_columns for batch in read_in_a_task(reader)},
    )


def test_a_view_is_pruned_too() -> None:
    reader = reader_of(SOUND, SOUND, view="blobs")
    reader.pruneColumns(pa.schema([("name", pa.string())]))
    assert [("flights/0.avro",), ("flights/1.avro",)] == rows_in_a_task(reader)


def test_a_column_that_only_a_filter_needs_is_decoded_and_not_returned() -> None:
    reader = reader_of(SOUND)
    assert [] == list(reader.pushFilters([spark.GreaterThan(("n",), 1)]))
    assert ["s"] == reader.pruneColumns(pa.schema([("s", pa.string())])).names
    assert [("b",), ("c",)] == rows_in_a_task(reader)


def test_a_column_that_the_reader_does_not_have_cannot_be_read() -> None:
    with pytest.raises(ConfigurationError, match=r"pruneColumns names x, N; there are n, s\. Correct the schema"):
        reader_of(SOUND).pruneColumns(pa.schema([(name, pa.int32()) for name in ("x", "n", "N")]))


@pytest.mark.parametrize("limit", range(5))
def test_a_partition_ends_at_the_limit_before_it_decodes_the_next_blob(limit: int) -> None:
    reader = reader_of(SOUND, SOUND if limit > 3 else INVALID)
    assert reader.pushLimit(limit)
    assert [(1, "a"), (2, "b"), (3, "c"), (1, "a")][:limit] == rows_in_a_task(reader)


@pytest.mark.parametrize("limit_first", [False, True])
def test_with_filters_a_limit_is_not_applied(limit_first: bool) -> None:
    reader = reader_of(SOUND)
    if limit_first:
        assert reader.pushLimit(1)
    assert [] == list(reader.pushFilters([spark.GreaterThan(("n",), 1)]))
    assert not reader.pushLimit(1)
    assert [(2, "b"), (3, "c")] == rows_in_a_task(reader)
