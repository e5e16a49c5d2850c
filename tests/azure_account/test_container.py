"""A container some folders of which are elsewhere: each request goes to one place, and a listing shows both."""

from __future__ import annotations

import pytest

from azure_account.memory import service
from azure_account.memory.account import MemoryAccount
from azure_account.values import IF_ABSENT, Condition, Conflict, Done, Relocation
from foundation.errors import NotFoundError


def test_blobs_of_a_relocated_folder_are_in_the_other_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PAGE_BLOBS", 2)
    account = MemoryAccount()
    data, logs = account.container("data"), account.container("logs")
    data.create()
    logs.create()
    both = data.relocated(
        Relocation("hub/_log/", "logs", "of/hub/_log/"), Relocation("hub/_schemas/", "logs", "of/hub/_schemas/")
    )
    assert (False, True) == (data.is_relocated, both.is_relocated)
    own = [f"hub/0/{number}.avro" for number in range(3)]
    entries = [f"hub/_log/{number}.json" for number in range(5)]
    for name in (*own, *entries, "hub/_schemas/a.avsc", "other/_log/0.json"):
        assert isinstance(both.put(name, name.encode(), condition=IF_ABSENT), Done)
        assert isinstance(both.put(name, b"", condition=IF_ABSENT), Conflict)
        found = both.get(name)
        assert (name, name.encode()) == (found.properties.name, found.data)
        there = both.properties(name)
        assert there is not None
        assert (name, found.properties.etag) == (there.name, there.etag)
    assert [*own, "other/_log/0.json"] == [blob.name for blob in data.list()]
    assert [f"of/{name}" for name in (*entries, "hub/_schemas/a.avsc")] == [blob.name for blob in logs.list()]
    data.put("hub/_log/stray.json", b"what was there before")
    listed = [blob.name for blob in both.list("hub/")]
    assert [*own, *entries, "hub/_schemas/a.avsc"] == listed
    assert entries == [blob.name for blob in both.list("hub/_log/")]
    assert entries[3:] == [blob.name for blob in both.list("hub/_log/", start_from=entries[3])]
    assert own[2:] == [blob.name for blob in both.list("hub/0/", start_from=own[2])]
    assert isinstance(both.delete(entries[0], condition=Condition(if_match=both.get(entries[0]).properties.etag)), Done)
    with pytest.raises(NotFoundError):
        both.get(entries[0])
    assert entries[1:] == [blob.name for blob in both.list("hub/_log/")]
