"""Which directories a caller backs up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from azure_account.arguments import checked
from azure_account.errors import ConfigurationError, describe

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        raise ConfigurationError(describe("back up", f"state {state}", cause, step))
    return {name: Path(each.directory if isinstance(each, MayBeEmpty) else each) for name, each in stores.items()}


def may_be_empty(stores: Mapping[str, object]) -> frozenset[str]:
    """The stores of which that was said."""
    return frozenset(store for store, directory in stores.items() if isinstance(directory, MayBeEmpty))
