"""Remembers that this machine was the last to back a checkpoint up: a file beside it, `<location>.backup.json`."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from azure_account.documents.form import check_version
from foundation.errors import ConfigurationError
from state_backup.local.durable import replace_bytes
from state_backup.spark.location import beside

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger("state_backup")

_FILE, _VERSION = "backup.json", 1


def openings_of(location: Path) -> list[str]:
    """The openings of the state from this machine that may be the last, as a file beside the checkpoint has them.

    Two while one opens the state: a process may die between the file and the opening.
    """
    try:
        fields = json.loads(beside(location, _FILE).read_text("utf-8"))
        check_version(fields["format-version"], _VERSION, str(beside(location, _FILE)))
        return [str(each) for each in fields["openings"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        logger.warning("%s is damaged, so the backup counts: %s", beside(location, _FILE), error)
        return []


def note_openings(location: Path, openings: list[str]) -> None:
    """Replace them."""
    fields = {"format-version": _VERSION, "openings": openings}
    replace_bytes(beside(location, _FILE), json.dumps(fields).encode("ascii"))
