"""Changes of the manifest, as values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adjunct_store.versions.manifest import Generation, Manifest, Version, VersionState, VisibleFrom, from_json, to_json
from adjunct_store.versions.recovery import StoreDefinition
from adjunct_store.versions.transitions import (
    Publication,
    continued,
    drop,
    publish,
    register,
    retire,
    taken_over,
    tenure,
)

WANTED = StoreDefinition({"keys": ["tail"]}, 2, "planes")


def registered(serves: VisibleFrom = VisibleFrom.FIRST_VERSION, before: Manifest | None = None) -> Manifest:
    return register(before or Manifest(keep=2), WANTED, serves)


def published(manifest: Manifest, batch: int, bootstrapped: bool = False, sealed: bool = False) -> Manifest:
    assert manifest.current is not None
    new = Publication(batch, {batch % 2: f"1700000000000-{batch}"}, batch, batch, bootstrapped, sealed)
    return publish(manifest, manifest.current, new)[0]


def states(manifest: Manifest) -> dict[int, str]:
    return {each.number: each.state.value for each in manifest.versions}


def test_a_take_over_changes_who_fills_and_nothing_else() -> None:
    before = published(registered(), 0)
    after = taken_over(before, "w", 7.5)
    assert replace(before, epoch=1, writer="w", since_publication=7.5) == after


def test_the_epoch_of_a_fill_begins_with_the_one_that_it_was_given_and_always_rises() -> None:
    first = taken_over(registered(), "w", 0.0, epoch=17)
    again = taken_over(first, "x", 0.0, epoch=17)
    later = taken_over(again, "y", 0.0, epoch=18)
    unasked = taken_over(later, "z", 0.0)
    epochs = [each.epoch - 17_000_000_000 for each in (first, again, later, unasked)]
    assert [0, 1, 1_000_000_000, 1_000_000_001] == epochs
    many = replace(first, epoch=first.epoch + 500_000_000)  # one each second of 15 years
    assert 17 == tenure(taken_over(many, "w", 0.0, epoch=17))
    assert [0, 17, 17, 18, 18] == [tenure(each) for each in (registered(), first, again, later, unasked)]


def test_the_newest_versions_serve_and_the_others_retire_with_the_publication() -> None:
    manifest = registered()
    for batch in range(4):
        manifest = published(manifest, batch)
    assert {4: "serving", 3: "serving", 2: "retiring", 1: "retiring"} == states(manifest)
    assert manifest == retire(manifest)
    assert {4: "serving", 3: "retiring", 2: "retiring", 1: "retiring"} == states(retire(replace(manifest, keep=1)))


def test_only_retiring_versions_are_dropped() -> None:
    manifest = registered()
    for batch in range(4):
        manifest = published(manifest, batch)
    assert {4: "serving", 3: "serving", 2: "retiring"} == states(drop(manifest, {1, 3, 4, 9}))
    assert manifest == drop(manifest, set())


def test_a_generation_goes_with_its_last_version() -> None:
    manifest = published(registered(before=published(registered(), 0)), 0)
    assert {2: "serving", 1: "retiring"} == states(manifest)
    assert [1, 2] == [each.number for each in manifest.generations]
    assert [2] == [each.number for each in drop(manifest, {1}).generations]
    assert [1, 2] == [each.number for each in drop(manifest, set()).generations]


def test_the_generation_that_is_filled_stays_without_a_version() -> None:
    manifest = registered(VisibleFrom.SEALED)
    assert manifest == drop(manifest, {1, 2})


@pytest.mark.parametrize(
    ("serves", "flags"), [(VisibleFrom.BOOTSTRAPPED, {"bootstrapped": True}), (VisibleFrom.SEALED, {"sealed": True})]
)
def test_a_generation_that_is_not_visible_has_one_version_and_retires_nothing(
    serves: VisibleFrom, flags: dict[str, bool]
) -> None:
    old = published(registered(), 0)
    manifest = registered(serves, old)
    for batch in range(3):
        manifest = published(manifest, batch)
        assert {batch + 2: "serving", 1: "serving"} == states(manifest)
        assert old.newest == manifest.newest
    assert {4: "serving", 1: "retiring"} == states(published(manifest, 2, **flags))
    assert {5: "serving", 1: "retiring"} == states(published(manifest, 3, **flags))


def test_what_nobody_sees_is_abandoned_by_the_next_generation() -> None:
    old = published(registered(), 0)
    hidden = published(registered(VisibleFrom.BOOTSTRAPPED, old), 0)
    after = registered(VisibleFrom.SEALED, hidden)
    assert ([1, 3], {1: "serving"}) == ([each.number for each in after.generations], states(after))
    assert (4, 3) == (after.next_generation, after.next_version), "numbers are not used again"
    without_version = registered(before=registered(before=old))
    assert [1, 3] == [each.number for each in without_version.generations]


def test_a_bounded_data_set_that_was_not_sealed_is_not_continued() -> None:
    whole = published(registered(VisibleFrom.SEALED), 0, sealed=True)
    for hidden in (registered(VisibleFrom.SEALED, whole), published(registered(VisibleFrom.SEALED, whole), 0)):
        assert whole.current == continued(hidden, "planes").current
        assert whole.versions == continued(hidden, "planes").versions
    bootstrapping = published(registered(VisibleFrom.BOOTSTRAPPED, whole), 0)
    assert bootstrapping == continued(bootstrapping, "planes")
    assert Manifest() == continued(Manifest(), "planes")
    assert continued(registered(VisibleFrom.SEALED), "planes").current is None


@pytest.mark.parametrize("serves", list(VisibleFrom))
@pytest.mark.parametrize("versions", [0, 1])
def test_what_nobody_has_seen_of_another_source_is_dropped_where_ones_own_serves(
    serves: VisibleFrom, versions: int
) -> None:
    serving = published(registered(), 0)
    begun = register(serving, replace(WANTED, source="boats"), serves)
    if versions and serves is not VisibleFrom.FIRST_VERSION:
        begun = published(begun, 0)
    assert serving.generations == continued(begun, "planes").generations
    assert serving.versions == continued(begun, "planes").versions
    assert begun == continued(begun, "cars"), "it is neither's"
    if serves is not VisibleFrom.SEALED:
        assert begun == continued(begun, "boats"), "its own source goes on with it"
        assert serving.generations == continued(begun, "boats", adds=True).generations


def test_what_nobody_has_seen_of_another_source_stays_where_nothing_of_ones_own_serves() -> None:
    for begun in (registered(), registered(VisibleFrom.BOOTSTRAPPED), published(registered(VisibleFrom.SEALED), 0)):
        assert begun == continued(begun, "boats")
        assert begun == continued(begun, "boats", adds=True)
    seen = published(
        register(published(registered(), 0), replace(WANTED, source="boats"), VisibleFrom.FIRST_VERSION), 0
    )
    assert seen == continued(seen, "planes"), "readers have switched to the other source"


def test_a_batch_that_replaces_the_contents_leaves_nothing_of_the_partitions_that_it_does_not_have() -> None:
    manifest = published(published(registered(), 0), 1)
    assert manifest.current is not None
    new = Publication(2, {1: "1700000000000-9"}, 5, 50, replaces=True)
    version = publish(manifest, manifest.current, new)[1]
    assert (("", "1700000000000-9"), (-1, 2), 5) == (version.checkpoints, version.batches, version.entries)


def test_a_generation_may_have_a_number_above_the_next_one() -> None:
    assert (4, 5) == (register(Manifest(), WANTED, VisibleFrom.SEALED, above=3).generations[0].number, 5)
    manifest = register(registered(), WANTED, VisibleFrom.SEALED, above=3)
    assert ([4], 5) == ([each.number for each in manifest.generations], manifest.next_generation)
    assert 2 == register(published(registered(), 0), WANTED, VisibleFrom.SEALED, above=1).generations[-1].number


def test_the_query_of_a_fill_is_noted_with_its_generation() -> None:
    manifest = taken_over(published(registered(), 0), "w", 7.5, "a query")
    assert manifest.current is not None and "a query" == manifest.current.query
    assert manifest == from_json(to_json(manifest), "store.json")
    assert "a query" == taken_over(manifest, "v", 0.0).generations[-1].query, "a fill without one leaves it"


def test_a_publication_that_was_made_before_changes_nothing() -> None:
    manifest = published(published(registered(), 0), 1)
    assert manifest == published(manifest, 0)
    generation = manifest.current
    assert isinstance(generation, Generation)
    version = publish(manifest, generation, Publication(1, {0: "1-1"}, 9, 9))[1]
    assert isinstance(version, Version)
    assert (2, ("1700000000000-0", "1700000000000-1")) == (version.number, version.checkpoints)


def test_every_manifest_can_be_stored() -> None:
    manifest = published(registered(VisibleFrom.SEALED, published(registered(), 0)), 0, sealed=True)
    for each in (manifest, drop(manifest, {1}), continued(manifest, "planes"), retire(manifest)):
        assert each == from_json(to_json(each), "store.json")
    assert VersionState.RETIRING is manifest.versions[1].state
