"""What callers give: names, offsets, numbers. Checked before anything is uploaded, and before another writer is fenced.

A value that JSON would store as another one is refused, such as an int as a key, which would come back as text. What a
reader refuses is refused too: a checkpoint that was acknowledged can be restored. Pure.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure_account.errors import ConfigurationError, describe

_SHOWN = 80


@dataclass(frozen=True)
class MayBeEmpty:
    """A directory to back up that may have lost all of its files since the checkpoint before. Else that is an error."""

    directory: Path | str


def check_label(value: Any, name: str, what: str) -> None:
    """`ConfigurationError` unless a value is text that is not blank. what: which is checked, for the message."""
    if not isinstance(value, str):
        raise ConfigurationError(describe("back up", what, f"{name} is {_no_text(value)}", "Give text."))
    if not value.strip():
        raise ConfigurationError(describe("back up", what, f"{name} is blank", "Give a name."))


def checked_offsets(offsets: Any, state: str) -> dict[str, str]:
    """The offsets. `ConfigurationError` unless they are texts by text."""
    what = f"state {state}"
    for key, value in _items(offsets, "offsets", what):
        if not isinstance(key, str):
            step = "Give text, such as str(partition): it is restored as text."
            raise ConfigurationError(describe("back up", what, f"offsets has the key {_no_text(key)}", step))
        if not isinstance(value, str):
            step = "Give text, or leave it out."
            cause = f"offsets has for {key[:_SHOWN]} the value {_no_text(value)}"
            raise ConfigurationError(describe("back up", what, cause, step))
    return dict(offsets)


def checked_stores(stores: Any, state: str) -> dict[str, Path]:
    """The directories by store. `ConfigurationError` unless they are paths by names that are not blank."""
    what, found = f"state {state}", {}
    for store, directory in _items(stores, "stores", what):
        check_label(store, "the name of a store", what)
        try:
            found[store] = Path(directory.directory if isinstance(directory, MayBeEmpty) else directory)
        except TypeError as error:
            cause = f"the directory of store {store[:_SHOWN]} is {_shown(directory)} and no path"
            raise ConfigurationError(describe("back up", what, cause, "Give a path.")) from error
    if not found:
        step = "Give the directories of all stores of the state."
        raise ConfigurationError(describe("back up", what, "no store is given", step))
    return found


def may_be_empty(stores: Mapping[str, object]) -> frozenset[str]:
    """The stores of which that was said."""
    return frozenset(store for store, directory in stores.items() if isinstance(directory, MayBeEmpty))


def checked_ids(ids: Any, state: str) -> frozenset[str]:
    """Ids of checkpoints, given as ids or as texts."""
    if isinstance(ids, str) or not isinstance(ids, Collection):
        cause, step = f"keep is {'a text' if isinstance(ids, str) else _shown(ids)}", "Give a collection of ids."
        raise ConfigurationError(describe("back up", f"state {state}", cause, step))
    return frozenset(map(str, ids))


def checked_number(value: Any, name: str, least: int, why: str = "") -> int:
    """A whole number. `ConfigurationError` for one below `least`, and for anything else."""
    try:
        number = int(operator.index(value))
    except TypeError:
        raise ConfigurationError(f"{name} is {_shown(value)}, it must be a whole number.") from None
    if number < least:
        reason = f": {why}" if why else ""
        raise ConfigurationError(f"{name} is {number}, it must be at least {least}{reason}.")
    return number


def _items(given: Any, name: str, what: str) -> Iterable[tuple[Any, Any]]:
    if not isinstance(given, Mapping):
        cause, step = f"{name} is {type(given).__name__} and not a mapping", "Give a dict."
        raise ConfigurationError(describe("back up", what, cause, step))
    return given.items()


def _no_text(value: Any) -> str:
    return f"{_shown(value)}, which is {type(value).__name__} and not text"


def _shown(value: Any) -> str:
    return f"{value!r}"[:_SHOWN]
