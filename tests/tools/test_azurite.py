"""The emulator runs at the endpoints that are returned, and ends with the process that started it."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from tools.azurite import ACCOUNT_KEY, AzuriteMissingError, azurite_of, local_azurite, running_azurite

if TYPE_CHECKING:
    from tools.azurite import Azurite


def test_the_connection_string_reaches_blobs_and_tables(azurite: Azurite, container_name: str) -> None:
    with BlobServiceClient.from_connection_string(azurite.connection_string) as blobs:
        blobs.create_container(container_name).upload_blob("hello", b"world")
        assert b"world" == blobs.get_blob_client(container_name, "hello").download_blob().readall()
    with TableServiceClient.from_connection_string(azurite.connection_string) as tables:
        table = tables.create_table("t" + container_name.replace("-", "")[:60])
        table.create_entity({"PartitionKey": "a", "RowKey": "b"})
        assert ["b"] == [entity["RowKey"] for entity in table.list_entities()]


def test_an_emulator_is_parsed_from_its_own_connection_string() -> None:
    azurite = local_azurite(40001, 40002)
    assert azurite == azurite_of(azurite.connection_string)
    assert 40001 == azurite.blob_port


def test_use_development_storage_means_the_default_ports() -> None:
    assert local_azurite(10000, 10002) == azurite_of("UseDevelopmentStorage=true")


def test_the_error_for_a_connection_string_without_tables_names_the_missing_key() -> None:
    with pytest.raises(AzuriteMissingError, match="has no TableEndpoint"):
        azurite_of(f"AccountName=a;AccountKey={ACCOUNT_KEY};BlobEndpoint=http://127.0.0.1:1/a")


def test_an_emulator_that_runs_already_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURITE_CONNECTION_STRING", local_azurite(1, 2).connection_string)
    with running_azurite() as azurite:
        assert local_azurite(1, 2) == azurite


@pytest.mark.azurite
def test_the_emulator_ends_with_its_parent_even_if_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURITE_CONNECTION_STRING", raising=False)
    with subprocess.Popen([sys.executable, "-m", "tools.azurite"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert "BlobEndpoint=http://127.0.0.1:" in parent.stdout.readline()
        children = psutil.Process(parent.pid).children(recursive=True)
        parent.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert 1 == len(children)
    assert [] == alive
