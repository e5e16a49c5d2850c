"""A pin: which version a batch of a reading query uses, and what a task does when it finds one. Pure.

{"format-version":1, "version":7, "confirmed":true, "driver":"3c…", "write-id":"9f…", "digest":"…"}
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from azure_account.documents.form import DocumentFormat, sealed

if TYPE_CHECKING:
    from adjunct_store.versions.manifest import Manifest, Version

_FORM = DocumentFormat("Pin", 1, "Delete the blob when no task of its batch runs.")
COUNTS = 2.0
"""A clean-up counts a pin for this many times `pins_expire`, for which it is found."""
FOLLOWED = 1 / 28
"""The part of its time for which a pin counts when its reader has pinned the batch after the next one."""
RENEWED = FOLLOWED / 2
"""The part of its time after which a pin is written again before it is used."""
SHARED = "*"
"""The driver of a pin that more than one driver uses."""


@dataclass(frozen=True)
class Pin:
    """A pin as it is stored. Only a confirmed one may be used; it never changes to another version while it can be.

    driver: the one driver process whose query uses it, or `SHARED`; "" if the reader has not said which.
    """

    version: int
    confirmed: bool = False
    write_id: str = ""
    driver: str = ""


class PinAction(Enum):
    """What a task does with the pin that it has read, and the manifest that it has read after that."""

    PUT = "put an unconfirmed pin of the version in its place"
    CONFIRM = "confirm it"
    RENEW = "write it again, for it grows old, or another driver has used it alone"
    USE = "use its version"


@dataclass(frozen=True)
class PinStep:
    """The next act, and the version that it is about."""

    act: PinAction
    version: Version


def next_step(pin: Pin | None, age: float, manifest: Manifest, wanted: int | None, driver: str = "") -> PinStep | None:
    """What a task does. None if there is no version for a new pin.

    age: seconds since the pin was written. wanted: the version of a new pin; by default the newest one. driver: of the
    task. The manifest must have been read after the pin.
    """
    version = None if pin is None or age >= manifest.pins_expire else manifest.version(pin.version)
    if pin is not None and version is not None:
        if pin.confirmed:
            old, noted = age >= RENEWED * manifest.pins_expire, pin.driver in {driver, SHARED}
            return PinStep(PinAction.USE if noted and not old else PinAction.RENEW, version)
        if manifest.serves(version):
            return PinStep(PinAction.CONFIRM, version)
    target = manifest.newest if wanted is None else manifest.version(wanted)
    return PinStep(PinAction.PUT, target) if target is not None and manifest.serves(target) else None


def counts(age: float | None, pins_expire: float, followed: bool = False) -> bool:
    """Whether a clean-up must leave the version of a pin of this age (None: it is gone).

    followed: its reader has pinned the batch after the next one.
    """
    return age is not None and age < (FOLLOWED if followed else COUNTS) * pins_expire


def to_json(pin: Pin) -> bytes:
    """As it is stored."""
    fields = {
        "format-version": _FORM.format_version,
        "version": pin.version,
        "confirmed": pin.confirmed,
        "driver": pin.driver,
        "write-id": pin.write_id,
    }
    return sealed(fields)


def from_json(data: bytes, blob: str) -> Pin:
    """The inverse. `ConfigurationError` for one of a newer release, `CorruptError` for a damaged one."""
    return _FORM.read(data, blob, _pin)


def _pin(fields: dict[str, Any]) -> Pin:
    return Pin(int(fields["version"]), bool(fields["confirmed"]), str(fields["write-id"]), str(fields["driver"]))
