"""What each operation needs: letters of a SAS, and a role of Entra ID. Pure.

    operation of a request ─┐
    auth ───────────────────┴─► lacks: the clause of an error, for an answer that access is not granted

The letters are those of Azure's tables for an account SAS and a container SAS. `tests/permissions` compares them with
the requests that are sent, and has the pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs

from azure_account.options.authentication import Auth, SasToken

NAMES = {
    "r": "read",
    "l": "list",
    "c": "create",
    "w": "write",
    "d": "delete",
    "t": "tags",
    "a": "add",
    "u": "update",
}
"""Letters of a SAS, and what the portal calls them."""
_BLOB_READER, _BLOB_CONTRIBUTOR = "Storage Blob Data Reader", "Storage Blob Data Contributor"
_BLOB_OWNER = "Storage Blob Data Owner (or a custom role with the permission for index tags)"
_TABLE_READER, _TABLE_CONTRIBUTOR = "Storage Table Data Reader", "Storage Table Data Contributor"
TAGGED = " with tags"
"""Ends the name of an operation that reads or sets index tags besides."""


@dataclass(frozen=True)
class Needs:
    """What an operation needs. letters: all of them."""

    letters: str
    role: str


OPERATIONS = {
    "create container": Needs("c", _BLOB_CONTRIBUTOR),
    "check container": Needs("r", _BLOB_READER),
    "stage block": Needs("w", _BLOB_CONTRIBUTOR),
    "commit block list": Needs("w", _BLOB_CONTRIBUTOR),
    f"commit block list{TAGGED}": Needs("wt", _BLOB_OWNER),
    "put blob": Needs("w", _BLOB_CONTRIBUTOR),
    f"put blob{TAGGED}": Needs("wt", _BLOB_OWNER),
    "get blob": Needs("r", _BLOB_READER),
    "get properties of": Needs("r", _BLOB_READER),
    "get block list of": Needs("r", _BLOB_READER),
    "list blobs of": Needs("l", _BLOB_READER),
    f"list blobs{TAGGED} of": Needs("lt", _BLOB_OWNER),
    "delete blob": Needs("d", _BLOB_CONTRIBUTOR),
    "copy blob": Needs("rw", _BLOB_CONTRIBUTOR),
    "undelete blob": Needs("w", _BLOB_CONTRIBUTOR),
    "get tags of": Needs("t", _BLOB_OWNER),
    "set tags of": Needs("t", _BLOB_OWNER),
    "acquire lease": Needs("w", _BLOB_CONTRIBUTOR),
    "renew lease": Needs("w", _BLOB_CONTRIBUTOR),
    "release lease": Needs("w", _BLOB_CONTRIBUTOR),
    "break lease": Needs("w", _BLOB_CONTRIBUTOR),
    "create table": Needs("c", _TABLE_CONTRIBUTOR),
    "insert entity": Needs("a", _TABLE_CONTRIBUTOR),
    "replace entity": Needs("u", _TABLE_CONTRIBUTOR),
    "insert or replace entity": Needs("au", _TABLE_CONTRIBUTOR),
    "get entity": Needs("r", _TABLE_READER),
    "query entities": Needs("r", _TABLE_READER),
    "delete entity": Needs("d", _TABLE_CONTRIBUTOR),
}
"""By the operation of a `RequestContext`."""
_OF_THE_ACCOUNT = frozenset({"create container", "check container", "create table"})
"""What a SAS for one container or table never permits."""


def lacks(operation: str, auth: Auth) -> str:
    """What the credential seems to lack, as a clause."""
    needs = OPERATIONS[operation]
    if not isinstance(auth, SasToken):
        return f"the identity lacks the role {needs.role} on the account or container"
    fields = parse_qs(auth.token.reveal())
    if operation in _OF_THE_ACCOUNT and ("sr" in fields or "tn" in fields):
        return "sasToken is for one container or table, which this takes a SAS of the account for"
    granted = fields.get("sp", [""])[0].replace("w", "wc")  # what `c` permits `w` does too
    missing = [letter for letter in needs.letters if letter not in granted]
    if missing:
        return f"sasToken lacks the permission {' and '.join(f'{each} ({NAMES[each]})' for each in missing)}"
    return "sasToken lacks the service (ss) or the resource type (srt)"
