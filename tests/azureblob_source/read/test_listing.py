"""Listing a folder without a log from a time on: the names of earlier days are passed over, and no others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from azure_account.memory import service
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from azure_account.memory.service import MemoryService, ServiceAssumptions
from azureblob_source.log.name_places import name_place
from azureblob_source.log.times import microseconds
from azureblob_source.read.listing import SLACK, listed

FIRST = datetime(2025, 11, 1, tzinfo=UTC)
FORMS = ("hub/{}/{:%Y/%m/%d/%H/%M/%S}.avro", "hub/p={}/dt={:%Y-%m-%d}/x.avro", "hub/{}_{:%Y_%m_%d_%H_%M_%S}.avro")


@pytest.mark.parametrize("lists_from_name", [True, False])
def test_only_names_of_earlier_days_are_left_out(monkeypatch: pytest.MonkeyPatch, *, lists_from_name: bool) -> None:
    monkeypatch.setattr(service, "PAGE_BLOBS", 20)
    draws, left_out = Random(1), 0
    for _ in range(20):
        behaviour, counter = ServiceAssumptions(lists_from_name=lists_from_name), FaultInjector()
        account = MemoryAccount(MemoryService(behaviour=behaviour))
        container = account.container("container")
        container.create()
        for number in range(300):
            moment = FIRST + timedelta(minutes=draws.randrange(90 * 24 * 60))
            container.put(draws.choice(FORMS).format(number % 3, moment), b"x")
        container.put("hub/readme.avro", b"x")
        start = FIRST + timedelta(minutes=draws.randrange(90 * 24 * 60))
        every = [blob.name for blob in container.list("hub/")]
        first = start - SLACK

        def counts(name: str, first: datetime = first) -> bool:
            moment = name_place(name).moment
            begin = first.replace(hour=0, minute=0) if "dt=" in name else first
            return moment is None or moment >= begin

        expected = list(filter(counts, every))
        counting = account.restarted(counter).container("container")
        assert expected == [blob.name for blob in listed(counting, "hub", microseconds(start))]
        assert every == [blob.name for blob in listed(container, "hub", None)]
        left_out += len(every) - len(expected)
        if lists_from_name:
            assert counter.count <= 2 + 9 + len(expected) // 20
        else:
            assert counter.count <= 2 + 2 * (len(every) // 20)
    assert left_out > 100
