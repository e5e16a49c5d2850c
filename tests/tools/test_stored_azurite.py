"""An emulator that is stopped, and one that is suspended, has all that it has acknowledged."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from tools.stored_azurite import stored_azurite

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_what_was_acknowledged_is_there_after_a_restart_and_after_a_pause(tmp_path: Path) -> None:
    with stored_azurite(tmp_path) as emulator:
        connection = emulator.azurite.connection_string
        blobs = BlobServiceClient.from_connection_string(connection, retry_total=0)
        container = blobs.create_container("abc")
        table = TableServiceClient.from_connection_string(connection).create_table("processors")
        for number in range(3):
            container.upload_blob(f"blob-{number}", str(number))
            table.create_entity({"PartitionKey": "p", "RowKey": str(number)})
            emulator.stop()
            with pytest.raises(ServiceRequestError):
                container.download_blob("blob-0")
            emulator.start()
            assert [f"blob-{each}" for each in range(number + 1)] == [blob.name for blob in container.list_blobs()]
            assert str(number) == container.download_blob(f"blob-{number}").readall().decode()
            assert number + 1 == len(list(table.list_entities()))

        emulator.suspend()
        late = threading.Timer(1.0, emulator.resume)
        late.start()
        assert b"2" == container.download_blob("blob-2").readall()
        late.join()
