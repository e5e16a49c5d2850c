"""The sink writes standard Avro: Spark's own reader and fastavro read every codec, value for value."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest
from azure.storage.blob import ContainerClient

from arrow_avro import CODECS
from tests.spark.avro_to_parquet import NOT_TO_BE_HAD, PACKAGE
from tests.spark.stored import Stored
from tools.spark_session import spark_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tools.azurite import Azurite

CONTAINER = "test-foreign"
COLUMNS = """
    id, id % 2 = 0 AS even, CAST(id % 100 AS TINYINT) AS small, CAST(id / 7 AS FLOAT) AS ratio, id * -1.5D AS minus,
    CAST(id - 250 AS DECIMAL(10, 2)) / 3 AS money, repeat('é', CAST(id % 40 AS INT)) AS text,
    CAST(CAST(id AS STRING) AS BINARY) AS bytes, DATE'2020-02-29' - CAST(id AS INT) AS day,
    timestamp_millis(id * 123456789) AS at, CAST(timestamp_millis(id * 1234567) AS TIMESTAMP_NTZ) AS local,
    IF(id % 3 = 0, NULL, named_struct('x', nullif(id, 4), 'tags', IF(id = 5, NULL, array('a', NULL, 'b')))) AS nested,
    map('k', id, 'l', NULL) AS counts
"""


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, 500, 1, 2).selectExpr(*_split(COLUMNS))


@pytest.fixture(scope="module")
def files(frame: DataFrame, azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each codec with the blobs written with it, and with a checkpoint of its log."""
    folder = tmp_path_factory.mktemp("avro")
    for codec in CODECS:
        options = {"connectionString": azurite.connection_string, "codec": codec, "checkpointInterval": "1"}
        frame.write.format("azureblob").options(**options).mode("append").save(f"{CONTAINER}/{codec}")
    with ContainerClient.from_connection_string(azurite.connection_string, CONTAINER) as client:
        for codec in CODECS:
            (folder / codec).mkdir()
            stored = Stored(client)
            stored.download(folder / codec, codec)
            hidden = [name for name in stored.names(f"{codec}/_iceberg/metadata/") if name.endswith(".avro")]
            assert 2 == len(hidden), "a list and a manifest"
            (folder / hidden[0]).parent.mkdir(parents=True)
            for name in hidden:
                (folder / name).write_bytes(stored.bytes(name))
    return folder


@pytest.fixture(scope="module")
def by_sparks_own(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as Parquet, written by a Spark that read the files with its own format."""
    target = tmp_path_factory.mktemp("parquet")
    command = [sys.executable, "-m", "tests.spark.avro_to_parquet", str(files), str(target)]
    job = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False, timeout=250)
    if job.returncode == NOT_TO_BE_HAD:
        pytest.skip(f"{PACKAGE} cannot be had: {job.stderr.strip().splitlines()[-1]}")
    assert 0 == job.returncode, job.stderr
    return target


@pytest.fixture(scope="module")
def expected(frame: DataFrame) -> Counter[str]:
    return _values(frame.toArrow().to_pylist())


@pytest.mark.parametrize("codec", CODECS)
def test_sparks_own_avro_format_reads_the_blobs(by_sparks_own: Path, expected: Counter[str], codec: str) -> None:
    assert expected == _values(pq.read_table(by_sparks_own / codec).to_pylist())


@pytest.mark.parametrize("codec", CODECS)
def test_fastavro_reads_the_blobs(files: Path, expected: Counter[str], codec: str) -> None:
    rows = []
    for path in sorted((files / codec).glob("*.avro")):
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            assert codec == reader.codec
            rows += list(reader)
    assert expected == _values(rows)


def _values(rows: list[dict[str, Any]]) -> Counter[str]:
    """Rows as text that is the same for all readers: maps as dicts, floats in single precision."""
    return Counter(str({name: _plain(name, value) for name, value in row.items()}) for row in rows)


def _plain(name: str, value: Any) -> Any:
    match value:
        case list() if name == "counts":
            return dict(value)
        case float():
            return f"{value:.6g}"
        case _ if hasattr(value, "isoformat"):
            return value.isoformat()
    return value


def _split(columns: str) -> list[str]:
    """The SQL expressions of a list, which may have commas in brackets."""
    found, depth = [""], 0
    for character in columns:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [expression.strip() for expression in found]


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, **spark_environment()}
