"""Blobs that other programs wrote are read as they wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.cases import CASES
from tests.clients.writing import FIXTURES, NAMES, is_read

FILES = sorted(FIXTURES.glob("*/*.avro"))
GENERAL = ["java", "rust", "hamba", "goavro", "avsc", "csharp", "python"]
CODECS = {
    "java": 6,
    "rust": 6,
    "hamba": 4,
    "goavro": 3,
    "avsc": 3,
    "csharp": 2,
    "python": 5,
}


def test_there_are_files_of_every_program_case_and_codec() -> None:
    assert sorted(NAMES) == sorted({file.parent.name for file in FILES})
    for program in GENERAL:
        own = [file.stem.rpartition("-") for file in FILES if file.parent.name == program]
        assert set(CASES) <= {case for case, _, _ in own}
        assert CODECS[program] == sum(case == "blocks" for case, _, _ in own)


@pytest.mark.usefixtures("each_decoder")
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_file_of_another_program_is_read(file: Path) -> None:
    assert is_read(file)
