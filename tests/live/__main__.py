"""The suite for a storage account: `make live`, see docs/AZURE.md#what-was-tried.

python -m tests.live                     on the account that AZURE_STORAGE_TEST_CONNECTION_STRING, or
                                         AZURE_STORAGE_TEST_ACCOUNT and Entra ID, name
python -m tests.live --on azurite        on Azurite, or in memory: to see that the suite works
python -m tests.live --record            also keeps the results in tests/live/tried.json
python -m tests.live --page              prints the tables of docs/AZURE.md from what was kept
python -m tests.live --clean             deletes what a killed run has left in the account
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import pytest

from azure_account.connect import settings_of
from tests.live.account import AZURE, JOURNAL, KINDS, PREFIX, delete_noted, given_options
from tests.live.rows import FILE, Results, joined, record, stored, tables
from tests.permissions import table as permissions

PLAN = f"""This makes containers ({PREFIX}… and c…) and tables (t…) in {{account}}, and deletes them at the end; nothing
else there is changed. It sends about 60,000 requests of a few bytes and takes up to an hour: less than 1 USD in a
standard account with hot tier. What it has made is in {JOURNAL}; after a kill run it with --clean."""


class Outcomes:
    """A plugin of pytest: what became of the tests of each row."""

    def __init__(self) -> None:
        self.of: dict[str, list[tuple[str, str]]] = {}
        self._rows: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the row of each test."""
        for item in session.items:
            callspec: Any = getattr(item, "callspec", None)
            feature: Any = callspec.params.get("feature") if callspec else None
            marked = (getattr(getattr(item, of, None), "counts_for", None) for of in ("function", "cls"))
            self._rows[item.nodeid] = next(filter(None, marked), None) or feature.group

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note an outcome: of the test, or of a set-up that skips or fails."""
        if report.when == "call" or report.outcome != "passed":
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
            of = self.of.setdefault(self._rows[report.nodeid], [])
            of.append((report.outcome, reason.removeprefix("Skipped: ")))


def main() -> int:
    """Run, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=KINDS, default=AZURE)
    for flag in ("--record", "--page", "--clean"):
        parser.add_argument(flag, action="store_true")
    given, rest = parser.parse_known_args()
    if given.page:
        print("\n\n".join("\n".join(each) for each in tables(permissions.stored(), stored())))
        return 0
    if given.clean:
        delete_noted(settings_of(given_options()))
        return 0
    if given.on == AZURE:
        print(PLAN.format(account=settings_of(given_options()).account), flush=True)
    os.environ["LIVE_ON"] = given.on
    outcomes, began = Outcomes(), time.monotonic()
    code = pytest.main(["-q", "-m", "live", "-p", "no:cacheprovider", "tests/live", *rest], plugins=[outcomes])
    results, place = joined(outcomes.of), {"memory": "memory", "azurite": "Azurite"}.get(given.on, "Azure")
    _print(place, results, time.monotonic() - began)
    if given.record and results and not rest:
        record(place, results)
        print(f"Recorded in {FILE.name}. For the page: python -m tests.live --page")
    elif given.on == AZURE:
        print("To keep this for docs/AZURE.md run it with --record, and commit tests/live/tried.json and the page.")
    return int(code)


def _print(place: str, results: Results, seconds: float) -> None:
    print(f"\non {place}, in {seconds:.0f} s:")
    for name, result in results.items():
        print(f"  {name}: {result}")


if __name__ == "__main__":
    sys.exit(main())
