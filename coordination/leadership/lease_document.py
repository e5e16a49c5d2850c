"""The JSON in a leased blob: the epoch, who has it, and what else the holder keeps there. Pure.

    {"formatVersion":1,"epoch":1795331204,"holder":"driver-1","leaseId":"6f1c…", …}

A blob is created with epoch 0 and without a lease id. Its first term raises the epoch to the time in seconds when the
blob was created, by the service's clock, and a term does not begin before its epoch's second. So epochs rise even if
the blob is deleted and created again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from azure_account.documents.form import check_version, damaged
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT_VERSION = 1
_OWN = ("formatVersion", "epoch", "holder", "leaseId")


@dataclass(frozen=True)
class LeaseDocument:
    """epoch: of the last term. holder, lease_id: of that term; empty in a new blob. content: all other fields."""

    epoch: int
    holder: str = ""
    lease_id: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As it is stored."""
        own = {"formatVersion": FORMAT_VERSION, "epoch": self.epoch, "holder": self.holder, "leaseId": self.lease_id}
        return json.dumps({**own, **self.content}, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(data: bytes, blob: str) -> LeaseDocument:
    """Parse the JSON of a leased blob. `ConfigurationError` if the blob is something else or of a newer release.

    `CorruptError` if it is a lease blob with wrong values.
    """
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        text = f"Blob {blob} holds no JSON ({error}), so it is no lease blob. Name another one, or delete it."
        raise ConfigurationError(text) from error
    if not isinstance(fields, dict) or "formatVersion" not in fields or "epoch" not in fields:
        text = f"Blob {blob} is no lease blob: it has no formatVersion and epoch. Name another one, or delete it."
        raise ConfigurationError(text)
    version, epoch = fields["formatVersion"], fields["epoch"]
    check_version(version, FORMAT_VERSION, f"Lease blob {blob}")
    holder, lease_id = fields.get("holder"), fields.get("leaseId")
    whole = type(version) is int and type(epoch) is int and 0 <= epoch < 2**63
    if not (whole and isinstance(holder, str) and isinstance(lease_id, str)):
        cause = "its epoch, holder or lease id is absent or of a wrong type"
        step = "Delete it; do not restore an earlier version, by which epochs would be given a second time."
        raise damaged(f"Lease blob {blob}", cause, step)
    return LeaseDocument(epoch, holder, lease_id, {name: fields[name] for name in fields if name not in _OWN})
