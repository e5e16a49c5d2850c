"""Streams that fill a store, and streams that read it while it changes."""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from adjunct_store.spark import JoinColumns, JoinSettings, join, release_pins, wait_until_ready
from adjunct_store.spark.filling import stream_plan
from adjunct_store.spark.filling.streams import is_truncation
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.pins import pin_version
from azure_account.location import Location
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from foundation.errors import AzureBlobError, ConfigurationError, FencedError, NotFoundError
from tests.adjunct_store.spark.planes import SCHEMA
from tests.spark.versions import append_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from adjunct_store.spark import StreamFill
    from adjunct_store.versions.manifest import Manifest
    from tests.adjunct_store.spark.planes import Planes


def manifest(planes: Planes) -> Manifest:
    found = read_manifest(planes.store.open(), planes.store.path)
    assert found is not None
    return found


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_each_micro_batch_is_a_version_and_a_restart_goes_on(planes: Planes) -> None:
    planes.feed(("a", 1), ("b", 2))
    planes.feed(("a", 3, 1), ("b", None, 1, "D"), ("c", 4))
    planes.run(partitions=2)
    assert {"a": 3, "c": 4} == planes.content()
    assert 1 == manifest(planes).versions[0].batch
    planes.feed(("c", 5, 2))
    planes.run(partitions=2)
    newest = manifest(planes).newest
    assert newest is not None and (1, 2) == (newest.generation, newest.batch)
    assert {"a": 3, "c": 5} == planes.content()


def test_a_store_that_is_bootstrapped_serves_when_all_that_the_source_had_is_in_it(planes: Planes) -> None:
    for number in range(3):
        planes.feed((f"{number}", number))
    seen: list[tuple[int, bool]] = []
    with planes.start(bootstrap=True, trigger={"processingTime": "100 milliseconds"}) as running:
        version = wait_until_ready(
            planes.store, timeout=60, poll=0.05, progress=lambda at: seen.append((at.batch, at.ready))
        )
        assert (2, 3) == (version.batch, version.entries)
        assert all(ready == (batch == 2) for batch, ready in seen if batch < 2 or ready)
        planes.feed(("d", 9))
        while version.batch < 3:
            version = wait_until_ready(planes.store, timeout=60)
            assert running.isActive, running.exception()
    assert not running.isActive
    assert {"d": 9} == planes.content()


def test_an_empty_source_is_bootstrapped_at_once(planes: Planes) -> None:
    planes.run(bootstrap=True)
    version = wait_until_ready(planes.store, timeout=0)
    assert (-1, 0) == (version.batch, version.entries)
    assert {} == planes.content()
    planes.feed(("a", 1))
    planes.run(bootstrap=True)
    assert {"a": 1} == planes.content()


def test_a_rebuild_that_was_stopped_goes_on_behind_what_readers_have_until_it_is_bootstrapped(planes: Planes) -> None:
    for number in range(3):
        planes.feed(("abc"[number], number))
    planes.run()
    with planes.start(rebuild=True, trigger={"processingTime": "1 second"}) as running:
        stop_amidst(running)
        assert running.await_termination(60)
    assert (2, False) == (running.generation, manifest(planes).generations[-1].bootstrapped)
    assert 1 == wait_until_ready(planes.store, timeout=0, bootstrapped=False).generation
    assert 2 == planes.run().generation
    newest = wait_until_ready(planes.store, timeout=0)
    assert (2, 3) == (newest.generation, newest.entries)


def test_a_bootstrap_whose_query_is_stopped_is_not_taken_for_whole(planes: Planes) -> None:
    for number in range(5):
        planes.feed((f"{number}", number))
    running = planes.start(bootstrap=True)
    stop_amidst(running)
    assert running.await_termination(60)
    assert manifest(planes).newest is None
    assert not manifest(planes).generations[-1].bootstrapped
    planes.run(bootstrap=True)
    assert 5 == wait_until_ready(planes.store, timeout=0).entries
    interval = planes.spark.conf.get("spark.sql.streaming.noDataProgressEventInterval")
    assert interval != "0", "other queries of the session report as before"


def stop_amidst(running: StreamFill) -> None:
    """Stop the query from outside, as a program does that stops all of its session, when it has planned a batch."""
    end = time.monotonic() + 60
    query = running.query
    while not query.recentProgress:
        assert time.monotonic() < end
        time.sleep(0.005)
    query.stop()


