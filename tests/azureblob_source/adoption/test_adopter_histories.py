"""Random histories of a folder that other programs write, beside discoveries that are killed or asleep; mutants."""

from __future__ import annotations

import pytest

from tests.azureblob_source.adoption.histories import AdoptionHistory
from tests.histories.history import check, check_caught, check_repeatable, run_many
from tests.histories.mutants import Mutant, edited, replaced

FEW, HISTORIES = 20, 150
MOST_FOR_A_MUTANT = 300
EVENTS = (
    "adopted by a range",
    "deleted before it was adopted",
    "discovery fails: TransientError",
    "half written",
    "killed before it puts",
    "late blob",
    "left out: changed while it was looked at",
    "left out: empty",
    "left out: leased or modified just now",
    "left out: other format by its name",
    "left out: replaced after it was adopted",
    "range listed",
    "replaced after it was adopted",
    "rests before it puts",
)
ADOPTER = "azureblob_source.adoption.adopter:Adopter"


def test_each_blob_is_adopted_once_in_every_history() -> None:
    check(AdoptionHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    """`make histories` runs more, and prints how often each event happened."""
    check(AdoptionHistory, range(HISTORIES), EVENTS)
    assert 0 == run_many(AdoptionHistory, range(2_000))


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(AdoptionHistory)


MUTANTS: dict[str, Mutant] = {
    "a discovery that loses the race puts the same blobs": replaced(f"{ADOPTER}._is_known", lambda *_: False),
    "entries that others have put are not noted": edited(
        f"{ADOPTER}._take", "self._since_listing.update(named)", "self._since_listing"
    ),
    "the entries that came first are not read": edited(
        f"{ADOPTER}._learn", "self.log.entries(self._version + 1, head.version)", "[]"
    ),
    "older names are new": edited(
        f"{ADOPTER}._compare_older", "names.etags([each.name for each in older])", "[None] * len(older)"
    ),
    "a name before the floor is new": edited(
        "azureblob_source.adoption.known_blobs:KnownBlobs.etag", "name < partition.floor", "False"
    ),
    "a blob that was replaced is new": edited(
        "azureblob_source.adoption.discovery:Found.compare",
        "self.leave_out(LeftOut.REPLACED, found.name)",
        "self.new.append(found)",
    ),
    "a blob is adopted whatever its age": edited(
        "azureblob_source.adoption.headers:look_at", "begin.age < at_rest", "False"
    ),
    "a blob is looked at whatever version it is": edited(
        "azureblob_source.adoption.headers:look_at",
        "container.get(blob.name, 0, FIRST_REQUEST, if_match=blob.etag)",
        "container.get(blob.name, 0, FIRST_REQUEST)",
    ),
    "nothing is listed as a whole again": edited(f"{ADOPTER}._ranges", "if due:", "if self._whole_at is None:"),
    "a restart knows the newest entries alone": edited(
        "azureblob_source.adoption.logged_names:logged_names", "if table is not None:", "if False:"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_discovery_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(AdoptionHistory, name, range(MOST_FOR_A_MUTANT), MUTANTS[name], monkeypatch)
