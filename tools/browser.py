"""Looks at a page in a real browser, a Chromium without a window. `python -m tools.setup browser` installs it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.node import find_node
from tools.sessions import kill_session

FOLDER = Path(__file__).resolve().with_suffix("")
SECONDS = 120.0


@dataclass(frozen=True)
class Seen:
    """What a browser shows of a page.

    drawn: how many shapes of each kind have a size. width: of the page, in a window of 1,280 pixels. errors: those of
    its scripts. requests: the addresses that it has asked for, its own one first.
    """

    title: str
    text: str
    width: int
    drawn: dict[str, int]
    errors: list[str]
    requests: list[str]


def look(page: Path, screenshot: Path) -> Seen:
    """Open a page, and take a picture of it. `RuntimeError` if the browser is missing, or does not answer."""
    node = find_node()
    if node is None or not (FOLDER / "node_modules").is_dir():
        raise RuntimeError("There is no browser: run `python3 -m tools.setup browser`.")
    command = [str(node.program), str(FOLDER / "look.mjs"), page.resolve().as_uri(), str(screenshot)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"The browser has not answered for {SECONDS:.0f} s.") from None
        finally:
            kill_session(process)  # Chromium is a process of its own
    if process.returncode:
        raise RuntimeError(f"The browser has ended with {process.returncode}:\n{errors.decode()[-2000:]}")
    seen: dict[str, Any] = json.loads(output)
    return Seen(**seen)