def test_a_source_that_cannot_be_read_from_its_beginning_is_not_tried_for_ever(
    planes: Planes, monkeypatch: pytest.MonkeyPatch
) -> None:
    planes.feed(("a", 1))
    planes.run()
    started = []

    def failing(*_: object) -> None:
        started.append(1)
        raise ValueError("[DELTA_VERSION_NOT_CONTIGUOUS] Versions (0, 12) are not contiguous")

    monkeypatch.setattr(stream_plan, "_fill_batch", failing)
    planes.feed(("b", 1))
    running = planes.start(on_truncated="rebuild")
    with pytest.raises(PySparkException, match="DELTA_VERSION_NOT_CONTIGUOUS"):
        running.await_termination(60)
    assert 2 == len(started), "once for what was there, once for the rebuild"
    assert {"a": 1} == planes.content()


def test_a_checkpoint_folder_is_the_same_however_it_is_written(planes: Planes, monkeypatch: pytest.MonkeyPatch) -> None:
    planes.feed(("a", 1))
    planes.run()
    folder = str(planes.folder / "fill")
    (planes.folder / "input" / "0.json").unlink()
    monkeypatch.chdir(planes.folder)
    for spelled in (f"{folder}/", f"file:{folder}", f"file://{folder}/", f"{planes.folder}/./x/..//fill"):
        assert 1 == planes.run(checkpoint=spelled).generation
        assert {"a": 1} == planes.content()
    assert f"checkpoint {folder}" == manifest(planes).generations[-1].source


def test_a_store_that_an_older_release_has_named_by_another_spelling_is_gone_on_with(planes: Planes) -> None:
    planes.feed(("a", 1))
    folder = planes.folder / "fill"
    planes.run(source=f"checkpoint file:{folder}")
    planes.feed(("b", 2))
    for spelled in (folder, f"file:{folder}", f"{folder}/"):
        assert 1 == planes.run(checkpoint=spelled).generation
    assert {"a": 1, "b": 2} == planes.content()


