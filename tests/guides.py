"""The examples of the documents, for the tests that run them. `tests/docs/test_examples.py` names the test of each."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def python_blocks(document: str) -> list[str]:
    """The blocks of Python of a document, in their order. document: its path from the root of the repository."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text("utf-8"), re.DOTALL | re.MULTILINE)
