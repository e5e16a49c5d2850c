"""Files of a checkpoint, as Spark writes them for a stateful query over files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

QUERY = "4eb42515-dd95-45e6-a962-68c4fcb01f7c"


def batch_files(number: int) -> dict[str, str]:
    """What the checkpoint has when this batch is committed, and had not before."""
    return {
        "metadata": json.dumps({"id": QUERY}),
        f"offsets/{number}": "v1\n{}\n" + json.dumps({"logOffset": number}),
        f"commits/{number}": 'v1\n{"nextBatchWatermarkMs":0}',
        f"sources/0/{number}": "v1\n{}",
        f"state/0/0/{number + 1}.changelog": f"state of batch {number}",
        f"state/0/0/.{number + 1}.changelog.crc": "crc",
    }


def write_files(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
