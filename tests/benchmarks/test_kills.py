"""What the benchmark of killed jobs counts."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING

import fastavro
import numpy as np
import pytest
from azure.core.exceptions import ResourceNotFoundError

pytest.importorskip("polars", reason="not of the environments of other versions of Spark")

import polars as pl

from benchmarks.kills.listing import Lister, Seen, counted, is_data, row_numbers
from benchmarks.kills.section import FILES, ROWS, write_input
from benchmarks.kills.sinks import AVRO_SCHEMA, Sink
from tools.reporting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def avro(numbers: Sequence[int]) -> bytes:
    data = io.BytesIO()
    fastavro.writer(data, AVRO_SCHEMA, [{"number": number, "text": "x"} for number in numbers])
    return data.getvalue()


def parquet(numbers: Sequence[int]) -> bytes:
    data = io.BytesIO()
    pl.DataFrame({"number": numbers, "text": ["x"] * len(numbers)}).write_parquet(data)
    return data.getvalue()


class Container:
    """Blobs by name, as the Azure SDK's client shows them. staged: names that have staged blocks only."""

    def __init__(self, **blobs: bytes) -> None:
        self.blobs, self.staged, self.reads = blobs, set[str](), 0

    def list_blobs(self, prefix: str, include: str = "") -> Iterator[SimpleNamespace]:
        names = {*self.blobs, *(self.staged if include else ())}
        return iter([SimpleNamespace(name=name, etag=hash(self.blobs.get(name))) for name in names if prefix in name])

    def download_blob(self, name: str) -> SimpleNamespace:
        self.reads += 1
        if name not in self.blobs:
            raise ResourceNotFoundError
        return SimpleNamespace(readall=lambda: self.blobs[name])


def test_rows_of_two_files_are_doubled_and_files_that_cannot_be_read_are_half() -> None:
    seen = counted([np.array([0, 1, 2]), np.array([2, 3]), None, np.array([], np.int64)])
    assert Seen(rows=5, different=4, half=1) == seen
    assert 1 == seen.doubled
    assert 6 == seen.lost(10)
    assert Seen(0, 0, 0) == counted([])


@pytest.mark.parametrize(("name", "write"), [("rows/a.avro", avro), ("rows/a.parquet", parquet)])
def test_a_file_is_read_whole_or_not_at_all(name: str, write: object) -> None:
    assert callable(write)
    data = write(range(1000))
    numbers = row_numbers(name, data)
    assert numbers is not None
    assert list(range(1000)) == numbers.tolist()
    for cut in (0, 1, len(data) // 2, len(data) - 1):
        assert row_numbers(name, data[:cut]) is None, cut


def test_hidden_names_and_other_suffixes_are_no_data_files() -> None:
    names = ("rows/a.avro", "rows/_spark_metadata/0", "rows/_x/a.avro", "rows/.a.avro", "rows/a.parquet")
    assert ["rows/a.avro"] == [name for name in names if is_data(name, ".avro")]


def test_the_worst_look_is_kept_and_a_file_is_read_once_until_it_changes() -> None:
    container = Container(**{"rows/a.avro": avro([0, 1]), "rows/b.avro": b"", "rows/_log/c.avro": avro([0, 1])})
    lister = Lister(container, "rows", ".avro")  # type: ignore[arg-type]
    assert Seen(2, 2, 1) == lister.look()
    container.blobs["rows/b.avro"] = avro([0, 1, 2])
    assert Seen(5, 3, 0) == lister.look()
    del container.blobs["rows/a.avro"]
    assert Seen(3, 3, 0) == lister.look()
    assert (2, 1) == (lister.most_doubled, lister.most_half)
    assert 3 == container.reads


def test_a_file_that_is_deleted_after_the_listing_is_not_there() -> None:
    container = Container(**{"rows/a.avro": avro([0])})
    container.staged = {"rows/b.avro"}
    lister = Lister(container, "rows", ".avro")  # type: ignore[arg-type]
    assert 1 == lister.staged()
    names, container.blobs = dict(lister.names()), {}
    lister.names = lambda: names  # type: ignore[method-assign]
    assert Seen(0, 0, 0) == lister.look()


def test_a_look_runs_until_the_job_has_ended() -> None:
    lister = Lister(Container(**{"rows/a.avro": avro([0])}), "rows", ".avro")  # type: ignore[arg-type]
    with lister.watching(seconds=0.001):
        wait_for(lambda: lister.looks > 2, 60)
    looks = lister.looks
    assert Seen(1, 1, 0) == lister.look()
    assert looks + 1 == lister.looks


def test_the_input_has_each_number_once(tmp_path: Path) -> None:
    write_input(tmp_path / "input", 2)
    numbers = pl.read_parquet(tmp_path / "input" / "*.parquet")["number"].to_list()
    assert list(range(2 * FILES * ROWS)) == sorted(numbers)


def test_each_sink_has_a_container_of_its_own() -> None:
    assert len(Sink) == len({sink.container for sink in Sink})
