"""The checkpoint of a fill's query, as far as the fill has to know it: whose it is, and which batches it has."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

_BATCH = re.compile(r"[0-9]+")
_GENERATION = re.compile(r"g([0-9]+)")
_LOCAL = "file:"
_SOURCE = "checkpoint "
"""How the source of a store begins that is named after the checkpoint folder of its fill."""


@dataclass(frozen=True)
class CheckpointState:
    """The newest batches of a checkpoint; -1 without one. query: the id of its query; "" before the query has one."""

    planned: int = -1
    committed: int = -1
    query: str = ""

    def misfit(self, published: int, query: str) -> str:
        """Why the query of this checkpoint has not filled a store; "" if it has.

        published: the last batch of the store, -1 without one. query: which fills it; "" if the store does not say.

        A batch is planned, then published, then committed. If one is committed and not published, the store would miss
        it; if one is published and not planned, other rows will get its number.
        """
        if self.planned < 0 and (published >= 0 or (query and not self.query)):
            has = f"the store has batches up to {published}" if published >= 0 else f"query {query} fills the store"
            return f"the checkpoint is not there, and {has}"
        if query and query != self.query:
            return f"the checkpoint is of query {self.query}, and query {query} fills the store"
        if self.committed <= published <= self.planned:
            return ""
        batches = f"has planned batch {self.planned} and committed batch {self.committed}"
        return f"the checkpoint {batches}, and the store has batches up to {published}"


def one_spelling(qualified: str) -> str:
    """A path with its file system, as Hadoop writes it, in one spelling: that of a local folder is its plain path."""
    if not qualified.startswith(_LOCAL):
        return qualified.rstrip("/")
    return posixpath.normpath("/" + qualified.removeprefix(_LOCAL).lstrip("/"))


class CheckpointFolder:
    """The folder of a fill, which has a checkpoint for each generation, on whatever file system it is.

    path: in the spelling that all its spellings have in common. `ConfigurationError` if Hadoop has no such file system.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no other way to Hadoop's file systems
        try:
            self._files = self._path(location).getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
            self.path: str = self._spelling(location)
        except (Py4JJavaError, PySparkException) as error:
            step = "Give a folder on a file system that Spark can reach. Nothing was changed."
            raise ConfigurationError("open", f"checkpoint {location}", java_cause(error), step) from error

    def source(self, known: Iterable[str]) -> str:
        """The source that is named after this folder: as it is known, if that has another spelling of the folder."""
        for each in known:
            folder = each.removeprefix(_SOURCE)
            if folder != each and self._spelling(folder) == self.path:
                return each
        return f"{_SOURCE}{self.path}"

    def location(self, generation: int) -> str:
        """The `checkpointLocation` of a generation's query."""
        return f"{self.path}/g{generation}"

    def last_generation(self) -> int:
        """The highest generation that has a folder; 0 without one."""
        found = (_GENERATION.fullmatch(name) for name in self._names(self.path))
        return max((int(each[1]) for each in found if each is not None), default=0)

    def state(self, generation: int) -> CheckpointState:
        """Read the checkpoint of a generation."""
        at = self.location(generation)
        return CheckpointState(self._newest(f"{at}/offsets"), self._newest(f"{at}/commits"), self._query(at))

    def _spelling(self, location: str) -> str:
        try:
            return one_spelling(str(self._files.makeQualified(self._path(location))))
        except Py4JJavaError:
            return location  # of another file system

    def _newest(self, folder: str) -> int:
        return max((int(name) for name in self._names(folder) if _BATCH.fullmatch(name)), default=-1)

    def _names(self, folder: str) -> Iterator[str]:
        path = self._path(folder)
        found = self._files.listStatus(path) if self._files.exists(path) else ()
        return (str(each.getPath().getName()) for each in found)

    def _query(self, location: str) -> str:
        path = self._path(f"{location}/metadata")
        if not self._files.exists(path):
            return ""
        stream = self._files.open(path)
        try:
            return str(json.loads(bytes(stream.readAllBytes()))["id"])
        except (ValueError, KeyError):
            return ""
        finally:
            stream.close()

    def _path(self, location: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(location)


def java_cause(error: Py4JJavaError | PySparkException) -> str:
    """What Java or Spark says, in one line."""
    return str(error.java_exception if isinstance(error, Py4JJavaError) else error).splitlines()[0]
