"""How many checkpoints a state keeps, and what has become empty: nothing is dropped that nobody has ordered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_account.documents.form import sealed
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from state_backup import MayBeEmpty, TaskIdentity, checkpoints, open_state, plan_sweep, restore, set_keep, sweep
from state_backup.backup.settings import WriterSettings
from state_backup.record.record import from_json
from tests.state_backup.states import STATE, TREES, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer
    from state_backup.backup.writer import StateWriter
    from tests.state_backup.index.trees import Tree

RECORD = f"{STATE}/checkpoint.json"


@pytest.fixture
def container() -> BlobContainer:
    return new_account().container("box")


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return write(tmp_path / "live", TREES[0])


def opened(container: BlobContainer, keep: int | None = None) -> StateWriter:
    return open_state(state_in(container), TaskIdentity("flights"), WriterSettings(keep=keep))


def back_up(writer: StateWriter, live: Path, times: int) -> int:
    """Back up so often; the number of checkpoints that are kept then."""
    for number in range(times):
        writer.back_up({"store": write(live, {"a": str(number).encode()})})
    return len(writer.checkpoints)


def test_a_run_that_says_nothing_keeps_what_the_state_has(container: BlobContainer, live: Path) -> None:
    assert 10 == back_up(opened(container, keep=10), live, 12)
    assert 10 == back_up(opened(container), live, 3)


def test_a_state_keeps_two_if_nobody_has_said_anything(container: BlobContainer, live: Path) -> None:
    assert 2 == back_up(opened(container), live, 4)


def test_a_run_that_keeps_more_changes_the_state(container: BlobContainer, live: Path) -> None:
    assert 2 == back_up(opened(container), live, 4)
    assert 4 == back_up(opened(container, keep=4), live, 4)
    assert 4 == back_up(opened(container), live, 4)


def test_a_run_that_keeps_less_drops_nothing_and_says_how_that_is_ordered(
    container: BlobContainer, live: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert 5 == back_up(opened(container, keep=5), live, 6)
    assert 5 == back_up(opened(container, keep=2), live, 3)
    text = f"{STATE} keeps 5 checkpoints, also in this run, which asks for 2. To keep fewer: set_keep(…, 2)"
    assert 1 == caplog.text.count(text)
    assert 3 == back_up(opened(container, keep=3), live, 1) - 2
    set_keep(state_in(container), 3)
    assert 3 == back_up(opened(container, keep=3), live, 1)
    check_no_orphans(container)


def test_an_order_fences_nobody_and_holds_from_the_next_backup_on(container: BlobContainer, live: Path) -> None:
    writer = opened(container, keep=4)
    assert 4 == back_up(writer, live, 4)
    set_keep(state_in(container), 2)
    assert 4 == len(checkpoints(state_in(container)))
    assert 2 == back_up(writer, live, 1)
    set_keep(state_in(container), 3)
    assert 3 == back_up(writer, live, 1)
    check_no_orphans(container)


def test_an_order_needs_a_state_and_keeps_two_at_least(container: BlobContainer, live: Path) -> None:
    with pytest.raises(NotFoundError, match=f"keep checkpoints of state {STATE} failed: it has no checkpoint record"):
        set_keep(state_in(container), 3)
    back_up(opened(container), live, 1)
    with pytest.raises(ConfigurationError, match=r"keep of \w+ is 1: give a whole number of at least 2"):
        set_keep(state_in(container), 1)


def test_the_number_is_in_the_record_all_of_whose_fields_are_compulsory(container: BlobContainer, live: Path) -> None:
    back_up(opened(container, keep=7), live, 1)
    fields = json.loads(container.get(RECORD).data)
    fields.pop("digest")
    assert 7 == fields["keep"] == from_json(sealed(fields), RECORD).keep
    for part in (fields, fields["checkpoints"][0]):
        for name in list(part):
            value = part.pop(name)
            with pytest.raises(CorruptError, match=f"'{name}' is missing"):
                from_json(sealed(fields), RECORD)
            part[name] = value


# --- what has become empty --------------------------------------------------------------------------------------------


def emptied(live: Path) -> Path:
    """As the mount point of a disk that is not mounted."""
    return write(live, {})


def test_a_store_that_has_become_empty_is_no_backup(container: BlobContainer, live: Path, tmp_path: Path) -> None:
    writer = opened(container)
    first = writer.back_up({"store": live})
    said = (
        f"back up directory {live} failed: it has no files, and store store had 3 at checkpoint {first.id}. "
        r"See that its disk is mounted; if all was deleted on purpose, give MayBeEmpty\(directory\)"
    )
    for again in (writer, opened(container)):
        trees: tuple[Tree, ...] = ({}, {"lost+found": {}})
        for tree in trees:
            with pytest.raises(ConfigurationError, match=said):
                again.back_up({"store": write(live, tree)})
    assert (first,) == checkpoints(state_in(container))
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", TREES[0])
    opened(container).back_up({"store": write(live, TREES[1])})


STORES = st.sets(st.sampled_from(["agg", "agq", "db"]), max_size=3)


@settings(max_examples=60)
@given(calls=st.lists(st.tuples(STORES, STORES, st.booleans()), min_size=1, max_size=6))
def test_a_store_is_dropped_only_by_name(
    calls: list[tuple[set[str], set[str], bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Stores that are given and left out, in any order, by writers that go on or open the state."""
    container, live = new_account().container("box"), write(tmp_path_factory.mktemp("live") / "live", TREES[0])
    writer, had = opened(container), set[str]()
    for given_stores, left_out, again in calls:
        writer = opened(container) if again else writer
        before = container.list()
        if not given_stores or given_stores & left_out or had - given_stores - left_out:
            with pytest.raises(ConfigurationError, match=r"not given|no store is given|to be left out"):
                writer.back_up(dict.fromkeys(given_stores, live), leave_out=sorted(left_out))
            assert [each.etag for each in before] == [each.etag for each in container.list()]
        else:
            made = writer.back_up(dict.fromkeys(given_stores, live), leave_out=sorted(left_out))
            had = given_stores
            assert had == set(made.indexes)


