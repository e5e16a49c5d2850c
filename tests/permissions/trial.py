"""Runs a feature with a SAS of each set of letters: what it needs by its requests, and what happens with less.

all letters ─► the requests' operations ─► letters ─► exactly these: it works
                                                  └─► each letter less: an error that names it, and nothing is lost
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import generate_table_sas
from azure.storage.blob import generate_account_sas, generate_container_sas

from azure_account.sdk.permissions import NAMES
from foundation.errors import AzureBlobError
from tests.features.place import Place, memory_accounts
from tests.permissions.operations import letters_of, roles_of
from tests.permissions.recording import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.features.place import Feature
    from tests.permissions.operations import Operation
    from tests.permissions.proxy import CheckingProxy
    from tools.azurite import Azurite

ALL_LETTERS = {"container": "rcwdlt", "account": "rwdlactu", "table": "raud"}
"""By the kind of SAS, in Azure's order."""
NOTHING = "a"
"""Permits to append to append blobs, which nothing here does: a SAS needs a letter."""


@dataclass(frozen=True)
class Trial:
    """What was found of a feature.

    operations: how often each was requested, as the feature works. letters: those of its requests.
    errors: by letter, what it raised without it; it has lost nothing. warnings: what it logged where it did without,
    "" if it did all that was asked without a word.
    """

    feature: Feature
    operations: Counter[Operation]
    letters: str
    errors: Mapping[str, str] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)

    @property
    def needed(self) -> str:
        """The letters without which it fails."""
        return "".join(each for each in self.letters if each not in self.warnings)

    @property
    def spared(self) -> str:
        """The letters without which it does less, or the same."""
        return "".join(self.warnings)

    @property
    def roles(self) -> tuple[str, ...]:
        """The built-in roles with which it works, without index tags if it does without."""
        tags = {"t"} & set(self.warnings)
        return roles_of(each for each in self.operations if not tags & set(each.letters))


class Bench(ABC):
    """An account whose permissions are checked."""

    @abstractmethod
    def place(self) -> Place:
        """A new container, with all permissions."""

    @abstractmethod
    def narrowed(self, place: Place, kind: str, letters: str) -> Place:
        """The same with a SAS of these letters."""

    @abstractmethod
    def take(self) -> list[Operation]:
        """The requests since the last call."""

    def needs(self, feature: Feature) -> Trial:
        """Run a feature with all letters."""
        place = self._prepared(feature)
        self.take()
        self._check(feature, place, ALL_LETTERS[feature.sas_of])
        return Trial(feature, Counter(operations := self.take()), letters_of(operations))

    def tried(self, feature: Feature) -> Trial:
        """Run it with exactly what it needs, then with each letter less."""
        found = self.needs(feature)
        self._check(feature, self._prepared(feature), found.letters)
        errors, warnings = dict[str, str](), dict[str, str]()
        for letter in found.letters:
            failed, text = self._without(feature, found.letters, letter)
            (errors if failed else warnings)[letter] = text
        return replace(found, errors=errors, warnings=warnings)

    def _without(self, feature: Feature, letters: str, letter: str) -> tuple[bool, str]:
        """Run a feature with a letter less, then as its user would then. Whether it failed, and what it said."""
        place = self._prepared(feature)
        with _logged() as logged:
            try:
                done = self._run(feature, place, letters.replace(letter, "")) == feature.expected
            except AzureBlobError as error:
                shutil.rmtree(place.folder / "cache", ignore_errors=True)
                self._check(feature, place, letters, again=True)
                return True, str(error)
        said = next((text for text in logged if f"{letter} ({NAMES[letter]})" in text), "")
        if not done:
            assert said, f"{feature.name} without {letter} does less, and does not say so"
            self._check(feature, place, letters, again=True)
        return False, said

    def _prepared(self, feature: Feature) -> Place:
        place = self.place()
        feature.prepare(place)
        return place

    def _check(self, feature: Feature, place: Place, letters: str, *, again: bool = False) -> None:
        found = self._run(feature, place, letters, again=again)
        assert feature.expected == found, f"{feature.name} with {letters}"

    def _run(self, feature: Feature, place: Place, letters: str, *, again: bool = False) -> Any:
        if again and feature.again is not None:
            return feature.result(place, feature.again(place))
        return feature.result(place, feature.run(self.narrowed(place, feature.sas_of, letters)))


@dataclass(frozen=True)
class AzuriteBench(Bench):
    """An Azurite with a checking proxy before it."""

    azurite: Azurite
    proxy: CheckingProxy
    folder: Path

    def place(self) -> Place:
        """A new container, past the proxy."""
        options = {"connectionString": self.azurite.connection_string}
        place = Place(f"d{uuid.uuid4().hex[:20]}", options, Path(tempfile.mkdtemp(dir=self.folder)))
        place.container.create()
        return place

    def narrowed(self, place: Place, kind: str, letters: str) -> Place:
        """The same through the proxy."""
        token = sas(self.azurite, place, kind, letters)
        return place.with_options({**self.proxy.endpoints, "sasToken": token, "maxAttempts": "2"})

    def take(self) -> list[Operation]:
        """What the proxy has seen."""
        return self.proxy.take()


@dataclass(frozen=True)
class MemoryBench(Bench):
    """Accounts in memory, with soft delete, that refuse what Azure documents. options: of `memory_accounts`."""

    recorder: Recorder
    options: Callable[[str, str], dict[str, str]]
    folder: Path

    def place(self) -> Place:
        """A new account."""
        name = f"m{uuid.uuid4().hex[:16]}"
        place = Place("box", self.options(name, "*"), Path(tempfile.mkdtemp(dir=self.folder)), undeletes=True)
        place.container.create()
        return place

    def narrowed(self, place: Place, kind: str, letters: str) -> Place:
        """The same account."""
        return place.with_options(self.options(place.options["accountName"], letters or NOTHING))

    def take(self) -> list[Operation]:
        """What the accounts have seen."""
        return self.recorder.take()


@contextmanager
def memory_bench(folder: Path) -> Iterator[MemoryBench]:
    """A bench in memory."""
    recorder = Recorder()
    with memory_accounts(recorder.account_of, soft_delete=24 * 3600.0) as options:
        yield MemoryBench(recorder, options, folder)


@contextmanager
def _logged() -> Iterator[list[str]]:
    """The warnings that are logged during the block."""
    texts: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        yield texts
    finally:
        logging.getLogger().removeHandler(handler)


def sas(azurite: Azurite, place: Place, kind: str, letters: str) -> str:
    """A SAS for an hour. kind: of what, a key of `ALL_LETTERS`."""
    until = datetime.now(UTC) + timedelta(hours=1)
    ordered: Any = "".join(each for each in ALL_LETTERS[kind] if each in letters) or NOTHING
    name, key = azurite.account_name, azurite.account_key
    if kind == "container":
        return generate_container_sas(name, place.container_name, key, permission=ordered, expiry=until)
    if kind == "account":
        return generate_account_sas(name, key, "co", ordered, until, services="bt")
    table: Any = place.table_name
    return generate_table_sas(AzureNamedKeyCredential(name, key), table, permission=ordered, expiry=until)
