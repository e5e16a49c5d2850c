"""The page of a run stands alone, shows all that has happened, and a browser draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demo.pipeline.checks import Finding
from demo.pipeline.faults import Fault
from demo.pipeline.observed import Batch, StoreVersion
from demo.pipeline.owners import Tenure
from demo.pipeline.resources import Sample
from demo.pipeline.timeline import Run, page
from tools.browser import look

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1_800_000_000.0


def a_run() -> Run:
    batches = [Batch(n, BEGIN + 10 * n, "append", 7, 100, 1_357_000_000_000 + 3_600_000 * n) for n in range(20)]
    return Run(
        "3 faults in 4.0 minutes",
        BEGIN,
        BEGIN + 240,
        [
            Tenure("leader", "driver-1", 0, BEGIN + 3, BEGIN + 120, None),
            Tenure("flights", "driver-1", 7, BEGIN + 5, BEGIN + 120, BEGIN + 9),
            Tenure("flights", "driver-2", 9, BEGIN + 140, BEGIN + 240, BEGIN + 150),
        ],
        [
            Fault("driver killed", "driver-1", BEGIN + 120, ("flights",), BEGIN + 120),
            Fault("emulator paused", "emulator", BEGIN + 60, (), BEGIN + 66),
            Fault("driver killed", "<driver-3>", BEGIN + 200),
        ],
        {"flights": batches, "weather": batches[:3], "joined": batches[5:], "days": []},
        [StoreVersion(n + 1, BEGIN + 30 * n) for n in range(5)],
        {batch.version: batch.version // 4 for batch in batches[5:]},
        [Finding("lost by the log", "0", is_right=True), Finding("doubled by the log", "3", is_right=False)],
        [("requests", "12,000")],
        [Sample(BEGIN + 15 * n, "driver-1", n // 5, 500.0 + n, 300.0, 5, 100, 50) for n in range(10)],
    )


def test_the_page_needs_nothing_else_and_what_it_is_given_is_text_only() -> None:
    text = page(a_run())
    assert "http" not in text
    assert "<script" not in text
    assert "&lt;driver-3&gt;" in text
    assert "<driver-3>" not in text
    assert 1 == text.count("class='wrong'"), "the finding that is not right is marked"


def test_a_run_without_any_event_has_a_page() -> None:
    run = a_run()
    empty = Run(run.title, BEGIN, BEGIN, [], [], {name: [] for name in run.batches}, [], {}, [], [])
    assert "</html>" in page(empty)


@pytest.mark.slow
def test_a_browser_draws_every_tenure_fault_batch_and_version(tmp_path: Path) -> None:
    run = a_run()
    (tmp_path / "page.html").write_text(page(run), "utf-8")
    seen = look(tmp_path / "page.html", tmp_path / "page.png")
    assert [] == seen.errors
    assert [(tmp_path / "page.html").as_uri()] == seen.requests, "it asks for nothing else"
    assert run.title == seen.title
    assert seen.width <= 1280
    for text in ("3 faults in 4.0 minutes", "doubled by the log", "requests", "Watermarks of the streams"):
        assert text in seen.text
    watermarks = sum(len(batches) for batches in run.batches.values())
    assert watermarks + len(run.versions) + len(run.read) + len(run.samples) == seen.drawn["circle"]
    with_start = [each for each in run.tenures if each.started is not None]
    assert len(run.tenures) + len(with_start) + len(run.faults) == seen.drawn["rect"]
    assert (tmp_path / "page.png").stat().st_size > 10_000
