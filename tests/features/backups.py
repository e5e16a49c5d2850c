"""Backups of local state, and checkpoints of queries within the commit of the sink."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from state_backup import TaskIdentity, WriterSettings, open_state, restore
from state_backup.cli.app import app
from state_backup.record.ttl import WITH_TTL
from state_backup.restoring.restore import checkpoints
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.features.place import Feature, raise_error
from tests.state_backup.states import TREES, equal, write

if TYPE_CHECKING:
    from tests.features.place import Place

STATE = "states/task"
BACKUP = "`state_backup`: backup, `sweep`, `keep`"
RESTORE = "`state_backup`: restore, `ls`, `verify`"
UNDELETE = "… with an undelete"
BIG = {"1.sst": b"x" * 300_000, "CURRENT": b"1"}
"""Large enough for a blob of its own."""


def back_up(place: Place, *trees: Any, ttl: bool = True) -> None:
    """Open the state, and back up one directory after another."""
    writer = open_state(place.at(STATE), TaskIdentity("flights"), WriterSettings(ttl=ttl))
    for tree in trees:
        writer.back_up({"store": write(place.folder / "live", tree)}, {"kafka": "1"})


def backed_up(place: Place) -> None:
    """A state with two checkpoints."""
    back_up(place, TREES[0], BIG)


def restored(place: Place) -> bool:
    """Whether the newest checkpoint is that of `BIG`."""
    restore(place.at(STATE), {"store": place.folder / "back"})
    return equal(place.folder / "back", BIG)


def wasted(place: Place) -> None:
    """A state with a blob that no checkpoint needs, as a crash leaves it."""
    backed_up(place)
    place.container.put(f"{STATE}/files/{'0' * 32}", b"waste", WITH_TTL)


def without_a_blob(place: Place) -> None:
    """A state of which blobs were deleted by hand."""
    backed_up(place)
    newest = str(checkpoints(place.at(STATE))[0].id)
    for blob, ids in plan_sweep(place.at(STATE), min_age=0).in_use.items():
        if set(ids) == {newest}:
            place.container.delete(blob)


def _lists_states(place: Place) -> list[tuple[str, int]]:
    found = json.loads(place.command(app, "ls", "{}", "--json"))
    raise_error(found["states"])
    return [(each["state"], len(each["checkpoints"])) for each in found["states"]]


def _sweep(place: Place) -> None:
    sweep(place.at(STATE), plan_sweep(place.at(STATE), min_age=0))


def _waste(place: Place) -> tuple[int, bool]:
    return len(plan_sweep(place.at(STATE), min_age=0).waste), restored(place)


def _lists(place: Place) -> int:
    return len(checkpoints(place.at(STATE)))


def _keep(place: Place) -> None:
    place.command(app, "keep", f"{place.container_name}/{STATE}", "3")


STATE_PATH = f"{{}}/{STATE}"
FEATURES = [
    Feature(
        BACKUP, "backup", lambda place: back_up(place, BIG), True, lambda place: back_up(place, TREES[0]), restored
    ),
    Feature(BACKUP, "first backup", lambda place: back_up(place, BIG), True, see=restored),
    Feature(
        BACKUP,
        "backups that drop checkpoints",
        lambda place: back_up(place, TREES[1], TREES[2], BIG),
        True,
        backed_up,
        restored,
    ),
    Feature(
        BACKUP,
        "backup with `ttl=False`",
        lambda place: back_up(place, TREES[1], BIG, ttl=False),
        True,
        backed_up,
        restored,
    ),
    Feature(BACKUP, "`sweep`", _sweep, (0, True), wasted, _waste),
    Feature(BACKUP, "`keep`", _keep, 2, backed_up, _lists),
    Feature(RESTORE, "restore", restored, True, backed_up),
    Feature(RESTORE, "`ls` of states", _lists_states, [(STATE, 2)], backed_up),
    Feature(
        RESTORE,
        "`verify`",
        lambda place: "whole" in place.command(app, "verify", STATE_PATH, "--deep"),
        True,
        backed_up,
    ),
    Feature(UNDELETE, "restore that undeletes", restored, True, without_a_blob, needs_undelete=True),
]
