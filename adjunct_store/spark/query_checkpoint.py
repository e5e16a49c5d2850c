"""The checkpoint of a fill's query, as far as the fill has to know it: which batches it has planned and committed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class CheckpointState:
    """The newest batches of a checkpoint; -1 if there is none."""

    planned: int
    committed: int

    def fits(self, published: int) -> bool:
        """Whether a store whose last batch is `published` (-1: none) was filled by the query of this checkpoint.

        A batch is planned, then published, then committed. If one is committed and not published, the store would miss
        it; if one is published and not planned, other rows will get its number.
        """
        return self.committed <= published <= self.planned


def checkpoint_state(spark: SparkSession, location: str) -> CheckpointState:
    """Read the checkpoint, on whatever file system it is."""
    jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no other way to Hadoop's file systems
    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    root = jvm.org.apache.hadoop.fs.Path(location)
    files = root.getFileSystem(configuration)

    def newest(folder: str) -> int:
        path = jvm.org.apache.hadoop.fs.Path(root, folder)
        if not files.exists(path):
            return -1
        names = [str(each.getPath().getName()) for each in files.listStatus(path)]
        return max((int(name) for name in names if _BATCH.fullmatch(name)), default=-1)

    return CheckpointState(newest("offsets"), newest("commits"))
