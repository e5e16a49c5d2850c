"""The foreign reader: Spark's own `avro` format, in a separate Spark without this project.

    python -m tests.spark.avro_to_parquet FROM TO        every folder of Avro files in FROM becomes one of Parquet in TO

Ends with 3 if the format's package cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tools.spark_session import local_spark

PACKAGE = "org.apache.spark:spark-avro_2.13:4.1.1"
CONF: dict[str, Any] = {
    "spark.jars.packages": PACKAGE,
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
NOT_TO_BE_HAD = 3


def main(source: Path, target: Path) -> int:
    try:
        spark = local_spark("avro to parquet", quick_start=True, **CONF)
    except Exception as error:  # noqa: BLE001 - py4j has one class for all errors
        print(error, file=sys.stderr)  # noqa: T201
        return NOT_TO_BE_HAD
    for folder in sorted(source.iterdir()):
        spark.read.format("avro").load(str(folder)).coalesce(1).write.parquet(str(target / folder.name))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
