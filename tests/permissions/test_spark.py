"""What Spark's own tasks request: the letters of the page suffice, and are those of the features without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from adjunct_store.spark import release_pins
from tests.adjunct_store.spark.planes import Planes
from tests.features.streams import batch_of
from tests.permissions.operations import letters_of
from tests.permissions.proxy import checking_proxy
from tests.permissions.table import rows, stored
from tests.permissions.trial import AzuriteBench

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tools.azurite import Azurite

pytestmark = pytest.mark.slow


def letters(group: str) -> str:
    """The letters that a row of the page has before its brackets."""
    [sas] = [sas for name, _, sas in rows(stored()) if name.startswith(group)]
    return sas.split("`")[1]


def test_writes_and_reads_of_spark_work_with_the_letters_of_the_page(
    spark: SparkSession, azurite: Azurite, tmp_path: Path
) -> None:
    frame = spark.createDataFrame(batch_of(1, 2).to_pylist(), "origin string, id long")
    with checking_proxy(azurite) as proxy:
        bench = AzuriteBench(azurite, proxy, tmp_path)
        place = bench.place()
        appends, reads = (
            bench.narrowed(place, "container", letters(group)) for group in ("appends, `open", "reads: b")
        )
        frame.write.format("azureblob").mode("append").options(**appends.of_stream()).save()
        assert set(letters_of(proxy.take())) <= set(letters("appends, `open"))
        found = spark.read.format("azureblob").options(**reads.of_stream()).load()
        assert [1, 2] == sorted(row.id for row in found.collect())
        assert set(letters_of(proxy.take())) <= set(letters("reads: b"))


def test_a_fill_and_a_join_of_spark_work_with_the_letters_of_the_page(
    spark: SparkSession, azurite: Azurite, tmp_path: Path
) -> None:
    fills, reads = "`adjunct_store`: fills", "`adjunct_store`: reads"
    with checking_proxy(azurite) as proxy:
        bench = AzuriteBench(azurite, proxy, tmp_path)
        place = bench.place()
        store = bench.narrowed(place, "container", letters(fills)).at("stores/planes")
        planes = Planes(spark, store, tmp_path)
        planes.fill(("a", 1), ("b", 2))
        assert set(letters_of(proxy.take())) <= set("rlwdt")
        reader = replace(planes, store=bench.narrowed(place, "container", letters(reads)).at("stores/planes"))
        assert [("a", 1), ("b", 2)] == reader.join(["a", "b"])
        release_pins()
        assert set(letters_of(proxy.take())) <= set("rlwd")
