"""Where the newest checkpoint of a log is: a hint, which is never trusted.

    <stream>/_log/_checkpoint.json     {"formatVersion": 1, "version": 127}

Whoever puts a checkpoint puts the hint, whatever it says before. If it is missing, old or damaged, checkpoints are
found by a listing.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from azure_account.values import JSON
from azureblob_source.log.naming import LAST_VERSION, hint_name
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from azure_account.container import BlobContainer

logger = logging.getLogger("azureblob_source")

FORMAT_VERSION = 1


def hinted(container: BlobContainer, stream: str) -> int:
    """The version of the newest checkpoint, as the hint has it; -1 without one."""
    name = hint_name(stream)
    try:
        version = json.loads(container.get(name).data)["version"]
    except NotFoundError:
        return -1
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("%s is damaged, and is ignored: %r", name, error)
        return -1
    return version if isinstance(version, int) and 0 <= version <= LAST_VERSION else -1


def put_hint(container: BlobContainer, stream: str, version: int) -> None:
    """Say that the newest checkpoint is that of `version`."""
    hint = json.dumps({"formatVersion": FORMAT_VERSION, "version": version}, separators=(",", ":"))
    container.put(hint_name(stream), hint.encode(), JSON)
