"""Several stores of one job: their rows are applied, all others are returned."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from adjunct_store.spark import AdjunctStore, AdjunctStores, FillSpec, JoinSettings, join
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.adjunct_store.spark.planes import Planes


def rows(planes: Planes, *rows: tuple[object, ...]) -> DataFrame:
    return planes.spark.createDataFrame(list(rows), "stream string, id string, seats int, name string, at long")


def stores(planes: Planes) -> AdjunctStores:
    airports = replace(planes.store, where=f"{planes.store.container}/stores/airports")
    streams = {
        "planes": AdjunctStore(planes.store, FillSpec(["id"], ["seats"], order_by="at")),
        "airports": AdjunctStore(airports, FillSpec(["id"], ["name"], order_by="at", partitions=2)),
    }
    return AdjunctStores(streams, source="changes", cache_dir=planes.cache)


def test_rows_of_stores_are_applied_and_all_others_are_returned(planes: Planes) -> None:
    job = stores(planes)
    batch = rows(
        planes, ("planes", "a", 1, None, 1), ("airports", "a", None, "EWR", 1), ("flights", "f", 0, "x", 1),
        (None, "g", 0, "y", 1),
    )  # fmt: skip
    others = job.process(batch, 0)
    assert ["f", "g"] == sorted(row.id for row in others.collect())
    assert {"planes": 1, "airports": 1} == {name: each.upserts for name, each in job.filled.items()}
    keys = planes.spark.createDataFrame([("a",)], "id string")
    for store in (planes.store, replace(planes.store, where=f"{planes.store.container}/stores/airports")):
        keys = join(keys, store, on=["id"], settings=JoinSettings(cache_dir=planes.cache))
    assert [("a", 1, "EWR")] == [tuple(row) for row in keys.collect()]


def test_a_repeated_batch_is_applied_once_and_a_new_job_goes_on(planes: Planes) -> None:
    batch = rows(planes, ("planes", "a", 1, None, 1), ("planes", "b", 2, None, 1))
    stores(planes).process(batch, 5)
    again = stores(planes)
    again.process(batch, 5)
    assert 0 == again.filled["planes"].upserts
    again.process(rows(planes, ("planes", "b", 3, None, 2)), 6)
    assert {"a": 1, "b": 3} == planes.content()


def test_a_store_belongs_to_one_query_with_one_set_of_columns(planes: Planes) -> None:
    folder = planes.folder / "events"
    folder.mkdir()

    def run(checkpoint: str, spec: FillSpec, **more: bool) -> None:
        streams = {"planes": AdjunctStore(planes.store, spec)}
        job = AdjunctStores(streams, source="changes", cache_dir=planes.cache, **more)
        number = len(list(folder.iterdir()))
        (folder / f"{number}.json").write_text(json.dumps({"stream": "planes", "id": f"{number}", "seats": number}))
        source = planes.spark.readStream.schema("stream string, id string, seats int").json(str(folder))

        def process(rows: DataFrame, batch: int) -> None:
            job.process(rows, batch)

        writer = source.writeStream.foreachBatch(process)
        writer.option("checkpointLocation", str(planes.folder / checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()

    spec = FillSpec(["id"], ["seats"])
    run("first", spec)
    run("first", spec)
    assert {"0": 0, "1": 1} == planes.content("0123")
    with pytest.raises(PySparkException, match="it is filled from changes by query .*, not from changes by query"):
        run("second", spec)
    for change in (FillSpec(["id"], ["seats"], partitions=2), FillSpec(["id"], ["seats"], order_by="seats")):
        with pytest.raises(PySparkException, match="those of this fill are"):
            run("first", change)
    assert {"0": 0, "1": 1} == planes.content("0123")
    run("second", spec, rebuild=True)
    assert {str(number): number for number in range(6)} == planes.content("012345")


def test_two_streams_do_not_fill_one_store(planes: Planes) -> None:
    store = AdjunctStore(planes.store, FillSpec(["id"]))
    with pytest.raises(ConfigurationError, match="is filled from two streams"):
        AdjunctStores({"a": store, "b": store}, source="changes")
    with pytest.raises(ConfigurationError, match="stream_column: the DataFrame has no column 'topic'"):
        stores(planes).process(rows(planes), 0, "topic")


def test_batches_in_any_order_are_applied_once_or_refused(planes: Planes) -> None:
    """Spark repeats the last batch only: an earlier one comes from an older copy of the checkpoint."""
    draws, published, content = Random(3), -1, dict[str, int]()
    job = stores(planes)
    for number in range(12):
        batch = max(0, published + draws.choice([-2, -1, 0, 1, 1, 2]))
        job = draws.choice([job, stores(planes)])
        rows_of_batch = rows(planes, ("planes", f"{batch}", number, None, number), ("flights", "f", 0, "x", 1))
        if batch < published:
            with pytest.raises(ConfigurationError, match=f"batch {batch} comes, and batch {published} was published"):
                job.process(rows_of_batch, batch)
        else:
            job.process(rows_of_batch, batch)
            if batch > published:
                content[f"{batch}"] = number
            published = max(batch, published)
    assert content == planes.content(content)


def test_an_older_copy_of_the_checkpoint_is_refused_and_what_the_error_says_helps(planes: Planes) -> None:
    folder, checkpoint = planes.folder / "events", planes.folder / "checkpoint"
    folder.mkdir()

    def run(number: int, where: Path = checkpoint, **more: bool) -> None:
        (folder / f"{number}.json").write_text(json.dumps({"stream": "planes", "id": f"{number}", "seats": number}))
        streams = {"planes": AdjunctStore(planes.store, FillSpec(["id"], ["seats"]))}
        job = AdjunctStores(streams, source="changes", cache_dir=planes.cache, **more)
        source = planes.spark.readStream.schema("stream string, id string, seats int").json(str(folder))

        def process(rows: DataFrame, batch: int) -> None:
            job.process(rows, batch)

        writer = source.writeStream.foreachBatch(process)
        query = writer.option("checkpointLocation", str(where)).trigger(availableNow=True).start()
        query.awaitTermination()

    run(0)
    shutil.copytree(checkpoint, planes.folder / "older")
    for number in (1, 2):
        run(number)
    newest = shutil.move(checkpoint, planes.folder / "newest")
    shutil.copytree(planes.folder / "older", checkpoint)
    with pytest.raises(PySparkException, match="batch 1 comes, and batch 2 was published.*an older copy"):
        run(3)
    assert {f"{number}": number for number in range(3)} == planes.content("0123")
    shutil.rmtree(checkpoint)
    shutil.copytree(newest, checkpoint)
    run(4)
    assert {f"{number}": number for number in range(5)} == planes.content("01234")
    run(5, planes.folder / "new", rebuild=True)
    assert {f"{number}": number for number in range(6)} == planes.content("012345")
