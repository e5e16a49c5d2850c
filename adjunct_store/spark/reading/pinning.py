"""The driver's side of reading: which generation a query is planned for, and the pins of batch jobs."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.spark.reading.batch_pins import BatchPins
from adjunct_store.spark.reading.task_reader import BATCH, QUERY, StoreReadSpec
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.pins import release
from azure_account.location import Location
from foundation.arguments import checked
from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from adjunct_store.spark.reading.batch_pins import PinHold
    from adjunct_store.spark.reading.settings import ReadSettings
    from adjunct_store.versions.manifest import Version

logger = logging.getLogger("adjunct_store")

_batch_pins = BatchPins()
_DRIVER = uuid.uuid4().hex
"""This process, in the pins of streaming queries."""


@dataclass(frozen=True)
class PlannedStore:
    """What tasks need to read a store, and the schema with which the query is planned.

    hold: of the version that a batch job has pinned; say how long it is needed.
    """

    pinned: StoreReadSpec
    schema: StoreSchema
    hold: PinHold | None = None


def plan(store: Location, settings: ReadSettings, *, streaming: bool) -> PlannedStore:
    """Prepare a read. A batch job pins its version now; in a streaming query each micro-batch pins its own.

    `NotFoundError` if the store has no version, or not the one of the settings.
    """
    version, form, folder = settings.version, settings.form, settings.folder
    found, schema = _planned(store, version)
    if streaming or _in_micro_batch():
        pinned_later = StoreReadSpec(store, version=version, form=form, cache_dir=folder, driver=_DRIVER)
        return PlannedStore(pinned_later, schema)
    hold = _batch_pins.pin(store, found, version)
    number = hold.pin.version.number
    if number != found.number:
        _, schema = _planned(store, number)
    pinned = StoreReadSpec(store, hold.pin.reader, version=number, form=form, cache_dir=folder)
    return PlannedStore(pinned, schema, hold)


def kept(planned: PlannedStore) -> StoreReadSpec:
    """Keep the version pinned until the process ends: for functions that may be called at any time."""
    if planned.hold is not None:
        planned.hold.for_good()
    return planned.pinned


def _in_micro_batch() -> bool:
    """Whether Spark runs this code for a micro-batch (`foreachBatch`): then its tasks know query and batch."""
    try:
        context = SparkSession.active().sparkContext  # a thread that inherits the properties has no active session
    except PySparkRuntimeError:
        return False
    return context.getLocalProperty(QUERY) is not None and context.getLocalProperty(BATCH) is not None


@checked
def release_pins(store: Location | None = None, query: str | None = None) -> None:
    """Release pins, so that a clean-up may delete their versions.

    store: of the pins of a streaming query; by default all pins of this process's batch jobs are released.
    query: the id of that query, which must not run. If its last batch runs again, it reads the newest version.

    Call it for batch jobs when none of them runs any more. A join releases the pins of DataFrames that are no longer
    referenced, and the exit of a process releases all of its pins. The pins of a killed process expire.
    """
    if (store is None) != (query is None):
        raise ConfigurationError("Function release_pins needs both a store and the id of a query, or neither.")
    if store is None or query is None:
        _batch_pins.release_all()
    else:
        release(store.open(), store.path, query)


def has_plan(mapped: DataFrame) -> Callable[[], bool]:
    """A function that returns True as long as Spark may run the function of `mapInArrow` that made this DataFrame.

    All plans, cached data and RDDs that need it share one object of the JVM, which has no other owner: they are gone
    when the JVM has collected that object. If this cannot be observed, the function always returns True.
    """
    try:
        java: Any = mapped.sparkSession._jvm  # noqa: SLF001 - only the JVM knows
        function = mapped._jdf.queryExecution().logical().functionExpr().func()  # noqa: SLF001
        reference = java.java.lang.ref.WeakReference(function)
    except (AttributeError, Py4JError) as error:
        logger.info("The pin of a DataFrame stays until the process ends: %s", error)
        return lambda: True

    def is_there() -> bool:
        try:
            return not reference.refersTo(None)  # `get` would hold it until Python tells the JVM of its own garbage
        except (OSError, Py4JError):  # the JVM does not answer
            return True

    return is_there


def _planned(store: Location, version: int | None) -> tuple[Version, StoreSchema]:
    manifest = read_manifest(store.open(), store.path)
    found = None
    if manifest is not None:
        found = manifest.newest if version is None else manifest.version(version)
    generation = None if manifest is None or found is None else manifest.generation(found.generation)
    if found is None or generation is None:
        have = ", ".join(str(each.number) for each in ([] if manifest is None else manifest.versions)) or "none"
        wanted = "no version that readers get" if version is None else f"no version {version}"
        step = "Fill it, and call wait_until_ready before the query starts."
        if version is not None:
            step = "Give one of these, or leave `version` out for the newest one."
        raise NotFoundError("read", f"store {store}", f"it has {wanted}; its versions are {have}", step)
    return found, StoreSchema.from_json(generation.schema)
