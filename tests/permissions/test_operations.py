"""The documented operations: how requests are recognised, and that our errors and Azurite agree with the documents."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from azure_account import connect
from azure_account.connect import settings_of
from azure_account.options.authentication import DefaultIdentity, SasToken
from azure_account.options.secret import Secret
from azure_account.sdk import permissions
from azure_account.values import BlobAttributes, Condition, Done, Entity
from foundation.errors import AzureBlobError, ConfigurationError
from tests.features.place import Place
from tests.permissions import operations as of
from tests.permissions.proxy import checking_proxy
from tests.permissions.recording import OPERATIONS
from tests.permissions.trial import sas

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_account.account import StorageAccount
    from azure_account.container import BlobContainer
    from tools.azurite import Azurite

TAGGED = BlobAttributes(tags={"a": "1"})
LEASE = str(uuid.UUID(int=7))


def _etag(container: BlobContainer) -> str:
    found = container.properties("blob")
    assert found is not None
    return found.etag


CALLS: dict[of.Operation, Callable[[BlobContainer], object]] = {
    of.LIST: lambda c: list(c.list()),
    of.LIST_TAGS: lambda c: list(c.list(tags=True)),
    of.PUT: lambda c: c.put("blob", b"1"),
    of.PUT_TAGS: lambda c: c.put("blob", b"1", TAGGED),
    of.BLOCK: lambda c: c.stage_block("new", "1", b"1"),
    of.BLOCK_LIST: lambda c: c.commit_block_list("new", []),
    of.BLOCK_LIST_TAGS: lambda c: c.commit_block_list("new", [], TAGGED),
    of.GET: lambda c: c.get("blob"),
    of.PROPERTIES: lambda c: c.properties("blob"),
    of.GET_BLOCKS: lambda c: c.block_ids("blob"),
    of.DELETE: lambda c: c.delete("blob"),
    of.COPY: lambda c: c.copy("copy", "blob", source_etag='"0x1"'),
    of.GET_TAGS: lambda c: c.tags("blob"),
    of.SET_TAGS: lambda c: c.set_tags("blob", {}),
    of.LEASE: lambda c: c.acquire_lease("blob", LEASE, 15),
}
ENTITY = Entity("p", "r", {"a": 1})
TABLE_CALLS: dict[of.Operation, Callable[[Any], object]] = {
    of.QUERY: lambda t: list(t.query()),
    of.INSERT: lambda t: t.insert(ENTITY),
    of.REPLACE: lambda t: t.replace(ENTITY, condition=Condition(if_match='"0x1"')),
    of.UPSERT: lambda t: t.replace(ENTITY),
    of.DELETE_ENTITY: lambda t: t.delete("p", "r"),
}


def by_sas(azurite: Azurite, endpoints: dict[str, str], place: Place, kind: str, letters: str) -> StorageAccount:
    token = sas(azurite, place, kind, letters)
    return connect(settings_of({**endpoints, "sasToken": token, "maxAttempts": "1"}))


@pytest.fixture
def place(azurite: Azurite, tmp_path: Path) -> Place:
    place = Place(f"d{uuid.uuid4().hex[:20]}", {"connectionString": azurite.connection_string}, tmp_path)
    place.container.create()
    place.container.put("blob", b"1")
    place.account.table(place.table_name).create()
    return place


def test_each_operation_is_recognised_and_refused_without_each_of_its_letters(azurite: Azurite, place: Place) -> None:
    """By Azurite, or by the proxy where Azurite asks for less than Azure documents."""
    own = {"endpoint": azurite.endpoint, "tableEndpoint": azurite.table_endpoint}
    unchecked = set()
    with checking_proxy(azurite) as proxy:
        for operation, call in {**CALLS, **TABLE_CALLS}.items():
            kind = "container" if operation in CALLS else "table"
            for letter in operation.letters:
                less = operation.letters.replace(letter, "") or {"d": "r"}.get(letter, "d")
                for endpoints in (proxy.endpoints, own):
                    account = by_sas(azurite, endpoints, place, kind, less)
                    target: Any = account.container(place.container_name)
                    if kind == "table":
                        target = account.table(place.table_name)
                    refused = _is_refused(call, target, letter)
                    if endpoints is own and not refused:
                        unchecked.add((operation, letter))
                    assert refused or endpoints is own, f"{operation.name} without {letter}"
            assert {operation} == set(proxy.take())
    assert set(of.UNCHECKED.items()) == unchecked


def _is_refused(call: Callable[[Any], object], target: Any, letter: str) -> bool:
    """Whether a request fails with an error that names the letter."""
    try:
        call(target)
    except ConfigurationError as error:
        return f"{letter} ({permissions.NAMES[letter]})" in str(error)
    return False


def test_the_table_of_errors_says_what_is_documented() -> None:
    """Each operation of an error has the letters and the least role of one that is documented."""
    documented = {(each.letters, of.roles_of([each])[0]) for each in of.OPERATIONS}
    for name, needs in permissions.OPERATIONS.items():
        assert (needs.letters, needs.role.partition(" (")[0]) in {
            ("".join(sorted(letters, key=needs.letters.find)), role) for letters, role in documented
        }, name


def test_every_request_of_the_port_is_documented() -> None:
    recorded = {
        operation(("", "", b"", attributes, None), {"tags": tags})
        for operation in OPERATIONS.values()
        for attributes, tags in ((BlobAttributes(), False), (TAGGED, True))
    } | {of.UPSERT, of.REPLACE}
    assert set(of.OPERATIONS) == recorded


@pytest.mark.parametrize(
    ("operation", "token", "text"),
    [
        ("delete blob", "sp=rlw&sr=c", "sasToken lacks the permission d (delete)"),
        ("put blob with tags", "sp=rl&sr=c", "sasToken lacks the permission w (write) and t (tags)"),
        ("put blob", "sp=rwl&ss=b", "sasToken lacks the service (ss) or the resource type (srt)"),
        ("create container", "sp=rwl&sr=c", "sasToken is for one container or table, which this takes a SAS of"),
        ("create container", "sp=rwl&ss=b", "sasToken lacks the service (ss) or the resource type (srt)"),
        ("create table", "sp=r&ss=t", "sasToken lacks the permission c (create)"),
        ("get blob", "si=policy&sr=c", "sasToken lacks the permission r (read)"),
    ],
)
def test_what_a_sas_lacks_is_read_from_its_fields(operation: str, token: str, text: str) -> None:
    assert permissions.lacks(operation, SasToken(Secret(f"{token}&sig=c2ln"))).startswith(text)


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("get blob", "Storage Blob Data Reader"),
        ("put blob", "Storage Blob Data Contributor"),
        ("set tags of", "Storage Blob Data Owner"),
        ("query entities", "Storage Table Data Reader"),
    ],
)
def test_what_an_identity_lacks_is_the_least_role(operation: str, role: str) -> None:
    assert f"the identity lacks the role {role}" in permissions.lacks(operation, DefaultIdentity())


def test_a_container_sas_cannot_create_its_container(azurite: Azurite, place: Place) -> None:
    account = by_sas(azurite, {"endpoint": azurite.endpoint}, place, "container", "rlwd")
    with pytest.raises(AzureBlobError, match="403"):
        account.container(place.container_name).create()
    assert isinstance(account.container(place.container_name).put("a", b"1"), Done)
