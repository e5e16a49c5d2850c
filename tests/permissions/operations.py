"""What Azure documents of each request: the letters of a SAS, and the actions and built-in roles of Entra ID. Pure.

    method, path, headers of a request ─► operation ─► letters, role

Sources, all below learn.microsoft.com/rest/api/storageservices, read in November 2026:
letters          create-account-sas, "permissions by operation"; create-service-sas, "permissions for a container"
index tags       put-blob, put-block-list, list-blobs: a request with tags also needs what Set or Get Blob Tags needs
copies           copy-blob: the source is authorized separately, by `r`
actions          authorize-with-azure-active-directory, "permissions for calling data operations"
roles            learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_BLOBS = "blobServices/containers/blobs/"
_ENTITIES = "tableServices/tables/entities/"


@dataclass(frozen=True)
class Operation:
    """One operation of the REST interface, as this project sends it.

    letters: of a SAS, all of them; where Azure takes `c` or `w`, which is for new blobs only, `w`. of_account: only a
    SAS for the account permits it. actions: of Entra ID, below `Microsoft.Storage/storageAccounts/`.
    """

    name: str
    letters: str
    actions: tuple[str, ...]
    of_account: bool = False

    @property
    def service(self) -> str:
        """`blob` or `table`."""
        return "table" if self.actions[0].startswith("table") else "blob"

    def missing(self, granted: str) -> str:
        """The letters that are not granted. `w` includes `c`."""
        return "".join(each for each in self.letters if each not in granted.replace("w", "wc"))


_READ, _WRITE, _DELETE = f"{_BLOBS}read", f"{_BLOBS}write", f"{_BLOBS}delete"
_TAGS_READ, _TAGS_WRITE = f"{_BLOBS}tags/read", f"{_BLOBS}tags/write"
CREATE_CONTAINER = Operation("Create Container", "c", ("blobServices/containers/write",), of_account=True)
CONTAINER_PROPERTIES = Operation("Get Container Properties", "r", ("blobServices/containers/read",), of_account=True)
LIST = Operation("List Blobs", "l", (_READ,))
LIST_TAGS = Operation("List Blobs with tags", "lt", (_READ, _TAGS_READ))
PUT = Operation("Put Blob", "w", (_WRITE,))
PUT_TAGS = Operation("Put Blob with tags", "wt", (_WRITE, _TAGS_WRITE))
BLOCK = Operation("Put Block", "w", (_WRITE,))
BLOCK_LIST = Operation("Put Block List", "w", (_WRITE,))
BLOCK_LIST_TAGS = Operation("Put Block List with tags", "wt", (_WRITE, _TAGS_WRITE))
GET = Operation("Get Blob", "r", (_READ,))
PROPERTIES = Operation("Get Blob Properties", "r", (_READ,))
GET_BLOCKS = Operation("Get Block List", "r", (_READ,))
DELETE = Operation("Delete Blob", "d", (_DELETE,))
COPY = Operation("Copy Blob", "rw", (_READ, _WRITE))
UNDELETE = Operation("Undelete Blob", "w", ("blobServices/containers/write",))
GET_TAGS = Operation("Get Blob Tags", "t", (_TAGS_READ,))
SET_TAGS = Operation("Set Blob Tags", "t", (_TAGS_WRITE,))
LEASE = Operation("Lease Blob", "w", (_WRITE,))
CREATE_TABLE = Operation("Create Table", "c", ("tableServices/tables/write",), of_account=True)
QUERY = Operation("Query Entities", "r", (f"{_ENTITIES}read",))
INSERT = Operation("Insert Entity", "a", (f"{_ENTITIES}write",))
REPLACE = Operation("Update Entity", "u", (f"{_ENTITIES}write",))
UPSERT = Operation("Insert Or Replace Entity", "au", (f"{_ENTITIES}write",))
DELETE_ENTITY = Operation("Delete Entity", "d", (f"{_ENTITIES}delete",))

OPERATIONS = (
    CREATE_CONTAINER, CONTAINER_PROPERTIES, LIST, LIST_TAGS, PUT, PUT_TAGS, BLOCK, BLOCK_LIST, BLOCK_LIST_TAGS, GET,
    PROPERTIES, GET_BLOCKS, DELETE, COPY, UNDELETE, GET_TAGS, SET_TAGS, LEASE, CREATE_TABLE, QUERY, INSERT, REPLACE,
    UPSERT, DELETE_ENTITY,
)  # fmt: skip

UNCHECKED = {PUT_TAGS: "t", BLOCK_LIST_TAGS: "t", LIST_TAGS: "t", UPSERT: "a"}
"""Letters that Azurite does not ask for, though Azure documents them: `proxy` does."""

_OF_READER = {_READ, "blobServices/containers/read"}
_OF_CONTRIBUTOR = _OF_READER | {_WRITE, _DELETE, "blobServices/containers/write"}
_OF_OWNER = _OF_CONTRIBUTOR | {_TAGS_READ, _TAGS_WRITE}
_OF_TABLE_READER = {f"{_ENTITIES}read"}
_OF_TABLE_CONTRIBUTOR = _OF_TABLE_READER | {f"{_ENTITIES}write", f"{_ENTITIES}delete", "tableServices/tables/write"}
ROLES = {
    "Storage Blob Data Reader": _OF_READER,
    "Storage Blob Data Contributor": _OF_CONTRIBUTOR,
    "Storage Blob Data Owner": _OF_OWNER,
    "Storage Table Data Reader": _OF_TABLE_READER,
    "Storage Table Data Contributor": _OF_TABLE_CONTRIBUTOR,
}
"""The actions of the built-in roles, as far as an operation above has them; the lesser role first."""
ORDER = "rlcwdtau"
"""In which order letters are written. Azure's own is `racwdxltmeop`, and it accepts any for a container."""


