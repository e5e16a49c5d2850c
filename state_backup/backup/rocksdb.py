"""Back up a RocksDB store that is open and being written: RocksDB's own checkpoint of it, made of hard links."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from foundation.arguments import shown
from foundation.errors import AzureBlobError, ConfigurationError
from state_backup.local.claim import claimed
from state_backup.local.place import remove

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocksdict import Rdict

_TEMPORARY = ".tmp"
"""RocksDB's ending of a checkpoint that is not complete."""
_TIMEOUT = 60.0


@contextmanager
def rocksdb_checkpoint(db: Rdict) -> Iterator[Path]:
    """A directory that has the store as it is now, as long as the block lasts; `db` may be written meanwhile.

    It is beside the store, `<store>.checkpoint`; what a killed process has left of that name is deleted. Writes of
    other threads are in it as a whole or not at all, those without write-ahead log too. `ConfigurationError` if the
    directory cannot be made, or somebody else has made one of that name; `TransientError` if another checkpoint of the
    store is there for more than a minute.
    """
    try:
        from rocksdict import Checkpoint, Rdict  # noqa: PLC0415 - an extra
    except ImportError as error:
        text = 'RocksDB stores need the extra `rocksdb`: pip install "pyspark-azureblob[rocksdb]".'
        raise ConfigurationError(text) from error
    if not isinstance(db, Rdict):
        raise ConfigurationError(f"Argument db of rocksdb_checkpoint is {shown(db)}: give a rocksdict.Rdict.")
    directory = Path(f"{db.path()}.checkpoint")
    names = [directory, directory.with_name(directory.name + _TEMPORARY)]
    with ExitStack() as claim:
        try:
            claim.enter_context(claimed(Path(f"{directory}.lock"), names, _TIMEOUT))
            claim.callback(_remove, names)
            _remove(names)
            Checkpoint(db).create_checkpoint(str(directory))
        except AzureBlobError:
            raise
        except Exception as error:  # rocksdict has no other class
            step = "See that the store's parent directory can be written, and that there is room."
            raise ConfigurationError("checkpoint", f"RocksDB into {directory}", str(error), step) from error
        yield directory


def _remove(names: Iterable[Path]) -> None:
    for name in names:
        if name.exists():
            remove(name)
