"""What a caller gives is restored equal or refused before anything is uploaded; what was acknowledged can be read."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from azure_account.documents import form
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, FencedError
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.restoring.restore import checkpoints, restore
from state_backup.restoring.verifying import verify
from tests.histories.mutants import edited
from tests.state_backup.states import STATE, TREES, equal, new_account, state_in, write

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=3),
    st.sampled_from(
        ["", " ", "\n", "a", "kafka.flights.0", "\ud83d\ude00", "\udcff", "😀", "null", "0", '"', "\0", "a/b"]
    ),
)
OTHERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.none(),
    st.booleans(),
    st.floats(),
    st.binary(max_size=2),
    st.datetimes(),
    st.tuples(st.integers(0, 3)),
    st.integers(0, 9).map(np.int64),
    st.integers(0, 9).map(lambda number: np.str_(str(number))),
    st.just(Path("a")),
    st.just(dt.timedelta(1)),
)
ANY = st.one_of(TEXTS, OTHERS)
LABELS = TEXTS.filter(str.strip)
OFFSETS = st.dictionaries(TEXTS, TEXTS, max_size=3)
USUAL: dict[str, st.SearchStrategy[Any]] = {
    "owner": st.tuples(LABELS, LABELS, LABELS),
    "stores": st.lists(LABELS, min_size=1, max_size=2),
    "offsets": st.none() | OFFSETS,
    "epoch": st.none() | st.integers(1, 9) | st.integers(1, 9).map(np.int64),
    "keep": st.integers(2, 5) | st.just(np.int32(2)),
    "opening": st.none() | LABELS,
    "now": st.integers(0, 10**22),
}
UNUSUAL: dict[str, st.SearchStrategy[Any]] = {
    "owner": st.tuples(ANY, ANY, ANY),
    "stores": st.lists(ANY, max_size=2),
    "offsets": st.dictionaries(st.integers(0, 12), TEXTS, max_size=3) | st.dictionaries(ANY, ANY, max_size=2) | ANY,
    "epoch": ANY,
    "keep": ANY,
    "opening": ANY,
    "now": st.integers(-(10**20), 10**26) | st.floats(),
}


@st.composite
def given_values(draw: st.DrawFn) -> dict[str, Any]:
    """What a caller gives: usual, but for one or none of the values."""
    unusual = draw(st.sampled_from(["", *UNUSUAL]))
    return {name: draw(UNUSUAL[name] if name == unusual else USUAL[name]) for name in USUAL}


class At(ManualClock):
    """The same time always."""

    def __init__(self, nanoseconds: int) -> None:
        super().__init__()
        self.nanoseconds = nanoseconds

    def now_ns(self) -> int:
        return self.nanoseconds


@settings(max_examples=200, deadline=None)
@given(values=given_values())
def test_what_is_given_is_restored_equal_or_refused_before_an_upload(values: dict[str, Any]) -> None:
    offsets, now = values["offsets"], values["now"]
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        folder = Path(name)
        live = write(folder / "live", TREES[0])
        container = new_account().container("box")
        open_state(state_in(container), TaskIdentity("flights")).back_up({"store": live}, {"before": "1"})
        before = {blob.name for blob in container.list()}
        write(live, TREES[1])
        stores = dict.fromkeys(values["stores"], live)
        try:
            settings_ = {name: values[name] for name in ("epoch", "keep", "opening")}
            writer = open_state(
                state_in(container), TaskIdentity(*values["owner"]), WriterSettings(**settings_), clock=At(now)
            )
            checkpoint = writer.back_up(stores, offsets)
        except (ConfigurationError, FencedError):  # an epoch may be too low
            event("refused")
            assert before == {blob.name for blob in container.list()}
            assert [{"before": "1"}] == [each.offsets for each in checkpoints(state_in(container))]
            return
        event("acknowledged")
        for store in stores:
            restored = restore(state_in(container), {store: folder / "restored"})
            assert (checkpoint, dict(offsets or {})) == (restored.checkpoint, restored.checkpoint.offsets)
            assert equal(folder / "restored", TREES[1])
        verified = {each.checkpoint.id: each.whole for each in verify(state_in(container))}
        assert dict.fromkeys((each.id for each in checkpoints(state_in(container))), True) == verified
        open_state(state_in(container), TaskIdentity("flights")).back_up({"store": live})


@pytest.mark.parametrize(
    ("offsets", "what"),
    [
        ({2: "5", 10: "7"}, r"has the key 2: give a text"),
        (
            {"kafka.flights.2": 5},
            r"has for 'kafka\.flights\.2' the value 5: give a text",
        ),
        ({"kafka.flights.2": None}, r".* the value None: give a text"),
        ([("a", "b")], "is of type list: give a dictionary"),
    ],
)
def test_offsets_are_texts(tmp_path: Path, offsets: Any, what: str) -> None:
    writer = open_state(state_in(new_account().container("box")), TaskIdentity("flights"))
    with pytest.raises(ConfigurationError, match=f"Argument offsets of StateWriter.back_up {what}"):
        writer.back_up({"store": write(tmp_path / "live", TREES[0])}, offsets)


@pytest.mark.parametrize(
    ("given_", "what"),
    [
        (("flights", 1), "job_id of TaskIdentity is 1: give a text that is not blank"),
        (("flights", "1", 3), "task_name of TaskIdentity is 3"),
        (("flights", "1", ""), "task_name of TaskIdentity is ''"),
        ((" ",), "job_name of TaskIdentity is ' '"),
    ],
)
def test_an_owner_is_of_texts_that_are_not_blank(given_: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        TaskIdentity(*given_)


@pytest.mark.parametrize("store", ["", " ", 3, None])
def test_the_name_of_a_store_is_a_text_that_is_not_blank(tmp_path: Path, store: Any) -> None:
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    with pytest.raises(ConfigurationError, match="store"):
        writer.back_up({store: write(tmp_path / "live", TREES[0])})
    assert [f"{STATE}/checkpoint.json"] == [blob.name for blob in container.list()]


@pytest.mark.parametrize("directory", [None, 3, b"live"])
def test_a_directory_is_a_path_and_no_store_is_uploaded_before_that_is_known(tmp_path: Path, directory: Any) -> None:
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    with pytest.raises(
        ConfigurationError, match="Argument stores of StateWriter.back_up has for 'b' the value .*: give a path"
    ):
        writer.back_up({"a": write(tmp_path / "live", TREES[0]), "b": directory})
    assert [f"{STATE}/checkpoint.json"] == [blob.name for blob in container.list()]


@pytest.mark.parametrize("epoch", ["three", 1.5, float("nan"), -1])
def test_an_epoch_that_is_no_whole_number_fences_nobody(tmp_path: Path, epoch: Any) -> None:
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    with pytest.raises(
        ConfigurationError, match="Argument epoch of WriterSettings is .*: give a whole number of at least 0"
    ):
        open_state(state_in(container), TaskIdentity("flights"), WriterSettings(epoch=epoch))
    writer.back_up({"store": write(tmp_path / "live", TREES[0])})


def test_ids_of_checkpoints_are_taken_as_ids_or_as_texts(tmp_path: Path) -> None:
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    first, *_ = [writer.back_up({"store": write(tmp_path / "live", tree)}) for tree in TREES[:2]]
    ids: Any = [first.id]
    writer.back_up({"store": write(tmp_path / "live", TREES[2])}, keep=ids)
    assert first.id in {each.id for each in checkpoints(state_in(container))}
    restored = restore(state_in(container), {"store": tmp_path / "restored"}, checkpoint_id=ids[0])
    assert first == restored.checkpoint
    with pytest.raises(ConfigurationError, match="Argument keep of StateWriter.back_up is .*: give a list"):
        writer.back_up({"store": tmp_path / "live"}, keep=str(first.id))


def test_an_index_that_could_not_be_read_again_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is that a reader refuses: here sizes above a limit that only the reader has."""
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    writer.back_up({"store": write(tmp_path / "live", TREES[0])})
    edited("state_backup.index.snapshot_index:_whole", "0 <= value < _LARGEST", "value not in (4, 5)")(monkeypatch)
    with pytest.raises(ConfigurationError, match="it could not be read again"):
        writer.back_up({"store": write(tmp_path / "live", {"a": b"1234"})})
    assert 1 == len(checkpoints(state_in(container)))


def test_the_digest_covers_every_field() -> None:
    fields = {"b": {"2": 1, "10": [1, None]}, "a": "x"}
    document = json.loads(form.sealed(fields))
    digest = document.pop("digest")
    assert digest == form.digest_of(document)
    assert digest not in (form.digest_of({**document, "a": "y"}), form.digest_of({**document, "c": 1}))
