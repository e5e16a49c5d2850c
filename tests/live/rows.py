"""What was tried where: the results of a run, kept in `tried.json`, and the table of docs/AZURE.md.

python -m tests.live --on … --record ─► tried.json ─► table ─► docs/AZURE.md
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.permissions import table as permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.permissions.table import Found

FILE = Path(__file__).with_name("tried.json")
PLACES = ("memory", "Azurite", "Azure")
PASSED = "passed"
Results = dict[str, str]
"""By row: `PASSED`, or why not."""
ELSEWHERE = "`make permissions` tries this"
"""Why a row is not tried by this suite, and counts as tried."""


def row(name: str) -> Callable[[Any], Any]:
    """Of a test or a class of tests: the row that its result counts for."""

    def mark(test: Any) -> Any:
        test.counts_for = name
        return test

    return mark


def stored() -> dict[str, Results]:
    """The results by place."""
    found: dict[str, Results] = json.loads(FILE.read_text())
    return found


def record(place: str, results: Results) -> None:
    """Keep the results of a run."""
    found = {**stored(), place: results} if FILE.exists() else {place: results}
    FILE.write_text(json.dumps({each: found.get(each, {}) for each in PLACES}, indent=1, ensure_ascii=False) + "\n")


def joined(outcomes: Mapping[str, list[tuple[str, str]]]) -> Results:
    """The result of each row: of its tests' outcomes, each with a reason."""
    results = {}
    for name, of in outcomes.items():
        kinds = {outcome for outcome, _ in of}
        if "failed" in kinds:
            results[name] = "failed"
        elif "passed" in kinds:
            results[name] = PASSED
        else:
            results[name] = of[0][1]
    return results


def tables(found: Sequence[Found], tried: Mapping[str, Results]) -> list[list[str]]:
    """The tables of the page: of the features, with their permissions, and of the rest."""
    head = " | ".join(PLACES)
    features = [f"| {' | '.join(each)} | {_cells(tried, each[0])} |" for each in permissions.rows(found)]
    groups = {each.group for each in found}
    names = dict.fromkeys(name for place in PLACES for name in tried.get(place, {}) if name not in groups)
    return [
        [f"| who | Entra role | SAS | {head} |", "|---|---|---|---|---|---|", *features],
        [f"| what | {head} |", "|---|---|---|---|", *(f"| {name} | {_cells(tried, name)} |" for name in names)],
    ]


def _cells(tried: Mapping[str, Results], name: str) -> str:
    shown = {PASSED: "✓", ELSEWHERE: "✓", "failed": "**fails**", "": ""}
    return " | ".join(shown.get(tried.get(place, {}).get(name, ""), "–") for place in PLACES)
