"""The proxy counts requests as Azure charges them, and passes blobs and tables on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import AzureError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from tools.rough_proxy import Fate, kind_of, rough_proxy

if TYPE_CHECKING:
    from tools.azurite import Azurite


@pytest.mark.parametrize(
    ("method", "path", "service", "kind"),
    [
        ("GET", "/account/box/a", "blob", "blob reads"),
        ("HEAD", "/account/box/a", "blob", "blob reads"),
        ("GET", "/account/box/a?comp=blocklist&blocklisttype=all", "blob", "blob reads"),
        ("GET", "/account/box?restype=container&comp=list&prefix=a", "blob", "blob writes"),
        ("PUT", "/account/box/a?comp=block&blockid=AA", "blob", "blob writes"),
        ("PUT", "/account/box/a?comp=lease", "blob", "lease requests"),
        ("DELETE", "/account/box/a", "blob", "blob deletes"),
        ("GET", "/account/processors()?$filter=a", "table", "table requests"),
    ],
)
def test_a_request_is_counted_as_it_is_charged(method: str, path: str, service: str, kind: str) -> None:
    assert kind == kind_of(method, path, service)


def test_blobs_and_tables_pass_and_what_is_cut_is_done_or_not(azurite: Azurite, container_name: str) -> None:
    fates: list[Fate] = []
    with rough_proxy(azurite, lambda *_: fates.pop() if fates else Fate.PASS) as proxy:
        container = BlobServiceClient.from_connection_string(proxy.connection_string, retry_total=0).create_container(
            container_name
        )
        table = TableServiceClient.from_connection_string(proxy.connection_string, retry_total=0).create_table(
            "t" + container_name.replace("-", "")[:40]
        )
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        assert ["r"] == [row["RowKey"] for row in table.list_entities()]
        for fate, there in ((Fate.LOST, False), (Fate.BUSY, False), (Fate.UNANSWERED, True)):
            fates.append(fate)
            with pytest.raises(AzureError):
                container.upload_blob(fate.name, b"1")
            assert there == container.get_blob_client(fate.name).exists()
    assert 3 == proxy.requests["table requests"]
    assert [1, 1, 1] == [proxy.fates[fate] for fate in (Fate.LOST, Fate.BUSY, Fate.UNANSWERED)]
