"""Whatever DataFrame is written is read back equal, or refused by name before anything is stored.

One DataFrame has dozens of columns of random nested types, so that one job tests them all; those that differ are named,
and of a job that fails the columns are halved until it is known which ones make it fail.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from arrow_avro import arrow_of, spark_of
from arrow_avro.decoding.scanners import VARIABLE
from azure_account import connect
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.options import source_options
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import pack_splits, split_blobs
from tests.spark.random_types import ALL, VERSION, Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from tests.spark.stored import Stored

pytestmark = [pytest.mark.every_spark, pytest.mark.oldest_spark]

COLUMNS, ROWS = 70, 6
SEEDS = [1, *(pytest.param(seed, marks=[pytest.mark.long, pytest.mark.timeout(3600)]) for seed in range(2, 12))]
STREAMS = VERSION >= (4, 1)
"""Spark 4.0 has no encoder for streams with some of these columns (`should contain at least one BoundReference`)."""
ERROR = "foundation.errors."


@dataclass(frozen=True)
class Drawn:
    """Columns by name, each with an expression for each row."""

    kinds: dict[str, Kind]
    values: dict[str, list[str]]

    @staticmethod
    def of(seed: int, count: int = COLUMNS) -> Drawn:
        random = Random(seed)
        kinds = {f"c{place}": kind_of(random) for place in range(count)}
        values = {name: _rows(kind, random) for name, kind in kinds.items()}
        return Drawn(kinds, values)

    def frame(self, spark: SparkSession, names: Sequence[str] | None = None) -> DataFrame:
        chosen = list(self.kinds) if names is None else list(names)
        rows = [f"({row}, {', '.join(self.values[name][row] for name in chosen)})" for row in range(ROWS)]
        return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t(n, {', '.join(chosen)})")


def _rows(kind: Kind, random: Random) -> list[str]:
    nulls = 0.3 if random.random() < 0.6 else 0.0
    return [kind.null if random.random() < nulls else kind.value(random) for _ in range(ROWS)]


@dataclass
class Stream:
    """A stream to write to, and the ways to do it."""

    spark: SparkSession
    options: dict[str, str]
    folder: Path
    container: str
    without_columns: bool = False

    def batch(self, frame: DataFrame, target: str) -> None:
        self._chosen(frame).write.format("azureblob").options(**self.options).mode("append").save(target)

    def streaming(self, frame: DataFrame, target: str) -> None:
        rows = self._chosen(self._numbers(target).join(frame, "n"))
        self._run(rows.writeStream.format("azureblob").options(**self.options).option("path", target), target)

    def for_each_batch(self, frame: DataFrame, target: str) -> None:
        rows = self._numbers(target).join(frame, "n")
        self._run(rows.writeStream.foreachBatch(lambda batch, _: self.batch(batch, target)), target)

    def _chosen(self, frame: DataFrame) -> DataFrame:
        return frame.select() if self.without_columns else frame

    def read(self, target: str) -> DataFrame:
        return self.spark.read.format("azureblob").options(**self.options).load(target)

    def _numbers(self, target: str) -> DataFrame:
        folder = self.folder / target.replace("/", "-")
        folder.mkdir()
        (folder / "numbers.json").write_text("\n".join(f'{{"n": {row}}}' for row in range(ROWS)))
        return self.spark.readStream.schema("n INT").json(str(folder))

    def _run(self, sink: Any, target: str) -> None:
        checkpoint = str(self.folder / f"checkpoint-{target.replace('/', '-')}")
        query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()


WAYS: dict[str, Callable[[Stream, DataFrame, str], None]] = {
    "batch": Stream.batch,
    "streaming": Stream.streaming,
    "foreachBatch": Stream.for_each_batch,
}


TIME = "spark.sql.timeType.enabled"


@pytest.fixture
def stream(spark: SparkSession, options: dict[str, str], tmp_path: Path, container_name: str) -> Iterator[Stream]:
    spark.conf.set(TIME, "true")
    yield Stream(spark, options, tmp_path, container_name)
    spark.conf.unset(TIME)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_nested_column_is_read_back_equal_however_it_was_written(seed: int, stream: Stream) -> None:
    drawn = Drawn.of(seed)
    for way, write in WAYS.items():
        if way != "batch" and not STREAMS:
            continue
        names = list(drawn.kinds)
        frame = drawn.frame(stream.spark, names)
        before, expected = _by_number(frame), _stored_schema(frame)
        target = f"{stream.container}/{way.lower()}"
        try:
            write(stream, frame, target)
        except PySparkException as error:
            guilty = _halved(names, lambda some: _writes(stream, drawn, some))
            pytest.fail(f"{way}: {[drawn.kinds[name].ddl for name in guilty]}: {error}")
        read = stream.read(target)
        types = {field.name: field for field in read.schema}
        after = _by_number(read)
        wrong = [
            f"{drawn.kinds[name].ddl}: {_column(before, name)} is read as {_column(after, name)}, {types.get(name)}"
            for name in names
            if _column(before, name) != _column(after, name) or types.get(name) != expected[name]
        ]
        assert [] == wrong, way
        if find_spec("pyspark_azureblob_native") is not None:
            assert _decoded(stream, target, "pure") == _decoded(stream, target, "native"), way


def test_every_kind_of_type_is_drawn() -> None:
    seen: Counter[str] = Counter()
    for kind in Drawn.of(1).kinds.values():
        seen.update(kind.names)
    assert set() == ALL - set(seen)


@pytest.mark.parametrize("way", WAYS)
def test_a_type_without_an_avro_form_is_refused_by_its_path_wherever_it_is_nested(
    way: str, stream: Stream, stored: Stored
) -> None:
    wrong = {
        "array(named_struct('x', INTERVAL '2' MONTH))": "column 'wrong.element.x' has type interval month",
        "map()": "column 'wrong' has type map<void,void>",
    }
    for place, (column, message) in enumerate(wrong.items()):
        frame = stream.spark.sql(f"SELECT CAST(id AS INT) AS n, {column} AS wrong FROM range(2)")
        with pytest.raises(PySparkException, match=f"{ERROR}ConfigurationError: {message}"):
            WAYS[way](stream, frame, f"{stream.container}/refused{place}")
    assert [] == stored.names()


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_a_column_are_refused(way: str, stream: Stream, stored: Stored) -> None:
    frame = stream.spark.range(2).selectExpr("CAST(id AS INT) AS n")
    stream.without_columns = True
    with pytest.raises(PySparkException, match=f"{ERROR}ConfigurationError: No column is left to write"):
        WAYS[way](stream, frame, f"{stream.container}/none")
    assert [] == stored.names()


def _by_number(frame: DataFrame) -> list[Row]:
    return frame.orderBy("n").collect()


def _column(rows: list[Row], name: str) -> list[str]:
    """Values as text: NaN and VARIANT values do not equal themselves."""
    return [repr(row[name]) for row in rows]


def _stored_schema(frame: DataFrame) -> Any:
    """The types as they are read: a void may be null wherever it is."""
    return spark_of(arrow_of(frame.schema))


def _writes(stream: Stream, drawn: Drawn, names: Sequence[str]) -> bool:
    target = f"{stream.container}/part-{'-'.join(names)}"[:200]
    try:
        stream.batch(drawn.frame(stream.spark, names), target)
    except PySparkException:
        return False
    return True


def _halved(names: list[str], works: Callable[[list[str]], bool]) -> list[str]:
    """The columns that do not work by themselves; if only several together do not, the fewest that were found."""
    if len(names) == 1:
        return names
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    return [name for half in halves if not works(half) for name in _halved(half, works)] or names


def _decoded(stream: Stream, target: str, decoder: str) -> list[str]:
    """The rows by one decoder, without Spark."""
    given = source_options({"path": target, **stream.options}, {})
    container = connect(given.account).container(given.address.container)
    snapshot = take_snapshot(CommitLog(container, given.stream), None)
    kept = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = decoder
    try:
        settings = SplitSettings(reader=snapshot.reader_schema, columns=None, ignore_corrupt=False)
        splits = pack_splits(split_blobs(snapshot.blobs, 1 << 25), 1 << 25)
        batches = [batch for each in splits for _, batch in read_splits(container, each, settings)]
    finally:
        os.environ.pop(VARIABLE, None) if kept is None else os.environ.update({VARIABLE: kept})
    return [repr(row) for batch in batches for row in pa.Table.from_batches([batch]).to_pylist()]
