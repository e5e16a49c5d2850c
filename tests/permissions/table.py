"""What was found of each feature, and the table of docs/AZURE.md that follows from it. Pure, but for the file.

`python -m tests.permissions --write` ─► found.json ─► table ─► docs/AZURE.md
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.permissions.operations import ORDER, ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FILE = Path(__file__).with_name("found.json")


@dataclass(frozen=True)
class Found:
    """What one feature needs.

    sas: of what it is. letters: without which it fails. spared: without which it does less, or the same, with a
    warning. roles: the least of the built-in ones.
    """

    group: str
    feature: str
    sas: str
    letters: str
    spared: str
    roles: tuple[str, ...]


def stored() -> list[Found]:
    """What the last run has found."""
    return [Found(**{**each, "roles": tuple(each["roles"])}) for each in json.loads(FILE.read_text())]


def store(found: Sequence[Found]) -> None:
    """Keep what a run has found, a line for each feature."""
    lines = ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in found)
    FILE.write_text(f"[\n{lines}\n]\n")


def rows(found: Iterable[Found]) -> list[tuple[str, str, str]]:
    """The rows of the page: group, roles, SAS. A group needs what one of its features needs."""
    groups: dict[str, list[Found]] = {}
    for each in found:
        groups.setdefault(each.group, []).append(each)
    return [(group, _roles(of), _sas(of)) for group, of in groups.items()]


def table(found: Iterable[Found]) -> list[str]:
    """The table of the page."""
    head = ["| who | Entra role | SAS |", "|---|---|---|"]
    return head + [f"| {' | '.join(row)} |" for row in rows(found)]


def _roles(of: Sequence[Found]) -> str:
    order = list(ROLES)
    least: dict[str, str] = {}
    for role in {role for each in of for role in each.roles}:
        service = "Table" if "Table" in role else "Blob"
        least[service] = max(least.get(service, role), role, key=order.index)
    found = [f"*{role.split()[-1]}*" if service == "Blob" else f"*{role}*" for service, role in sorted(least.items())]
    return " and ".join(found)


def _sas(of: Sequence[Found]) -> str:
    needed = {letter for each in of for letter in each.letters}
    spared = {letter for each in of for letter in each.spared} - needed
    text = f"`{_in_order(needed)}`" + (f" (`{_in_order(spared)}`)" if spared else "")
    kind = {"container": "", "account": " of the account", "table": " of the table"}[of[0].sas]
    return text + kind


def _in_order(letters: set[str]) -> str:
    return "".join(each for each in ORDER if each in letters)
