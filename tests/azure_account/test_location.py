"""A location reaches tasks, shows no secret, and says what is wrong with it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from azure_account import ConfigurationError, Location
from azure_account.location import memory_account
from azure_account.memory.account import MemoryAccount

ACCOUNT = {"accountName": "flights", "accountKey": "c2VjcmV0LWtleQ=="}


def test_it_is_picklable_and_opens_its_container() -> None:
    location = Location("box/stores/planes", ACCOUNT)
    again = pickle.loads(pickle.dumps(location))  # noqa: S301 - of our own
    assert location == again
    assert hash(location) == hash(again)
    assert "https://flights.blob.core.windows.net/box" == again.open().url


def test_it_shows_no_option_of_the_account() -> None:
    location = Location("box/stores/planes", ACCOUNT)
    assert "Location(where='box/stores/planes')" == repr(location)
    assert "box/stores/planes" == str(location)


def test_a_url_names_the_account_container_and_path() -> None:
    location = Location("abfss://box@planes.dfs.core.windows.net/a/b/", {"accountKey": ACCOUNT["accountKey"]})
    assert ("box", "a/b", "box/a/b") == (location.container, location.path, str(location))
    assert "https://planes.blob.core.windows.net/box" == location.open().url


def test_an_account_in_memory_is_one_for_the_process() -> None:
    location = Location("box/stores/planes", {"endpoint": "memory://location-test"})
    location.open().create()
    location.open().put("a", b"1")
    assert b"1" == memory_account("memory://location-test").container("box").get("a").data
    assert not memory_account("memory://another").container("box").exists()


def test_a_location_in_an_account_object_opens_that_account() -> None:
    account = MemoryAccount()
    location = Location.in_account(account, "box/flights")
    location.open().create()
    assert account.container("box").exists()
    assert account is location.account()


def test_a_location_in_a_container_object_has_its_path_as_it_is_and_no_account() -> None:
    container = MemoryAccount().container("box")
    location = Location.in_container(container, "/odd//path?sig=1")
    assert ("box", "/odd//path?sig=1", container) == (location.container, location.path, location.open())
    assert "" == Location.in_container(container, "").path
    with pytest.raises(ConfigurationError, match="is a location in a container object, which has no account"):
        location.account()


@pytest.mark.parametrize(
    ("where", "options", "message"),
    [
        ("Box!/planes", {}, "Container name 'Box!' is not valid"),
        ("", {}, "Container name '' is not valid"),
        ("https://a.blob.core.windows.net/box/planes?sig=1", {}, "contains a query or credentials"),
        ("s3://box/planes", {}, "is not supported"),
        (None, {}, "Argument where of Location is None: give a text"),
        ("box/planes", None, "Argument options of Location is None: give a dictionary such as"),
    ],
)
def test_what_is_no_location_is_refused(where: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Location(where, options)


def test_within_a_time_no_longer_than_two_minutes_requests_are_repeated_for_less() -> None:
    location = Location("box/stores/planes", {"accountName": "a", "RETRYDEADLINEMS": "9"})
    assert {"accountName": "a", "retryDeadlineMs": "3000"} == location.within(2.5).options == location.within(3).options
    assert location is location.within(120) is location.within(float("inf"))
