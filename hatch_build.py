"""The README as PyPI shows it: links to files of this checkout lead to the repository, at the tag of the version.

The repository is `Source` in `[project.urls]` of pyproject.toml. Without it such a link is only its text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?!https?:|#)(?P<place>[^)]+)\)")


class ReadmeOfPyPI(MetadataHookInterface):
    """Hatchling calls it before each build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        text = with_absolute_links(readme, f"{source}/blob/v{metadata['version']}" if source else None)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(readme: str, base: str | None) -> str:
    """Markdown whose relative links begin with `base`, or are plain text if there is none. Pure."""
    return _RELATIVE_LINK.sub(rf"[\g<text>]({base}/\g<place>)" if base else r"\g<text>", readme)
