"""Which files of a partition were verified: the next fetch links them without reading them again.

A file is known by inode, size and time, so one that was damaged on the disk since then may be linked. RocksDB finds
that by the checksum of a block when it reads it; who meets it forgets the notes, and the next fetch reads all files.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from adjunct_store.host.folders import VERIFIED
from azure_account.documents.form import digest_of, sealed
from state_backup import ChecksumCache

if TYPE_CHECKING:
    from adjunct_store.host.folders import PartitionFolder

logger = logging.getLogger("adjunct_store")

_NEW = f"{VERIFIED}.new"


def verified_files(folder: PartitionFolder) -> ChecksumCache:
    """The files that were noted; none if the note is damaged. Requires the partition's lock, as all functions here."""
    try:
        fields = json.loads(folder.verified.read_bytes())
        if fields.pop("digest") == digest_of(fields):
            return ChecksumCache.from_json(fields["read-files"])
    except FileNotFoundError:
        pass
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        logger.warning("%s is not used, files are read again: %s", folder.verified, error)
    return ChecksumCache()


def note_verified(folder: PartitionFolder, files: ChecksumCache) -> None:
    """Note files. An error of the disk is logged: they are read again then."""
    new = folder.path / _NEW
    try:
        new.write_bytes(sealed({"read-files": files.to_json()}))
        new.rename(folder.verified)
    except OSError as error:
        logger.warning("%s is not written, files will be read again: %s", folder.verified, error)


def forget_verified(folder: PartitionFolder) -> None:
    """Have all files read by the next fetch."""
    folder.verified.unlink(missing_ok=True)