def test_a_checkpoint_that_was_moved_is_refused_and_gone_on_with_as_the_error_says(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.run()
    moved = planes.folder / "moved"
    (planes.folder / "fill").rename(moved)
    planes.feed(("b", 2))
    with pytest.raises(ConfigurationError, match="it is filled from checkpoint .*/fill, not from .*/moved") as refused:
        planes.start(checkpoint=moved)
    advised = re.search("give source='(.*?)'", str(refused.value))
    assert advised is not None
    assert 1 == planes.run(checkpoint=str(moved), source=advised[1]).generation
    assert {"a": 1, "b": 2} == planes.content()


def test_a_lost_checkpoint_is_refused_and_a_rebuild_has_what_the_source_has_then(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.feed(("b", 2))
    planes.run()
    older = planes.folder / "older"
    shutil.copytree(planes.folder / "fill", older)
    planes.feed(("c", 3))
    planes.run()
    (planes.folder / "input" / "0.json").unlink()
    before = manifest(planes)
    lost = planes.folder / "lost"
    (planes.folder / "fill").rename(lost)
    message = "the checkpoint is not there, and the store has batches up to 2.*rebuild=True.*Nothing was changed"
    with pytest.raises(ConfigurationError, match=message):
        planes.start()
    shutil.copytree(older, planes.folder / "fill")
    with pytest.raises(ConfigurationError, match="has planned batch 1 and committed batch 1, and the store has"):
        planes.start()
    shutil.rmtree(planes.folder / "fill")
    assert before == manifest(planes)
    assert {"a": 1, "b": 2, "c": 3} == planes.content()
    shutil.copytree(lost, planes.folder / "fill")
    assert 1 == planes.run().generation, "it was brought back"
    shutil.rmtree(planes.folder / "fill")
    assert 2 == planes.run(rebuild=True).generation
    assert 2 == planes.run().generation
    assert {"b": 2, "c": 3} == planes.content()


def test_the_checkpoint_of_another_query_is_refused_though_its_batches_have_the_same_numbers(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.run(source="planes")
    other = Location(f"{planes.store.container}/stores/other", planes.store.options)
    replace(planes, store=other).run(source="planes", checkpoint=planes.folder / "another")
    with pytest.raises(ConfigurationError, match="the checkpoint is of query .*, and query .* fills the store"):
        planes.start(source="planes", checkpoint=planes.folder / "another")
    assert 1 == planes.run(source="planes").generation


def test_a_mistaken_fill_with_another_checkpoint_leaves_the_fill_that_runs_and_all_its_keys(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.run()
    (planes.folder / "input" / "0.json").unlink()
    planes.feed(("b", 2))
    with planes.start(trigger={"processingTime": "100 milliseconds"}) as running:
        for more in ({}, {"source": "other"}, {"persistent": False}, {"max_age": 0.0}, {"on_truncated": "rebuild"}):
            with pytest.raises(ConfigurationError, match="it is filled from checkpoint "):
                planes.start(checkpoint=planes.folder / "another", **more)
        planes.feed(("c", 3))
        until(lambda: {"a": 1, "b": 2, "c": 3} == planes.content(), running)
    assert not (planes.folder / "another" / "g1").exists()
    assert 1 == planes.run().generation
    assert {"a": 1, "b": 2, "c": 3} == planes.content()


def test_the_right_fill_goes_on_when_one_was_told_to_replace_the_store_and_did_not_finish(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.run()
    (planes.folder / "input" / "0.json").unlink()
    planes.feed(("b", 2), (None, 3))
    mistaken = planes.start(checkpoint=planes.folder / "another", rebuild=True)
    with pytest.raises(ConfigurationError, match="1 rows have a null in a key column"):
        mistaken.await_termination(60)
    assert 1 == planes.run(null_keys="skip").generation
    assert {"a": 1, "b": 2} == planes.content()


def until(condition: Callable[[], bool], running: StreamFill) -> None:
    """Wait for it as long as the fill runs."""
    end = time.monotonic() + 60
    while not condition():
        assert running.isActive and time.monotonic() < end, running.exception()
        time.sleep(0.05)


def test_a_deleted_store_makes_the_query_begin_anew(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.run()
    container = planes.store.open()
    for blob in container.list(f"{planes.store.path}/"):
        container.delete(blob.name)
    planes.feed(("b", 2))
    assert 2 == planes.run().generation
    assert {"a": 1, "b": 2} == planes.content()


@pytest.mark.parametrize(
    "change",
    [
        {"values": ["seats", "op"], "rebuild": True},
        {"persistent": False},
        {"rebuild": True},
        {"source": "other", "rebuild": True},
        {"max_age": 0.0},
    ],
)
def test_a_rebuilt_generation_reads_the_source_from_its_beginning(planes: Planes, change: dict[str, Any]) -> None:
    planes.feed(("a", 1), ("b", 2))
    planes.feed(("b", None, 1, "D"), ("c", 3))
    planes.run()
    (planes.folder / "input" / "0.json").unlink()
    planes.feed(("d", 4))
    assert 2 == planes.run(**change).generation
    assert {"c": 3, "d": 4} == {row[0]: row[1] for row in planes.join("abcd", how="inner")}


def test_a_batch_that_died_after_its_publication_is_not_applied_again(planes: Planes) -> None:
    planes.feed(("a", 1), ("b", 2))
    planes.feed(("a", 5, 1))
    planes.run()
    before = manifest(planes)
    commits = planes.folder / "fill" / "g1" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink(missing_ok=True)
    planes.run()
    after = manifest(planes)
    assert before.versions == after.versions
    assert {"a": 5, "b": 2} == planes.content()


def test_a_batch_that_died_before_its_publication_is_applied_to_what_was_published(planes: Planes) -> None:
    planes.feed(("a", 1), ("b", 2))
    planes.run()
    planes.feed((None, 1), ("x", 3), ("b", 8, 1))
    failed = planes.start()
    with pytest.raises(ConfigurationError, match="1 rows have a null in a key column"):
        failed.await_termination(60)
    assert {"a": 1, "b": 2} == planes.content()
    planes.run(null_keys="skip")
    assert {"a": 1, "b": 8, "x": 3} == planes.content("abx")


def test_a_fill_ends_when_another_one_takes_the_store_over(planes: Planes) -> None:
    planes.feed(("a", 1))
    with planes.start(trigger={"processingTime": "100 milliseconds"}) as running:
        wait_until_ready(planes.store, timeout=60, bootstrapped=False, poll=0.05)
        planes.fill(("z", 1), rebuild=True)
        planes.feed(("b", 2))
        with pytest.raises(FencedError):
            running.await_termination(60)
    assert {} == planes.content("ab")


def test_a_fill_of_a_lower_epoch_leaves_the_one_that_runs_alone(planes: Planes) -> None:
    planes.feed(("a", 1))
    with planes.start(epoch=5, trigger={"processingTime": "100 milliseconds"}) as running:
        wait_until_ready(planes.store, timeout=60, bootstrapped=False, poll=0.05)
        with pytest.raises(FencedError, match="a fill of epoch 5 has had it, and this one is of epoch 4"):
            planes.start(epoch=4)
        with pytest.raises(FencedError, match="this one is of epoch 4"):
            planes.fill(("z", 1), rebuild=True, epoch=4)
        planes.feed(("b", 2))
        until(lambda: {"a": 1, "b": 2} == planes.content("ab"), running)
    planes.feed(("c", 3))
    planes.run(epoch=6)
    assert {"a": 1, "b": 2, "c": 3} == planes.content()


def test_a_second_start_with_wrong_arguments_does_not_end_the_fill_that_runs(planes: Planes) -> None:
    planes.feed(("a", 1))
    with planes.start(trigger={"processingTime": "100 milliseconds"}, query_name="planes") as running:
        wait_until_ready(planes.store, timeout=60, bootstrapped=False, poll=0.05)
        assert "<fill of store " in repr(running) and repr(running).endswith("stores/planes, generation 1: running>")
        for more, message in (
            ({"query_name": "planes"}, "query_name: a query named 'planes' is running"),
            ({"trigger": {"every": "1 minute"}}, r"trigger: \{'every': '1 minute'\} is not possible: .*Give arguments"),
            ({"trigger": {"processingTime": "1 minut"}}, "trigger: .*minut"),
            ({"trigger": {"processingTime": ""}}, "trigger: .*Give arguments"),
            ({"max_age": "1 day"}, "max_age of StreamFillSettings is '1 day': give a number of seconds"),
        ):
            with pytest.raises(ConfigurationError, match=message):
                planes.start(rebuild=True, **{"checkpoint": planes.folder / "another", **more})
        planes.feed(("b", 2))
        until(lambda: {"a": 1, "b": 2} == planes.content("ab"), running)


def aggregated(planes: Planes) -> DataFrame:
    return planes.stream().groupBy("tail").agg(F.max("seats").alias("seats"), F.max("at").alias("at"))


def test_an_aggregate_in_update_mode_sets_the_groups_that_have_changed(planes: Planes) -> None:
    columns = {"delete_when": "seats > 8", "order_by": None, "output_mode": "update"}
    planes.feed(("a", 1), ("b", 2), ("c", 9))
    planes.run(stream=aggregated(planes), **columns)
    assert {"a": 1, "b": 2} == planes.content()
    planes.feed(("a", 3), ("a", 2), ("c", 1))
    planes.feed(("b", 9), ("d", 4))
    planes.run(stream=aggregated(planes), **columns)
    assert {"a": 3, "d": 4} == planes.content()
    assert 1 == manifest(planes).generations[-1].number


def test_an_aggregate_in_complete_mode_is_all_that_the_store_has(planes: Planes) -> None:
    def largest() -> DataFrame:
        """The one largest plane, and planes of 100 seats and more."""
        return aggregated(planes).where("seats < 100").orderBy(F.desc("seats")).limit(2)

    columns = {"delete_when": None, "order_by": None, "output_mode": "complete", "partitions": 3}
    planes.feed(("a", 1), ("b", 2), ("c", 3))
    planes.run(stream=largest(), **columns)
    assert {"b": 2, "c": 3} == planes.content()
    planes.feed(("a", 7), ("d", 1))
    planes.feed(("c", 100), ("a", 8))
    planes.run(stream=largest(), **columns)
    assert {"a": 8, "b": 2} == planes.content()
    newest = manifest(planes).newest
    assert newest is not None and (1, 2, 2) == (newest.generation, newest.batch, newest.entries)
    planes.feed(*((tail, 100) for tail in "abd"))
    planes.run(stream=largest(), **columns)
    assert {} == planes.content()
    newest = manifest(planes).newest
    assert newest is not None and (("", "", ""), 0, 0) == (newest.checkpoints, newest.entries, newest.bytes)
    with pytest.raises(
        ConfigurationError, match="output_mode of StreamFillSettings is 'all': give 'append', 'update' or 'complete'"
    ):
        planes.start(output_mode="all")


def unusable(planes: Planes) -> Path:
    """A checkpoint folder that is a file."""
    (planes.folder / "file").write_text("x")
    return planes.folder / "file"


class _FailingReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        raise ValueError("the source is gone")

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        raise NotImplementedError(f"no batch is planned, so {partition} is not read")


class _FailingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "failing"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _FailingReader()


def failing(planes: Planes) -> DataFrame:
    """A stream that Spark takes, and whose source fails when the first batch is planned."""
    planes.spark.dataSource.register(_FailingSource)
    return planes.spark.readStream.format("failing").load()


def test_what_spark_refuses_leaves_the_fill_that_runs_as_it_is(planes: Planes) -> None:
    columns = {"delete_when": None, "source": "planes"}
    planes.feed(("a", 1))
    with planes.start(trigger={"processingTime": "100 milliseconds"}, **columns) as running:
        until(lambda: manifest(planes).newest is not None, running)
        before = manifest(planes)
        for wrong, message in (
            ({"stream": aggregated(planes)}, 'Spark refuses it: .*append.*Give output_mode="update"'),
            ({"stream": planes.stream().orderBy("tail")}, "Spark refuses it: .*Sorting is not supported"),
            ({"checkpoint": unusable(planes)}, "Spark refuses it: .*(not a directory|Not a directory)"),
            ({"checkpoint": "abc://x/y"}, 'No FileSystem for scheme "abc"'),
            ({"stream": failing(planes)}, "the source is gone"),
        ):
            with pytest.raises((AzureBlobError, PySparkException), match=message):
                planes.start(**{"checkpoint": planes.folder / "another", "rebuild": True, **columns, **wrong})
            assert before == manifest(planes)
            assert [running.query.id] == [query.id for query in planes.spark.streams.active]
        planes.feed(("b", 2))
        until(lambda: {"a": 1, "b": 2} == planes.content("ab"), running)


def test_a_checkpoint_that_spark_cannot_read_changes_nothing(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.run()
    before = manifest(planes)
    offsets = planes.folder / "fill" / "g1" / "offsets"
    (offsets / ".0.crc").unlink()
    content = (offsets / "0").read_text()
    (offsets / "0").write_text("v9\n")
    with pytest.raises(PySparkException, match="v9"):
        planes.start()
    assert before == manifest(planes)
    (offsets / "0").write_text(content)
    assert 1 == planes.run().generation


def test_streams_with_other_keys_are_refused_before_they_start(planes: Planes) -> None:
    planes.feed(("a", 1))
    planes.run()
    for change, message in (
        ({"keys": ["op"]}, "its keys are tail string, those of this fill are op string"),
        ({"values": ["op"]}, "its values are seats int, those of this fill are op string"),
        ({"partitions": 2}, "its partitions are 1, those of this fill are 2"),
        (
            {"order_by": "seats", "values": ["seats"]},
            "its order_by are at bigint, those of this fill are seats int",
        ),
        ({"order_by": None}, "its order_by are at bigint, those of this fill are none"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            planes.start(**change)
    with pytest.raises(
        ConfigurationError, match="on_truncated of StreamFillSettings is 'ignore': give 'fail' or 'rebuild'"
    ):
        planes.start(on_truncated="ignore")


def test_failures_that_mean_a_truncated_source_are_recognized() -> None:
    azureblob = (
        "failed: a vacuum has removed the versions after it. Start the query with a new checkpoint: it begins at 4"
    )
    assert is_truncation(ValueError(azureblob))
    assert is_truncation(ValueError("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost"))
    assert not is_truncation(ValueError("the disk is full"))


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_store_whose_source_was_truncated_is_built_again_and_keys_that_were_removed_leave_it(
    planes: Planes, bootstrap: bool
) -> None:
    options, events = dict(planes.store.options), f"{planes.store.container}/events"

    def append(*rows: tuple[Any, ...]) -> None:
        append_version(options, events, pa.RecordBatch.from_pylist([{"tail": row[0], "seats": row[1]} for row in rows]))

    def run(**more: Any) -> StreamFill:
        stream = planes.spark.readStream.format("azureblob").options(**options).load(events)
        settings = {"values": ["seats"], "order_by": None, "delete_when": "seats < 0", "bootstrap": bootstrap}
        return planes.run(stream=stream, **{**settings, **more})

    append(("a", 1), ("b", 2))
    assert 1 == run().generation
    append(("b", -1))
    append(("c", 3))
    append(("d", 4))
    log = CommitLog(planes.store.open(), "events")
    plan = plan_vacuum(log, datetime.now(UTC) + timedelta(hours=1))
    assert 2 == vacuum(log.container, plan, lambda: uuid.uuid4().hex).entries  # one lists the transactions
    with pytest.raises(NotFoundError, match="a vacuum has removed the versions after it"):
        run()
    assert {"a": 1, "b": 2} == planes.content(), "what was there serves"
    assert 2 == run(on_truncated="rebuild").generation
    assert {"d": 4} == planes.content()
    append(("a", 9))
    assert 2 == run(on_truncated="rebuild").generation
    assert {"a": 9, "d": 4} == planes.content()


def test_a_store_that_has_grown_is_built_again_in_one_batch_as_the_error_says(planes: Planes) -> None:
    for seats in range(1, 4):
        planes.feed(("a", seats, seats), ("b", seats, seats))
    planes.feed(("b", None, 4, "D"))
    planes.run(order_by=None)
    assert {"a": 3} == planes.content()
    at_once = {"order_by": None, "stream": planes.spark.readStream.schema(SCHEMA).json(str(planes.folder / "input"))}
    rebuilding = planes.start(rebuild=True, **at_once)
    with pytest.raises(ConfigurationError, match=r"two different changes of key tail='[ab]'.*Give `then_by`, columns"):
        rebuilding.await_termination(60)
    assert {"a": 3} == planes.content(), "what was there serves"
    assert 2 == planes.run(then_by="at", **at_once).generation
    newest = manifest(planes).newest
    assert newest is not None and (2, 0) == (newest.generation, newest.batch)
    assert {"a": 3} == planes.content()


@pytest.mark.parametrize("snapshot_first", [True, False])
def test_a_snapshot_and_the_changes_after_it_are_two_streams_of_one_fill(planes: Planes, snapshot_first: bool) -> None:
    snapshot = planes.folder / "snapshot"
    snapshot.mkdir()

    def write_snapshot() -> None:
        rows = [{"tail": tail, "seats": 1, "at": 0, "op": "U"} for tail in "abc"]
        (snapshot / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run() -> None:
        stream = planes.spark.readStream.schema(SCHEMA).json(str(snapshot)).unionByName(planes.stream())
        planes.run(stream=stream, bootstrap=True)

    if snapshot_first:
        write_snapshot()
    planes.feed(("a", 5, 7), ("b", None, 3, "D"))
    run()
    write_snapshot()
    planes.feed(("d", 4, 9))
    run()
    assert {"a": 5, "c": 1, "d": 4} == planes.content()


class Reader:
    """A streaming query that joins its rows with the store; one micro-batch for each file."""

    def __init__(self, planes: Planes) -> None:
        self.planes, self.batches = planes, dict[int, dict[str, int | None]]()
        self.folder = planes.folder / "flights"
        self.folder.mkdir()

    def feed(self, number: int) -> None:
        text = "".join(json.dumps({"tail": each}) + "\n" for each in "abcdefgh")
        (self.folder / f"{number}.json").write_text(text)

    def fed(self, number: int) -> Path:
        """Its folder, with this batch."""
        self.feed(number)
        return self.folder

    def start(self, *, in_batch: bool) -> StreamingQuery:
        rows = self.planes.spark.readStream.schema("tail string").json(str(self.folder))
        joined = rows if in_batch else self.joined(rows)

        def take(rows: DataFrame, batch: int) -> None:
            found = self.joined(rows) if in_batch else rows
            self.batches[batch] = dict(found.collect())

        query = joined.writeStream.foreachBatch(take).option("checkpointLocation", str(self.planes.folder / "reader"))
        return query.trigger(availableNow=True).start()

    def joined(self, rows: DataFrame) -> DataFrame:
        return join(
            rows.repartition(3), self.planes.store, on=["tail"], settings=JoinSettings(cache_dir=self.planes.cache)
        )


@pytest.mark.every_spark
@pytest.mark.oldest_spark
@pytest.mark.parametrize("in_batch", [False, True], ids=["stream", "foreachBatch"])
def test_each_micro_batch_reads_the_version_that_it_has_pinned(planes: Planes, in_batch: bool) -> None:
    reader, query = Reader(planes), None
    for batch in range(4):
        planes.fill(*((tail, batch, batch) for tail in "abcd"), ("e", None, batch, "D"), partitions=2, keep=1)
        reader.feed(batch)
        query = reader.start(in_batch=in_batch)
        query.awaitTermination()
        assert dict.fromkeys("abcd", batch) | dict.fromkeys("efgh") == reader.batches[batch]
    assert query is not None
    container, store = planes.store.open(), planes.store.path
    pinned = [pin_version(container, store, str(query.id), batch)[0] for batch in (2, 3)]
    assert [2, 3] == [version.batch for version in pinned]


def test_a_micro_batch_reads_one_version_though_the_store_changes_amidst_it(planes: Planes) -> None:
    planes.fill(("a", 1))
    found: list[dict[str, int | None]] = []
    rows = planes.spark.readStream.schema("tail string").json(str(Reader(planes).fed(0)))

    def take(rows: DataFrame, batch: int) -> None:
        for order in (1, 2):
            joined = join(rows, planes.store, on=["tail"], how="inner", settings=JoinSettings(cache_dir=planes.cache))
            found.append(dict(joined.collect()))
            planes.fill(("a", 1 + order, order), keep=1)

    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(planes.folder / "reader"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [{"a": 1}, {"a": 1}] == found
    assert {"a": 3} == planes.content()


def test_threads_of_a_micro_batch_read_its_version_if_they_inherit_its_properties(planes: Planes) -> None:
    planes.fill(("a", 1))
    found: dict[str, Any] = {}
    rows = planes.spark.readStream.schema("tail string").json(str(Reader(planes).fed(0)))

    def take(rows: DataFrame, _: int) -> None:
        def joined() -> DataFrame:
            return join(rows, planes.store, on=["tail"], how="inner", settings=JoinSettings(cache_dir=planes.cache))

        def read(name: str, frame: DataFrame | None) -> None:
            try:
                found[name] = [tuple(row) for row in (frame or joined()).collect()]
            except PySparkException as error:
                found[name] = str(error)

        before = joined()
        read("no thread", before)
        planes.fill(("a", 2, 1), keep=1)
        for thread in (
            InheritableThread(target=read, args=("inherits", None), session=planes.spark),
            Thread(target=read, args=("joins in another one", None)),
            Thread(target=read, args=("reads in another one", before)),
        ):
            thread.start()
            thread.join(60)

    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(planes.folder / "reader"))
    writer.trigger(availableNow=True).start().awaitTermination()
    error = found.pop("reads in another one")
    assert {"no thread": [("a", 1)], "inherits": [("a", 1)], "joins in another one": [("a", 2)]} == found
    assert re.search(r"belongs to no batch.*pyspark\.InheritableThread", error)


def test_a_micro_batch_that_is_run_again_reads_what_it_read_before(planes: Planes) -> None:
    planes.fill(("a", 1))
    reader = Reader(planes)
    reader.feed(0)
    reader.start(in_batch=False).awaitTermination()
    planes.fill(("a", 2, 1))
    shutil.rmtree(planes.folder / "reader" / "commits")
    reader.batches.clear()
    reader.start(in_batch=False).awaitTermination()
    assert 1 == reader.batches[0]["a"]


def test_a_query_that_wants_columns_of_a_newer_generation_says_how_its_last_batch_gets_it(planes: Planes) -> None:
    planes.fill(("a", 1))
    rows = planes.spark.readStream.schema("tail string").json(str(Reader(planes).fed(0)))
    found: list[dict[str, Any]] = []

    def run(column: str) -> StreamingQuery:
        joined = join(
            rows,
            planes.store,
            on=["tail"],
            how="inner",
            columns=JoinColumns(names=[column]),
            settings=JoinSettings(cache_dir=planes.cache),
        )
        writer = joined.writeStream.foreachBatch(lambda batch, _: found.append(dict(batch.collect())))
        return writer.option("checkpointLocation", str(planes.folder / "reader")).trigger(availableNow=True).start()

    run("seats").awaitTermination()
    planes.fill(("a", 2, 1), values=["op"], rebuild=True)
    shutil.rmtree(planes.folder / "reader" / "commits")
    again = run("op")
    with pytest.raises(
        PySparkException, match=r"'op' was of type string.*and is gone.*release_pins\(store, query id\)"
    ):
        again.awaitTermination()
    with pytest.raises(ConfigurationError, match="a store and the id of a query, or neither"):
        release_pins(planes.store)
    release_pins(planes.store, str(again.id))
    run("op").awaitTermination()
    assert [{"a": 1}, {"a": "U"}] == found
