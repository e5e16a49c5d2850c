"""Bounded data sets: each is all that the store has, built beside the one before and seen when it is whole.

    rows ─► load_data_set ─► the next generation ─► sealed: readers switch by one write of the manifest
    stream ─► its ends of streams, in its log ─► the newest data set that is complete ─► load_data_set

In a stream a data set is what its producer has written from one end of the stream to the next, as `run_bounded` does.
An end is one commit of the stream, so data sets are ranges of versions: no row can be counted to another one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill import FillResult, VersionWriter
from adjunct_store.spark.filling.fill_spec import FillSpec
from adjunct_store.spark.filling.settings import FillSettings
from adjunct_store.versions.manifest_store import open_fill, read_manifest
from adjunct_store.versions.opening import FillRequirements
from azure_account.connect import connect
from azure_account.location import Location
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.options import source_options
from foundation.arguments import Natural, checked
from foundation.errors import ConfigurationError, NotFoundError
from foundation.worker_errors import own_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Row


logger = logging.getLogger("adjunct_store")

DATA_SETS = "data sets"
"""The source of a store that is filled by `load_data_set`, unless another one is named."""
_USER = b"\x00"
"""What the envelope of a row begins with; other envelopes are control messages."""


@checked
def load_data_set(
    store: Location,
    rows: DataFrame,
    spec: FillSpec,
    *,
    number: Natural = 0,
    settings: FillSettings = FillSettings(),
) -> FillResult:
    """Replace all that a store has by the rows of a batch DataFrame. Readers see the old rows until all are published.

    store: where the store is. It is made if it is absent, and so is its container.
    rows: a batch DataFrame: the whole data set.
    spec: see `fill`. Its columns may differ from those of earlier data sets.
    number: of the data set; its version has it as batch.
    settings: see `fill`. `rebuild` also replaces a store of another kind of fill.

    After a crash the next call builds the data set from the beginning. Errors: see `fill`.
    """
    if rows.isStreaming:
        raise ConfigurationError("Function load_data_set needs a batch DataFrame; use fill_data_sets for a stream.")
    schema = changes_of(rows, spec).schema
    source = settings.source or DATA_SETS
    terms = FillRequirements(
        source, schema.partitions, bounded=True, rebuild=settings.rebuild, keep=settings.keep, epoch=settings.epoch
    )
    opened = open_fill(store, schema.to_json(), terms)
    if opened.generation.sealed:
        opened = opened.build_beside(schema.to_json(), source, partitions=schema.partitions)
    writer = VersionWriter(store, opened, spec, schema, settings.cache_dir)
    return writer.run(rows, number, bootstrapped=True, sealed=True)


@checked
def fill_data_sets(
    store: Location,
    spark: SparkSession,
    stream: Location,
    rows: Callable[[DataFrame], DataFrame],
    spec: FillSpec,
    settings: FillSettings = FillSettings(),
) -> FillResult | None:
    """Load the newest complete data set of a stream that `control_messages` has written, unless the store has it.

    store: see `load_data_set`.
    spark: reads the stream.
    stream: where the stream is, of format `azureblob`.
    rows: makes the columns of `spec` of a DataFrame with the columns `partition` and `value`, the payload of each
    message (binary).
    spec: see `load_data_set`.
    settings: see `load_data_set`; `source` is the stream, and cannot be given.

    None if the stream does not exist yet, or has no newer complete data set than the store. Call it again whenever
    there may be another one. `ConfigurationError` if an end of the stream is spread over several commits, or if a
    vacuum may have removed rows of the data set.
    """
    if settings.source is not None:
        raise ConfigurationError("Argument settings.source: the stream is the source of its data sets. Leave it out.")
    path, given = stream.where, dict(stream.options)
    control = spark.read.format("azureblob").options(**given, view="control")
    try:
        with own_errors():
            found = data_sets(control.load(path).where("type = 'endOfStream'").collect(), path)
    except NotFoundError:
        return None
    source = f"data sets of {path}"
    loaded = _loaded(store, source)
    if not found or found[-1].last == loaded:
        return None
    newest = found[-1]
    if newest.last < loaded:
        text = "Stream %s was written again: it ends at version %d, and store %s had version %d of it"
        logger.warning(text, path, newest.last, store, loaded)
    _check_kept(newest, given, path)
    reader = spark.read.format("azureblob").options(**given, metadataColumns="version", versionAsOf=newest.last)
    envelopes = reader.load(path)
    own = envelopes.where((F.col("_version") > newest.after) & (F.substring("value", 1, 1) == F.lit(_USER)))
    messages = own.select("partition", F.expr("substring(value, 2)").alias("value"))
    named = replace(settings, source=source)
    return load_data_set(store, rows(messages), spec, number=newest.last, settings=named)


@dataclass(frozen=True)
class DataSetVersions:
    """The versions of a stream that a data set is: those above `after`, up to `last`, which has its end.

    generation: of its producer.
    """

    generation: int
    after: int
    last: int


def data_sets(ends: Iterable[Row], path: str) -> list[DataSetVersions]:
    """The complete data sets of a stream, in their order.

    ends: rows of the view `control` for ends of the stream. Of several ends of a generation the first one counts.
    """
    by_version: dict[tuple[int, int], list[Row]] = {}
    for end in ends:
        by_version.setdefault((end["version"], end["generation"] or 0), []).append(end)
    found: list[DataSetVersions] = []
    for (version, generation), rows in sorted(by_version.items()):
        if found and generation <= found[-1].generation:
            continue
        _check_whole(rows, path, version)
        found.append(DataSetVersions(generation, found[-1].last if found else -1, version))
    return found


def _check_whole(ends: Iterable[Row], path: str, version: int) -> None:
    """`ConfigurationError` unless every task has ended in every partition that has an end."""
    tasks: dict[int, set[str | None]] = {}
    count = 0
    for end in ends:
        tasks.setdefault(end["partition"], set()).add(end["taskName"])
        count = max(count, end["taskCount"] or 1)
    for partition, names in tasks.items():
        if None not in names and len(names) < count:
            cause = f"its version {version} has the ends of {len(names)} of {count} tasks in partition {partition}"
            step = "Write the ends of all tasks by one append, as run_bounded does."
            raise ConfigurationError("read data sets of", path, cause, step)


def _check_kept(wanted: DataSetVersions, options: Mapping[str, str], path: str) -> None:
    """`ConfigurationError` if rows of the data set may be gone."""
    given = source_options({"path": path, **options}, os.environ)
    log = CommitLog(connect(given.account).container(given.address.container), given.stream)
    first = log.refresh_boundary().first
    if first > wanted.after + 1:
        cause = f"a vacuum has removed the versions before {first}, and the newest data set may begin before that"
        step = "Keep two data sets at least (vacuum --older-than), and write another one."
        raise ConfigurationError("read data sets of", path, cause, step)


def _loaded(store: Location, source: str) -> int:
    """The last version of the stream that the store has; -1 without one."""
    manifest = read_manifest(store.prepare(), store.path)
    if manifest is None:
        return -1
    sealed = [each.number for each in manifest.generations if each.sealed and each.source == source]
    return max((each.batch for each in manifest.versions if each.generation in sealed), default=-1)
