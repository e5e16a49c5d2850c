"""`make pipeline`, shorter: nothing is lost or doubled, every blob is accounted for, and a browser shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.crash.killing import ROOT
from tools.browser import look

if TYPE_CHECKING:
    from pathlib import Path

LEAST_FAULTS = 9


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_pipeline_survives_the_loss_of_processes_and_disks(tmp_path: Path) -> None:
    page = tmp_path / "pipeline.html"
    command = [sys.executable, "-m", "demo.pipeline", "--minutes", "4", "--pause", "5", "--output", str(page)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)  # noqa: T201 - shown by -s, and if the test fails
    assert 0 == done.returncode
    seen = look(page, tmp_path / "pipeline.png")
    assert [] == seen.errors
    assert int(re.findall(r"(\d+) faults in", seen.title)[0]) >= LEAST_FAULTS
    assert "lost by the log\t0" in seen.text
    assert seen.drawn["rect"] > LEAST_FAULTS
