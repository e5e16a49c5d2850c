"""Which directories a caller backs up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foundation.arguments import checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from state_backup.record.record import Checkpoint


@checked
@dataclass(frozen=True)
class MayBeEmpty:
    """A directory to back up that may have lost all of its files since the checkpoint before. Else that is an error."""

    directory: Path | str


def checked_stores(stores: Mapping[str, Path | str | MayBeEmpty], state: str) -> dict[str, Path]:
    """The directories by store. `ConfigurationError` unless there is one, and all have names."""
    if not stores or not all(name.strip() for name in stores):
        cause = "a name of a store is blank" if stores else "no store is given"
        step = "Give the directories of all stores of the state, by names."
        raise ConfigurationError("back up", f"state {state}", cause, step)
    return {name: Path(each.directory if isinstance(each, MayBeEmpty) else each) for name, each in stores.items()}


def may_be_empty(stores: Mapping[str, object]) -> frozenset[str]:
    """The stores of which that was said."""
    return frozenset(store for store, directory in stores.items() if isinstance(directory, MayBeEmpty))


def check_all_given(given: Collection[str], left_out: Collection[str], state: str, newest: Checkpoint | None) -> None:
    """`ConfigurationError` for a store of the newest checkpoint that is neither given nor left out by name."""
    what = f"state {state}"
    both = sorted(set(given) & set(left_out))
    if both:
        cause = f"store {both[0]} is given, and is to be left out"
        raise ConfigurationError("back up", what, cause, "Give the directory of the store, or leave it out.")
    missing = () if newest is None else sorted(set(newest.indexes) - set(given) - set(left_out))
    if newest is not None and missing:
        cause = f"checkpoint {newest.id} has store {', '.join(missing)}, which is not given"
        step = f"Give its directory; to go on without it, so that it is dropped, give leave_out=[{missing[0]!r}]"
        raise ConfigurationError("back up", what, cause, f"{step}, or --leave-out {missing[0]}.")
