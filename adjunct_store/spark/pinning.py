"""The driver's side of reading: which generation a query is planned for, and the pins of batch jobs."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.spark.task_reader import BATCH, QUERY, PinnedStore
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.pins import pin_version, release
from adjunct_store.view import check_form
from azure_account.errors import AzureBlobError, ConfigurationError, NotFoundError, describe

if TYPE_CHECKING:
    from pathlib import Path

    from adjunct_store.location import StoreLocation
    from adjunct_store.versions.manifest import Version
    from adjunct_store.view import Form

logger = logging.getLogger(__name__)

_readers: dict[tuple[StoreLocation, int], str] = {}
"""The pins of this process for batch jobs, by store and version: a second job with the same version needs no other."""
_pinning = threading.Lock()
_DRIVER = uuid.uuid4().hex
"""This process, in the pins of streaming queries."""
_EXIT_SECONDS = 5.0


@dataclass(frozen=True)
class PlannedStore:
    """What tasks need to read a store, and the schema with which the query is planned."""

    pinned: PinnedStore
    schema: StoreSchema


def plan(
    store: StoreLocation,
    *,
    streaming: bool,
    version: int | None = None,
    form: Form = "rocksdb",
    cache_dir: Path | str | None = None,
) -> PlannedStore:
    """Prepare a read. A batch job pins its version now; in a streaming query each micro-batch pins its own.

    `NotFoundError` if the store has no version, or not this one; `ConfigurationError` for an unknown form.
    """
    check_form(form)
    if version is not None and type(version) is not int:
        raise ConfigurationError(f"version is {version!r}: give the number of a version, as `ls` shows it.")
    folder = None if cache_dir is None else str(cache_dir)
    found, schema = _planned(store, version)
    if streaming or _in_micro_batch():
        pinned_later = PinnedStore(store, version=version, form=form, cache_dir=folder, driver=_DRIVER)
        return PlannedStore(pinned_later, schema)
    reader, pinned = _pinned(store, found, version)
    if pinned.number != found.number:
        _, schema = _planned(store, pinned.number)
    return PlannedStore(PinnedStore(store, reader, version=pinned.number, form=form, cache_dir=folder), schema)


def _in_micro_batch() -> bool:
    """Whether Spark runs this code for a micro-batch (`foreachBatch`): then its tasks know query and batch."""
    try:
        context = SparkSession.active().sparkContext  # a thread that inherits the properties has no active session
    except PySparkRuntimeError:
        return False
    return context.getLocalProperty(QUERY) is not None and context.getLocalProperty(BATCH) is not None


def _pinned(store: StoreLocation, newest: Version, version: int | None) -> tuple[str, Version]:
    """The reader of the pin that this process has on the version, which is renewed; a new one if it has none."""
    with _pinning:
        return _pinned_alone(store, newest, version)


def _pinned_alone(store: StoreLocation, newest: Version, version: int | None) -> tuple[str, Version]:
    known = _readers.get((store, newest.number))
    if known is not None:
        pin_version(store.open(), store.store, known, 0, version=newest.number)
        return known, newest
    if not _readers:
        atexit.register(_release_at_exit)
    reader = f"batch-{uuid.uuid4().hex}"
    found, _ = pin_version(store.open(), store.store, reader, 0, version=version)
    _readers[store, found.number] = reader
    return reader, found


def release_pins(store: StoreLocation | None = None, query: str | None = None) -> None:
    """Release what batch jobs of this process have pinned, when none of them runs any more.

    An exit of the process does it too. The pins of a killed one expire, and their versions stay until then.

    store, query: release the pins that a streaming query has on a store, by its id, when it does not run. Its last
    batch, if that is run again, then reads the version that is the newest.
    """
    if (store is None) != (query is None):
        raise ConfigurationError("release_pins takes a store and the id of a query, or neither.")
    if store is None or query is None:
        _release(None)
    else:
        release(store.open(), store.store, query)


def _release_at_exit() -> None:
    _release(_EXIT_SECONDS)


def _release(seconds: float | None) -> None:
    """Pins that cannot be released are left for another call.

    seconds: for which to try, in all; by default for each as long as the account's options say.
    """
    began = time.monotonic()
    for (store, version), reader in list(_readers.items()):
        reached = store
        if seconds is not None:
            left = began + seconds - time.monotonic()
            if left <= 0:
                logger.warning("%d pins stay until they expire, such as on store %s", len(_readers), store)
                return
            reached = store.within(left)
        try:
            release(reached.open(), store.store, reader)
        except AzureBlobError as error:
            logger.warning("the pin of version %d of store %s stays until it expires: %s", version, store, error)
        else:
            _readers.pop((store, version), None)


def _planned(store: StoreLocation, version: int | None) -> tuple[Version, StoreSchema]:
    manifest = read_manifest(store.open(), store.store)
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
        raise NotFoundError(describe("read", f"store {store}", f"it has {wanted}; its versions are {have}", step))
    return found, StoreSchema.from_json(generation.schema)