def operation_of(service: str, method: str, target: str, headers: Mapping[str, str]) -> Operation:
    """The operation of a request. target: path and query. `LookupError` for one that this project does not send."""
    parts = urlsplit(target)
    query = {name.lower(): values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    names = {name.lower() for name in headers}
    if service == "table":
        return _of_table(method, unquote(parts.path), names)
    if query.get("restype") == "container":
        listing = LIST_TAGS if "tags" in query.get("include", "").split(",") else LIST
        found = {"list": listing}.get(query.get("comp", ""))
        return found or {"PUT": CREATE_CONTAINER, "GET": CONTAINER_PROPERTIES, "HEAD": CONTAINER_PROPERTIES}[method]
    tagged = "x-ms-tags" in names
    by_comp = {
        ("PUT", "block"): BLOCK,
        ("PUT", "blocklist"): BLOCK_LIST_TAGS if tagged else BLOCK_LIST,
        ("GET", "blocklist"): GET_BLOCKS,
        ("PUT", "lease"): LEASE,
        ("PUT", "undelete"): UNDELETE,
        ("GET", "tags"): GET_TAGS,
        ("PUT", "tags"): SET_TAGS,
        ("PUT", ""): COPY if "x-ms-copy-source" in names else PUT_TAGS if tagged else PUT,
        ("GET", ""): GET,
        ("HEAD", ""): PROPERTIES,
        ("DELETE", ""): DELETE,
    }
    return by_comp[method, query.get("comp", "")]


def _of_table(method: str, path: str, names: set[str]) -> Operation:
    if method == "POST":
        return CREATE_TABLE if path.endswith("/Tables") else INSERT
    if method in {"PUT", "PATCH", "MERGE"}:
        return REPLACE if "if-match" in names else UPSERT
    return {"GET": QUERY, "DELETE": DELETE_ENTITY}[method]


def letters_of(operations: Iterable[Operation]) -> str:
    """The letters that suffice for all of these, with a SAS that may overwrite what it creates."""
    wanted = {letter for each in operations for letter in each.letters}
    return "".join(letter for letter in ORDER if letter in wanted - ({"c"} if "w" in wanted else set()))


def roles_of(operations: Iterable[Operation]) -> tuple[str, ...]:
    """The least of the built-in roles that suffice, one for each service. `LookupError` if there is none."""
    wanted: dict[str, set[str]] = {}
    for each in operations:
        wanted.setdefault(each.service, set()).update(each.actions)
    return tuple(
        next(role for role, actions in ROLES.items() if wanted[service] <= actions) for service in sorted(wanted)
    )