def test_the_message_of_a_missing_store_names_what_helps(container: BlobContainer, live: Path) -> None:
    writer = opened(container)
    writer.back_up({"agg": live})
    with pytest.raises(ConfigurationError, match=r"has store agg, which is not given.* leave_out=\['agg'\], or --"):
        writer.back_up({"agq": live})
    with pytest.raises(ConfigurationError, match="leave_out of .* is 'agg': give a list"):
        writer.back_up({"agq": live}, leave_out="agg")
    assert ["agg"] == [store for each in checkpoints(state_in(container)) for store in each.indexes]
    writer.back_up({"agq": live}, leave_out=["agg"])


def test_a_store_that_was_left_out_once_is_not_emptied_either(container: BlobContainer, live: Path) -> None:
    writer = opened(container)
    writer.back_up({"store": live, "other": live})
    writer.back_up({"other": live}, leave_out=["store"])
    with pytest.raises(ConfigurationError, match="it has no files, and store store had 3"):
        writer.back_up({"store": emptied(live)}, leave_out=["other"])


def test_a_store_may_be_empty_if_that_is_said_and_if_it_was(
    container: BlobContainer, live: Path, tmp_path: Path
) -> None:
    writer = opened(container)
    writer.back_up({"store": live})
    writer.back_up({"store": MayBeEmpty(emptied(live))})
    writer.back_up({"store": live})
    restore(state_in(container), {"store": tmp_path / "restored"})
    assert equal(tmp_path / "restored", {})
    sweep(state_in(container), plan_sweep(state_in(container), min_age=0))
    writer.back_up({"store": MayBeEmpty(str(write(live, TREES[1])))})
    check_no_orphans(container)


def test_a_new_store_may_be_empty(container: BlobContainer, live: Path) -> None:
    writer = opened(container)
    writer.back_up({"store": emptied(live)})
    writer.back_up({"store": live, "new": live})
