"""Spark's own `avro` format writes, in a Spark without this project.

python -m tests.clients.spark_writer FOLDER      FOLDER/spark
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.spark.avro_to_parquet import CONF
from tools.spark_session import local_spark

ROWS = """
    SELECT * FROM VALUES (
        true, CAST(-7 AS TINYINT), CAST(300 AS SMALLINT), 5, 9223372036854775807, CAST(0.5 AS FLOAT), 1e308D, 'é',
        X'00ff', CAST(-12.34 AS DECIMAL(9, 2)), CAST(-1.5 AS DECIMAL(38, 10)), DATE'2024-02-29',
        TIMESTAMP'2024-02-29 12:30:15.123456', TIMESTAMP_NTZ'2024-02-29 12:30:15.123456', ARRAY(1, NULL),
        MAP('k', NAMED_STRUCT('x', 1L)), NAMED_STRUCT('größe', 'z', 'deep', NAMED_STRUCT('y', 0.25D)),
        INTERVAL '1 02:03:04' DAY TO SECOND
    ) AS t(`flag`, tiny, short, number, large, single, double, text, data, money, wide, day, at, local, tags, by_name,
        inner, span)
"""
CODECS = ["uncompressed", "deflate", "snappy", "zstandard", "bzip2", "xz"]


def main(folder: Path) -> None:
    target = folder / "spark"
    target.mkdir(parents=True, exist_ok=True)
    spark = local_spark("avro", quick_start=True, **CONF)
    rows = spark.sql(ROWS)
    everything = rows.unionByName(rows.selectExpr(*(f"IF(flag, NULL, {name}) AS {name}" for name in rows.columns)))
    for codec in CODECS:
        parts = folder / "parts"
        everything.coalesce(1).write.format("avro").option("compression", codec).mode("overwrite").save(str(parts))
        shutil.copy(next(parts.glob("*.avro")), target / f"rows-{codec}.avro")
        shutil.rmtree(parts)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
