"""A fill opens a store, publishes versions, is replaced, and cleans up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adjunct_store.versions.cleaning import CleanupResult
from adjunct_store.versions.manifest import Version, VisibleFrom
from adjunct_store.versions.manifest_store import Fill, open_fill, read_manifest
from adjunct_store.versions.opening import FillRequirements, TakeoverPlan
from adjunct_store.versions.pins import pin_version
from adjunct_store.versions.transitions import Publication
from azure_account.container import BlobContainer
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, LateEffect, LostAnswer, NumberedAttempt, Refuse, Reset, on
from azure_account.memory.service import MemoryService
from foundation.errors import ConfigurationError, ConflictError, FencedError, NotFoundError, TransientError
from tests.adjunct_store.stores import (
    NAMES,
    OTHER,
    PARTITIONS,
    SCHEMA,
    STORE,
    generations_in,
    manifest_of,
    numbers,
    opened,
    published,
    uploaded,
)


def test_the_first_fill_creates_a_generation_and_publishes_versions(container: BlobContainer) -> None:
    fill = opened(container)
    assert (1, 1, False) == (fill.epoch, fill.generation.number, fill.continues)
    assert fill.base is None
    first = fill.publish(Publication(0, {1: uploaded(container, 1, 1)}, 7, 70))
    second = fill.publish(Publication(1, {0: uploaded(container, 1, 0)}, 8, 80))
    assert (1, ("", first.checkpoints[1])) == (first.number, first.checkpoints)
    assert (second.checkpoints[0], first.checkpoints[1]) == second.checkpoints
    assert second == fill.base == manifest_of(container).newest
    assert (1, 8, 80) == (second.batch, second.entries, second.bytes)


def test_a_fill_that_opens_a_store_is_a_line_in_the_log(
    container: BlobContainer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "adjunct_store")
    published(opened(container), 0)
    opened(container)
    assert [
        f"store {STORE}: a fill of epoch 1 begins, generation 1 is new",
        f"store {STORE}: a fill of epoch 2 begins, generation 1 is continued",
    ] == [record.getMessage() for record in caplog.records]


def test_a_batch_that_was_published_before_changes_nothing(container: BlobContainer) -> None:
    fill = opened(container)
    versions = [published(fill, batch) for batch in range(3)]
    before = manifest_of(container)
    for batch in (0, 2):
        assert versions[-1] == published(fill, batch)
    assert before == manifest_of(container)
    again = opened(container)
    assert versions[-1] == again.base == published(again, 1)


@pytest.mark.parametrize(
    ("schema", "settings", "continues"),
    [
        (SCHEMA, {}, True),
        (OTHER, {"rebuild": True}, False),
        (SCHEMA, {"source": "flights", "rebuild": True}, False),
        (SCHEMA, {"rebuild": True}, False),
        (SCHEMA, {"bounded": True}, False),
        (SCHEMA, {"max_age": 60.0}, False),
        (SCHEMA, {"max_age": 101.0}, True),
        (SCHEMA, {"persistent": False}, False),
    ],
)
def test_the_next_fill_continues_or_builds_again(
    account: MemoryAccount,
    schema: dict[str, Any],
    settings: dict[str, Any],
    continues: bool,
) -> None:
    container = account.container("box")
    old = published(opened(container), 0)
    account.clock.sleep(40)
    opened(container)
    account.clock.sleep(60)
    fill = opened(container, schema, **settings)
    assert (continues, 1 if continues else 2) == (fill.continues, fill.generation.number)
    assert (old if continues else None) == fill.base
    assert old == manifest_of(container).newest, "readers keep what they have"


@pytest.mark.parametrize(
    "settings", [{"rebuild": True}, {"bootstrap": True, "source": "flights", "rebuild": True}, {"max_age": 0.0}]
)
def test_a_store_that_is_built_from_the_beginning_is_not_seen_before_it_is_bootstrapped(
    container: BlobContainer, settings: dict[str, Any]
) -> None:
    old = published(opened(container), 0)
    fill = opened(container, **settings)
    assert VisibleFrom.BOOTSTRAPPED is fill.generation.serves
    for batch in range(3):
        published(fill, batch)
        assert old == manifest_of(container).newest
        assert 2 == len(manifest_of(container).versions), "nobody can have seen the ones before"
    again = opened(container, source=settings.get("source", "planes"))
    assert (True, 2) == (again.continues, again.generation.number)
    last = published(again, 3, bootstrapped=True)
    assert last == manifest_of(container).newest
    assert {last.number: "serving"} == numbers(manifest_of(container))
    assert {2} == generations_in(container)


def test_bootstrapped_can_be_noted_after_the_last_batch(container: BlobContainer) -> None:
    fill = opened(container, bootstrap=True)
    version = published(fill, 0)
    assert manifest_of(container).newest is None
    assert version == fill.publish(Publication(0, {}, 0, 0, bootstrapped=True))
    assert version == manifest_of(container).newest


def test_a_first_store_that_is_not_bootstrapped_is_seen_with_its_first_version(container: BlobContainer) -> None:
    fill = opened(container, OTHER)
    assert VisibleFrom.FIRST_VERSION is fill.generation.serves
    assert published(fill, 7) == manifest_of(container).newest


@pytest.mark.parametrize(
    "change",
    [
        {"source": "flights", "rebuild": True},
        {"partitions": PARTITIONS + 1, "rebuild": True},
        {"max_age": 0.0},
        {"persistent": False},
    ],
)
def test_readers_that_have_a_version_get_another_generation_only_when_it_is_bootstrapped(
    container: BlobContainer, change: dict[str, Any]
) -> None:
    old = published(opened(container), 0)
    fill = opened(container, **change)
    assert (False, VisibleFrom.BOOTSTRAPPED) == (fill.continues, fill.generation.serves)
    published(fill, 0)
    assert old == manifest_of(container).newest
    new = published(fill, 1, bootstrapped=True)
    assert new == manifest_of(container).newest


ANOTHER_STORE = [{"source": "flights"}, {"partitions": PARTITIONS + 1}, {"schema": OTHER}]


@pytest.mark.parametrize("more", [{}, {"adds": True}, {"persistent": False}, {"max_age": 0.0}, {"bootstrap": True}])
@pytest.mark.parametrize("change", ANOTHER_STORE)
def test_a_fill_makes_no_other_store_of_what_is_there_unless_it_is_told_to(
    container: BlobContainer, change: dict[str, Any], more: dict[str, Any]
) -> None:
    old = published(opened(container), 0)
    before = container.get(NAMES.manifest).data
    with pytest.raises(ConfigurationError, match=r"it (is filled from|has|s schema).*rebuild=True|its schema has"):
        opened(container, **change, **more)
    assert before == container.get(NAMES.manifest).data, "the fill that has the store goes on"
    told = opened(container, **change, **more, rebuild=True)
    assert 2 == told.generation.number
    again = opened(container, adds=True)
    assert (True, old) == (again.continues, again.base)
    assert {1} == {each.number for each in manifest_of(container).generations}


def test_a_store_of_another_source_says_which_one_and_going_on_with_that_works(container: BlobContainer) -> None:
    old = published(opened(container, adds=True), 0)
    with pytest.raises(ConfigurationError) as refused:
        opened(container, source="flights", adds=True)
    cause, advice = "it is filled from planes, not from flights", "If both are one source, give source='planes'."
    assert cause in str(refused.value) and advice in str(refused.value)
    assert old == opened(container, source="planes", adds=True).base


@pytest.mark.parametrize("versions", [0, 2])
@pytest.mark.parametrize("bounded", [False, True])
def test_the_fill_of_the_source_that_serves_drops_what_another_one_was_told_to_begin(
    container: BlobContainer, bounded: bool, versions: int
) -> None:
    old = published(opened(container), 0)
    mistaken = opened(container, OTHER, source="flights", rebuild=True, bounded=bounded)
    for batch in range(versions):
        published(mistaken, batch)
    again = opened(container)
    assert (True, old) == (again.continues, again.base)
    with pytest.raises(FencedError):
        published(mistaken, versions)
    published(again, 1)
    assert (old.number + versions + 1, 1) == (again.base and again.base.number, again.generation.number)
    assert {1} == generations_in(container)


def test_a_first_generation_of_another_source_is_not_taken_over(container: BlobContainer) -> None:
    for bounded in (False, True):
        begun = opened(container, source="flights", rebuild=True, bounded=bounded, bootstrap=True)
        with pytest.raises(ConfigurationError, match="it is filled from flights, not from planes"):
            opened(container)
        published(begun, 0)
        with pytest.raises(ConfigurationError, match="it is filled from flights, not from planes"):
            opened(container, bounded=True)
        published(begun, 1)


def test_a_fill_of_a_lower_epoch_does_not_take_the_store_from_a_later_one(container: BlobContainer) -> None:
    later = opened(container, epoch=18)
    published(later, 0)
    before = read_manifest(container, STORE)
    with pytest.raises(FencedError, match="a fill of epoch 18 has had it, and this one is of epoch 17"):
        opened(container, epoch=17)
    assert before == read_manifest(container, STORE)
    published(later, 1)

    restarted = opened(container, epoch=18)
    with pytest.raises(FencedError):
        published(later, 2)
    published(restarted, 2)
    published(opened(container), 3)  # one without an epoch is not asked for it
    with pytest.raises(ConfigurationError, match="epoch: -1 is not possible"):
        opened(container, epoch=-1)


def test_what_a_fill_finds_wrong_before_it_takes_the_store_over_leaves_the_other_fill_alone(
    container: BlobContainer,
) -> None:
    def refuse(opening: TakeoverPlan) -> str:
        found.append((opening.continues, opening.generation.number, opening.base))
        raise ConfigurationError("Spark refuses the query")

    found: list[tuple[bool, int, Version | None]] = []
    with pytest.raises(ConfigurationError, match="Spark refuses"):
        opened(container, before_take_over=refuse)
    assert read_manifest(container, STORE) is None
    running = opened(container)
    old = published(running, 0)
    settings: list[dict[str, Any]] = [{}, {"rebuild": True, "above": 6}]
    for more in settings:
        with pytest.raises(ConfigurationError, match="Spark refuses"):
            opened(container, before_take_over=refuse, **more)
    assert [(False, 1, None), (True, 1, old), (False, 7, None)] == found
    published(running, 1)


def test_a_fill_looks_again_at_what_has_changed_while_it_looked(container: BlobContainer) -> None:
    running = opened(container)
    published(running, 0)
    found: list[int] = []

    def look(opening: TakeoverPlan) -> str:
        found.append(opening.base.batch if opening.base else -1)
        if len(found) < 3:
            published(running, len(found))
        return "a query"

    fill = opened(container, before_take_over=look)
    assert [0, 1, 2] == found
    assert (2, "a query") == (fill.base and fill.base.batch, fill.generation.query)


def test_a_batch_is_not_added_to_what_a_streaming_query_fills(container: BlobContainer) -> None:
    published(opened(container, before_take_over=lambda _: "7c"), 0)
    with pytest.raises(ConfigurationError, match="streaming query 7c fills it, and numbers its batches"):
        opened(container, adds=True)
    published(opened(container), 1)


def test_a_fill_builds_its_store_again_beside_what_readers_have(container: BlobContainer) -> None:
    fill = opened(container)
    old = published(fill, 0)
    again = fill.build_again(above=4)
    assert (5, "planes", SCHEMA, False) == (
        again.generation.number,
        again.generation.source,
        again.generation.schema,
        again.continues,
    )
    published(again, 0)
    assert old == manifest_of(container).newest
    assert published(again, 1, bootstrapped=True) == manifest_of(container).newest
    opened(container)
    with pytest.raises(FencedError):
        again.build_again()


@pytest.mark.parametrize("build", [Fill.build_again, lambda fill: fill.build_beside(SCHEMA, "planes")])
def test_a_generation_that_was_registered_without_an_answer_is_built_once_more(
    account: MemoryAccount, build: Callable[[Fill], Fill]
) -> None:
    faults = FaultInjector(
        on("put", LateEffect(attempts=10_000), name=lambda name: name == NAMES.manifest, skip=2),
        on("put", Reset(), name=lambda name: name == NAMES.manifest, skip=2, times=4),
    )
    container = account.restarted(faults).container("box")
    fill = opened(container)
    old = published(fill, 0)
    with pytest.raises(TransientError, match="it stays unknown whether it was written"):
        build(fill)
    faults.apply_late_effects()
    before = manifest_of(container)
    advice = "Publish with what `build_beside` or `build_again` has returned. If that has failed, call it again."
    with pytest.raises(ConfigurationError, match=f"generation 1 was replaced by another one of this fill.*{advice}"):
        published(fill, 1)
    assert before == manifest_of(container)
    again = build(fill)
    assert (3, [1, 3]) == (again.generation.number, [each.number for each in manifest_of(container).generations])
    published(again, 0)
    assert old == manifest_of(container).newest
    assert published(again, 1, bootstrapped=True, sealed=True) == manifest_of(container).newest


def test_a_fill_that_had_the_store_without_an_answer_is_refused_and_leaves_it_to_the_next_one(
    account: MemoryAccount,
) -> None:
    container = account.container("box")
    published(opened(container), 0)
    found: list[str] = []
    running: list[Fill] = []

    def look(opening: TakeoverPlan) -> str:
        found.append(opening.next.writer)
        if len(found) > 1:
            raise ConfigurationError("Spark refuses the query")
        return ""

    def taken_over_twice(_: NumberedAttempt) -> None:
        """Before it writes once more, its first write has its effect, and another fill takes the store over."""
        puts = [each for each in faults.attempts if each.operation == "put"]
        if len(puts) == 2 and not running:
            faults.apply_late_effects()
            found.append(manifest_of(container).writer)
            running.append(opened(container))

    faults = FaultInjector(taken_over_twice, on("put", LateEffect(attempts=10_000)))
    with pytest.raises(ConfigurationError, match="Spark refuses the query"):
        opened(account.restarted(faults).container("box"), before_take_over=look)
    assert (3, 3) == (len(set(found)), manifest_of(container).epoch)
    assert published(running[0], 1) == manifest_of(container).newest


def test_a_fill_that_adds_does_not_take_the_first_bootstrap_of_another_one_over(container: BlobContainer) -> None:
    published(opened(container, bootstrap=True, source="stream"), 0)
    with pytest.raises(ConfigurationError, match="it is filled from stream, not from planes"):
        opened(container, adds=True)
    assert 1 == opened(container, bootstrap=True, source="stream").generation.number


def test_a_fill_that_was_replaced_changes_nothing(container: BlobContainer) -> None:
    old = opened(container)
    published(old, 0)
    new = opened(container)
    published(new, 1)
    before = manifest_of(container)
    for act in (
        lambda: published(old, 0),
        lambda: published(old, 5),
        lambda: old.build_beside(SCHEMA, "next"),
        old.build_again,
        old.clean_up,
    ):
        with pytest.raises(
            FencedError, match=r"write store stores/planes failed: epoch 2 has taken it over from epoch 1"
        ):
            act()
    assert before == manifest_of(container)
    published(new, 2)


def test_another_opening_with_the_same_epoch_fences_too(account: MemoryAccount) -> None:
    """The manifest was deleted and an older one brought back."""
    container = account.container("box")
    opened(container)
    data = container.get(NAMES.manifest).data
    old = opened(container)
    container.put(NAMES.manifest, data)
    opened(container)
    with pytest.raises(FencedError, match=r"another fill of epoch 2 has taken it over from epoch 2"):
        published(old, 0)


def test_the_newest_versions_serve_and_the_others_go(container: BlobContainer) -> None:
    fill = opened(container, keep=2)
    for batch in range(4):
        published(fill, batch)
    assert {4: "serving", 3: "serving"} == numbers(manifest_of(container))
    used = {each.checkpoints[0] for each in manifest_of(container).versions}
    assert used == fill.in_use(0)


def test_a_version_with_a_pin_stays_and_its_checkpoints_are_in_use(container: BlobContainer) -> None:
    fill = opened(container, keep=1)
    pinned, _ = pin_version(container, STORE, "q", published(fill, 0).batch)
    for batch in range(1, 5):
        published(fill, batch)
    assert {5: "serving", 1: "retiring"} == numbers(manifest_of(container))
    assert pinned.checkpoints[0] in fill.in_use(0)
    assert pinned.checkpoints[0] in opened(container).in_use(0)
    pin_version(container, STORE, "q", 1)
    pin_version(container, STORE, "q", 2)
    fill = opened(container, keep=1)
    assert CleanupResult((1,), (), 0) == fill.clean_up()
    assert pinned.checkpoints[0] not in fill.in_use(0)


def test_an_expired_pin_does_not_count_and_is_deleted(account: MemoryAccount) -> None:
    container = account.container("box")
    fill = opened(container, keep=1, pins_expire=100.0)
    published(fill, 0)
    pin_version(container, STORE, "q", 0)
    published(fill, 1)
    account.clock.sleep(199)
    assert CleanupResult() == fill.clean_up()
    account.clock.sleep(1)
    assert CleanupResult((1,)) == fill.clean_up()
    assert [] == list(container.list(NAMES.all_pins))


def test_a_pin_that_cannot_be_read_keeps_all_versions(
    container: BlobContainer, caplog: pytest.LogCaptureFixture
) -> None:
    fill = opened(container, keep=1)
    container.put(NAMES.pin("q", 0), b"{")
    for batch in range(3):
        published(fill, batch)
    assert [3, 2, 1] == list(numbers(manifest_of(container)))
    assert "no version is dropped: Pin stores/planes/pins/q/00000000000000000000.json is damaged" in caplog.text


def test_a_bounded_data_set_is_seen_when_it_is_sealed_and_replaces_the_one_before(container: BlobContainer) -> None:
    first = opened(container, source="planes 1", bounded=True)
    published(first, 0)
    assert manifest_of(container).newest is None
    whole = first.publish(Publication(0, {}, 1, 1, sealed=True))
    assert whole == manifest_of(container).newest
    pin_version(container, STORE, "q", 0)
    again = opened(container, source="planes 1", bounded=True)
    assert (True, True) == (again.continues, again.generation.sealed)
    beside = again.build_beside(OTHER, "planes 2", partitions=1)
    for batch in range(3):
        beside.publish(Publication(batch, {0: uploaded(container, beside.generation.number, 0)}, 1, 1))
    assert whole == manifest_of(container).newest
    last = beside.publish(Publication(3, {}, 5, 5, sealed=True))
    assert (last, 1) == (manifest_of(container).newest, len(last.checkpoints))
    assert {1, 2} == generations_in(container), "a batch has the old one pinned"
    for batch in (1, 2):
        pin_version(container, STORE, "q", batch)
    assert CleanupResult((1,), (1,), 1) == beside.clean_up()
    assert {2} == generations_in(container)


def test_a_data_set_that_was_not_sealed_is_abandoned(container: BlobContainer) -> None:
    fill = opened(container, source="planes 1", bounded=True)
    whole = published(fill, 0, sealed=True)
    published(fill.build_beside(SCHEMA, "planes 2"), 0)
    beside = fill.build_beside(SCHEMA, "planes 2")
    published(beside, 0)
    assert {1, 3} == generations_in(container)
    again = opened(container, source="planes 1", bounded=True)
    assert (True, whole) == (again.continues, again.base)
    assert CleanupResult((), (), 1) == again.clean_up()
    assert {1} == generations_in(container)
    last = published(again.build_beside(SCHEMA, "planes 3"), 0, sealed=True)
    assert (4, last) == (last.generation, manifest_of(container).newest)


def test_what_is_sealed_or_replaced_cannot_be_published_to(container: BlobContainer) -> None:
    fill = opened(container, source="planes 1", bounded=True)
    published(fill, 0, sealed=True)
    with pytest.raises(ConfigurationError, match="generation 1 is sealed, and batch 1 is a new one"):
        published(fill, 1)
    fill.build_beside(SCHEMA, "planes 2")
    with pytest.raises(ConfigurationError, match="generation 1 was replaced by another one of this fill"):
        published(fill, 1)


def test_a_replaced_generation_without_versions_is_gone_with_its_blobs(container: BlobContainer) -> None:
    fill = opened(container)
    uploaded(container, fill.generation.number, 0)
    published(opened(container, OTHER, rebuild=True), 0, bootstrapped=True)
    assert ({2}, [2]) == (generations_in(container), [each.number for each in manifest_of(container).generations])


def test_what_a_replaced_fill_uploads_into_an_old_generation_is_deleted_by_the_next_clean_up(
    container: BlobContainer,
) -> None:
    old = opened(container)
    published(old, 0)
    new = opened(container, OTHER, rebuild=True)
    published(new, 0, bootstrapped=True)
    assert {2} == generations_in(container)
    uploaded(container, old.generation.number, 1)
    container.put(f"{STORE}/g99/p0/files/x", b"of a generation that is still to come")
    container.put(f"{STORE}/gull", b"of somebody else")
    container.stage_block(f"{NAMES.state(1, 0)}/files/staged", "1", b"1")
    published(new, 1)
    assert CleanupResult((), (), 2) == new.clean_up()
    assert {2, 99} == generations_in(container)
    assert container.properties(f"{STORE}/gull") is not None


def test_blobs_that_cannot_be_deleted_are_left_for_the_next_clean_up(
    account: MemoryAccount, caplog: pytest.LogCaptureFixture
) -> None:
    published(opened(account.container("box")), 0)
    container = account.restarted(FaultInjector(on("delete", Refuse()))).container("box")
    fill = opened(container, OTHER, rebuild=True)
    published(fill, 0, bootstrapped=True)
    assert "1 blobs of stores/planes are left for the next clean-up: 403" in caplog.text
    assert {1, 2} == generations_in(container)
    published(fill, 1)
    assert {2} == generations_in(container)


def test_an_error_of_the_clean_up_leaves_the_version_published(
    account: MemoryAccount, caplog: pytest.LogCaptureFixture
) -> None:
    container = account.restarted(FaultInjector(on("list", Refuse(), name=lambda name: "/pins/" in name))).container(
        "box"
    )
    fill = opened(container, keep=1)
    for batch in range(3):
        assert published(fill, batch) == manifest_of(container).newest
    assert "the clean-up of stores/planes goes on with the next version: 403" in caplog.text
    assert {3: "serving"} == numbers(manifest_of(container))


@pytest.mark.parametrize("skip", range(12))
@pytest.mark.parametrize("fault", [LostAnswer(), Reset()])
def test_a_lost_answer_changes_nothing(account: MemoryAccount, fault: LostAnswer | Reset, skip: int) -> None:
    faults = FaultInjector(on("put", fault, skip=skip, times=2, name=lambda name: name == NAMES.manifest))
    container = account.restarted(faults).container("box")
    fill = opened(container, keep=1)
    for batch in range(3):
        published(fill, batch)
    fill = opened(container, OTHER, keep=1, rebuild=True)
    last = [published(fill, batch, bootstrapped=True) for batch in range(3)][-1]
    assert {6: "serving"} == numbers(manifest_of(account.container("box")))
    assert last == manifest_of(container).newest


def test_a_publication_that_takes_effect_late_keeps_its_checkpoints_in_use(account: MemoryAccount) -> None:
    lost = [
        on("put", LateEffect(attempts=10_000), name=lambda name: name == NAMES.manifest, skip=1),
        on("put", Reset(), name=lambda name: name == NAMES.manifest, skip=1, times=4 * 12),
    ]
    faults = FaultInjector(*lost)
    container = account.restarted(faults).container("box")
    fill = opened(container)
    id_ = uploaded(container, 1, 0)
    with pytest.raises(TransientError, match="it stays unknown whether it was written"):
        fill.publish(Publication(0, {0: id_}, 1, 1))
    assert (None, frozenset({id_})) == (fill.base, fill.in_use(0))
    faults.apply_late_effects()
    version = fill.publish(Publication(0, {0: uploaded(container, 1, 0)}, 1, 1))
    assert (id_, 1) == (version.checkpoints[0], version.number)
    assert {id_} == fill.in_use(0)


def test_a_manifest_that_was_deleted_is_undeleted_or_missed(container: BlobContainer) -> None:
    published(opened(container), 0)
    container.delete(NAMES.manifest)
    with pytest.raises(ConflictError, match="it has blobs, but stores/planes/store.json was deleted"):
        opened(container)
    keeping = MemoryAccount(MemoryService(soft_delete=60.0)).container("box")
    keeping.create()
    version = published(opened(keeping), 0)
    keeping.delete(NAMES.manifest)
    assert version == opened(keeping).base


def test_a_folder_with_other_blobs_or_in_another_store_is_refused_and_left_alone(container: BlobContainer) -> None:
    published(opened(container), 0)
    before = [blob.name for blob in container.list("stores")]
    with pytest.raises(ConfigurationError, match=r"its folder has other blobs, such as stores/planes/.*of its own"):
        open_fill(
            Location.in_container(container, "stores"),
            SCHEMA,
            FillRequirements(partitions=1, source="planes", threads=1),
        )
    for inner in ("stores/planes/inner", "stores/planes/deep/er"):
        with pytest.raises(ConfigurationError, match="it would be in the folder of store stores/planes"):
            open_fill(
                Location.in_container(container, inner),
                SCHEMA,
                FillRequirements(partitions=1, source="planes", threads=1),
            )
    assert before == [blob.name for blob in container.list("stores")]


def test_a_store_in_a_container_that_does_not_exist_is_not_found(container: BlobContainer) -> None:
    assert read_manifest(container, "stores/boats") is None
    with pytest.raises(NotFoundError, match="nowhere"):
        read_manifest(MemoryAccount().container("nowhere"), STORE)


def test_a_manifest_that_is_deleted_while_it_is_filled_is_missed(container: BlobContainer) -> None:
    fill = opened(container)
    container.delete(NAMES.manifest)
    with pytest.raises(ConflictError, match="its manifest was deleted. Restore blob stores"):
        published(fill, 0)


@pytest.mark.parametrize(
    ("checkpoints", "cause"),
    [
        ({2: "1-1"}, "partition 2 is not one of the 2"),
        ({-1: "1-1"}, "partition -1 is not one"),
        ({0: ""}, "a checkpoint has no id"),
    ],
)
def test_checkpoints_of_other_partitions_are_refused(
    container: BlobContainer, checkpoints: dict[int, str], cause: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"Batch 0 cannot be published: {cause}"):
        opened(container).publish(Publication(0, checkpoints, 0, 0))


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"partitions": 0}, {"pins_expire": 0.0}])
def test_settings_are_checked(container: BlobContainer, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="must be above 0|a store has at least 1"):
        open_fill(
            Location.in_container(container, STORE),
            SCHEMA,
            FillRequirements(**{"partitions": PARTITIONS, "source": "planes", **wrong}),
        )
    assert read_manifest(container, STORE) is None
    with pytest.raises(NotFoundError, match="there is no manifest"):
        pin_version(container, STORE, "q", 0)
