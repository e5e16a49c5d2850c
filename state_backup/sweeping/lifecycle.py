"""The lifecycle management policy that deletes blobs whose TTL is not taken off within 30 days. Pure.

A rule compares the index tag that each upload sets and each commit takes off. Source: "Azure Blob Storage lifecycle
management policy structure".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure_account.names import check_blob, check_container
from foundation.errors import ConfigurationError
from state_backup.record.ttl import DAYS, TAG, VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIXES_OF_A_RULE = 10
RULES_OF_A_POLICY = 100
_SYSTEM = ("$logs", "$web")


def lifecycle_policy(places: Sequence[str]) -> dict[str, Any]:
    """The policy for states in these places, each a container or `container/prefix`.

    It is the document that `az storage account management-policy create --policy @file` takes. A prefix names a folder:
    `box/flights` covers `box/flights/task-3`, not `box/flights2`. A rule has at most 10 prefixes, so more places make
    more rules. `ConfigurationError` for an invalid place, and for more than 1,000.
    """
    prefixes = list(dict.fromkeys(map(_prefix, places)))
    if not 0 < len(prefixes) <= PREFIXES_OF_A_RULE * RULES_OF_A_POLICY:
        text = f"A policy has 1 to {PREFIXES_OF_A_RULE * RULES_OF_A_POLICY:,} prefixes, not {len(prefixes):,}."
        raise ConfigurationError(f"{text} Name the container alone.")
    groups = [prefixes[at : at + PREFIXES_OF_A_RULE] for at in range(0, len(prefixes), PREFIXES_OF_A_RULE)]
    return {"rules": [_rule(f"stateBackupTtl{number}", group) for number, group in enumerate(groups, 1)]}


def _prefix(place: str) -> str:
    container, _, below = place.rstrip("/").partition("/")
    check_container(container)
    if container in _SYSTEM:
        raise ConfigurationError(f"Azure applies no lifecycle rule to container {container}. Keep states in another.")
    if below:
        check_blob(below)
    return f"{container}/{below}/" if below else f"{container}/"


def _rule(name: str, prefixes: Sequence[str]) -> dict[str, Any]:
    return {
        "enabled": True,
        "name": name,
        "type": "Lifecycle",
        "definition": {
            "filters": {
                "blobTypes": ["blockBlob"],
                "prefixMatch": list(prefixes),
                "blobIndexMatch": [{"name": TAG, "op": "==", "value": VALUE}],
            },
            "actions": {"baseBlob": {"delete": {"daysAfterCreationGreaterThan": DAYS}}},
        },
    }
