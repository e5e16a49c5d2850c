from __future__ import annotations

import json

import pytest

from foundation.errors import ConfigurationError
from state_backup.record.ttl import DAYS, WITH_TTL
from state_backup.sweeping.lifecycle import lifecycle_policy


def test_the_rule_deletes_what_has_the_tag_of_an_upload_and_is_older_than_it_says() -> None:
    [rule] = lifecycle_policy(["box/flights", "other"])["rules"]
    filters, actions = rule["definition"]["filters"], rule["definition"]["actions"]
    assert dict(WITH_TTL.tags) == {each["name"]: each["value"] for each in filters["blobIndexMatch"]}
    assert {"=="} == {each["op"] for each in filters["blobIndexMatch"]}
    assert {"baseBlob": {"delete": {"daysAfterCreationGreaterThan": DAYS}}} == actions
    assert (["blockBlob"], ["box/flights/", "other/"]) == (filters["blobTypes"], filters["prefixMatch"])
    assert (True, "Lifecycle") == (rule["enabled"], rule["type"])
    assert rule["name"].isalnum()


def test_a_prefix_ends_at_a_folder_and_is_there_once() -> None:
    [rule] = lifecycle_policy(["box", "box/", "box/a/b", "box/a/b/"])["rules"]
    assert ["box/", "box/a/b/"] == rule["definition"]["filters"]["prefixMatch"]


def test_a_rule_has_ten_prefixes_at_most_and_a_policy_a_hundred_rules() -> None:
    rules = lifecycle_policy([f"box/{number}" for number in range(1000)])["rules"]
    assert [10] * 100 == [len(rule["definition"]["filters"]["prefixMatch"]) for rule in rules]
    assert 100 == len({rule["name"] for rule in rules})
    assert 1000 == len({prefix for rule in rules for prefix in rule["definition"]["filters"]["prefixMatch"]})
    assert json.loads(json.dumps(rules)) == rules
    for places in ([f"box/{number}" for number in range(1001)], []):
        with pytest.raises(ConfigurationError, match="1 to 1,000 prefixes, not"):
            lifecycle_policy(places)


@pytest.mark.parametrize("place", ["", "/box", "Box/a", "box/../other", "box/a\nb", "$web/a"])
def test_an_invalid_place_is_refused(place: str) -> None:
    with pytest.raises(ConfigurationError):
        lifecycle_policy([place])
