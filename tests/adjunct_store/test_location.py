"""A store's location reaches tasks, and shows no secret."""

from __future__ import annotations

import pickle

import pytest

from adjunct_store.location import StoreLocation, memory_account
from azure_account.errors import ConfigurationError

KEY = "c2VjcmV0LWtleQ=="


def test_it_is_picklable_and_opens_its_container() -> None:
    location = StoreLocation({"accountName": "flights", "accountKey": KEY}, "box", "stores/planes")
    again = pickle.loads(pickle.dumps(location))  # noqa: S301 - of our own
    assert location == again
    assert hash(location) == hash(again)
    assert "https://flights.blob.core.windows.net/box" == again.open().url


def test_it_shows_no_option_of_the_account() -> None:
    location = StoreLocation({"accountName": "flights", "accountKey": KEY}, "box", "stores/planes")
    assert "StoreLocation(container='box', store='stores/planes')" == repr(location)
    assert "box/stores/planes" == str(location)


def test_an_account_in_memory_is_one_for_the_process() -> None:
    location = StoreLocation({"endpoint": "memory://location-test"}, "box", "stores/planes")
    location.open().create()
    location.open().put("a", b"1")
    assert b"1" == memory_account("memory://location-test").container("box").get("a").data
    assert not memory_account("memory://another").container("box").exists()


@pytest.mark.parametrize(("container", "store"), [("Box!", "planes"), ("box", "planes/pins")])
def test_names_that_are_not_valid_are_refused(container: str, store: str) -> None:
    with pytest.raises(ConfigurationError, match="is not valid"):
        StoreLocation({}, container, store)


def test_within_a_time_no_longer_than_two_minutes_requests_are_repeated_for_less() -> None:
    store = StoreLocation({"accountName": "a", "RETRYDEADLINEMS": "9"}, "box", "stores/planes")
    assert {"accountName": "a", "retryDeadlineMs": "2501"} == store.within(2.5).account
    assert store is store.within(120) is store.within(float("inf"))


def test_an_account_is_options() -> None:
    with pytest.raises(ConfigurationError, match="account is of type NoneType: give options, such as"):
        StoreLocation(None, "box", "stores/planes")  # type: ignore[arg-type]
