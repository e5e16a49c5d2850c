"""Where a state is, opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.errors import ConfigurationError
from state_backup.record.names import StateNames

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azure_account.location import Location


def open_location(where: Location) -> tuple[BlobContainer, StateNames]:
    """The container of a state, and the state's names. Makes no request.

    `ConfigurationError` if `where` names no state, or cannot be one.
    """
    if not where.path:
        raise ConfigurationError(f"No state is named in container {where.container}: give `container/state`.")
    names = StateNames(where.path)
    return where.open(), names
