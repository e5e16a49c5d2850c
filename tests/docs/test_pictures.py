"""The pictures are what `python -m tools.pictures` draws, words fit into their boxes, and a page shows each."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tools.guides import DOCUMENTS
from tools.pictures import FOLDER, LINE, PICTURES, Box, Lane, Note, Picture

WIDTH, WIDTH_BOLD = 7.2, 7.8
"""Pixels of a character of 13 pixels, in a wide font."""
MEASURED = {"growth-seconds.svg", "growth-requests.svg"}
"""Of `benchmarks.growth.figure`."""

each_picture = pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_the_stored_picture_is_drawn_by_its_program(name: str) -> None:
    stored = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert PICTURES[name].svg() == stored
    assert len(stored) < 5_000
    ET.fromstring(stored)  # noqa: S314 - a file of this repository


@each_picture
def test_words_fit_into_their_boxes_and_boxes_into_the_picture(picture: Picture) -> None:
    width, height = picture.size
    for part in picture.parts:
        if isinstance(part, Box):
            assert 20 + len(part.lines[0]) * WIDTH_BOLD <= part.width + 20, part
            assert all(len(line) * WIDTH * 0.93 <= part.width for line in part.lines[1:]), part
            assert part.at[0] + part.width <= width
            assert part.at[1] + 12 + LINE * len(part.lines) <= height
        if isinstance(part, Note):
            assert part.at[0] + len(part.text) * WIDTH * 0.85 <= width, part
        if isinstance(part, Lane):
            assert part.at[0] + part.size[0] <= width
            assert part.at[1] + part.size[1] <= height


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_shows_the_picture_and_says_what_it_is(name: str) -> None:
    shown = [text for text in (path.read_text("utf-8") for path in DOCUMENTS) if f"pictures/{name}.svg)" in text]
    assert shown
    assert all(f"![](pictures/{name}.svg)" not in text for text in shown)


def test_no_other_picture_is_stored() -> None:
    assert {f"{name}.svg" for name in PICTURES} | MEASURED == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_a_page_shows_each_measurement(name: str) -> None:
    ET.parse(FOLDER / name)  # noqa: S314 - a file of this repository
    assert (FOLDER / name).stat().st_size < 100_000
    assert any(f"pictures/{name})" in path.read_text("utf-8") for path in DOCUMENTS)
