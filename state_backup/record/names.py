"""Where the state of a task lies in a container. Pure.

    <state>/checkpoint.json        the record: which checkpoints there are
    <state>/index/<random>.json    snapshot indexes
    <state>/files/<random>         contents of files

`<state>` is any path, such as `flights/task-3`: the place of one task, whose stores are committed together.
"""

from __future__ import annotations

from dataclasses import dataclass

from azure_account.names import check_blob
from foundation.errors import ConfigurationError

RECORD = "checkpoint.json"
_RESERVED = ("index", "files")
_LONGEST = 900


@dataclass(frozen=True)
class StateNames:
    """The names of one state."""

    state: str

    def __post_init__(self) -> None:
        """`ConfigurationError` unless the path can be the beginning of blob names."""
        check_blob(self.state)
        levels = self.state.split("/")
        if "" in levels or len(self.state) > _LONGEST:
            text = f"State {self.state[:80]!r} is not valid: give levels joined by `/`, {_LONGEST} characters at most."
            raise ConfigurationError(text)
        if set(levels) & {RECORD, *_RESERVED}:
            text = f"State {self.state[:80]!r} is not valid: no level may be {RECORD}, index or files."
            raise ConfigurationError(text)

    @property
    def record(self) -> str:
        """The blob of the checkpoint record."""
        return f"{self.state}/{RECORD}"

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What all other blobs of the state begin with."""
        return f"{self.state}/index/", f"{self.state}/files/"

    def index(self, unique: str) -> str:
        """The blob of a snapshot index."""
        return f"{self.state}/index/{unique}.json"

    def file(self, unique: str) -> str:
        """The blob of a file."""
        return f"{self.state}/files/{unique}"

    def owns(self, blob: str) -> bool:
        """Whether a blob's name is one of this state, other than the record's."""
        return blob.startswith(self.prefixes)
