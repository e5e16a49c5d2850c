"""What accounts differ in, and what no emulator has."""

from __future__ import annotations

import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

from azure_account.connect import settings_of
from azure_account.sdk.credentials import sdk_credential
from azure_account.undelete import try_undelete
from azure_account.values import IF_ABSENT, Conflict, Done
from foundation.errors import ConfigurationError
from tests.azure_account.contract import observed_behaviour
from tests.features import streams
from tests.features.place import Place
from tests.live.account import AZURE, AZURITE, MEMORY, Tried
from tests.live.rows import row

PUTS, THREADS = int(os.environ.get("LIVE_PUTS", "5000")), 64
LEASE_SECONDS = 15


@row("a listing that begins at a name (`startFrom`)")
def test_a_listing_begins_at_a_name_on_the_service(tried: Tried, place: Place) -> None:
    if tried.kind == AZURITE:
        pytest.skip("Azurite ignores it")
    for name in ("log/1", "log/2", "log/3"):
        place.container.put(name, b"x")
    container = place.container
    assert ["log/2", "log/3"] == [blob.name for blob in container.list("log/", start_from="log/2")]
    assert container.lists_from_name


@row("a lease that expires by the service's clock")
def test_a_lease_expires_by_the_clock_of_the_service(tried: Tried, place: Place) -> None:
    if tried.kind == MEMORY:
        pytest.skip("a clock of the test does this in memory")
    container, mine, theirs = place.container, str(uuid.uuid4()), str(uuid.uuid4())
    container.put("blob", b"1")
    assert isinstance(container.acquire_lease("blob", mine, LEASE_SECONDS), Done)
    assert isinstance(container.put("blob", b"2"), Conflict)
    time.sleep(LEASE_SECONDS + 2)
    assert isinstance(container.renew_lease("blob", mine), Done)
    time.sleep(LEASE_SECONDS + 2)
    assert isinstance(container.acquire_lease("blob", theirs, LEASE_SECONDS), Done)
    assert isinstance(container.renew_lease("blob", mine), Conflict)


@row("a put on an existing log entry is `BlobAlreadyExists`")
def test_a_put_on_an_existing_log_entry_is_a_conflict(place: Place) -> None:
    streams.two_versions(place)
    outcome = place.container.put("flights/_log/00000000000000000001.json", b"{}", condition=IF_ABSENT)
    assert isinstance(outcome, Conflict)
    assert "BlobAlreadyExists" in outcome.reason


@row("legal hold: appends go on, deletes are refused")
def test_a_legal_hold_lets_appends_through_and_nothing_else(tried: Tried, place: Place) -> None:
    if tried.kind != AZURE:
        pytest.skip("Azurite and memory have no immutability")
    streams.two_versions(place)
    entry = "flights/_log/00000000000000000001.json"
    settings = settings_of(tried.options)
    client = BlobServiceClient(settings.blob_endpoint, credential=sdk_credential(settings))
    blob = client.get_blob_client(place.container_name, entry)
    try:
        blob.set_legal_hold(True)
    except HttpResponseError as error:
        code = getattr(error, "error_code", error.status_code)
        pytest.skip(f"the account or the identity does not allow a legal hold ({code})")
    try:
        outcome = place.container.put(entry, b"{}", condition=IF_ABSENT)
        assert isinstance(outcome, Conflict)
        assert "BlobAlreadyExists" in outcome.reason
        streams.write(place, 3)
        assert [1, 2, 3] == streams.read(place)
        with pytest.raises(ConfigurationError):
            place.container.delete(entry)
    finally:
        blob.set_legal_hold(False)


@row("versioning: a deleted blob is not reported as undeleted")
def test_an_undelete_reports_only_what_is_back(tried: Tried, place: Place) -> None:
    if not tried.versioning:
        pytest.skip("the account has no versioning")
    place.container.put("blob", b"1")
    place.container.delete("blob")
    found, _ = try_undelete(place.container, ["blob"])
    assert bool(found) == (place.container.properties("blob") is not None)


@row("hierarchical namespace: no folders in listings, `abfss://`, tags refused before a commit")
def test_a_hierarchical_account_lists_no_folders_and_refuses_tags(tried: Tried, place: Place) -> None:
    if not tried.hierarchical:
        pytest.skip("the account has no hierarchical namespace")
    streams.two_versions(place)
    assert all(blob.size for blob in place.container.list())
    with pytest.raises(ConfigurationError):
        streams.write(place, 3, tags__team="ops")
    assert [1, 2] == streams.read(place)
    name = settings_of(tried.options).account
    url = f"abfss://{place.container_name}@{name}.dfs.core.windows.net/flights"
    assert [1, 2] == streams.read(place, path=url)


@row("throttling (503 and 429)")
def test_a_burst_of_puts_loses_none(tried: Tried, place: Place) -> None:
    if tried.kind != AZURE:
        pytest.skip("only Azure throttles")
    container: Any = place.container
    with ThreadPoolExecutor(THREADS) as threads:
        outcomes = list(threads.map(lambda n: container.put(f"burst/{n}", b"x"), range(PUTS)))
    assert all(isinstance(each, Done) for each in outcomes)
    assert PUTS == sum(1 for _ in container.list("burst/"))
    if not container.failed_attempts:
        pytest.skip(f"the account throttled none of {PUTS:,} puts")


@row("answers on which accounts may differ (`ServiceAssumptions`)")
def test_the_service_does_what_one_of_the_assumptions_says(place: Place) -> None:
    print(observed_behaviour(place.container))
