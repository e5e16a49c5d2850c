from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from adjunct_store.encoding.spark_hash import partition_of, spark_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = pa.schema(
    [
        ("s", pa.string()), ("b", pa.binary()), ("t", pa.bool_()), ("i1", pa.int8()), ("i2", pa.int16()),
        ("i4", pa.int32()), ("i8", pa.int64()), ("d", pa.date32()), ("ts", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip


def rows() -> pa.RecordBatch:
    draw = random.Random(15)

    def some(make: Any) -> list[Any]:
        return [None if draw.random() < 0.1 else make() for _ in range(500)]

    def text() -> str:
        return "".join(draw.choice("aZ0é漢😀") for _ in range(draw.randrange(12)))

    columns = [
        pa.array(some(text)),
        pa.array(some(lambda: draw.randbytes(draw.randrange(41))), pa.binary()),
        pa.array(some(lambda: draw.random() < 0.5), pa.bool_()),
        *(pa.array(some(lambda bits=bits: draw.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))), f"int{bits}")
          for bits in (8, 16, 32, 64)),
        pa.array(some(lambda: draw.randrange(-30_000, 60_000)), pa.int32()).cast(pa.date32()),
        pa.array(some(lambda: draw.randrange(-(10**15), 4 * 10**15)), pa.int64()).cast(pa.timestamp("us", "UTC")),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=KEYS)


def test_hashes_and_partitions_are_those_of_spark(spark: SparkSession) -> None:
    batch = rows()
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    single = [f"hash({name}) AS h_{name}" for name in KEYS.names]
    whole = ", ".join(KEYS.names)
    found = frame.selectExpr(*single, f"hash({whole}) AS h", f"pmod(hash({whole}), 7) AS p").toArrow()
    for name in KEYS.names:
        assert found[f"h_{name}"].to_pylist() == spark_hash(batch.select([name])).tolist(), name
    assert found["h"].to_pylist() == spark_hash(batch).tolist()
    assert found["p"].to_pylist() == partition_of(batch, 7).tolist()


@pytest.mark.parametrize("begin", [0, 3, 250])
def test_a_slice_has_the_hashes_of_its_rows(begin: int) -> None:
    batch = rows()
    assert spark_hash(batch)[begin:].tolist() == spark_hash(batch.slice(begin)).tolist()


def test_no_rows_have_no_hashes() -> None:
    assert 0 == len(partition_of(rows().slice(0, 0), 3))


def test_keys_are_spread_over_all_partitions() -> None:
    numbers = pa.record_batch({"k": np.arange(100_000)})
    counts = np.bincount(partition_of(numbers, 16), minlength=16)
    assert counts.min() > 5_500
    assert counts.max() < 7_000
