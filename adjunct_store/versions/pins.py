"""All tasks of a batch use one version, and it stays while they do.

    read the pin ─► read the manifest ─► confirmed: use it
         ▲                                unconfirmed, its version serves: confirm it, then use it
         └── put an unconfirmed pin ◄──── no pin, it has expired, or its version does not serve: take the newest version

Every write of a pin has the ETag that was read as its condition. Why no order of events makes it unsafe:

1. *One version.* Only a confirmed pin is used, and there is one blob for a reader's batch. A confirmed pin is
   replaced only when it has expired. Who uses one that is older than a small part of `pins_expire` (`RENEWED`) writes
   it again first, so an expired one was not used for most of that time: no task of its batch runs any more. The age
   comes with the pin, in one answer, and is at least that when the pin is replaced.
2. *It stays.* Who confirms has read the manifest after the pin was there, and its version was serving. A clean-up
   lists the pins after it has made the version retiring, which it stays. So it was made retiring after that reading,
   and the listing has the pin, confirmed or not. Unconfirmed pins count, so a confirmation may come late. A clean-up
   counts pins for twice the time for which they are found, so a task may go on using what it found in the last moment.
3. *It serves.* A version of a generation that readers may not see yet does not serve, so it is never confirmed.
4. *A batch that is run again* finds its pin: a batch deletes those below the one before it, and only those that its
   own driver alone has used. Two drivers have the same reader if a checkpoint was copied and both queries run: they may
   be at different batches, or share a pin. A driver that uses a pin of another one notes in it that it is shared.
   Pins that no driver deletes (a driver that was restarted does not know whether the one before runs) are deleted by
   clean-ups, once the batch after the next one is pinned and they were not written for `FOLLOWED` of `pins_expire`:
   then they were not used for half of that. A clean-up that finds such a pin written again leaves its version.
   After `pins_expire` the version may be gone, so the batch gets the newest one, as a whole. So does one whose version
   has left the manifest by other means: no task can open it any more, and an error would come again at each restart.
5. Tasks of batches before these, which Spark has given up but cannot stop, may pin and read something else. Spark does
   not use what they write.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adjunct_store.versions import manifest as manifest_json
from adjunct_store.versions import pin as pin_json
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.pin import SHARED, Pin, PinAction, next_step
from azure_account.documents.document import DocumentBlob
from azure_account.values import Condition
from foundation.errors import AzureBlobError, NotFoundError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.manifest import Generation, Manifest, Version
    from adjunct_store.versions.pin import PinStep
    from azure_account.container import BlobContainer
    from azure_account.documents.document import Stored

logger = logging.getLogger("adjunct_store")

_READ_AT_MOST = 4
"""Older pins that a batch reads: those that its driver may delete are the newest of them."""
_ATTEMPTS = 50
"""How often a pin is read again when other tasks or the fill change it or the manifest meanwhile."""


@dataclass(frozen=True)
class ReaderId:
    """Who pins versions. driver: an id of the process that runs the query; another one may run a copy of it."""

    name: str
    driver: str = ""


def pin_version(
    container: BlobContainer,
    store: str,
    reader: ReaderId | str,
    batch: int,
    *,
    version: int | None = None,
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> tuple[Version, Generation]:
    """The version that this batch of a reader uses, and its generation: the same ones for all who ask.

    reader: such as the id of a streaming query, with the driver that runs it if it is known. version: that a batch
    without a pin gets, by default the newest one. It stays until the reader pins the batch after the next one, releases
    its pins, or the pin expires. A batch that is run again within the manifest's `pins_expire` gets the same version.

    `NotFoundError` if there is no version yet, or `version` does not serve (any more); `TransientError` if it stays
    unknown whether a pin was written: call it again.
    """
    pinning = Pinning(container, store, reader, batch, new_id)
    found = pinning.pin(version)
    pinning.delete_older()
    return found


def reader_of(query: str, version: int) -> str:
    """The reader that a query is for a given version. It may read the newest one as well."""
    return f"{query}.v{version}"


def release(container: BlobContainer, store: str, query: str) -> None:
    """Delete the pins of a reader that has ended, of a query all. Call it when none of its tasks runs."""
    names = StoreNames(store)
    folder = names.pins(query).removesuffix("/")
    for blob in container.list(folder):
        if blob.name.startswith((f"{folder}/", f"{folder}.v")):
            container.delete(blob.name)


class Pinning:
    """The two steps of `pin_version`, for a caller that does not wait for the second one: `pin`, and `delete_older`."""

    def __init__(
        self,
        container: BlobContainer,
        store: str,
        reader: ReaderId | str,
        batch: int,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        names = StoreNames(store)
        reader = ReaderId(reader) if isinstance(reader, str) else reader
        self._container, self._names, self._new_id = container, names, new_id
        self.is_new: bool = False
        self._reader, self._driver, self._batch = reader.name, reader.driver, batch
        self._blob = names.pin(reader.name, batch)
        self._pins = self._document(self._blob)
        self._manifests = DocumentBlob(
            container, names.manifest, "manifest", manifest_json.to_json, manifest_json.from_json
        )

    def pin(self, wanted: int | None) -> tuple[Version, Generation]:
        """The version of the batch."""
        written: Stored[Pin] | None = None
        for _ in range(_ATTEMPTS):
            stored = self._pins.read() if written is None else written
            manifest = self._manifest()
            step = self._step(stored, manifest, wanted)
            if step.act is PinAction.USE:
                return self._found(manifest, step)
            self._warn_of_expiry(stored, step)
            written = self._write(stored, step)
            if written is not None and written.document.confirmed:
                self.is_new = step.act is PinAction.CONFIRM
                return self._found(manifest, step)
        cause = f"pin and manifest were changed {_ATTEMPTS} times meanwhile"
        raise TransientError("pin", f"batch {self._batch} of {self._reader}", cause, "Try again later.")

    def _document(self, blob: str) -> DocumentBlob[Pin]:
        return DocumentBlob(self._container, blob, "pin", pin_json.to_json, pin_json.from_json)

    def _manifest(self) -> Manifest:
        found = self._manifests.read()
        if found is None:
            raise self._not_found("there is no manifest", "Fill the store first, and check its name and container.")
        return found.document

    def _step(self, stored: Stored[Pin] | None, manifest: Manifest, wanted: int | None) -> PinStep:
        pin, age = (None, 0.0) if stored is None else (stored.document, stored.age)
        step = next_step(pin, age, manifest, wanted, self._driver)
        if step is not None:
            return step
        if wanted is not None:
            raise self._not_found(f"version {wanted} does not serve", "Pin the newest version, or a kept one.")
        raise self._not_found("no version is published that readers may see", "Wait until the store is filled.")

    def _warn_of_expiry(self, stored: Stored[Pin] | None, step: PinStep) -> None:
        if stored is not None and stored.document.confirmed and step.act is PinAction.PUT:
            text = "the pin of batch %d of %s has expired with version %d: version %d is used from now on"
            logger.warning(text, self._batch, self._reader, stored.document.version, step.version.number)

    def _write(self, stored: Stored[Pin] | None, step: PinStep) -> Stored[Pin] | None:
        """Write the pin. None if it was changed meanwhile."""
        alone = step.act is PinAction.PUT or stored is None or stored.document.driver == self._driver
        driver = self._driver if alone else SHARED
        pin = Pin(step.version.number, step.act is not PinAction.PUT, self._new_id(), driver)
        return self._pins.write(pin, None if stored is None else stored.etag)

    def _found(self, manifest: Manifest, step: PinStep) -> tuple[Version, Generation]:
        generation = manifest.generation(step.version.generation)
        assert generation is not None  # noqa: S101 - a manifest names the generations of its versions
        return step.version, generation

    def delete_older(self) -> None:
        """After a new pin, delete the driver's own ones of batches that are over.

        Errors are logged: the next batch deletes them.
        """
        if not self.is_new:
            return
        first_kept = self._names.pin(self._reader, max(self._batch - 1, 0))
        try:
            pins = [blob.name for blob in self._container.list(self._names.pins(self._reader))]
            older = [name for name in pins if name < first_kept]
            for name in older[-_READ_AT_MOST:]:
                self._delete_own(name)
        except AzureBlobError as error:
            logger.warning("old pins of %s are left for its next batch: %s", self._reader, error)

    def _delete_own(self, name: str) -> None:
        stored = self._document(name).read()
        if stored is not None and stored.document.driver == self._driver:
            self._container.delete(name, condition=Condition(if_match=stored.etag))

    def _not_found(self, cause: str, step: str) -> NotFoundError:
        return NotFoundError("pin", f"store {self._names.store} in {self._container.url}", cause, step)
