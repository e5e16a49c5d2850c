"""Each feature with the account's own credentials; and, if these are its key, with SAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.connect import settings_of
from tests.features.every import ALL
from tests.features.place import Feature, Place
from tests.live.account import AZURE, AZURITE, Tried
from tests.live.rows import ELSEWHERE, row
from tests.permissions.table import stored
from tests.permissions.trial import Bench, sas
from tools.azurite import Azurite

if TYPE_CHECKING:
    from tests.permissions.operations import Operation

FOUND = {each.feature: each for each in stored()}


@pytest.mark.parametrize("feature", ALL, ids=lambda each: each.name)
def test_a_feature_works(place: Place, tried: Tried, feature: Feature) -> None:
    if feature.needs_undelete and not place.undeletes:
        pytest.skip("it needs soft delete, without versioning and hierarchical namespace")
    if tried.hierarchical and "tags" in feature.name:
        pytest.skip("an account with hierarchical namespace has no index tags")
    feature.prepare(place)
    assert feature.expected == feature.result(place, feature.run(place))


@pytest.mark.parametrize("feature", [each for each in ALL if not each.needs_undelete], ids=lambda each: each.name)
@row("a SAS of these letters, and each letter less")
def test_a_sas_of_its_letters_suffices_and_less_does_not(place: Place, tried: Tried, feature: Feature) -> None:
    if tried.kind != AZURE:
        pytest.skip(ELSEWHERE if tried.kind == AZURITE else "memory takes no SAS")
    if tried.key is None or (tried.hierarchical and "tags" in feature.name):
        pytest.skip("it needs the account's key, and index tags")
    bench, found = _OnAccount(tried, place), FOUND[feature.name]
    letters = found.letters + found.spared
    bench._check(feature, bench._prepared(feature), letters)
    for letter in found.letters:
        failed, _ = bench._without(feature, letters, letter)
        assert failed, f"{feature.name} without {letter}"


class _OnAccount(Bench):
    """The account itself."""

    def __init__(self, tried: Tried, place: Place) -> None:
        self._tried, self._place, self._count = tried, place, 0
        self._settings = settings_of(tried.options)

    def place(self) -> Place:
        self._count += 1
        place = Place(f"{self._place.container_name}-{self._count}", self._tried.options, self._place.folder)
        place.container.create()
        return place

    def narrowed(self, place: Place, kind: str, letters: str) -> Place:
        settings = self._settings
        of = Azurite(settings.blob_endpoint, settings.table_endpoint or "", settings.account, self._tried.key or "")
        token = sas(of, place, kind, letters)
        endpoints = {"endpoint": of.endpoint, **({"tableEndpoint": of.table_endpoint} if of.table_endpoint else {})}
        return place.with_options({**endpoints, "sasToken": token})

    def take(self) -> list[Operation]:
        return []
