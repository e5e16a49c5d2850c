"""The tables of docs/AZURE.md are what the runs of `tests/permissions` and `tests/live` have found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from azure_account.connect import settings_of
from azure_account.location import Location
from foundation.errors import NotFoundError
from tests.features.every import ALL
from tests.live.account import JOURNAL, noted
from tests.live.rows import PLACES, joined, stored, tables
from tests.permissions import table as permissions
from tools.azurite import Azurite

PAGE = Path(__file__).parents[2] / "docs" / "AZURE.md"


def test_the_page_has_the_tables() -> None:
    """Else replace them by what `python -m tests.live --page` prints."""
    text = PAGE.read_text(encoding="utf-8")
    for table in tables(permissions.stored(), stored()):
        assert "\n".join(table) in text


def test_every_feature_was_tried_in_memory_and_on_azurite_and_nothing_has_failed() -> None:
    tried = stored()
    assert list(PLACES) == list(tried)
    assert {each.group for each in ALL} <= set(tried["memory"]) & set(tried["Azurite"])
    assert "failed" not in {result for of in tried.values() for result in of.values()}


@pytest.mark.slow
@pytest.mark.azurite
@pytest.mark.parametrize("on", ["memory", "azurite"])
def test_a_run_has_the_results_that_are_kept_and_leaves_nothing(on: str) -> None:
    command = [sys.executable, "-m", "tests.live", "--on", on]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PAGE.parents[1])
    assert 0 == run.returncode, run.stdout
    place = {"memory": "memory", "azurite": "Azurite"}[on]
    shown = [line.strip() for line in run.stdout.partition(f"\non {place}")[2].splitlines()[1:]]
    assert [f"{name}: {result}" for name, result in stored()[place].items()] == shown
    journal = PAGE.parents[1] / JOURNAL
    assert not journal.exists() or "" == journal.read_text()


def test_only_what_a_run_has_made_is_deleted_also_after_a_failure(
    azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container_name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"connectionString": azurite.connection_string}
    account = Location(container_name, options).account()
    others = account.container(container_name)
    assert others.create()

    def run() -> None:
        with noted(settings_of(options)):
            own = Location(container_name, options).account()
            assert own.container(f"{container_name}-own").create()
            assert own.table("ownTable").create()
            assert not own.container(container_name).create()
            assert 2 == len(JOURNAL.read_text().splitlines())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert "" == JOURNAL.read_text()
    assert others.exists()
    assert not account.container(f"{container_name}-own").exists()
    with pytest.raises(NotFoundError):
        account.table("ownTable").get("p", "r")


def test_a_row_is_tried_if_one_of_its_tests_has_passed_and_none_has_failed() -> None:
    passed, skipped, failed = ("passed", ""), ("skipped", "no tags"), ("failed", "")
    assert {"a": "passed", "b": "no tags", "c": "failed"} == joined(
        {"a": [passed, skipped], "b": [skipped], "c": [passed, failed]}
    )
