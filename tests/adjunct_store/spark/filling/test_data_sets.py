"""Bounded data sets replace each other as a whole."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark import FillSettings, FillSpec, fill_data_sets, load_data_set, wait_until_ready
from adjunct_store.spark.filling import data_sets as module
from adjunct_store.spark.filling.data_sets import DataSetVersions, data_sets
from adjunct_store.versions.manifest_store import read_manifest
from azure_account.location import Location
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from control_messages.producer import ProducerSpec
from control_messages.spark import AzureBlobTransport, control_envelopes
from foundation.errors import ConfigurationError, NotFoundError
from tests.adjunct_store.spark.planes import Planes, settings_of, spec_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from adjunct_store.spark import FillResult
    from tools.azurite import Azurite

COLUMNS: dict[str, Any] = {"keys": ["tail"], "values": ["seats"], "partitions": 2}


def load(planes: Planes, *rows: tuple[Any, ...], **more: Any) -> FillResult:
    spec, others = spec_of({**COLUMNS, "order_by": None, "delete_when": None, **more}), settings_of(more)
    number = others.pop("number", 0)
    settings = FillSettings(cache_dir=planes.cache, **others)
    return load_data_set(planes.store, planes.rows(*rows), spec, number=number, settings=settings)


def test_a_data_set_replaces_the_one_before_as_a_whole(planes: Planes) -> None:
    first = load(planes, ("a", 1), ("b", 2)).version
    assert first == wait_until_ready(planes.store, timeout=0)
    assert {"a": 1, "b": 2} == planes.content()
    of_first = planes.joined("abc", how="inner", version=first.number)
    assert 2 == of_first.count()
    second = load(planes, ("b", 3), ("c", 4)).version
    assert {"b": 3, "c": 4} == planes.content()
    assert (first.generation + 1, 2) == (second.generation, second.entries)
    assert {"a": 1, "b": 2} == dict(map(tuple, of_first.collect()))


def test_a_store_that_was_filled_otherwise_is_replaced_only_if_that_is_asked_for(planes: Planes) -> None:
    planes.fill(("a", 1))
    with pytest.raises(ConfigurationError, match=r"it is filled from batch, not from data sets\. .*rebuild=True"):
        load(planes, ("b", 2))
    assert {"a": 1} == planes.content()
    load(planes, ("b", 2), rebuild=True)
    load(planes, ("c", 3))
    assert {"c": 3} == planes.content()
    with pytest.raises(ConfigurationError, match="it is filled from data sets, not from others"):
        load(planes, ("d", 4), source="others")


def test_a_data_set_that_is_not_whole_is_never_seen(planes: Planes) -> None:
    with pytest.raises(ConfigurationError, match="two different changes of key tail='a'"):
        load(planes, ("a", 1), ("a", 2))
    with pytest.raises(NotFoundError):
        planes.content()
    load(planes, ("a", 1), ("b", 2))
    with pytest.raises(ConfigurationError, match="rows have a null"):
        load(planes, ("c", 1), (None, 2))
    assert {"a": 1, "b": 2} == planes.content()
    load(planes, ("d", 1))
    assert {"d": 1} == planes.content()
    manifest = read_manifest(planes.store.open(), planes.store.path)
    assert manifest is not None and {True} == {each.sealed for each in manifest.generations}


def test_a_data_set_may_have_other_columns(planes: Planes) -> None:
    load(planes, ("a", 1))
    load(planes, ("a", 1), values=["seats", "op"], partitions=1)
    assert [("a", 1, "U")] == planes.join("ab", how="inner")


class Upstream:
    """A job that writes data sets into a stream, as `run_bounded` does: rows, then the end of a generation."""

    def __init__(self, planes: Planes, azurite: Azurite) -> None:
        self.planes, self.options = planes, {"connectionString": azurite.connection_string}
        self.path = f"{planes.store.container}/planes"
        self.transport = AzureBlobTransport(Location(self.path, self.options))
        self.producer = ProducerSpec("planes", partitions=2, tasks=1, generation=0)

    def run(self, *rows: tuple[Any, ...]) -> None:
        message = F.to_json(F.struct("tail", "seats")).cast("binary")
        envelope = F.concat(F.lit(b"\x00"), message).alias("value")
        self.transport.append(self.planes.rows(*rows).select(F.lit(0).alias("partition"), envelope))
        self.end()
        self.producer = replace(self.producer, generation=self.producer.generation + 1)

    def end(self) -> None:
        self.transport.append(control_envelopes(self.planes.spark, self.producer, self.producer.end_of_stream()))

    def load(self) -> FillResult | None:
        planes = self.planes
        stream, settings = Location(self.path, self.options), FillSettings(cache_dir=planes.cache)
        return fill_data_sets(planes.store, planes.spark, stream, parsed, FillSpec(**COLUMNS), settings)


def parsed(messages: DataFrame) -> DataFrame:
    value = F.from_json(F.col("value").cast("string"), "tail string, seats int").alias("plane")
    return messages.select(value).select("plane.*")


def test_the_ends_of_a_stream_seal_its_data_sets(planes: Planes, azurite: Azurite) -> None:
    upstream = Upstream(planes, azurite)
    assert upstream.load() is None
    upstream.run(("a", 1), ("b", 2))
    first = upstream.load()
    assert first is not None and 2 == first.upserts
    assert {"a": 1, "b": 2} == planes.content()
    assert upstream.load() is None

    upstream.run(("b", 3), ("c", 4))
    upstream.run(("c", 5), ("d", 6))
    assert {"a": 1, "b": 2} == planes.content()
    assert upstream.load() is not None
    assert {"c": 5, "d": 6} == planes.content(), "the newest complete data set, and nothing of those before"

    upstream.producer = replace(upstream.producer, generation=upstream.producer.generation - 1)
    upstream.end()
    assert upstream.load() is None, "an end that is repeated is no data set"


def test_a_data_set_of_which_a_vacuum_has_removed_rows_is_not_loaded(planes: Planes, azurite: Azurite) -> None:
    upstream = Upstream(planes, azurite)
    upstream.run(("a", 1), ("b", 2))
    upstream.load()
    upstream.run(("c", 3))
    container = planes.store.open()

    def remove(last: int) -> None:
        log = CommitLog(container, "planes")
        plan = plan_vacuum(log, datetime.now(UTC) + timedelta(hours=1))
        outdated = tuple(each for each in plan.outdated if each.version <= last)
        vacuum(container, replace(plan, outdated=outdated, first=last + 1), lambda: uuid.uuid4().hex)

    remove(0)
    assert upstream.load() is not None, "only rows of the data set before are gone"
    upstream.run(("d", 4))
    remove(4)
    with pytest.raises(ConfigurationError, match="a vacuum has removed the versions before 5.*Keep two data sets"):
        upstream.load()
    assert {"c": 3} == planes.content()
    upstream.run(("e", 5))
    assert upstream.load() is not None
    assert {"e": 5} == planes.content()


def test_a_stream_that_is_shorter_than_what_was_loaded_of_it_was_written_anew_and_is_loaded(
    planes: Planes, azurite: Azurite, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(planes, azurite)
    upstream.run(("z", 9))
    load(planes, ("a", 1), source=f"data sets of {upstream.path}")
    monkeypatch.setattr(module, "_loaded", lambda *_: 5)
    assert upstream.load() is not None
    assert {"z": 9} == planes.content("az")
    assert "was written again: it ends at version 1, and store" in caplog.text


def end(version: int, generation: int | None, partition: int = 0, task: str | None = "0", tasks: int = 1) -> Row:
    return Row(version=version, generation=generation, partition=partition, taskName=task, taskCount=tasks)


def test_data_sets_are_what_lies_between_ends() -> None:
    assert [] == data_sets([], "s")
    ends = [end(9, 2), end(4, None), end(4, None, partition=1), end(6, 0), end(9, 2, partition=1)]
    assert [DataSetVersions(0, -1, 4), DataSetVersions(2, 4, 9)] == data_sets(ends, "s")
    assert [DataSetVersions(0, -1, 4)] == data_sets([end(4, 0, task=None, tasks=3)], "s")
    with pytest.raises(ConfigurationError, match="its version 4 has the ends of 2 of 3 tasks in partition 1"):
        data_sets([end(4, 0, partition=1, task=name, tasks=3) for name in "ab"], "s")
