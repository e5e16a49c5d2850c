"""A plugin of pytest that prints what was tried: credential, place, test, result.

    python -m pytest -p tests.azure_account.auth.tried -m auth

A test names the first two by its marker `auth`, and figures by `record_property("found", …)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.terminal import TerminalReporter

_TRIED = "tried"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note in the report what the marker says: the report alone comes from a worker."""
    report = yield
    marker = item.get_closest_marker("auth")
    if marker is not None and report.when == "call":
        report.user_properties.append((_TRIED, (marker.kwargs["credential"], marker.kwargs["place"])))
    return report


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the table."""
    rows = sorted(
        (*found[_TRIED], report.nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " "), outcome, found)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if _TRIED in (found := dict(report.user_properties))
    )
    terminalreporter.section("credential | place | tried | result")
    for credential, place, tried, outcome, found in rows:
        figures = f" ({found['found']})" if "found" in found else ""
        terminalreporter.write_line(f"{credential} | {place} | {tried} | {outcome}{figures}")
